"""`python -m mini_vllm.stream FILE`: requests of a file, streamed side by side in a terminal.

The file is a JSON list. Each request has a `prompt` or `messages`, and any fields of
`SamplingParams`, with the API's names:

    [{"prompt": "Once", "max_tokens": 40},
     {"messages": [{"role": "user", "content": "Hello!"}], "stop": ["bytes"], "seed": 7}]

Without a terminal, each chunk is a line of JSON.
"""

import argparse
import importlib.util
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from mini_vllm.engine import (
    Engine,
    EngineThread,
    FinishReason,
    Request,
    SamplingParams,
    StreamChannel,
    StreamChunk,
    StreamingSubmissionError,
    StructuredOutputsParams,
)
from mini_vllm.models.ngram import EmbeddedModel, load_embedded
from mini_vllm.models.script_file import ScriptFileModel, read_script
from mini_vllm.text.whole_json import load_json
from mini_vllm.tokenizer import ChatTemplateError

_EXAMPLE = Path(__file__).with_name("models") / "embedded_model/requests.json"
# The fields of a request, and the types of their JSON values.
_FIELDS: dict[str, tuple[type, ...]] = {
    param.name: (int, float) if isinstance(param.default, float) else (type(param.default),)
    for param in fields(SamplingParams)
    if param.name not in ("n", "logprobs")
} | {
    "logit_bias": (dict,),
    "seed": (int,),
    "stop": (str, list),
    "stop_token_ids": (list,),
    "structured_outputs": (dict,),
}
_KEYS = "123456789"
_LOOK_SECONDS = 0.05
# The size of the shown end of a panel's text.
_LINES, _WIDTH = 8, 46
_DEFAULT_TOKENS = 200


@dataclass(slots=True)
class Row:
    """One request as its panel shows it."""

    name: str
    request: Request
    channel: StreamChannel = field(default_factory=StreamChannel.create)
    text: str = ""
    tokens: int = 0
    held: str = ""
    end: str = ""

    def take(self, chunk: StreamChunk) -> None:
        """Add a chunk."""
        self.text += chunk.text
        self.tokens += len(chunk.token_ids)
        layers = (chunk.held or {}).values()
        self.held = "".join(
            layer.hex(" ") if isinstance(layer, bytes) else layer for layer in layers
        )
        if chunk.finished:
            why = f": {chunk.stop_reason}" if chunk.stop_reason is not None else ""
            self.end = chunk.reason.label + why


class RequestsError(ValueError):
    """A file of requests that cannot be streamed; the message names the file and the value."""


def main(
    arguments: Sequence[str] | None = None, *, program: str = "python -m mini_vllm.stream"
) -> int:
    """Stream the requests of a file; return 0, 1 if a stream failed, or 2 for a faulty file."""
    parser = _parser(program)
    options = parser.parse_args(arguments)
    embedded = load_embedded()
    try:
        rows = [*read_requests(options.file, embedded)]
        model = (
            ScriptFileModel(read_script(options.script, embedded.tokenizer), embedded.tokenizer)
            if options.script
            else embedded.model
        )
    except ValueError as error:
        parser.error(str(error))
    pace = {"before_decode": lambda: time.sleep(options.pace)} if options.pace else None
    engine = Engine(model, embedded.tokenizer, max_num_seqs=options.slots, hooks=pace)
    tell = _show if sys.stdout.isatty() else _print
    for row in rows:
        row.channel.set_return_held(True)
    # A failure is reported by the end of each stream.
    with EngineThread(engine):
        try:
            engine.submit([row.request for row in rows], [row.channel for row in rows])
            tell(rows)
        except StreamingSubmissionError as error:
            parser.error(f"{options.file}: {error}")
        except KeyboardInterrupt:
            _quit(rows)
        except BrokenPipeError:
            # The reader has closed its pipe (`make stream | head`). Unwritten output is still in
            # the buffer, and Python would report an error for it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _quit(rows)
    return int(any(row.channel.reason is FinishReason.ERROR for row in rows))


def read_requests(path: str | Path, embedded: EmbeddedModel) -> Iterator[Row]:
    """Yield the requests of a file.

    Raises:
        RequestsError: the file cannot be read or is invalid.
    """
    try:
        entries = load_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestsError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise RequestsError(f"{path} is not JSON: {error}") from None
    if not isinstance(entries, list) or not entries:
        raise RequestsError(f'{path} must be a list such as [{{"prompt": "Once"}}]')
    for number, entry in enumerate(entries, start=1):
        try:
            request = _request(entry, embedded)
        except (ValueError, TypeError, ChatTemplateError) as error:
            raise RequestsError(f"{path}: request {number}: {error}") from None
        yield Row(str(number), request)


def _request(entry: Any, embedded: EmbeddedModel) -> Request:
    if not isinstance(entry, dict):
        raise ValueError(f"it is {entry!r}; it must be an object")
    params = dict(entry)
    prompt, messages = params.pop("prompt", None), params.pop("messages", None)
    if (prompt is None) == (messages is None):
        raise ValueError("it must have either a prompt or messages")
    if messages is not None:
        prompt = embedded.chat_template.apply_chat_template(messages, add_generation_prompt=True)
    if not isinstance(prompt, str):
        raise ValueError(f"prompt is {prompt!r}; it must be a text")
    return Request(prompt, _params(params))


