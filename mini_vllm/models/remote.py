"""A remote model: the weights run on another server, and our text path runs here.

It takes token ids, not text, from a running vLLM or another OpenAI-compatible server that sends
ids, over one HTTP stream for each slot. An error of a stream ends its slot alone.

Our text path ends a choice at EOS. If a server ends a stream without the EOS id, the model adds
that id; otherwise the slot would wait forever.
"""

import asyncio
import functools
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mini_vllm.engine.engine_errors import EngineStateError, RemoteModelError, StreamingError
from mini_vllm.engine.model import Burst, News, SlotView
from mini_vllm.models.remote_frames import (
    SseReader,
    error_message,
    read_frame,
    read_scores,
    request_body,
    scoring_body,
)

if TYPE_CHECKING:
    import ssl

    import httpx2

_ADVICE = {
    400: "this server or model does not accept the request",
    401: "check api_key",
    403: "check api_key",
    404: "check that base_url ends with /v1, and the name of the model",
    429: "too many requests; try again later",
    503: "it is not ready or overloaded; try again later",
}


# How long a server may take to answer a probe.
_PROBE_SECONDS = 5.0


@dataclass(slots=True, eq=False)
class _Stream:
    """The bursts received for a slot. `ended` is the server's `finish_reason`, or an error."""

    bursts: list[Burst] = field(default_factory=list)
    ended: str | StreamingError | None = None
    task: "Future[None] | None" = None


