"""One iteration of the engine, on the thread that steps.

    admit -> prefill -> cancel -> decode -> text -> emit -> evict

But: it knows no threads and no submissions; `Engine` does.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from time import monotonic

from mini_vllm.engine.engine_errors import EngineDeadError, ModelContractError
from mini_vllm.engine.finalizer import StreamChannelFinalizer
from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.metrics import NullMetrics
from mini_vllm.engine.model import Model, News, SlotView, check_burst
from mini_vllm.engine.scheduler import Scheduler
from mini_vllm.engine.sequence import SequenceState
from mini_vllm.engine.slot_stream import SlotStreamState

_LOG = logging.getLogger(__name__)
HOOKS = (
    "after_admit",
    "before_decode",
    "after_append",
    "before_emit",
    "after_emit",
    "after_evict",
)


class EngineCore:
    """Scheduler, model and text stage as one loop body.

    Args:
        model: makes ids.
        scheduler: says who runs.
        vocab_size: ids from here on, and negative ones, are counted as unknown.
        on_end: told the request of each choice that has ended, once slot and blocks are free.
        hooks: functions by the names in `HOOKS`, called at those points of each iteration.
        metrics: takes reports.

    Raises:
        ValueError: a hook has an unknown name.
    """

    def __init__(
        self,
        model: Model,
        scheduler: Scheduler,
        vocab_size: int,
        *,
        on_end: Callable[[str], None],
        hooks: Mapping[str, Callable[[], object]],
        metrics: NullMetrics,
    ) -> None:
        for name in hooks:
            if name not in HOOKS:
                raise ValueError(f"there is no hook {name!r}; there are {', '.join(HOOKS)}")
        self._model = model
        self._scheduler = scheduler
        self._vocab_size = vocab_size
        self._on_end = on_end
        self._hooks = hooks
        self._metrics = metrics

    def iterate(self, *, cancel_all: bool = False) -> None:
        """Run one iteration.

        Args:
            cancel_all: end everything that runs or waits.

        Raises:
            ModelContractError: the model returned what no model may return.
            BaseException: what the model raised.
        """
        scheduler = self._scheduler
        is_cancelled = _everyone if cancel_all else attrgetter("is_cancelled")
        self._leave_line(is_cancelled)
        admitted = scheduler.admit()
        self._ask(self._model.prefill, admitted)
        self._hook("after_admit")
        scheduler.apply_cancellation(is_cancelled)
        self._hook("before_decode")
        # What was admitted now is at the end of the table, and has its ids from the prefill.
        running = scheduler.sequences[: scheduler.num_running - len(admitted)]
        self._ask(self._model.decode, [one for one in running if not one.finished])
        self._hook("after_append")
        self._update_finish_states()
        self._hook("before_emit")
        for sequence, stream in zip(scheduler.sequences, scheduler.streams, strict=True):
            self._emit(sequence, stream)
        self._hook("after_emit")
        self._evict()
        self._hook("after_evict")

    def fail(self, error: BaseException) -> None:
        """End everything that runs or waits with an error, as far as each still can."""
        rows = self._scheduler.everyone()
        StreamChannelFinalizer(lambda: rows).close(error)
        for sequence, stream in rows:
            with suppress(BaseException):
                self._model.release(sequence.view)
            dead = EngineDeadError(f"the engine has failed: {error!r}")
            dead.__cause__ = error
            stream.handle.fail(dead)
        self._scheduler.clear()

    def _leave_line(self, is_cancelled: Callable[[SlotStreamState], bool]) -> None:
        left = self._scheduler.leave_line(is_cancelled)
        if not left:
            return
        try:
            with StreamChannelFinalizer(lambda: left):
                for sequence, stream in left:
                    stream.update_or_give_up(sequence)
                    self._emit(sequence, stream)
        finally:
            self._end(left)

    def _ask(
        self,
        model: Callable[[Sequence[SlotView]], Sequence[News]],
        sequences: Sequence[SequenceState],
    ) -> None:
        """Let the model give each sequence its burst."""
        if not sequences:
            return
        news = model([sequence.view for sequence in sequences])
        if type(news) is not list and not isinstance(news, Sequence):
            raise ModelContractError(f"the model returned {news!r}; it must be a list of bursts")
        if len(news) != len(sequences):
            raise ModelContractError(
                f"the model was asked for {len(sequences)} slots and returned {len(news)} bursts"
            )
        for sequence, burst in zip(sequences, news, strict=True):
            sequence.view.step += 1
            if isinstance(burst, Exception):
                _LOG.error("the model failed for %s: %s", sequence.view.request_id, burst)
                sequence.latch(FinishReason.ERROR, burst)
            elif burst is not None:
                check_burst(sequence.view, burst)
                sequence.burst = burst

    def _update_finish_states(self) -> None:
        """Turn ids into text; find what has ended."""
        now = monotonic()
        for sequence, stream in zip(
            self._scheduler.sequences, self._scheduler.streams, strict=True
        ):
            if sequence.burst is None and not sequence.finished:
                continue
            has_news, before = sequence.burst is not None, len(sequence.view.output_token_ids)
            stream.update_or_give_up(sequence)
            if has_news:
                self._report(sequence.view.output_token_ids, before, now - stream.last_news)
                stream.last_news = now

    def _report(self, token_ids: Sequence[int], before: int, seconds: float) -> None:
        if before:
            self._metrics.next_token(seconds, len(token_ids) - before)
        else:
            self._metrics.first_token(seconds)
        new = token_ids[before:]
        if new and (min(new) < 0 or max(new) >= self._vocab_size):
            self._metrics.unknown_tokens(sum(not 0 <= one < self._vocab_size for one in new))

    def _emit(self, sequence: SequenceState, stream: SlotStreamState) -> None:
        try:
            stream.emit(sequence)
        except UnicodeError as error:
            # The text path made text that has no UTF-8 form. That is this slot's fault alone.
            StreamChannelFinalizer(lambda: [(sequence, stream)]).close(error)

    def _evict(self) -> None:
        gone = self._scheduler.evict()
        if not gone:
            return
        try:
            for sequence, _ in gone:
                self._model.release(sequence.view)
        finally:
            self._end(gone)

    def _end(self, rows: Sequence[tuple[SequenceState, SlotStreamState]]) -> None:
        """Say that these have ended. Nobody else knows them any more, so each handle is told."""
        try:
            for sequence, _ in rows:
                view = sequence.view
                self._metrics.finished(
                    sequence.finish_reason, len(view.prompt_token_ids), len(view.output_token_ids)
                )
        finally:
            for sequence, stream in rows:
                self._on_end(sequence.view.request_id)
                stream.handle.add(stream.output(sequence))

    def _hook(self, name: str) -> None:
        if name in self._hooks:
            self._hooks[name]()


def _everyone(stream: SlotStreamState) -> bool:
    return True
