"""The serving pipeline, live: what every layer holds and emits, token by token.

Beside it runs the naive way, which decodes every token alone. On a terminal the show is animated;
elsewhere it is a plain table. `--impl starter` shows your own code: lab 05, over those of your labs
that pass. Where one of them reads any vocabulary, as lab 07 does, tokens are those of a real one.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labkit.course.lab import TRACKS
from labkit.errors import LabkitError
from labkit.running.lab_impl import lab_impl
from labkit.serving.composed import (
    CORE,
    PIPELINE,
    Composed,
    find_composed,
    wanted_track,
    why_not_ready,
)
from labkit.serving.lab_path import LabPathFactory, LabTextPath
from labkit.serving.vocabulary import is_bytes
from mini_vllm.engine import Request, SamplingParams
from mini_vllm.models.spelled import Speller, end_of
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Event,
    Malformed,
    ReasoningDelta,
    TextDelta,
)
from mini_vllm.tokenizer import Tokenizer, TokenizerError, create_tokenizer

ROOT = Path(__file__).resolve().parents[1]
TEXT = (
    "Grüße! 你好，世界 🚀 नमस्ते — a < b, is it?\n"
    '<tool_call>{"name": "post", "arguments": {"text": "São 🎉"}}</tool_call>\n'
    "Sent. END and nothing of this is shown"
)
REASONING = "<think>A greeting 👋 is due, I think.</think>\n"


@dataclass
class Frame:
    """The state after one token.

    Attributes:
        token: its id.
        data: its bytes.
        naive: its text when it is decoded alone.
        emitted: what the reader got with it.
        held: what each layer holds now.
    """

    token: int
    data: bytes
    naive: str
    emitted: list[Event]
    held: dict[str, str | bytes]


@dataclass
class Shown:
    """What the reader has got so far."""

    naive: str = ""
    text: str = ""
    reasoning: str = ""
    calls: dict[int, str] = field(default_factory=dict)

    def add(self, frame: Frame) -> None:
        """Add what one frame emitted."""
        self.naive += frame.naive
        for event in frame.emitted:
            if isinstance(event, TextDelta):
                self.text += event.text
            elif isinstance(event, ReasoningDelta):
                self.reasoning += event.text
            else:
                self.calls[event.index] = self.calls.get(event.index, "") + _event(event)


@dataclass
class Show:
    """A stream to be shown: a path, its tokens, and their tokenizer."""

    path: LabTextPath
    tokens: Sequence[int]
    tokenizer: Tokenizer

    def frames(self) -> Iterator[Frame]:
        """Feed the tokens; yield the state after each until the stream ends."""
        pieces, path = self.tokenizer.pieces, self.path
        for token in self.tokens:
            data = b"" if pieces is None or token in pieces.special else pieces.rest[token] or b""
            events = path.take([token])
            held = {role: what for role, what in path.held.items() if role != PIPELINE}
            yield Frame(token, data, data.decode("utf-8", "replace"), events, held)
            if path.ending is not None:
                return


def plain(show: Show) -> None:
    """Print one line per token, then the result."""
    shown = Shown()
    columns: dict[str, int] = {}
    for frame in show.frames():
        if not columns:
            columns = _columns(frame, is_bytes(show.tokenizer))
            print("".join(f"{name:<{width}} " for name, width in columns.items()) + "emitted")
        shown.add(frame)
        cells = {
            "token": str(frame.token),
            "bytes": frame.data.hex(" "),
            "naive": repr(frame.naive),
            **{f"{role} held": _held(what) for role, what in frame.held.items()},
        }
        row = "".join(f"{_short(cells[name], at):<{at}} " for name, at in columns.items())
        print((row + _events(frame.emitted)).rstrip())
    print(f"\nnaive   {shown.naive!r}")
    if shown.reasoning:
        print(f"thinks  {shown.reasoning!r}")
    print(f"ours    {shown.text!r}")
    for call in shown.calls.values():
        print(f"call    {call}")
    print(f"finish  {_finish(show, shown)}")


def _columns(frame: Frame, ids_are_bytes: bool) -> dict[str, int]:
    """Return the widths of the columns; where an id is its byte, that has none of its own."""
    about = {"token": 6} if ids_are_bytes else {"token": 6, "bytes": 17}
    widths = {"tokens": 11, "stops": 14, "reasoning": 14, "calls": 18}
    held = {f"{role} held": widths.get(role, 14) for role in frame.held}
    return {**about, "naive": 8 if ids_are_bytes else 12, **held}


def live(show: Show, speed: float) -> None:
    """Animate the stream at `speed` tokens a second."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    shown = Shown()

    def picture(frame: Frame) -> Group:
        token = Table(expand=True)
        for name in ("token", "bytes", "alone", "emitted"):
            token.add_column(name, ratio=1)
        emitted = _events(frame.emitted) or "(nothing)"
        cells = (str(frame.token), frame.data.hex(" "), repr(frame.naive), _short(emitted, 60))
        token.add_row(*map(Text, cells))
        layers = Table(expand=True)
        for name in ("layer", "holds, because it might still change"):
            layers.add_column(name)
        for role, what in frame.held.items():
            layers.add_row(role, Text(_short(_held(what), 60), style="yellow"))
        ours = Text(shown.reasoning, style="dim").append(shown.text, style="not dim green")
        calls = Text("\n".join(shown.calls.values()) or " ")
        return Group(
            Panel(Text(shown.naive, style="red"), title="naive: every token decoded alone"),
            Panel(ours, title="ours: what the reader sees"),
            Panel(calls, title="tool calls"),
            token,
            layers,
            Text(f"finish {_finish(show, shown)}"),
        )

    with Live(console=Console(), auto_refresh=False) as screen:
        for frame in show.frames():
            shown.add(frame)
            screen.update(picture(frame), refresh=True)
            time.sleep(1 / speed)


