"""The text stage of one slot: it takes new ids and writes at most one chunk an iteration.

Every iteration makes text and looks for stops; only the writing of chunks waits for
`stream_interval`. A reader that asks for the held text gets a chunk for each id. A choice without a
reader and without stop strings gets all its text when it ends.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from mini_vllm.engine.model import Burst
from mini_vllm.engine.outputs import (
    CompletionOutput,
    Handle,
    StreamChunk,
    TokenLogprobs,
    new_tuple,
)
from mini_vllm.engine.pipe import Pipe
from mini_vllm.engine.request import Request
from mini_vllm.engine.scheduler import ChoiceState
from mini_vllm.engine.text_path import TextPath
from mini_vllm.engine.whole_calls import complete_calls
from mini_vllm.finish_reason import Ending, FinishReason
from mini_vllm.text.events import Event, TextDelta
from mini_vllm.tokenizer_errors import is_library_fault

_LOG = logging.getLogger(__name__)
_NOT_FINISHED = FinishReason.NOT_FINISHED
_NO_EVENTS: tuple[Event, ...] = ()
_TEXT_ONLY = frozenset([TextDelta])
Held = dict[str, str | bytes]


class SlotStreamState:
    """The events of one choice so far, and how many of them its reader has received.

    Args:
        text_path: turns ids into events.
        handle: of the request; gets the whole choice at the end.
        request: the request of the choice.
        piece_of: returns the bytes of a token id, for logprobs.
        now: seconds of the monotonic clock.

    Attributes:
        pipe: the pipe to write chunks to, or None for a choice without a reader.
        submitted: when the request was submitted.
        last_news: when the last ids were generated; before the first ids, `submitted`.
    """

    def __init__(
        self,
        text_path: TextPath,
        handle: Handle,
        request: Request,
        piece_of: Callable[[int], bytes],
        now: float,
    ) -> None:
        self.handle = handle
        self.pipe: Pipe | None = None
        self.submitted = self.last_news = now
        self._text_path = text_path
        self._request = request
        self._has_stops = bool(request.params.stop)
        self._most_logprobs = request.params.logprobs
        self._piece_of = piece_of
        self._fed = 0
        self._events: list[Event] = []
        self._logprobs: list[TokenLogprobs] = []
        self._sent_events = 0
        self._sent_tokens = 0
        # For a burst that is reported id by id: the ids and events before an id, and the held text.
        self._marks: list[tuple[int, int, Held]] = []

    def update(self, choice: ChoiceState) -> None:
        """Take the burst of this iteration; latch the end if the text path finds one.

        Ids of the burst after the end are removed.
        """
        path, pipe = self._text_path, self.pipe
        if path.ending is not None:
            return
        burst = choice.burst
        if burst is not None:
            burst = take_burst(choice)
            if self._most_logprobs is not None:
                self._logprobs += (
                    TokenLogprobs.of(*step, self._most_logprobs, self._piece_of)
                    for step in zip(burst.token_ids, burst.logprobs, strict=False)
                )
        output = choice.view.output_token_ids
        if pipe is None:
            if self._can_wait(choice, burst):
                return
            new = tuple(output[self._fed :])
        else:
            new = () if burst is None else burst.token_ids
        if pipe is not None and pipe.return_held:
            self._feed_one_by_one(new)
        else:
            # Noted first, so that a path never gets the same ids again, even if it raises.
            self._fed = len(output)
            self._events += path.feed(new)
        if path.ending is None:
            if choice.ending is not None:
                self._events += path.finish(choice.ending.reason)
            elif len(output) >= choice.view.params.max_tokens:
                self._events += path.finish(FinishReason.LENGTH)
            else:
                return
        assert path.ending is not None
        del output[path.tokens :], self._logprobs[path.tokens :]
        choice.latch(path.ending)

    def _can_wait(self, choice: ChoiceState, burst: Burst | None) -> bool:
        """Return whether the text of a choice without a reader can be made later."""
        if self._has_stops or choice.ending is not None:
            return False
        view = choice.view
        if burst is None or len(view.output_token_ids) >= view.params.max_tokens:
            return burst is None
        return choice.end_ids.isdisjoint(burst.token_ids)

    def _feed_one_by_one(self, token_ids: Sequence[int]) -> None:
        """Feed a burst id by id; note the events and held text before each id but the first."""
        path = self._text_path
        for number, token_id in enumerate(token_ids):
            if number:
                self._marks.append((self._fed, len(self._events), path.held))
            self._fed += 1
            self._events += path.feed((token_id,))
            if path.ending is not None:
                return

    def is_cancelled(self) -> bool:
        """Return whether the submitter or the reader cancelled the choice."""
        pipe = self.pipe
        return self.handle.is_cancelled or (pipe is not None and pipe.cancelled)

    def fail(self, choice: ChoiceState, error: BaseException) -> None:
        """End the choice with an error; take the events that the text path still returns."""
        choice.latch(Ending(FinishReason.ERROR, error=error))
        self.update_or_give_up(choice)

    def update_or_give_up(self, choice: ChoiceState) -> None:
        """Update; if the text path raises, end the choice with the events that it has returned."""
        try:
            self.update(choice)
        except BaseException as error:
            self._give_up(choice, error)

    def _give_up(self, choice: ChoiceState, error: BaseException) -> None:
        """End a choice whose text path has failed; raise the error if it is not a library's."""
        if not is_library_fault(error):
            raise error
        _LOG.error("the text of %.60s failed", choice.view.request_id, exc_info=error)
        choice.latch(Ending(FinishReason.ERROR, error=error))
        try:
            if self._text_path.ending is None:
                self._events += self._text_path.finish(FinishReason.ERROR)
        except BaseException as second:
            if not is_library_fault(second):
                raise

    def emit(self, choice: ChoiceState) -> None:
        """Write the chunk of this iteration, if it is due; with `return_held`, one for each id."""
        pipe = self.pipe
        if pipe is None or pipe.finished:
            return
        if choice.ending is not None or pipe.return_held:
            self._emit_held_or_last(choice, pipe)
            return
        output, first, sent = choice.view.output_token_ids, self._sent_tokens, self._sent_events
        tokens, events = len(output), len(self._events)
        if events == sent or tokens - first < pipe.stream_interval:
            return
        if tokens == first + 1 and events == sent + 1 and self._most_logprobs is None:
            # The usual case, one id and one event: the work of `_chunk` without its slices and
            # calls. With them, a token costs the engine nearly half as much again.
            event, text, news = self._events[sent], "", _NO_EVENTS
            if type(event) is TextDelta:
                text = event.text
                if not text.isascii():
                    text.encode()
            else:
                news = (event,)
            chunk = new_tuple(
                StreamChunk, ((output[first],), text, False, _NOT_FINISHED, (), news, None, None)
            )
        else:
            chunk = self._chunk(choice, tokens, events)
        pipe.push(chunk)
        self._sent_tokens, self._sent_events = tokens, events

    def _emit_held_or_last(self, choice: ChoiceState, pipe: Pipe) -> None:
        while self._marks:
            mark = self._marks[0]
            pipe.push(self._chunk(choice, *mark))
            self._sent_tokens, self._sent_events, _ = mark
            del self._marks[0]
        ending = choice.ending
        tokens, events = len(choice.view.output_token_ids), len(self._events)
        if ending is None and tokens == self._sent_tokens:
            return
        held = self._text_path.held if pipe.return_held else None
        chunk = self._chunk(choice, tokens, events, held, ending)
        pipe.push(chunk, None if ending is None else ending.error)
        self._sent_tokens, self._sent_events = tokens, events

    def output(self, choice: ChoiceState) -> CompletionOutput:
        """Return the finished choice as a whole."""
        ending = choice.ending
        assert ending is not None
        request, events = self._request, self._events
        if request.whole_calls:
            events = complete_calls(events, first_only=not request.parallel_tool_calls)
        return CompletionOutput(
            request_id=choice.view.request_id,
            index=choice.view.choice_index,
            token_ids=tuple(choice.view.output_token_ids),
            text=_text_of(events),
            finish_reason=ending.reason,
            stop_reason=ending.stop_reason,
            logprobs=tuple(self._logprobs),
            events=tuple(events),
            error=ending.error,
        )

    def held(self) -> Held:
        """Return the text or bytes that each layer holds now."""
        return self._text_path.held

    def _chunk(
        self,
        choice: ChoiceState,
        tokens: int,
        events: int,
        held: Held | None = None,
        ending: Ending | None = None,
    ) -> StreamChunk:
        """Return the unsent ids and events up to these totals, and the ending if there is one."""
        text, news = _split(self._events[self._sent_events : events])
        return StreamChunk(
            tuple(choice.view.output_token_ids[self._sent_tokens : tokens]),
            text,
            finished=ending is not None,
            reason=_NOT_FINISHED if ending is None else ending.reason,
            logprobs=tuple(self._logprobs[self._sent_tokens : tokens]),
            events=news,
            stop_reason=None if ending is None else ending.stop_reason,
            held=held,
        )


def take_burst(choice: ChoiceState) -> Burst:
    """Append a choice's burst to its output, up to `max_tokens`; return the appended burst.

    The text path, not this function, finds an end among the ids.
    """
    burst, choice.burst, view = choice.burst, None, choice.view
    assert burst is not None
    output = view.output_token_ids
    output += burst.token_ids
    surplus = len(output) - view.params.max_tokens
    if surplus > 0:
        del output[-surplus:]
        room = len(burst.token_ids) - surplus
        burst = Burst(burst.token_ids[:room], burst.logprobs[:room])
    return burst


def _split(events: Sequence[Event]) -> tuple[str, tuple[Event, ...]]:
    """Return the text of events, and all the events if some of them are not text."""
    is_text = _TEXT_ONLY.issuperset(map(type, events))
    return _text_of(events), () if is_text else tuple(events)


def _text_of(events: Iterable[Event]) -> str:
    return "".join([event.text for event in events if isinstance(event, TextDelta)])
