"""`python -m mini_vllm.server`: from the command line to a server that runs."""

import argparse
import ipaddress
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mini_vllm.engine import Engine, EngineThread, MakeTextPath, Model, TextPathFactory
from mini_vllm.models.ngram import load_embedded
from mini_vllm.models.remote import RemoteModel
from mini_vllm.server.app import create_app
from mini_vllm.server.http_server import listen, make_server
from mini_vllm.server.prometheus_metrics import PrometheusMetrics
from mini_vllm.server.service import Service
from mini_vllm.text.formats import FORMATS
from mini_vllm.tokenizer import ChatTemplate, TokenizerError, create_tokenizer
from mini_vllm.tokenizer.protocols import Tokenizer

_BLOCK_SIZE = 16
_KEY = "MINI_VLLM_API_KEY"
_REMOTE_KEY = "MINI_VLLM_REMOTE_API_KEY"


class _Model(NamedTuple):
    model: Model
    name: str
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    tool_format: str | None


def main(
    arguments: Sequence[str] | None = None,
    *,
    text_path: Callable[[Tokenizer], MakeTextPath] | None = None,
    program: str = "python -m mini_vllm.server",
    note: str = "",
) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code.

    Args:
        arguments: of the command line.
        text_path: makes what turns ids into events; by default the engine's own pipeline.
        program: its name in messages.
        note: a line about what is served, for the start.
    """
    parser = _parser(program)
    options = parser.parse_args(arguments)
    try:
        found = _remote(options) if options.remote else _embedded(options)
        service = _service(options, found, text_path)
        listener = listen(options.host, options.port)
    except (ValueError, TokenizerError) as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"{options.host} port {options.port}: {error.strerror}; try another --port")
    key = options.api_key or os.environ.get(_KEY, "").strip() or None
    app = create_app(service, api_key=key)
    if not key and not _is_loopback(options.host):
        print(
            f"Anyone who reaches {options.host} may use this server: "
            f"set {_KEY}, or listen at 127.0.0.1.",
            file=sys.stderr,
        )
    welcome = _welcome(listener, found.name, bool(key), note)
    server = make_server(
        app,
        service,
        drain_seconds=options.drain_seconds,
        on_start=lambda: print(welcome, flush=True),
        log_level=options.log_level,
        access_log=options.log_level in ("debug", "trace"),
    )
    server.run(sockets=[listener])
    if isinstance(found.model, RemoteModel):
        found.model.close()
    return 0


def _service(
    options: argparse.Namespace,
    found: _Model,
    text_path: Callable[[Tokenizer], MakeTextPath] | None,
) -> Service:
    metrics = PrometheusMetrics()
    tool_format = options.tool_call_parser or found.tool_format
    make = text_path(found.tokenizer) if text_path else TextPathFactory(
        found.tokenizer,
        tool_format=tool_format,
        reasoning_format=options.reasoning_parser,
        stop_scope=options.stop_scope,
    )  # fmt: skip
    engine = Engine(
        found.model,
        found.tokenizer,
        max_num_seqs=options.max_num_seqs,
        # Room for a full slot each, so that a slot is never refused for want of blocks.
        num_blocks=options.max_num_seqs * -(-options.max_model_len // _BLOCK_SIZE),
        block_size=_BLOCK_SIZE,
        max_model_len=options.max_model_len,
        max_waiting=options.max_waiting,
        make_text_path=make,
        hooks={"before_decode": lambda: time.sleep(options.step_delay)}
        if options.step_delay
        else None,
        metrics=metrics,
    )
    metrics.watch(engine.stats)
    return Service(
        engine,
        EngineThread(engine),
        found.tokenizer,
        found.chat_template,
        found.name,
        metrics,
        default_max_tokens=options.default_max_tokens,
        tool_format=tool_format,
        reasoning_format=options.reasoning_parser,
    )


def _embedded(options: argparse.Namespace) -> _Model:
    if options.tokenizer or options.chat_template:
        raise ValueError("--tokenizer and --chat-template are for a --remote model")
    found = load_embedded()
    name = options.served_model_name or "embedded"
    return _Model(found.model, name, found.tokenizer, found.chat_template, found.tool_format)


def _remote(options: argparse.Namespace) -> _Model:
    if not options.tokenizer:
        raise ValueError("--remote needs --tokenizer: the one of the model that runs there")
    tokenizer = create_tokenizer(options.tokenizer, chat_template_path=options.chat_template)
    template = getattr(tokenizer, "chat_template", None)
    model = RemoteModel(
        options.remote,
        model=options.remote_model,
        api_key=os.environ.get(_REMOTE_KEY),
        eos_token_id=min(tokenizer.eos_token_ids, default=None),
    )
    name = options.served_model_name or options.remote_model or "remote"
    chat_template = template if isinstance(template, ChatTemplate) else ChatTemplate.simple()
    return _Model(model, name, tokenizer, chat_template, None)


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="An OpenAI-compatible server: the course's own text path behind HTTP.",
    )
    listen = parser.add_argument_group("where it listens")
    listen.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    listen.add_argument("--port", type=_natural, default=8000, help="port (default: %(default)s)")
    listen.add_argument(
        "--api-key",
        type=_key,
        metavar="KEY",
        help=f"what clients must know (or set {_KEY}, which `ps` hides)",
    )
    model = parser.add_argument_group("the model; by default a tiny one that comes with the course")
    model.add_argument(
        "--remote",
        metavar="URL",
        help="take token ids from this vLLM or like server, such as http://127.0.0.1:8001 "
        f"({_REMOTE_KEY} has its key)",
    )
    model.add_argument("--remote-model", metavar="NAME", help="the model's name there")
    model.add_argument(
        "--tokenizer", metavar="PATH", help="of the remote model: file, folder, name or hub id"
    )
    model.add_argument("--chat-template", metavar="FILE", help="instead of the tokenizer's own")
    model.add_argument("--served-model-name", metavar="NAME", help="how clients call the model")
    model.add_argument(
        "--step-delay",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="wait before each step, to watch tokens arrive (default: 0)",
    )
    text = parser.add_argument_group("the text path")
    text.add_argument("--tool-call-parser", choices=sorted(FORMATS), help="format of tool calls")
    text.add_argument("--reasoning-parser", metavar="NAME", help="format of the reasoning")
    text.add_argument(
        "--stop-scope",
        choices=("all", "content"),
        default="all",
        help="where stop strings count (default: %(default)s)",
    )
    size = parser.add_argument_group("how much it takes")
    for name, default, what in (
        ("--max-num-seqs", 32, "choices that run at the same time"),
        ("--max-model-len", 8192, "tokens of prompt and answer together"),
        ("--max-waiting", 256, "choices that wait for a slot; more get status 429"),
        ("--default-max-tokens", 512, "tokens of a chat that does not say"),
    ):
        size.add_argument(
            name, type=_positive, default=default, help=f"{what} (default: %(default)s)"
        )
    size.add_argument(
        "--drain-seconds",
        type=_seconds,
        default=10.0,
        help="how long requests may run on at the end (default: %(default)s)",
    )
    parser.add_argument(
        "--log-level",
        choices=("critical", "error", "warning", "info", "debug", "trace"),
        default="warning",
        help="(default: %(default)s)",
    )
    return parser


def _key(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("the key is empty; leave the option out for no key")
    return text.strip()


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is negative")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is below 1")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds from 0")
    return value


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _welcome(listener: socket.socket, name: str, has_key: bool, note: str) -> str:
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    key = " -H 'Authorization: Bearer KEY'" if has_key else ""
    return f"""\
{note}Serving {name!r}. Ctrl-C ends it.

  a page to watch it      {url}/
  its numbers             {url}/metrics
  a chat that streams:
    curl -N {url}/v1/chat/completions -H 'Content-Type: application/json'{key} \\
      -d '{{"messages": [{{"role": "user", "content": "Hello!"}}], "stream": true}}'
"""
