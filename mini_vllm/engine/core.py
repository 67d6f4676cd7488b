"""One iteration of the engine, on the thread that steps.

    admit -> prefill -> cancel -> decode -> text -> emit -> evict

But: it knows no threads and no submissions; `Engine` does.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic

from mini_vllm.engine.errors import EngineDeadError, ModelContractError
from mini_vllm.engine.finalizer import StreamChannelFinalizer
from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.metrics import NullMetrics
from mini_vllm.engine.model import Burst, Model, News, SlotView, check_burst
from mini_vllm.engine.scheduler import Scheduler
from mini_vllm.engine.sequence import SequenceState
from mini_vllm.engine.slot_stream import SlotStreamState
from mini_vllm.tokenizer.errors import is_library_fault

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
        self._apply_cancellation(cancel_all)
        admitted = scheduler.admit()
        self._ask(self._model.prefill, admitted)
        self._hook("after_admit")
        self._apply_cancellation(cancel_all)
        self._hook("before_decode")
        new = set(map(id, admitted))
        self._ask(
            self._model.decode,
            [one for one in scheduler.sequences if not one.finished and id(one) not in new],
        )
        self._hook("after_append")
        self._update_finish_states()
        self._hook("before_emit")
        for sequence, stream in zip(scheduler.sequences, scheduler.streams, strict=True):
            stream.emit(sequence)
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

    def _apply_cancellation(self, everyone: bool) -> None:
        left = self._scheduler.apply_cancellation(lambda one: everyone or one.is_cancelled)
        for sequence, stream in left:
            stream.update(sequence)
            stream.emit(sequence)
            self._end(sequence, stream)

    def _ask(
        self,
        model: Callable[[Sequence[SlotView]], Sequence[News]],
        sequences: Sequence[SequenceState],
    ) -> None:
        """Let the model give each sequence its burst."""
        if not sequences:
            return
        news = model([sequence.view for sequence in sequences])
        if len(news) != len(sequences):
            raise ModelContractError(
                f"the model was asked for {len(sequences)} slots and returned {len(news)} bursts"
            )
        for sequence, burst in zip(sequences, news, strict=True):
            sequence.view.step += 1
            if isinstance(burst, Exception):
                sequence.latch(FinishReason.ERROR, burst)
            elif burst is not None:
                check_burst(sequence.view, burst)
                sequence.burst = burst

    def _update_finish_states(self) -> None:
        """Turn ids into text; find what has ended. A fault in one slot's text ends that slot."""
        now = monotonic()
        for sequence, stream in zip(
            self._scheduler.sequences, self._scheduler.streams, strict=True
        ):
            if sequence.burst is None and not sequence.finished:
                continue
            if sequence.burst is not None:
                self._report(sequence.view, sequence.burst, now - stream.last_news)
                stream.last_news = now
            try:
                stream.update(sequence)
            except BaseException as error:
                if not is_library_fault(error):
                    raise
                stream.fail(sequence, error)

    def _report(self, view: SlotView, burst: Burst, seconds: float) -> None:
        if view.output_token_ids:
            self._metrics.next_token(seconds, len(burst.token_ids))
        else:
            self._metrics.first_token(seconds)
        unknown = sum(not 0 <= one < self._vocab_size for one in burst.token_ids)
        if unknown:
            self._metrics.unknown_tokens(unknown)

    def _evict(self) -> None:
        for sequence, stream in self._scheduler.evict():
            self._model.release(sequence.view)
            self._end(sequence, stream)

    def _end(self, sequence: SequenceState, stream: SlotStreamState) -> None:
        view = sequence.view
        self._metrics.finished(
            sequence.finish_reason, len(view.prompt_token_ids), len(view.output_token_ids)
        )
        self._on_end(view.request_id)
        stream.handle.add(stream.output(sequence))

    def _hook(self, name: str) -> None:
        if name in self._hooks:
            self._hooks[name]()
