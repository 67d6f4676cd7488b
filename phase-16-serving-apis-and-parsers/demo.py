"""The serving pipeline, live: the text that each layer holds and emits, token by token.

The naive way runs beside it and decodes every token alone. On a terminal the show is animated;
elsewhere it is a plain table. Each layer is your own if its lab passes. Until then it is the
reference or, in a student edition, the engine's own. `--lab 03` shows that lab's layer alone. If a
lab of yours reads any vocabulary, as lab 07 does, tokens are those of a real one.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from labkit.course.lab import PIPELINE, TEXT_PATH, TRACKS, find_labs
from labkit.errors import LabkitError
from labkit.running.lab_impl import lab_impl
from labkit.serving import layer_show
from labkit.serving.composed import (
    ADVANCED,
    CORE,
    LAYER_BY_LAYER,
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
_MOST_LINES = 6
REASONING = "<think>A greeting 👋 is due, I think.</think>\n"


@dataclass
class Frame:
    """The state after one token.

    Attributes:
        token: its id.
        data: its bytes.
        naive: its text when it is decoded alone.
        emitted: the events that the reader got with it.
        held: the text that each layer holds now.
    """

    token: int
    data: bytes
    naive: str
    emitted: list[Event]
    held: dict[str, str | bytes]


@dataclass
class Shown:
    """The text that the reader has got so far."""

    naive: str = ""
    text: str = ""
    reasoning: str = ""
    calls: dict[int, str] = field(default_factory=dict)

    def add(self, frame: Frame) -> None:
        """Add the events of one frame."""
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
    print(_why(show, shown), end="")


def _columns(frame: Frame, ids_are_bytes: bool) -> dict[str, int]:
    """Return the widths of the columns; if ids are bytes, there is no column of bytes."""
    about = {"token": 6} if ids_are_bytes else {"token": 6, "bytes": 17}
    widths = {"tokens": 11, "stops": 14, "reasoning": 14, "calls": 18}
    held = {f"{role} held": widths.get(role, 14) for role in frame.held}
    return {**about, "naive": 8 if ids_are_bytes else 12, **held}


def live(show: Show, speed: float) -> None:
    """Animate the stream at `speed` tokens a second."""
    shown = Shown()
    with Live(console=Console(), auto_refresh=False) as screen:
        for frame in show.frames():
            shown.add(frame)
            finish = _finish(show, shown)
            screen.update(picture(screen.console, shown, frame, finish), refresh=True)
            time.sleep(1 / speed)
    print(_why(show, shown), end="")


def picture(console: Console, shown: Shown, frame: Frame, finish: str | None) -> Group:
    """Return the whole screen after one token; of a long text, it shows the end."""
    wide = console.width - 4
    token = _table("token", "bytes", "alone", "emitted")
    emitted = _events(frame.emitted) or "(nothing)"
    cells = (str(frame.token), frame.data.hex(" "), repr(frame.naive), _short(emitted, 60))
    token.add_row(*map(Text, cells))
    layers = _table("layer", "holds, because it might still change")
    for role, what in frame.held.items():
        layers.add_row(role, Text(_short(_held(what), wide - 12), style="yellow"))
    ours = Text(shown.reasoning, style="dim").append(shown.text, style="not dim green")
    # Both tables with their heads, the borders of three panels, the reason, and a spare line.
    room = console.height - (2 + 1 + len(frame.held) + 6 + 1 + 1)
    calls_room = max(1, min(2, room // 4))
    text_room = max(1, min(_MOST_LINES, (room - calls_room) // 2))

    def panel(text: Text, title: str, room: int) -> Panel:
        lines = text.wrap(console, wide)[-room:]
        return Panel(Text("\n").join(lines), title=title, height=room + 2)

    return Group(
        panel(Text(shown.naive, style="red"), "naive: every token decoded alone", text_room),
        panel(ours, "ours: what the reader sees", text_room),
        panel(Text("\n".join(shown.calls.values())), "tool calls", calls_room),
        token,
        layers,
        Text(f"finish {finish}"),
    )


def _table(*columns: str) -> Table:
    """Return an empty table whose cells are cut to one line."""
    table = Table(box=None, pad_edge=False, expand=True)
    for place, name in enumerate(columns):
        ratio = 1 if len(columns) > 2 or place else None
        table.add_column(name, ratio=ratio, no_wrap=True, min_width=10)
    return table


def _finish(show: Show, shown: Shown) -> str | None:
    ending = show.path.ending
    return None if ending is None else ending.reason.openai(called=_called(shown))


def _called(shown: Shown) -> bool:
    return any(call.endswith(")") for call in shown.calls.values())


def _why(show: Show, shown: Shown) -> str:
    """Return a line that says which stop string ended the text, "" if none did."""
    ending = show.path.ending
    if ending is None or not isinstance(ending.stop_reason, str):
        return ""
    call = "; the reason is tool_calls, because a call was emitted" if _called(shown) else ""
    return f"stopped by {ending.stop_reason!r}{call}\n"


def _events(events: list[Event]) -> str:
    """Return events in a line; the parts of one call are not separated by spaces."""
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
    source.add_argument("--text", help="the text of the model's answer")
    source.add_argument("--file", type=Path, help="take the text from a UTF-8 file")
    parser.add_argument("--stop", action="append", help="a stop string (default: END); repeatable")
    parser.add_argument("--speed", type=float, default=30.0, help="tokens a second (default: 30)")
    parser.add_argument("--lab", default="", metavar="NN",
                        help="only the layer of this lab, like make demo N=03 (default: all layers "
                             "together)")  # fmt: skip
    parser.add_argument("--impl", default=lab_impl(), metavar="IMPL",
                        help="whose code runs, as a value of LAB_IMPL "
                             "(default: LAB_IMPL; else yours, layer by layer)")  # fmt: skip
    parser.add_argument("--track", default=wanted_track(), choices=("", *TRACKS), metavar="TRACK",
                        help=f"the track of the labs, {' or '.join(TRACKS)} (default: TRACK; else "
                             "core, until an advanced lab of yours passes)")  # fmt: skip
    parser.add_argument("--tokenizer", default="", metavar="FILE|byte",
                        help="the vocabulary: a tokenizer.json, or byte "
                             "(default: the labs' own)")  # fmt: skip
    args = parser.parse_args()
    if not args.speed > 0:
        parser.error(f"--speed is {args.speed:g}; it must be more than 0 tokens a second")
    try:
        text = args.text = args.file.read_text(encoding="utf-8") if args.file else args.text
        if args.lab:
            return layer_show.run(args.lab, args, ROOT)
        composed = _compose(args.impl, args.track)
        stops = args.stop or ["END"]
        print(f"{composed.header(TEXT_PATH)}\n{_only_bytes(composed, args.track)}")
        print(f"stop: {', '.join(repr(stop)[1:-1] for stop in stops)}\n", flush=True)
        tokenizer = create_tokenizer(args.tokenizer or composed.vocabulary or "byte")
        make_path = LabPathFactory(composed, tokenizer)
        if text is None:
            text = (REASONING if "reasoning" in composed.parts else "") + TEXT
        tokens = [*Speller(tokenizer).ids(text), end_of(tokenizer)]
        request = Request((), SamplingParams(stop=tuple(stops)), tools=())
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
    own = any(part.is_own and part.lab.track == ADVANCED for part in composed.parts.values())
    if track or own or implementation not in LAYER_BY_LAYER:
        return composed
    # No track was named, and no lab of the advanced track passes.
    return find_composed(ROOT, implementation, CORE)


def _only_bytes(composed: Composed, track: str) -> str:
    """Return a line that says why the advanced track has no real vocabulary yet, or ""."""
    tokens = composed.parts["tokens"]
    if track != ADVANCED or not tokens.only_bytes:
        return ""
    others = [
        lab.number
        for lab in find_labs(ROOT)
        if any(row.role == tokens.serves.role and row.vocabulary for row in lab.serves)
    ]
    return (
        f"Each token is one byte, because {tokens.lab.label} reads no other ids. For a real "
        f"vocabulary, pass\nlab {' or '.join(others)}.\n"
    )


def _run(composed: Composed, make: Callable[[], Show], speed: float) -> None:
    """Run the show; exceptions here are those of the labs' code."""
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
