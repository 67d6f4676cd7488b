"""The engine's answers: chunk by chunk while a choice runs, or whole when it has ended."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from io import StringIO
from typing import NamedTuple

from mini_vllm.finish_reason import FinishReason
from mini_vllm.text.events import Event, TextDelta

new_tuple = tuple.__new__
# Looking up an enum member takes Python 3.11 as long as a call does.
_NOT_FINISHED = FinishReason.NOT_FINISHED


@dataclass(frozen=True, slots=True)
class LogprobEntry:
    """The probability that a model gave one token.

    Attributes:
        token_id: the token.
        logprob: natural logarithm of its probability, at most 0.0.
        piece: its bytes, which need not be whole characters.
    """

    token_id: int
    logprob: float
    piece: bytes


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """One step of a generation: the chosen token and the likeliest tokens, best first.

    `chosen` is set even if that token is not among the likeliest.
    """

    chosen: LogprobEntry
    top: tuple[LogprobEntry, ...] = ()

    @classmethod
    def of(
        cls,
        token_id: int,
        logprobs: Mapping[int, float],
        most: int,
        piece_of: Callable[[int], bytes],
    ) -> "TokenLogprobs":
        """Return the step of a token.

        Args:
            token_id: the token.
            logprobs: by id, including the id of the token.
            most: how many of the likeliest tokens to take; equal logprobs are ordered by id.
            piece_of: returns the bytes of an id.
        """

        def entry(candidate: int) -> LogprobEntry:
            return LogprobEntry(candidate, logprobs[candidate], piece_of(candidate))

        best = sorted(logprobs, key=lambda candidate: (-logprobs[candidate], candidate))[:most]
        return cls(entry(token_id), tuple(map(entry, best)))


class _ChunkFields(NamedTuple):
    token_ids: tuple[int, ...]
    text: str
    finished: bool
    reason: FinishReason
    logprobs: tuple[TokenLogprobs, ...]
    events: tuple[Event, ...]
    stop_reason: str | int | None
    held: Mapping[str, str | bytes] | None


class StreamChunk(_ChunkFields):
    """The new ids and text of one choice. A chunk never changes once made.

    There is a chunk for each token, and a tuple is the immutable object that Python makes quickest.

    Attributes:
        token_ids: the new ids. They may precede their text, but never follow it.
        text: the new text; may be empty.
        finished: whether this is the last chunk.
        reason: why the choice ended; NOT_FINISHED in every chunk but the last.
        logprobs: one for each id, if the request asked for them.
        events: text, reasoning and tool calls in their order, if there is more than text;
            otherwise empty.
        stop_reason: the stop string or stop id that ended the choice, as vLLM reports it.
        held: the text or bytes that each layer of the text path holds now, in a stream that asked
            for it.

    Raises:
        ValueError: `finished` and `reason` disagree, or the text has no UTF-8 form.
    """

    __slots__ = ()

    def __new__(
        cls,
        token_ids: tuple[int, ...] = (),
        text: str = "",
        finished: bool = False,
        reason: FinishReason = _NOT_FINISHED,
        logprobs: tuple[TokenLogprobs, ...] = (),
        events: tuple[Event, ...] = (),
        stop_reason: str | int | None = None,
        held: Mapping[str, str | bytes] | None = None,
    ) -> "StreamChunk":
        """Return a chunk."""
        if finished is (reason is _NOT_FINISHED):
            raise ValueError(f"finished={finished} and reason={reason.name} disagree")
        if not text.isascii():
            text.encode()
        return new_tuple(
            cls, (token_ids, text, finished, reason, logprobs, events, stop_reason, held)
        )

    def __hash__(self) -> int:
        # A dict has no hash; equality still compares it.
        return hash(self[:-1])

    @property
    def all_events(self) -> tuple[Event, ...]:
        """Its events; if the chunk has only text, a single `TextDelta`."""
        return self.events or ((TextDelta(self.text),) if self.text else ())


class JoinedChunks:
    """Chunks of one choice that will be read as a single chunk.

    The cost of adding a chunk depends on that chunk alone, and the chunk itself is not kept.
    """

    def __init__(self, first: StreamChunk) -> None:
        self._token_ids: list[int] = []
        self._text = StringIO(newline="")
        self._logprobs: list[TokenLogprobs] = []
        self._events: list[Event] | None = None
        self.add(first)

    def add(self, chunk: StreamChunk) -> None:
        """Add the next chunk."""
        if chunk.events and self._events is None:
            so_far = self._text.getvalue()
            self._events = [TextDelta(so_far)] if so_far else []
        if self._events is not None:
            self._events += chunk.all_events
        self._token_ids += chunk.token_ids
        self._text.write(chunk.text)
        if chunk.logprobs:
            self._logprobs += chunk.logprobs
        self._last = chunk

    def join(self) -> StreamChunk:
        """Return all chunks as a single chunk, which ends as the last chunk does."""
        return self._last._replace(
            token_ids=tuple(self._token_ids),
            text=self._text.getvalue(),
            logprobs=tuple(self._logprobs),
            events=tuple(self._events or ()),
        )


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """One finished choice.

    Attributes:
        request_id: the request that the choice belongs to.
        index: the index of the choice in the request, from 0.
        token_ids: all generated ids; an EOS or stop id that ended the choice is the last.
        text: all text; equal to the joined text of a stream's chunks.
        finish_reason: why the choice ended.
        stop_reason: the stop string or stop id that ended the choice.
        logprobs: one for each id, if the request asked for them.
        events: text, reasoning and tool calls in their order.
        error: the error, if `finish_reason` is ERROR.
    """

    request_id: str
    index: int
    token_ids: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    stop_reason: str | int | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()
    events: tuple[Event, ...] = ()
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """The finished choices of one submission, request by request, choice by choice."""

    outputs: tuple[CompletionOutput, ...]

    @property
    def output_ids(self) -> list[list[int]]:
        """The ids of each choice."""
        return [list(output.token_ids) for output in self.outputs]

    @property
    def texts(self) -> list[str]:
        """The text of each choice."""
        return [output.text for output in self.outputs]

    @property
    def finish_reasons(self) -> list[FinishReason]:
        """Why each choice ended."""
        return [output.finish_reason for output in self.outputs]

    @property
    def logprobs(self) -> list[tuple[TokenLogprobs, ...]]:
        """The logprobs of each choice."""
        return [output.logprobs for output in self.outputs]


class Handle:
    """A submitter's handle for one request, whose response it will have. Any thread may use it.

    Attributes:
        request_id: the name of the request.
        future: of the response; for asyncio, `await asyncio.wrap_future(handle.future)`.
            Cancelling the awaited future stops only the waiting; `cancel` stops the generation.
        is_cancelled: whether the submitter cancelled the request.
    """

    def __init__(self, request_id: str, choices: int) -> None:
        self.request_id = request_id
        self.future: Future[Response] = Future()
        self.future.set_running_or_notify_cancel()
        self._outputs: list[CompletionOutput | None] = [None] * choices
        self.is_cancelled = False

    def cancel(self) -> None:
        """Cancel all choices. The response then has the tokens that were generated so far."""
        self.is_cancelled = True

    def result(self, timeout: float | None = None) -> Response:
        """Wait for the response; return it.

        Args:
            timeout: seconds, or None for as long as it takes.

        Raises:
            TimeoutError: the response was not complete in time.
            EngineDeadError: the engine failed.
        """
        return self.future.result(timeout)

    def add(self, output: CompletionOutput) -> None:
        """Add a finished choice. Only the engine's thread may call this."""
        self._outputs[output.index] = output
        outputs = [completion for completion in self._outputs if completion is not None]
        if len(outputs) == len(self._outputs):
            self.future.set_result(Response(tuple(outputs)))

    def fail(self, error: BaseException) -> None:
        """End the waiting with an error. Only the engine's thread may call this."""
        if not self.future.done():
            self.future.set_exception(error)
