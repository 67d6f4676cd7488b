"""The text stage of one slot: new ids in, at most one chunk an iteration out.

Text is made and stops are looked for in every iteration; only the writing of chunks waits for
`stream_interval`. A choice that nobody reads and that has no stop strings is not turned into text
before its end, and then in one go.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from mini_vllm.engine.chunk import LogprobEntry, StreamChunk, TokenLogprobs
from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.handle import Handle
from mini_vllm.engine.params import SamplingParams
from mini_vllm.engine.producer import Producer
from mini_vllm.engine.request import CompletionOutput
from mini_vllm.engine.sequence import SequenceState
from mini_vllm.engine.text_path import TextPath
from mini_vllm.pipeline import FinishReason as PipelineReason
from mini_vllm.text.events import Event, TextDelta
from mini_vllm.tokenizer_errors import is_library_fault

_PIPELINE_REASONS: dict[FinishReason, PipelineReason] = {
    FinishReason.END_ID: "stop",
    FinishReason.STOP_WORDS: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.CANCELLED: "abort",
    FinishReason.ERROR: "error",
}
_LOG = logging.getLogger(__name__)
_TEXT_ONLY = frozenset([TextDelta])


class SlotStreamState:
    """What one choice has said so far, and what of it its reader was not yet told.

    Args:
        text_path: makes events of ids.
        handle: of the request; gets the whole of it at the end.
        params: of the request.
        piece_of: the bytes of a token id, for logprobs.
        now: seconds of the monotonic clock.

    Attributes:
        producer: where chunks go, or None if nobody reads along.
        last_news: when ids came last, or when the request came.
    """

    def __init__(
        self,
        text_path: TextPath,
        handle: Handle,
        params: SamplingParams,
        piece_of: Callable[[int], bytes],
        now: float,
    ) -> None:
        self.handle = handle
        self.producer: Producer | None = None
        self.last_news = now
        self._text_path = text_path
        self._has_stops = bool(params.stop)
        self._most_logprobs = params.logprobs
        self._piece_of = piece_of
        self._fed = 0
        self._events: list[Event] = []
        self._logprobs: list[TokenLogprobs] = []
        self._sent_events = 0
        self._sent_tokens = 0

    def update(self, sequence: SequenceState) -> None:
        """Take the burst of this iteration; latch the end if there is one.

        A stop string may end the burst earlier than its ids do; what comes after it is removed.
        """
        path, output = self._text_path, sequence.view.output_token_ids
        if path.finish_reason is not None:
            return
        reason = sequence.finish_reason
        if sequence.burst is not None:
            burst, ended = sequence.take_burst()
            if self._most_logprobs is not None:
                self._logprobs += map(self._token_logprobs, burst.token_ids, burst.logprobs)
            reason = reason or ended
        if reason or self.producer is not None or self._has_stops:
            # Noted first: what a path has taken it is not given again, even if it raises.
            new, self._fed = output[self._fed :], len(output)
            self._events += path.feed(new)
        if reason and path.finish_reason is None:
            self._events += path.finish(_PIPELINE_REASONS[reason])
        if path.finish_reason is not None:
            if isinstance(path.stop_reason, str):
                reason = FinishReason.STOP_WORDS
            del output[path.tokens :], self._logprobs[path.tokens :]
            sequence.latch(reason or FinishReason.END_ID)

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked for its end."""
        producer = self.producer
        return self.handle.is_cancelled or (producer is not None and producer.core.cancelled)

    def fail(self, sequence: SequenceState, error: BaseException) -> None:
        """End the choice with an error; take what the text path still gives."""
        sequence.latch(FinishReason.ERROR, error)
        self.update_or_give_up(sequence)

    def update_or_give_up(self, sequence: SequenceState) -> None:
        """Update; if the text path fails at that, end the choice with what it has given so far."""
        try:
            self.update(sequence)
        except BaseException as error:
            if not is_library_fault(error):
                raise
            _LOG.error("the text of %s failed", sequence.view.request_id, exc_info=error)
            sequence.latch(FinishReason.ERROR, error)
            try:
                if self._text_path.finish_reason is None:
                    self._events += self._text_path.finish("error")
            except BaseException as second:
                if not is_library_fault(second):
                    raise

    def emit(self, sequence: SequenceState) -> None:
        """Write the chunk of this iteration, if there is to be one."""
        producer = self.producer
        if producer is None or producer.core.finished:
            return
        core = producer.core
        new_tokens = len(sequence.view.output_token_ids) - self._sent_tokens
        if not sequence.finished:
            if core.return_held:
                if not new_tokens:
                    return
            elif new_tokens < core.stream_interval or len(self._events) == self._sent_events:
                return
        producer.push(self._chunk(sequence), sequence.error)
        self._sent_tokens += new_tokens
        self._sent_events = len(self._events)

    def output(self, sequence: SequenceState) -> CompletionOutput:
        """Return the whole of a finished choice."""
        return CompletionOutput(
            request_id=sequence.view.request_id,
            index=sequence.view.choice_index,
            token_ids=tuple(sequence.view.output_token_ids),
            text=_text_of(self._events),
            finish_reason=sequence.finish_reason,
            stop_reason=self._text_path.stop_reason,
            logprobs=tuple(self._logprobs),
            events=tuple(self._events),
            error=sequence.error,
        )

    def held(self) -> dict[str, str | bytes]:
        """Return what each layer holds by now."""
        return self._text_path.held

    def _chunk(self, sequence: SequenceState) -> StreamChunk:
        output, events = sequence.view.output_token_ids, self._events[self._sent_events :]
        return StreamChunk(
            token_ids=tuple(output[self._sent_tokens :]),
            text=_text_of(events),
            finished=sequence.finished,
            reason=sequence.finish_reason,
            logprobs=tuple(self._logprobs[self._sent_tokens :]),
            events=() if _TEXT_ONLY.issuperset(map(type, events)) else tuple(events),
            stop_reason=self._text_path.stop_reason if sequence.finished else None,
            held=self.held() if self.producer and self.producer.core.return_held else None,
        )

    def _token_logprobs(self, token_id: int, logprobs: Mapping[int, float]) -> TokenLogprobs:
        def entry(one: int) -> LogprobEntry:
            return LogprobEntry(one, logprobs[one], self._piece_of(one))

        best = sorted(logprobs, key=lambda one: (-logprobs[one], one))[: self._most_logprobs]
        return TokenLogprobs(entry(token_id), tuple(map(entry, best)))


def _text_of(events: Iterable[Event]) -> str:
    return "".join([event.text for event in events if isinstance(event, TextDelta)])