class RemoteModel:
    """A model that is called over HTTP.

    One thread, "remote-model", runs all streams; it starts with the first slot. `prefill` returns
    at once, with no ids; `decode` returns the ids received since.

    Args:
        base_url: as for the openai client, with /v1 at its end.
        model: the server's name for the model; None for a server with a single model.
        api_key: sent as a bearer token.
        eos_token_id: the tokenizer's.
        timeout: seconds without a byte after which a stream has failed.
        poll: the most seconds that `decode` waits if no slot has new ids.
        ids_from_logprobs: always ask for logprobs: a vLLM before 0.10.2 sends ids only with them.

    Raises:
        ValueError: `base_url` is not an http address.
    """

    # They are sent in vLLM 0.33.0's fields; that server enforces them.
    forwards_structured_outputs = True

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        eos_token_id: int | None = None,
        timeout: float = 120.0,
        poll: float = 0.05,
        ids_from_logprobs: bool = False,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(
                f"base_url is {base_url!r}; it must be like 'http://localhost:8000/v1'"
            )
        self.url = base_url.rstrip("/") + "/completions"
        self._model = model
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._eos_token_id = eos_token_id
        self._timeout = timeout
        self._poll = poll
        self._ids_from_logprobs = ids_from_logprobs
        self._news = threading.Condition()
        self._streams: dict[tuple[str, int], _Stream] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def prefill(self, slots: Sequence[SlotView]) -> list[News]:
        """Send the requests of new slots; `decode` returns their ids later.

        Raises:
            EngineStateError: the model is closed.
        """
        with self._news:
            loop = self._open_loop()
            for slot in slots:
                stream = self._streams[slot.key] = _Stream()
                stream.task = asyncio.run_coroutine_threadsafe(self._run(slot, stream), loop)
        return [None] * len(slots)

    def decode(self, slots: Sequence[SlotView]) -> list[News]:
        """Return the new ids or the end of each slot; wait up to `poll` seconds for the first."""
        with self._news:
            streams = [self._streams[slot.key] for slot in slots]
            self._news.wait_for(
                lambda: any(stream.bursts or stream.ended for stream in streams), self._poll
            )
            return [self._take(slot, stream) for slot, stream in zip(slots, streams, strict=True)]

    def release(self, slot: SlotView) -> None:
        """Drop a slot and close its stream, so that the server stops working on it."""
        with self._news:
            stream = self._streams.pop(slot.key, None)
        if stream is not None and stream.task is not None:
            stream.task.cancel()

    def prompt_logprobs(self, token_ids: Sequence[int], most: int) -> list[dict[int, float] | None]:
        """Return the server's logprobs for each id of a prompt. Any thread; the call waits.

        Args:
            token_ids: the prompt.
            most: for how many of the likeliest ids to return logprobs, besides the id itself.

        Raises:
            RemoteModelError: the server does not answer, or not with logprobs.
            EngineStateError: the model is closed.
        """
        with self._news:
            loop = self._open_loop()
        return asyncio.run_coroutine_threadsafe(self._score(token_ids, most), loop).result()

    async def _score(self, token_ids: Sequence[int], most: int) -> list[dict[int, float] | None]:
        try:
            body = scoring_body(token_ids, most, self._model)
            response = await self._client.post(self.url, json=body)
            if response.status_code != 200:
                raise await _refusal(response)
            return read_scores(response.text, token_ids)
        except Exception as error:
            raise RemoteModelError(f"{self.url} {_detail(error, self._timeout)}") from error

    async def problem(self) -> str | None:
        """Return why the server cannot answer, or None if its list of models shows no problem."""
        with self._news:
            if self._closed:
                return f"the model of {self.url} is closed"
            future = asyncio.run_coroutine_threadsafe(self._problem(), self._loop or self._start())
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Close all streams and end the thread. A second close does nothing."""
        with self._news:
            loop, self._loop, self._closed = self._loop, None, True
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._stop(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    def _take(self, slot: SlotView, stream: _Stream) -> News:
        if stream.bursts:
            bursts, stream.bursts = stream.bursts, []
            return Burst(
                tuple(token_id for burst in bursts for token_id in burst.token_ids),
                tuple(logprobs for burst in bursts for logprobs in burst.logprobs),
            )
        if stream.ended is None or isinstance(stream.ended, StreamingError):
            return stream.ended
        # The server has ended the stream, but the engine needs more ids.
        ended = (
            f"{self.url} ended the stream with finish_reason {stream.ended!r} after "
            f"{len(slot.output_token_ids)} of {slot.params.max_tokens} tokens"
        )
        if stream.ended != "stop":
            stream.ended = RemoteModelError(
                f"{ended}; with 'length', prompt and max_tokens exceed its context"
            )
            return stream.ended
        stream.ended = RemoteModelError(
            f"{ended}, but the engine needs more: eos_token_id={self._eos_token_id} must be the "
            f"tokenizer's EOS id, and the server must know ignore_eos and min_tokens if the "
            f"request uses them"
        )
        if self._eos_token_id is None:
            return stream.ended
        # The server sent no logprob for this id, but it did end the text here: probability 1.
        certain = () if slot.params.logprobs is None else ({self._eos_token_id: 0.0},)
        return Burst((self._eos_token_id,), certain)

    def _open_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, and start it if necessary. The caller has the lock."""
        if self._closed:
            raise EngineStateError(f"the model of {self.url} is closed")
        return self._loop or self._start()

    def _start(self) -> asyncio.AbstractEventLoop:
        import httpx2

        self._client = httpx2.AsyncClient(
            headers=self._headers,
            verify=_certificates(),
            timeout=httpx2.Timeout(self._timeout, pool=None),
            limits=httpx2.Limits(max_connections=None),
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="remote-model", daemon=True
        )
        self._thread.start()
        return self._loop

    async def _stop(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()

    async def _problem(self) -> str | None:
        url = self.url.removesuffix("completions") + "models"
        try:
            response = await self._client.get(url, timeout=_PROBE_SECONDS)
        except Exception as error:
            return f"{url} {_detail(error, _PROBE_SECONDS)}"
        status = response.status_code
        # Not every server has such a list; any answer shows that the server runs.
        if status < 500 and status not in (401, 403):
            return None
        return f"{url} answered with status {status}; {_advice(status)}"

    async def _run(self, slot: SlotView, stream: _Stream) -> None:
        """Read one stream to its end. Any exception becomes the slot's error."""
        try:
            await self._read(slot, stream)
            if stream.ended is None:
                raise StreamingError("closed the connection in the middle of the stream")
        except Exception as error:
            failure = RemoteModelError(f"{self.url} {_detail(error, self._timeout)}")
            failure.__cause__ = error
            self._tell(stream, None, failure)

    async def _read(self, slot: SlotView, stream: _Stream) -> None:
        body = request_body(slot, self._model, ids_from_logprobs=self._ids_from_logprobs)
        async with self._client.stream("POST", self.url, json=body) as response:
            await _check(response)
            reader = SseReader()
            async for data in response.aiter_bytes():
                for event in reader.feed(data):
                    frame = read_frame(event, with_logprobs=slot.params.logprobs is not None)
                    self._tell(stream, *frame)

    def _tell(
        self, stream: _Stream, burst: Burst | None, ended: str | StreamingError | None
    ) -> None:
        with self._news:
            if burst is not None:
                stream.bursts.append(burst)
            stream.ended = stream.ended or ended
            self._news.notify_all()


def _detail(error: Exception, timeout: float) -> str:
    import httpx2

    if isinstance(error, StreamingError):
        return str(error)
    if isinstance(error, httpx2.ConnectError):
        return f"cannot be reached ({error}); is the server running?"
    if isinstance(error, httpx2.TimeoutException):
        return f"sent nothing for {timeout} s; RemoteModel(timeout=...) waits longer"
    if isinstance(error, httpx2.NetworkError | httpx2.RemoteProtocolError):
        return f"cut the connection in the middle of the stream ({error})"
    return f"failed ({error!r})"


@functools.cache
def _certificates() -> "ssl.SSLContext":
    """Return the trusted certificates, read once: reading them is the slowest part of a start."""
    import httpx2

    return httpx2.create_ssl_context()


async def _check(response: "httpx2.Response") -> None:
    status, kind = response.status_code, response.headers.get("content-type", "")
    if status == 200 and kind.startswith("text/event-stream"):
        return
    if status != 200:
        raise await _refusal(response)
    message = error_message((await response.aread()).decode("utf-8", "replace"))
    raise StreamingError(f"answered with {kind or 'no content type'}, not a stream: {message}")


async def _refusal(response: "httpx2.Response") -> StreamingError:
    message = error_message((await response.aread()).decode("utf-8", "replace"))
    status = response.status_code
    return StreamingError(f"answered with status {status}, {message}; {_advice(status)}")


def _advice(status: int) -> str:
    return _ADVICE.get(status, "see the log of the server")