def _params(options: dict[str, Any]) -> SamplingParams:
    params = {name: value for name, value in options.items() if value is not None}
    for name, value in params.items():
        if name not in _FIELDS:
            raise ValueError(f"{name} is not known; use {', '.join(sorted(_FIELDS))}")
        kinds = _FIELDS[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise ValueError(f"{name} is {value!r}; it must be of the type {names}")
    stop = params.get("stop", ())
    params["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    for name, (read, what) in _READERS.items():
        if name in params:
            try:
                params[name] = read(params[name])
            except TypeError:
                raise ValueError(f"{name} is {params[name]!r:.80}; it must be {what}") from None
    return SamplingParams(**{"max_tokens": _DEFAULT_TOKENS, **params})


def _token_ids(token_ids: list[Any]) -> frozenset[int]:
    if not all(type(token_id) is int for token_id in token_ids):
        raise TypeError
    return frozenset(token_ids)


def _logit_bias(logit_bias: dict[str, Any]) -> dict[int, float]:
    try:
        return {int(token_id): float(bias) for token_id, bias in logit_bias.items()}
    except ValueError:
        raise TypeError from None


def _structured_outputs(options: dict[str, Any]) -> StructuredOutputsParams:
    params = {name: value for name, value in options.items() if value is not None}
    if not isinstance(params.get("json", ""), str):
        params["json"] = json.dumps(params["json"])
    choice = params.get("choice", [])
    texts = [params.get("regex", ""), params.get("grammar", ""), *choice]
    if not isinstance(choice, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError
    if choice:
        params["choice"] = tuple(choice)
    return StructuredOutputsParams(**params)


# For fields whose JSON values are converted: the function, and the form that the value must have.
_READERS: dict[str, tuple[Callable[[Any], object], str]] = {
    "stop_token_ids": (_token_ids, "a list of token ids"),
    "logit_bias": (_logit_bias, 'numbers by token ids, such as {"65": -100}'),
    "structured_outputs": (
        _structured_outputs,
        'one of json, regex, choice, grammar and json_object, such as {"choice": ["yes", "no"]}',
    ),
}


def _take_news(rows: list[Row], on_chunk: Callable[[Row, StreamChunk], None]) -> None:
    for row in rows:
        while not row.end and (chunk := row.channel.try_pop()) is not None:
            row.take(chunk)
            on_chunk(row, chunk)


def _print(rows: list[Row]) -> None:
    def tell(row: Row, chunk: StreamChunk) -> None:
        line = {"request": row.name, "text": chunk.text, "token_ids": list(chunk.token_ids)}
        line |= {"held": row.held} if row.held else {}
        line |= {"finish_reason": row.end} if row.end else {}
        print(json.dumps(line, ensure_ascii=False), flush=True)

    while not all(row.end for row in rows):
        _take_news(rows, tell)
        time.sleep(_LOOK_SECONDS)


def _show(rows: list[Row]) -> None:
    console = Console()
    with _keys() as key, Live(console=console, auto_refresh=False) as live:
        while not all(row.end for row in rows):
            _take_news(rows, lambda *_: None)
            live.update(_panels(rows), refresh=True)
            pressed = key(_LOOK_SECONDS)
            if pressed == "q":
                _quit(rows)
            elif pressed and pressed in _KEYS[: len(rows)]:
                rows[int(pressed) - 1].channel.cancel()
        live.update(_panels(rows), refresh=True)


def _quit(rows: list[Row]) -> None:
    for row in rows:
        row.channel.cancel()


def _panels(rows: list[Row]) -> Group:
    running = sum(not row.end for row in rows)
    how = Text("1-9 skips a stream, q quits" if running else "all have ended", style="dim")
    return Group(Columns([_panel(row) for row in rows]), how)


def _panel(row: Row) -> Panel:
    text = Text(row.text[-_LINES * _WIDTH :])
    text.append(row.held, style="reverse")
    lines = text.wrap(Console(width=_WIDTH), _WIDTH)[-_LINES:]
    state = row.end or ("streams" if row.tokens else "waits")
    return Panel(
        Text("\n").join(lines),
        title=f"{row.name}: {state}",
        subtitle=f"{row.tokens} tokens",
        width=_WIDTH + 4,
        height=_LINES + 2,
        border_style="green" if not row.end else "dim",
    )


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits some seconds for a key and returns it; "" without a key."""
    if importlib.util.find_spec("termios") is None or not sys.stdin.isatty():
        # Windows has no termios; Control-C quits.
        yield _no_key
        return
    termios, tty = importlib.import_module("termios"), importlib.import_module("tty")
    keyboard = sys.stdin.fileno()

    def key(seconds: float) -> str:
        pressed = select.select([keyboard], [], [], seconds)[0]
        return os.read(keyboard, 1).decode(errors="replace") if pressed else ""

    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        yield key
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _no_key(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Stream the requests of a JSON file side by side. In a terminal, the keys 1 to "
        "9 skip a stream and q quits; held text is shown in reverse. Without a terminal, each "
        "chunk is a line of JSON.",
    )
    parser.add_argument(
        "file",
        nargs="?",
        default=_EXAMPLE,
        help='a list such as [{"prompt": "Once", "max_tokens": 40}]; without it, an example',
    )
    parser.add_argument("--script", metavar="FILE", help="answers to play, as for the server")
    parser.add_argument(
        "--slots", type=_whole, default=4, help="streams that run at the same time (default: 4)"
    )
    parser.add_argument(
        "--pace", type=_seconds, default=0.02, help="seconds between tokens (default: 0.02)"
    )
    return parser


def _whole(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < 60:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 60")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
