"""The text stage of one slot: new ids in, at most one chunk an iteration out.

Text is made and stops are looked for in every iteration; only the writing of chunks waits for
`stream_interval`. A choice that nobody reads and that has no stop strings gets its text when it
ends, all in one go.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from mini_vllm.engine.channel import Producer
from mini_vllm.engine.outputs import (
    CompletionOutput,
    Handle,
    LogprobEntry,
    StreamChunk,
    TokenLogprobs,
)
from mini_vllm.engine.request import SamplingParams
from mini_vllm.engine.scheduler import ChoiceState
from mini_vllm.engine.text_path import TextPath
from mini_vllm.finish_reason import Ending, FinishReason
from mini_vllm.text.events import Event, TextDelta
from mini_vllm.tokenizer_errors import is_library_fault

_LOG = logging.getLogger(__name__)
_TEXT_ONLY = frozenset([TextDelta])


class SlotStreamState:
    """What one choice has said so far, and what of it its reader was not yet told.

    Args:
        text_path: makes events of ids.
        handle: of the request; gets the whole choice at the end.
        params: of the request.
        piece_of: returns the bytes of a token id, for logprobs.
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

    def update(self, choice: ChoiceState) -> None:
        """Take the burst of this iteration; latch the end if the text path finds one.

        Ids of the burst that come after the end are removed.
        """
        path, output = self._text_path, choice.view.output_token_ids
        if path.ending is not None:
            return
        needs_text = choice.finished or self.producer is not None or self._has_stops
        if choice.burst is not None:
            burst = choice.take_burst()
            needs_text = needs_text or choice.may_end_with(burst)
            if self._most_logprobs is not None:
                self._logprobs += map(self._token_logprobs, burst.token_ids, burst.logprobs)
        if not needs_text:
            return
        # Noted first: what a path has taken it is not given again, even if it raises.
        new, self._fed = output[self._fed :], len(output)
        self._events += path.feed(new)
        if path.ending is None:
            if choice.finished:
                self._events += path.finish(choice.finish_reason)
            elif choice.at_max_tokens:
                self._events += path.finish(FinishReason.LENGTH)
        if path.ending is not None:
            del output[path.tokens :], self._logprobs[path.tokens :]
            choice.latch(path.ending)

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked for its end."""
        producer = self.producer
        return self.handle.is_cancelled or (producer is not None and producer.cancelled)

    def fail(self, choice: ChoiceState, error: BaseException) -> None:
        """End the choice with an error; take what the text path still gives."""
        choice.latch(Ending(FinishReason.ERROR, error=error))
        self.update_or_give_up(choice)

    def update_or_give_up(self, choice: ChoiceState) -> None:
        """Update; if the text path fails at that, end the choice with what it has given so far."""
        try:
            self.update(choice)
        except BaseException as error:
            if not is_library_fault(error):
                raise
            _LOG.error("the text of %s failed", choice.view.request_id, exc_info=error)
            choice.latch(Ending(FinishReason.ERROR, error=error))
            try:
                if self._text_path.ending is None:
                    self._events += self._text_path.finish(FinishReason.ERROR)
            except BaseException as second:
                if not is_library_fault(second):
                    raise

    def emit(self, choice: ChoiceState) -> None:
        """Write the chunk of this iteration, if one is due."""
        producer = self.producer
        if producer is None or producer.finished:
            return
        new_tokens = len(choice.view.output_token_ids) - self._sent_tokens
        if choice.ending is None:
            if producer.return_held:
                if not new_tokens:
                    return
            elif new_tokens < producer.stream_interval or len(self._events) == self._sent_events:
                return
        producer.push(self._chunk(choice), None if choice.ending is None else choice.ending.error)
        self._sent_tokens += new_tokens
        self._sent_events = len(self._events)

    def output(self, choice: ChoiceState) -> CompletionOutput:
        """Return the whole of a finished choice."""
        ending = choice.ending
        assert ending is not None
        return CompletionOutput(
            request_id=choice.view.request_id,
            index=choice.view.choice_index,
            token_ids=tuple(choice.view.output_token_ids),
            text=_text_of(self._events),
            finish_reason=ending.reason,
            stop_reason=ending.stop_reason,
            logprobs=tuple(self._logprobs),
            events=tuple(self._events),
            error=ending.error,
        )

    def held(self) -> dict[str, str | bytes]:
        """Return what each layer holds by now."""
        return self._text_path.held

    def _chunk(self, choice: ChoiceState) -> StreamChunk:
        output, events = choice.view.output_token_ids, self._events[self._sent_events :]
        return StreamChunk(
            token_ids=tuple(output[self._sent_tokens :]),
            text=_text_of(events),
            finished=choice.finished,
            reason=choice.finish_reason,
            logprobs=tuple(self._logprobs[self._sent_tokens :]),
            events=() if _TEXT_ONLY.issuperset(map(type, events)) else tuple(events),
            stop_reason=None if choice.ending is None else choice.ending.stop_reason,
            held=self.held() if self.producer and self.producer.return_held else None,
        )

    def _token_logprobs(self, token_id: int, logprobs: Mapping[int, float]) -> TokenLogprobs:
        def entry(one: int) -> LogprobEntry:
            return LogprobEntry(one, logprobs[one], self._piece_of(one))

        best = sorted(logprobs, key=lambda one: (-logprobs[one], one))[: self._most_logprobs]
        return TokenLogprobs(entry(token_id), tuple(map(entry, best)))


def _text_of(events: Iterable[Event]) -> str:
    return "".join([event.text for event in events if isinstance(event, TextDelta)])
