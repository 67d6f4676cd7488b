"""The serving pipeline of lab 05, live: what every layer holds and emits, token by token.

Beside it runs the naive way, which decodes every token alone. On a terminal the show is animated;
elsewhere it is a plain table. `--impl starter` shows your own code: lab 05, over those of labs 03,
04 and 01 that pass.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import LabkitError
from labkit.running.lab_impl import wanted
from labkit.serving.composed import Composed, find_composed, make_pipeline, why_not_ready
from mini_vllm.text.events import TextDelta, ToolCall
from mini_vllm.tokenizer import ByteTokenizer

ROOT = Path(__file__).resolve().parents[1]
TEXT = (
    "Grüße! 你好，世界 🚀 नमस्ते — a < b, is it?\n"
    '<tool_call>{"name": "post", "arguments": {"text": "São 🎉"}}</tool_call>\n'
    "Sent. END and nothing of this is shown"
)


@dataclass
class Frame:
    """The state after one token."""

    token: int
    naive: str
    emitted: list[Any]
    held: dict[str, Any]


@dataclass
class Shown:
    """What the reader has got so far."""

    naive: str = ""
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)

    def add(self, frame: Frame) -> None:
        """Add what one frame emitted."""
        self.naive += frame.naive
        for event in frame.emitted:
            if isinstance(event, TextDelta):
                self.text += event.text
            else:
                self.calls.append(event)


def frames(pipeline: Any, text: str) -> Iterator[Frame]:
    """Feed the byte tokens of `text` and EOS; yield the state after each until the stream ends."""
    tokenizer = ByteTokenizer()
    for token in (*tokenizer.encode(text).ids, tokenizer.eos_token_id):
        naive = tokenizer.token_bytes(token).decode("utf-8", "replace")
        yield Frame(token, naive, pipeline.feed(token), pipeline.held)
        if pipeline.finish_reason is not None:
            return


def plain(pipeline: Any, text: str) -> None:
    """Print one line per token, then the result."""
    shown = Shown()
    head = (
        f"{'token':<6} {'naive':<8} {'bytes held':<11} {'stop held':<14} {'tag held':<18} emitted"
    )
    for frame in frames(pipeline, text):
        if head:
            print(head)
            head = ""
        shown.add(frame)
        held = frame.held
        row = f"{frame.token:<6} {frame.naive!r:<8} {held['detokenizer'].hex(' '):<11} "
        row += f"{_short(held['stop_matcher'], 14):<14} {_short(held['tool_parser'], 18):<18} "
        print((row + " ".join(map(_event, frame.emitted))).rstrip())
    print(f"\nnaive   {shown.naive!r}")
    print(f"ours    {shown.text!r}")
    for call in shown.calls:
        print(f"call    {_event(call)}")
    print(f"finish  {pipeline.finish_reason}")


def live(pipeline: Any, text: str, speed: float) -> None:
    """Animate the stream at `speed` tokens a second."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    shown = Shown()

    def picture(frame: Frame) -> Group:
        layers = Table(expand=True, title_justify="left")
        for name in ("layer", "holds, because it might still change"):
            layers.add_column(name)
        for name, value in frame.held.items():
            value = value.hex(" ") if isinstance(value, bytes) else _short(value, 60)
            layers.add_row(name, Text(value, style="yellow"))
        emitted = " ".join(map(_event, frame.emitted)) or "(nothing)"
        return Group(
            Panel(Text(shown.naive, style="red"), title="naive: every token decoded alone"),
            Panel(Text(shown.text, style="green"), title="ours: what the reader sees"),
            Panel(Text("\n".join(map(_event, shown.calls)) or " "), title="tool calls"),
            layers,
            Text(f"token {frame.token}   emitted {emitted}   finish {pipeline.finish_reason}"),
        )

    with Live(console=Console(), auto_refresh=False) as screen:
        for frame in frames(pipeline, text):
            shown.add(frame)
            screen.update(picture(frame), refresh=True)
            time.sleep(1 / speed)


def _event(event: TextDelta | ToolCall) -> str:
    if isinstance(event, TextDelta):
        return repr(event.text)
    return f"{event.name}({event.arguments})"


def _short(text: str, width: int) -> str:
    text = text.replace("\n", "⏎")
    return text if len(text) <= width else "…" + text[1 - width :]


def main() -> int:
    """Parse the command line and run the show."""
    parser = argparse.ArgumentParser(
        prog="make demo ARGS='...'", description=__doc__.split("\n")[0]
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--text", default=TEXT, help="the text that the model says")
    source.add_argument("--file", type=Path, help="take the text from a UTF-8 file")
    parser.add_argument("--stop", action="append", help="a stop string (default: END); repeatable")
    parser.add_argument("--speed", type=float, default=30.0, help="tokens a second (default: 30)")
    parser.add_argument("--impl", default=wanted(), metavar="IMPL",
                        help="whose code runs the show, in the words of LAB_IMPL "
                             "(default: LAB_IMPL; else yours, if lab 05 passes)")  # fmt: skip
    args = parser.parse_args()
    if not args.speed > 0:
        parser.error(f"--speed is {args.speed:g}; it must be more than 0 tokens a second")
    try:
        text = args.file.read_text(encoding="utf-8") if args.file else args.text
        composed = find_composed(ROOT, args.impl)
        print(f"{composed.told}\n", flush=True)
        _run(composed, text, args.stop or ["END"], args.speed)
    except BrokenPipeError:
        raise
    except (OSError, UnicodeError, LabkitError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _run(composed: Composed, text: str, stops: list[str], speed: float) -> None:
    try:
        pipeline, _ = make_pipeline(composed, stops)
        if sys.stdout.isatty():
            live(pipeline, text, speed)
        else:
            plain(pipeline, text)
    except (LabkitError, BrokenPipeError):
        raise
    except (Exception, SystemExit) as error:
        raise why_not_ready(composed, "ready to be shown", error) from error


if __name__ == "__main__":
    sys.exit(main())
