"""`python -m mini_vllm.server`: from the command line to a running server."""

import argparse
import ipaddress
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from prometheus_client import disable_created_metrics

from mini_vllm.chat_template.files import find_chat_template
from mini_vllm.engine import MakeTextPath, Model
from mini_vllm.models.ngram import load_embedded
from mini_vllm.models.remote import RemoteModel
from mini_vllm.models.sayer import Sayer
from mini_vllm.models.script_file import ScriptFileModel, read_script
from mini_vllm.models.spelled import SpelledModel
from mini_vllm.models.tool_examples import read_tool_examples
from mini_vllm.server import argument_types
from mini_vllm.server.app import create_app
from mini_vllm.server.format_options import ChosenFormats, add_format_options, choose_formats
from mini_vllm.server.http_server import freeze_gc_heap, listen, make_server
from mini_vllm.server.item_store import ItemStore
from mini_vllm.server.prometheus_metrics import PrometheusMetrics
from mini_vllm.server.service import Service, Wire, create_service
from mini_vllm.tokenizer import CacheConfig, ChatTemplate, TokenizerError, create_tokenizer
from mini_vllm.tokenizer.metrics import TokenizerMetrics
from mini_vllm.tokenizer.protocols import Tokenizer

_KEY = "MINI_VLLM_API_KEY"
_REMOTE_KEY = "MINI_VLLM_REMOTE_API_KEY"
_BYTE = "byte"
# Most models write the tags of this format.
_SAID_REASONING = "qwen3"


class _ModelSetup(NamedTuple):
    model: Model
    name: str
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    tool_format: str | None


