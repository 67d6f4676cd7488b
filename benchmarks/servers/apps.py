"""The servers that are measured, one per process: ours, and a bare Starlette stream as its peer.

    python -m benchmarks.servers.apps ours|peer [--quick] [--step SECONDS]

Each prints its port and serves until SIGTERM, on the core that `BENCHMARKS_CORE` names, if any. All
run under the same uvicorn settings; the client measures.
"""

import argparse
import asyncio
import os
import time
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import StreamingResponse
from starlette.routing import Route

from benchmarks.engine import Instant
from benchmarks.materials import vocabularies
from mini_vllm.engine import FinishReason, StreamChunk
from mini_vllm.server.app import create_app
from mini_vllm.server.http_server import freeze_gc_heap, listen, make_server
from mini_vllm.server.service import Service, create_service
from mini_vllm.server.wire.completion_stream import completion_stream
from mini_vllm.server.wire.sse import StreamHead
from mini_vllm.tokenizer import ChatTemplate, HuggingFaceTokenizer, Tokenizer

# The variable of the environment that names the core to run on.
CORE = "BENCHMARKS_CORE"
MODEL = "instant"
MOST_STREAMS, MOST_TOKENS = 256, 4096


def material(*, quick: bool) -> tuple[HuggingFaceTokenizer, list[int]]:
    """Return the tokenizer, and the ids of every stream."""
    inner = vocabularies.trained(1024 if quick else 16_384)
    ids = vocabularies.ids(inner, "ascii", MOST_TOKENS)
    return HuggingFaceTokenizer.from_tokenizer(inner), ids


def text_of(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """Return the text of each id; each of these ids is whole characters."""
    return [tokenizer.decode([token_id]) for token_id in ids]


def our_service(tokenizer: HuggingFaceTokenizer, ids: list[int], step: float) -> Service:
    """Return our service, as `mini_vllm.server.cli` makes it, with an instant model.

    Args:
        tokenizer: the model's tokenizer.
        ids: what the model gives every request.
        step: seconds to wait before each step; other threads run meanwhile.
    """
    return create_service(
        Instant([(token_id,) for token_id in ids]),
        tokenizer,
        ChatTemplate.simple(),
        MODEL,
        max_num_seqs=MOST_STREAMS,
        max_model_len=MOST_TOKENS,
        max_waiting=MOST_STREAMS,
        hooks={"before_decode": lambda: time.sleep(step)} if step else None,
    )


def frames(tokenizer: Tokenizer, ids: list[int]) -> list[bytes]:
    """Return the events of a completion of these ids: one for each id, then the end."""
    head = StreamHead(id=f"cmpl-{'0' * 24}", created=1_700_000_000, model=MODEL)
    wire = completion_stream(head)
    wire.start()
    events = [wire.feed(0, StreamChunk((0,), text)) for text in text_of(tokenizer, ids)]
    last = StreamChunk(finished=True, reason=FinishReason.LENGTH)
    return [*events, wire.feed(0, last), wire.end()]


def peer_app(tokenizer: Tokenizer, ids: list[int]) -> Starlette:
    """Return an application that streams ready-made events and does nothing else.

    `/awaits/N` lets other tasks run after each event, as every source does that has to wait;
    `/never/N` does not, and serves its streams one after another.
    """
    *events, last, done = frames(tokenizer, ids)

    async def awaits(request: HttpRequest) -> StreamingResponse:
        return _stream(_awaiting([*events[: request.path_params["count"]], last, done]))

    async def never(request: HttpRequest) -> StreamingResponse:
        return _stream(_never([*events[: request.path_params["count"]], last, done]))

    routes = [
        Route("/awaits/{count:int}", awaits, methods=["POST"]),
        Route("/never/{count:int}", never, methods=["POST"]),
    ]
    return Starlette(routes=routes)


def _stream(events: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream")


async def _awaiting(events: list[bytes]) -> AsyncIterator[bytes]:
    for event in events:
        yield event
        await asyncio.sleep(0)


async def _never(events: list[bytes]) -> AsyncIterator[bytes]:
    for event in events:
        yield event


def main() -> None:
    """Serve one of the two."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.servers.apps")
    parser.add_argument("which", choices=("ours", "peer"))
    parser.add_argument("--quick", action="store_true", help="a tiny vocabulary")
    parser.add_argument("--step", type=float, default=0.0, help="seconds that a step takes")
    args = parser.parse_args()
    if CORE in os.environ:
        os.sched_setaffinity(0, {int(os.environ[CORE])})
    tokenizer, ids = material(quick=args.quick)
    listener = listen("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    service = our_service(tokenizer, ids, args.step)
    app = create_app(service) if args.which == "ours" else peer_app(tokenizer, ids)
    server: uvicorn.Server = make_server(
        app, service, drain_seconds=1.0, log_level="warning", access_log=False
    )
    if args.which == "peer":
        # The same settings, and no engine.
        server = uvicorn.Server(server.config)
    freeze_gc_heap()
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
