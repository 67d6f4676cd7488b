"""A lab's frames on the wire: the bytes that a student's code makes of a chat's events.

Two kinds of frames are the server's: an event without choices sends the page the text that each
layer holds, and if the lab's code fails, the server ends the stream.
"""

from dataclasses import replace
from typing import Any

from msgspec.structs import asdict

from labkit.serving.lab_path import PipelineRaised, telling_the_author
from labkit.serving.layers import Maker
from mini_vllm.engine import Request, StreamChunk
from mini_vllm.engine.whole_calls import without_text
from mini_vllm.server.wire.api_errors import ApiError, broken_off
from mini_vllm.server.wire.chat_delta import new_call_id
from mini_vllm.server.wire.sse import DONE, HeldReport, StreamHead, StreamResponse, Usage, frame
from mini_vllm.text.events import CallEnd, CallStart

ROLE = "frames"


class LabFramesFactory:
    """Makes the frames of a chat of a lab's class.

    Args:
        maker: makes the class.
    """

    def __init__(self, maker: Maker) -> None:
        self._maker = maker

    def __call__(
        self,
        head: StreamHead,
        request: Request,
        *,
        named_function: bool = False,
        parallel_tool_calls: bool = True,
        only_calls: bool = False,
        strip: bool = False,
    ) -> "LabFrames":
        """Return the frames of one chat. They keep white space even if `strip` is true.

        Raises:
            ApiError: 400; the request needs something that the lab does not build.
            PipelineRaised: the code raised.
        """
        for name, value, none in (
            ("n", request.params.n, 1),
            ("logprobs", request.params.logprobs, None),
            ("return_token_ids", head.prompt_token_ids is not None, False),
            ("stream_options.continuous_usage_stats", head.continuous_usage, False),
        ):
            if value != none:
                raise ApiError(
                    400,
                    f"{name} is {value}; the labs' frames do not have it: leave it out",
                    param=name,
                )
        with telling_the_author():
            made = self._maker.make(ROLE, {
                "id": head.id,
                "created": head.created,
                "model": head.model,
                "include_usage": head.include_usage,
            })  # fmt: skip
        return LabFrames(
            made,
            head,
            named=named_function,
            parallel=parallel_tool_calls,
            only_calls=only_calls,
        )


class LabFrames:
    """The events of one chat, like `SseStream`.

    Args:
        stream: has `start`, `feed(event)`, `finish(reason, usage)` and `error(message)`.
        head: the facts that are known before the first token.
        named: the request chose a function by its name.
        parallel: false drops all calls but the first.
        only_calls: leave out all text.
    """

    def __init__(
        self, stream: Any, head: StreamHead, *, named: bool, parallel: bool, only_calls: bool
    ) -> None:
        self._stream = stream
        self._head = head
        self._named = named
        self._parallel = parallel
        self._only_calls = only_calls
        self._tokens = 0
        self._called = False
        self._reason: str | None = None
        self._closed = False

    def start(self) -> bytes:
        """Return the frames before any token."""
        return self._frames("start")

    def feed(self, index: int, chunk: StreamChunk) -> bytes:
        """Return the frames of a chunk, after the report of held texts for the page."""
        if self._closed:
            return b""
        self._tokens += len(chunk.token_ids)
        frames = [self._report(chunk)]
        events = without_text(chunk.all_events) if self._only_calls else chunk.all_events
        for event in events:
            if self._parallel or getattr(event, "index", 0) == 0:
                self._called |= isinstance(event, CallEnd)
                if isinstance(event, CallStart) and event.id is None:
                    # A lab numbers such calls by their index, so two answers would share an id.
                    event = replace(event, id=new_call_id())
                frames.append(self._frames("feed", event))
        if chunk.finished and chunk.reason.is_complete:
            self._reason = chunk.reason.openai(called=self._called and not self._named)
        elif chunk.finished:
            frames.append(self.error(broken_off(chunk.reason)))
        return b"".join(frames)

    def end(self) -> bytes:
        """Return the last frames."""
        if self._closed:
            return b""
        if self._reason is None:
            return self.error(ApiError(500, "the stream ended before the answer was complete"))
        usage = asdict(Usage.of(self._head.prompt_tokens, self._tokens))
        frames = self._frames("finish", self._reason, usage)
        self._closed = True
        return frames

    def error(self, error: ApiError) -> bytes:
        """Return the frames that end the stream with an error."""
        if self._closed:
            return b""
        self._closed = True
        try:
            return self._frames("error", error.message)
        except PipelineRaised:
            return frame(error.body) + DONE

    def _frames(self, method: str, *arguments: Any) -> bytes:
        with telling_the_author():
            data = getattr(self._stream, method)(*arguments)
            if not isinstance(data, bytes):
                raise TypeError(f"{method} returned {data!r}; it must be bytes")
        return data

    def _report(self, chunk: StreamChunk) -> bytes:
        """Return the report of held texts, if the client asked for it."""
        head = self._head
        if head.naive is None:
            return b""
        report = HeldReport.of(chunk, head.naive)
        report.held[ROLE] = ""
        return frame(
            StreamResponse(
                head.id, "chat.completion.chunk", head.created, head.model, [], mini_vllm=report
            )
        )