def main(
    arguments: Sequence[str] | None = None,
    *,
    text_path: Callable[[Tokenizer], MakeTextPath] | None = None,
    wire: Wire | None = None,
    tokenizer: str = _BYTE,
    program: str = "python -m mini_vllm.server",
    note: str = "",
) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code.

    Args:
        arguments: of the command line.
        text_path: returns the maker of text paths; by default the engine's own pipeline is used.
        wire: the way of a stream's chunks to its client; by default the server's own.
        tokenizer: the tokenizer of a built-in model, if the command line does not name one.
        program: the name of the program in messages.
        note: the owner of each layer's code: printed at the start and shown on the page.
    """
    # Each counter would also report when it was made.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    parser = _parser(program, tokenizer)
    options = parser.parse_args(arguments)
    metrics = PrometheusMetrics()
    try:
        if options.remote:
            setup = _remote(options, metrics.tokenizer)
        else:
            setup = _local(options, options.tokenizer or tokenizer, metrics.tokenizer)
        formats = _formats(options, setup)
        service = _service(options, setup, formats, metrics, text_path, wire or Wire(), note)
        listener = listen(options.host, options.port)
    except (ValueError, TokenizerError) as error:
        parser.error(str(error))
    except OSError as error:
        at = f"{options.host} port {options.port}: {error.strerror}"
        parser.error(f"{at}; try another --port or --host")
    key = options.api_key or os.environ.get(_KEY, "").strip() or None
    app = create_app(
        service,
        api_key=key,
        allowed_origins=options.allowed_origins,
        open_metrics=options.open_metrics,
    )
    if not key and not _is_loopback(options.host):
        print(
            f"Anyone who reaches {options.host} may use this server: "
            f"set {_KEY}, or listen at 127.0.0.1.",
            file=sys.stderr,
        )
    # Another text path has its own formats.
    reads = "" if text_path else str(formats)
    vocabulary = options.tokenizer or tokenizer
    note = f"{note}\n\n" if note else ""
    welcome = _welcome(listener, setup.name, bool(key), note, vocabulary, reads)
    server = make_server(
        app,
        service,
        drain_seconds=options.drain_seconds,
        on_start=lambda: print(welcome, flush=True),
        log_level=options.log_level,
        access_log=options.log_level in ("debug", "trace"),
    )
    freeze_gc_heap()
    server.run(sockets=[listener])
    if isinstance(setup.model, RemoteModel):
        setup.model.close()
    return 0


def _formats(options: argparse.Namespace, setup: _ModelSetup) -> ChosenFormats:
    return choose_formats(
        options.tool_call_parser,
        options.reasoning_parser,
        setup.chat_template.template,
        setup.tool_format,
        _SAID_REASONING if isinstance(setup.model, Sayer) else None,
    )


def _service(
    options: argparse.Namespace,
    setup: _ModelSetup,
    formats: ChosenFormats,
    metrics: PrometheusMetrics,
    text_path: Callable[[Tokenizer], MakeTextPath] | None,
    wire: Wire,
    note: str,
) -> Service:
    delay = options.step_delay
    for name, neutral in _OF_OUR_PATH.items():
        value = getattr(options, name)
        if text_path is not None and value != neutral:
            raise ValueError(
                f"--{name.replace('_', '-')} {value} is for mini_vllm's own text path; "
                "another text path is served: leave the option out"
            )
    return create_service(
        setup.model,
        setup.tokenizer,
        setup.chat_template,
        setup.name,
        metrics=metrics,
        cache=_cache(options, setup.tokenizer),
        max_num_seqs=options.max_num_seqs,
        max_model_len=options.max_model_len,
        max_waiting=options.max_waiting,
        make_text_path=text_path(setup.tokenizer) if text_path else None,
        stop_scope=options.stop_scope,
        suppress_replacement_runs=options.suppress_replacement_runs,
        hooks={"before_decode": lambda: time.sleep(delay)} if delay else None,
        default_max_tokens=options.default_max_tokens,
        stored_items=ItemStore(options.stored_responses),
        wire=wire,
        # The output of another text path is passed through unchanged.
        strip=options.strip and text_path is None,
        model_problem=setup.model.problem if isinstance(setup.model, RemoteModel) else None,
        tool_format=formats.tools.name,
        can_say=isinstance(setup.model, Sayer),
        tool_examples={} if text_path else read_tool_examples(),
        reasoning_format=formats.reasoning.name,
        note=note,
    )


def _cache(options: argparse.Namespace, tokenizer: Tokenizer) -> CacheConfig:
    if not options.tokenizer_cache:
        return CacheConfig(enable_l0=False)
    bounds = {name: getattr(options, f"tokenizer_cache_{name}") for name, _, _ in _CACHE_BOUNDS}
    return CacheConfig(**bounds).suited_to(tokenizer)


def _local(options: argparse.Namespace, name: str, metrics: TokenizerMetrics) -> _ModelSetup:
    """Return the built-in model, or a script, in the ids of the tokenizer of that name."""
    embedded = load_embedded()
    template = embedded.chat_template
    model: Model = embedded.model
    with _naming("--tokenizer", name):
        tokenizer = create_tokenizer(name, metrics=metrics)
        if name != _BYTE and not options.script:
            model = SpelledModel(model, tokenizer)
    if options.script:
        model = ScriptFileModel(read_script(options.script, tokenizer), tokenizer)
        # The answers imitate the model with this tokenizer, so that model's template is used.
        template = getattr(tokenizer, "chat_template", None) or template
        if options.chat_template:
            template = ChatTemplate(find_chat_template(".", options.chat_template) or "")
    elif options.chat_template:
        raise ValueError(
            f"--chat-template {options.chat_template} is for a --remote model or a --script; "
            "the embedded model knows only its own template"
        )
    served = options.served_model_name or ("script" if options.script else "embedded")
    with _naming("--tokenizer", name):
        model = Sayer(model, tokenizer)
    return _ModelSetup(model, served, tokenizer, template, embedded.tool_format)


def _remote(options: argparse.Namespace, metrics: TokenizerMetrics) -> _ModelSetup:
    if options.script:
        raise ValueError(f"--script {options.script} replaces the model: leave --remote out")
    if not options.tokenizer:
        raise ValueError("--remote needs --tokenizer: the tokenizer of the remote model")
    with _naming("--tokenizer", options.tokenizer):
        tokenizer = create_tokenizer(
            options.tokenizer, chat_template_path=options.chat_template, metrics=metrics
        )
    template = getattr(tokenizer, "chat_template", None)
    with _naming("--remote", options.remote):
        model = RemoteModel(
            options.remote,
            model=options.remote_model,
            api_key=os.environ.get(_REMOTE_KEY),
            eos_token_id=min(tokenizer.eos_token_ids, default=None),
        )
    name = options.served_model_name or options.remote_model or "remote"
    return _ModelSetup(model, name, tokenizer, template or ChatTemplate.simple(), None)


@contextmanager
def _naming(option: str, value: str) -> Iterator[None]:
    """Name the option in errors about its value."""
    try:
        yield
    except (ValueError, TokenizerError) as error:
        raise ValueError(f"{option} {value}: {error}") from None


_CACHE_BOUNDS = (
    ("l0_max_entries", "N", "whole prompts whose ids are kept"),
    ("l0_max_memory", "BYTES", "memory for these prompts and ids"),
    ("l1_max_memory", "BYTES", "memory for the ids of a prompt's segments, if the tokenizer "
     "splits at its special tokens"),
)  # fmt: skip
# Options of the engine's own text path, and their neutral values.
_OF_OUR_PATH = {"tool_call_parser": None, "reasoning_parser": None, "stop_scope": "all"}


_EPILOG = """\
a file for --script, played turn by turn:
  [[turn]]
  text = "Hello 🚀"       # or token_ids = [72, 105]
  when = "hello"          # only for prompts that contain this text
  tokens_per_step = 2
  pace = 0.05             # seconds between steps
  silent_after = 4        # a fault after 4 ids; or error_after, crash_after, garbage_after
