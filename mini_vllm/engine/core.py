"""One iteration of the engine, on the thread that steps.

    admit -> prefill -> cancel -> decode -> text -> emit -> evict

`Engine` adds submissions, states and the other threads.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic, perf_counter

from mini_vllm.engine.engine_errors import EngineDeadError, ModelContractError
from mini_vllm.engine.model import Burst, Model, News, SlotView, check_burst
from mini_vllm.engine.scheduler import ChoiceState, Row, Scheduler
from mini_vllm.engine.slot_stream import SlotStreamState
from mini_vllm.finish_reason import Ending, FinishReason

_LOG = logging.getLogger(__name__)
HOOKS = (
    "after_admit",
    "before_decode",
    "after_append",
    "before_emit",
    "after_emit",
    "after_evict",
)
# Reading the clock twice and reporting cost as much as a token, so few steps are measured.
_STEPS_A_SAMPLE = 16


ChoiceRow = Row[SlotStreamState]


class NullMetrics:
    """Receives the engine's reports and ignores them; a subclass may keep the numbers.

    Methods run on the engine's thread and must be quick.
    """

    def first_token(self, seconds: float, count: int) -> None:
        """A choice got its first `count` ids in one burst, `seconds` after it was submitted."""

    def next_token(self, seconds: float, count: int) -> None:
        """A choice got `count` more ids in one burst, `seconds` after the ids before them."""

    def unknown_tokens(self, count: int) -> None:
        """A model returned `count` ids that are not in the vocabulary."""

    def text_made(self, seconds: float) -> None:
        """The text of an iteration took `seconds`; called for the first of every 16 with text."""

    def finished(
        self, reason: FinishReason, prompt_tokens: int, output_tokens: int, seconds: float
    ) -> None:
        """A choice has ended, `seconds` after it was submitted."""


class EngineCore:
    """Scheduler, model and text stage as one loop body.

    Args:
        model: makes ids.
        scheduler: decides which choices run.
        vocab_size: ids from this number on, and negative ids, are counted as unknown.
        on_end: called with the request's name for each choice that has ended, once its slot and
            blocks are free.
        hooks: functions by the names in `HOOKS`, called at those points of each iteration.
        metrics: receives reports.

    Attributes:
        has_begun: whether a choice got its first ids in the last iteration.

    Raises:
        ValueError: a hook has an unknown name.
    """

    def __init__(
        self,
        model: Model,
        scheduler: Scheduler[SlotStreamState],
        vocab_size: int,
        *,
        on_end: Callable[[str], None],
        hooks: Mapping[str, Callable[[], object]],
        metrics: NullMetrics,
    ) -> None:
        for name in hooks:
            if name not in HOOKS:
                raise ValueError(f"the hook {name!r} is unknown; the hooks are {', '.join(HOOKS)}")
        self._model = model
        self._scheduler = scheduler
        self._vocab_size = vocab_size
        self._on_end = on_end
        self._hooks = {name: hooks.get(name, _nothing) for name in HOOKS}
        self._metrics = metrics
        self._steps_with_text = 0
        self.has_begun = False

    def iterate(self, *, cancel_all: bool = False) -> None:
        """Run one iteration.

        Args:
            cancel_all: cancel every running and waiting choice.

        Raises:
            ModelContractError: the model broke its contract.
            BaseException: the model raised it.
        """
        scheduler, hooks = self._scheduler, self._hooks
        self.has_begun = False
        is_cancelled = _everyone if cancel_all else SlotStreamState.is_cancelled
        if scheduler.num_waiting:
            self._leave_line(is_cancelled)
        admitted = scheduler.admit()
        if admitted:
            self._ask(self._model.prefill, admitted)
        hooks["after_admit"]()
        scheduler.apply_cancellation(is_cancelled)
        hooks["before_decode"]()
        # The newly admitted rows are at the end of the table, and have ids from the prefill.
        running = scheduler.slots[: scheduler.num_running - len(admitted)]
        choices = [row.choice for row in running if row.choice.ending is None]
        self._ask(self._model.decode, choices)
        hooks["after_append"]()
        self._make_text()
        hooks["before_emit"]()
        self._emit(scheduler.slots)
        hooks["after_emit"]()
        self._evict()
        hooks["after_evict"]()

    def fail(self, error: BaseException) -> None:
        """End every running and waiting choice with an error, even if ending one of them fails."""
        rows = self._scheduler.everyone()
        close_channels(rows, error)
        for row in rows:
            with suppress(BaseException):
                self._model.release(row.choice.view)
            dead = EngineDeadError(f"the engine has failed: {error!r}")
            dead.__cause__ = error
            row.stream.handle.fail(dead)
        self._scheduler.clear()

    def _leave_line(self, is_cancelled: Callable[[SlotStreamState], bool]) -> None:
        left = self._scheduler.leave_line(is_cancelled)
        if not left:
            return
        try:
            for row in left:
                row.stream.update_or_give_up(row.choice)
            self._emit(left)
        except BaseException as error:
            # These rows have left the waiting line, so nothing else would close their channels.
            close_channels(left, error)
            raise
        finally:
            self._end(left)

    def _ask(
        self,
        method: Callable[[Sequence[SlotView]], Sequence[News]],
        choices: Sequence[ChoiceState],
    ) -> None:
        """Call a method of the model, `prefill` or `decode`, and give each choice its burst."""
        if not choices:
            return
        news = method([choice.view for choice in choices])
        if type(news) is not list and not isinstance(news, Sequence):
            raise ModelContractError(f"the model returned {news!r}; it must be a list of bursts")
        if len(news) != len(choices):
            raise ModelContractError(
                f"the model was asked for {len(choices)} slots and returned {len(news)} bursts"
            )
        for choice, burst in zip(choices, news, strict=True):
            view = choice.view
            view.step += 1
            if type(burst) is Burst:
                # The usual burst, one id without logprobs, is checked without a call: that saves
                # the engine a twentieth of a token's cost.
                ids = burst.token_ids
                if len(ids) == 1 and type(ids[0]) is int and view.params.logprobs is None:
                    choice.burst = burst
                    continue
            elif burst is None:
                continue
            elif isinstance(burst, Exception):
                _LOG.error("the model failed for %.60s: %s", view.request_id, burst)
                choice.latch(Ending(FinishReason.ERROR, error=burst))
                continue
            check_burst(view, burst)
            choice.burst = burst

    def _make_text(self) -> None:
        """Turn the ids of this iteration into text; this also detects the choices that end."""
        now, metrics, vocab_size = monotonic(), self._metrics, self._vocab_size
        unknown = 0
        is_sample = self._steps_with_text % _STEPS_A_SAMPLE == 0
        start, has_text = perf_counter() if is_sample else 0.0, False
        for row in self._scheduler.slots:
            choice, stream = row.choice, row.stream
            if choice.burst is None:
                if choice.ending is not None:
                    stream.update_or_give_up(choice)
                continue
            has_text = True
            token_ids = choice.view.output_token_ids
            before = len(token_ids)
            stream.update_or_give_up(choice)
            count = len(token_ids) - before
            seconds = now - stream.last_news
            stream.last_news = now
            if before:
                metrics.next_token(seconds, count)
            else:
                metrics.first_token(seconds, count)
                self.has_begun = True
            if count != 1 or not 0 <= token_ids[before] < vocab_size:
                unknown += sum(not 0 <= token_id < vocab_size for token_id in token_ids[before:])
        if unknown:
            metrics.unknown_tokens(unknown)
        if has_text:
            self._steps_with_text += 1
            if is_sample:
                metrics.text_made(perf_counter() - start)

    def _emit(self, rows: Iterable[ChoiceRow]) -> None:
        for row in rows:
            try:
                row.stream.emit(row.choice)
            except UnicodeError as error:
                # The text path made text that cannot be encoded as UTF-8. Only this slot ends.
                close_channels([row], error)

    def _evict(self) -> None:
        # In most iterations no choice ends, and the scheduler is not called.
        gone = [row for row in self._scheduler.slots if row.choice.ending is not None]
        if not gone:
            return
        self._scheduler.evict(gone)
        try:
            for row in gone:
                self._model.release(row.choice.view)
        finally:
            self._end(gone)

    def _end(self, rows: Sequence[ChoiceRow]) -> None:
        """Report that rows have ended. Each handle gets its output, which is kept nowhere else."""
        now = monotonic()
        try:
            for row in rows:
                view = row.choice.view
                tokens = len(view.prompt_token_ids), len(view.output_token_ids)
                seconds = now - row.stream.submitted
                self._metrics.finished(row.choice.finish_reason, *tokens, seconds)
        finally:
            for row in rows:
                self._on_end(row.choice.view.request_id)
                row.stream.handle.add(row.stream.output(row.choice))


def close_channels(rows: Iterable[ChoiceRow], error: BaseException) -> None:
    """End every channel that is still open with this error, even if ending one of them fails.

    The reader gets one more chunk, with all ids and text that it has not received yet.
    """
    for row in rows:
        stream = row.stream
        with suppress(BaseException):
            stream.fail(row.choice, error)
            stream.emit(row.choice)
        # If even that failed, the reader still learns that the stream has ended.
        with suppress(BaseException):
            if stream.pipe is not None:
                stream.pipe.finish(FinishReason.ERROR, error)


def _nothing() -> None:
    pass


def _everyone(stream: SlotStreamState) -> bool:
    return True