def _finish(show: Show, shown: Shown) -> str | None:
    ending = show.path.ending
    called = any(call.endswith(")") for call in shown.calls.values())
    return None if ending is None else ending.reason.openai(called=called)


def _events(events: list[Event]) -> str:
    """Return events in a line; the parts of a call that came together stand together."""
    written = ""
    for event in events:
        is_part = isinstance(event, ArgsDelta | CallEnd)
        written += _event(event) if is_part else f" {_event(event)}"
    return written.strip()


def _event(event: Event) -> str:
    if isinstance(event, TextDelta):
        return repr(event.text)
    if isinstance(event, ReasoningDelta):
        return f"thinks {event.text!r}"
    if isinstance(event, CallStart):
        return f"{event.name}("
    if isinstance(event, ArgsDelta):
        return event.text
    return f" malformed: {event.raw!r}" if isinstance(event, Malformed) else ")"


def _held(what: str | bytes) -> str:
    return what.hex(" ") if isinstance(what, bytes) else what


def _short(text: str, width: int) -> str:
    text = text.replace("\n", "⏎")
    return text if len(text) <= width else "…" + text[1 - width :]


def main() -> int:
    """Parse the command line and run the show."""
    parser = argparse.ArgumentParser(
        prog="make demo ARGS='...'", description=__doc__.split("\n")[0]
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--text", help="the text that the model says")
    source.add_argument("--file", type=Path, help="take the text from a UTF-8 file")
    parser.add_argument("--stop", action="append", help="a stop string (default: END); repeatable")
    parser.add_argument("--speed", type=float, default=30.0, help="tokens a second (default: 30)")
    parser.add_argument("--impl", default=lab_impl(), metavar="IMPL",
                        help="whose code runs the show, in the words of LAB_IMPL "
                             "(default: LAB_IMPL; else yours, if lab 05 passes)")  # fmt: skip
    parser.add_argument("--track", default=wanted_track(), choices=("", *TRACKS), metavar="TRACK",
                        help=f"which labs take part, {' or '.join(TRACKS)} (default: TRACK; else "
                             "core, until a lab of yours reads any vocabulary)")  # fmt: skip
    parser.add_argument("--tokenizer", default="", metavar="FILE|byte",
                        help="the vocabulary: a tokenizer.json, or byte "
                             "(default: the one that the labs bring)")  # fmt: skip
    args = parser.parse_args()
    if not args.speed > 0:
        parser.error(f"--speed is {args.speed:g}; it must be more than 0 tokens a second")
    try:
        text = args.file.read_text(encoding="utf-8") if args.file else args.text
        composed = _compose(args.impl, args.track)
        print(f"{composed.header}\n", flush=True)
        tokenizer = create_tokenizer(args.tokenizer or composed.vocabulary or "byte")
        make_path = LabPathFactory(composed, tokenizer)
        if text is None:
            text = (REASONING if "reasoning" in composed.parts else "") + TEXT
        tokens = [*Speller(tokenizer).ids(text), end_of(tokenizer)]
        request = Request((), SamplingParams(stop=tuple(args.stop or ["END"])), tools=())
        _run(composed, lambda: Show(make_path.build(request), tokens, tokenizer), args.speed)
    except BrokenPipeError:
        raise
    except (OSError, UnicodeError, LabkitError, TokenizerError, ValueError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _compose(implementation: str, track: str) -> Composed:
    composed = find_composed(ROOT, implementation, track)
    tokens = composed.parts["tokens"]
    if implementation or track or not tokens.implementation.is_reference:
        return composed
    # Nothing was asked for, and nothing of one's own reads a vocabulary: the show of the core labs.
    return find_composed(ROOT, implementation, CORE)


def _run(composed: Composed, make: Callable[[], Show], speed: float) -> None:
    """Run the show; what is raised here is the labs' code's."""
    try:
        show = make()
        if sys.stdout.isatty():
            live(show, speed)
        else:
            plain(show)
    except (LabkitError, BrokenPipeError):
        raise
    except (Exception, SystemExit) as error:
        raise why_not_ready(composed, "ready to be shown", error) from error


if __name__ == "__main__":
    sys.exit(main())