"""


def _parser(program: str, tokenizer: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        usage="%(prog)s [options]",
        description="An OpenAI-compatible server that runs the course's own text path. Messages "
        "are text only: images, audio and files are refused.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    listen = parser.add_argument_group("the address and access")
    listen.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    listen.add_argument(
        "--port", type=argument_types.port, default=8000, help="port (default: %(default)s)"
    )
    listen.add_argument(
        "--api-key",
        type=argument_types.key,
        metavar="KEY",
        help=f"the key that clients must send (or set {_KEY}, which `ps` does not show)",
    )
    listen.add_argument(
        "--allowed-origins",
        type=argument_types.origins,
        default=[],
        metavar="JSON",
        help="pages of other origins that browsers let use this server: a list such as "
        """'["http://localhost:3000"]', or '["*"]' for all (default: none)""",
    )
    listen.add_argument(
        "--open-metrics", action="store_true", help="also answer /metrics without the key"
    )
    model = parser.add_argument_group("the model; by default a tiny built-in model")
    model.add_argument(
        "--remote",
        metavar="URL",
        help="take token ids from this server, vLLM or similar, such as http://127.0.0.1:8001 "
        f"(set {_REMOTE_KEY} to its key)",
    )
    name: Any = {"type": argument_types.name, "metavar": "NAME"}
    model.add_argument("--remote-model", **name, help="the model's name on the remote server")
    model.add_argument(
        "--script",
        metavar="FILE",
        help="play the answers of this TOML file instead; see below",
    )
    model.add_argument(
        "--tokenizer",
        metavar="FILE|byte",
        help="the vocabulary of the remote or built-in model: a file, folder, name or hub id; "
        f"byte: each byte is a token (default without --remote: {tokenizer})",
    )
    model.add_argument(
        "--chat-template", metavar="FILE", help="use this instead of the model's own template"
    )
    model.add_argument("--served-model-name", **name, help="the model's name for clients")
    model.add_argument(
        "--step-delay",
        type=argument_types.seconds,
        default=0.0,
        metavar="SECONDS",
        help="wait before each step, to watch tokens arrive (default: 0)",
    )
    text = parser.add_argument_group("the text path")
    add_format_options(text)
    text.add_argument(
        "--strip",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="leave out the white space around tool calls (default: yes)",
    )
    text.add_argument(
        "--stop-scope",
        choices=("all", "content"),
        default="all",
        help="look for stop strings in all text, or only in the content after the reasoning "
        "(default: %(default)s)",
    )
    text.add_argument(
        "--suppress-replacement-runs",
        action="store_true",
        help="leave out U+FFFD at the end of an answer, such as from an incomplete character",
    )
    size = parser.add_argument_group("limits")
    for name, default, what in (
        ("--max-num-seqs", 32, "choices that run at the same time"),
        ("--max-model-len", 8192, "tokens of prompt and answer together"),
        ("--max-waiting", 256, "choices that wait for a slot; further requests get status 429"),
        ("--default-max-tokens", 512, "most tokens of a chat that sets no limit"),
    ):
        size.add_argument(
            name,
            type=argument_types.positive,
            default=default,
            metavar="N",
            help=f"{what} (default: %(default)s)",
        )
    size.add_argument(
        "--stored-responses",
        type=argument_types.count,
        default=256,
        metavar="N",
        help="for /v1/responses, keep the items of the last N responses in memory, so that a "
        "request may refer to them; 0 keeps none (default: %(default)s)",
    )
    size.add_argument(
        "--drain-seconds",
        type=argument_types.seconds,
        default=10.0,
        metavar="SECONDS",
        help="how long requests may continue at shutdown (default: %(default)s)",
    )
    cache = parser.add_argument_group("the cache of encoded prompts")
    cache.add_argument(
        "--no-tokenizer-cache",
        dest="tokenizer_cache",
        action="store_false",
        help="encode every prompt, without a cache",
    )
    for name, unit, what in _CACHE_BOUNDS:
        cache.add_argument(
            f"--tokenizer-cache-{name.replace('_', '-')}",
            type=argument_types.positive,
            default=getattr(CacheConfig(), name),
            metavar=unit,
            help=f"{what} (default: %(default)s)",
        )
    parser.add_argument(
        "--log-level",
        choices=("critical", "error", "warning", "info", "debug", "trace"),
        default="warning",
        metavar="LEVEL",
        help="%(choices)s (default: %(default)s)",
    )
    return parser


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _welcome(
    listener: socket.socket, name: str, has_key: bool, note: str, vocabulary: str, reads: str
) -> str:
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    key = " -H 'Authorization: Bearer KEY'" if has_key else ""
    return f"""\
{note}Serving {name!r}. Ctrl-C ends it.

  a page to watch it      {url}/
  its metrics             {url}/metrics
{reads}\
  its vocabulary          {vocabulary}  (--tokenizer chooses another)
  a streamed chat:
    curl -N {url}/v1/chat/completions -H 'Content-Type: application/json'{key} \\
      -d '{{"messages": [{{"role": "user", "content": "Hello!"}}], "stream": true}}'
"""
