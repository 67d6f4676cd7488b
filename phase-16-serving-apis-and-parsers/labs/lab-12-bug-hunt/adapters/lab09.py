"""The engine's call parser and reasoning splitter, and its table of JSON, in the shape of lab 09.

The engine announces a call when its arguments begin; the lab wants that at the end of the name. It
nests brackets up to a limit; the lab has none.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

from mini_vllm.text.events import ReasoningDelta
from mini_vllm.text.json_scanner import FAILED, JsonState
from mini_vllm.text.json_scanner import JsonScanner as EngineScanner
from mini_vllm.text.states.basic import SPACE, Broken, Gap, Json, Prose
from mini_vllm.text.states.object import Object
from mini_vllm.text.stream_parser import Format, On, StreamParser

vars(sys.modules["mini_vllm.text.json_scanner"])["DEEPEST"] = 1 << 30
_COUNTED = ("name", "arguments")
_SCANNER = EngineScanner()


def _checked(open_tag: str, close_tag: str) -> None:
    if not (open_tag and close_tag):
        raise ValueError(f"a tag is empty: {open_tag!r}, {close_tag!r}")


class JsonScanner:
    """Finds the end of one object."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.done = self.failed = False
        self._state: JsonState | None = None

    def feed(self, text: str) -> int:
        """Take the next piece."""
        if self.done or self.failed or not text:
            return 0
        if self._state is None and text[0] != "{":
            self.failed = True
            return 0
        taken, self._state = _SCANNER.scan(self._state or _SCANNER.start, text)
        self.done, self.failed = self._state is None, self._state is FAILED
        return taken

    def flush(self) -> bool:
        """End the text."""
        done = self.done
        self._begin()
        return done


@dataclass(frozen=True, eq=False)
class _Members(Object):
    """The object of a call, whose name comes out at once."""

    def take(self, parser: StreamParser, text: str) -> str:
        progress, bare = parser.call.progress, text.lstrip(SPACE)
        ends = bare[:1] == "}" and progress and progress.expects in ("comma or end", "key or end")
        if ends and not progress.seen.issuperset(_COUNTED):
            parser.hold(text[: len(text) - len(bare)])
            return parser.fail("the object has no name or no arguments", bare)
        return super().take(parser, text)

    def _key(self, progress: Any) -> str:
        progress.member = json.loads("".join(progress.text))
        progress.expects = "colon"
        if progress.member in progress.seen.intersection(_COUNTED):
            return f"a second {progress.member!r}"
        progress.seen.add(progress.member)
        return ""

    def _begin_value(self, parser: StreamParser, progress: Any, text: str) -> str:
        wanted = {"name": '"', "arguments": "{"}.get(progress.member, text[0])
        if text[0] != wanted:
            return parser.fail(f"{progress.member} begins with {text[0]!r}", text)
        self._begin(progress, text, in_key=False)
        if progress.member == "arguments" and parser.call.announced:
            progress.expects = "comma or end"
            parser.go("arguments")
        return text

    def _value(self, parser: StreamParser, progress: Any) -> str:
        progress.expects = "comma or end"
        if progress.member == "name":
            parser.announce(json.loads("".join(progress.text)))
            parser.arguments("".join(progress.early or ()))
        elif progress.member == "arguments":
            progress.early = [*progress.text]
        return ""


@dataclass(frozen=True, eq=False)
class _Tag(Gap):
    """A gap before one tag, which may begin with white space itself."""

    def take(self, parser: StreamParser, text: str) -> str:
        ((tag, on),) = self.on.items()
        text, parser.scratch.pending = parser.scratch.pending + text, ""
        place = 0
        while place < len(text) and not tag.startswith(text[place : place + len(tag)]):
            if text[place] not in SPACE:
                break
            place += 1
        parser.hold(text[:place])
        rest = text[place:]
        if rest.startswith(tag):
            return parser.follow(on, tag) + rest[len(tag) :]
        if tag.startswith(rest):
            parser.scratch.pending = rest
            return ""
        if self.otherwise is not None:
            return parser.follow(self.otherwise, "") + rest
        return parser.fail(f"{rest[0]!r} where only {tag} may be", rest)


class StreamingCallParser(StreamParser):
    """Text in, text and parts of calls out."""

    def __init__(self, open_tag: str = "<tool_call>", close_tag: str = "</tool_call>") -> None:
        _checked(open_tag, close_tag)
        states = {
            "content": Prose({open_tag: On("object", "open")}),
            "object": Gap({"{": On("call", keep=True)}),
            "call": _Members(On("close")),
            "arguments": Json(On("call")),
            "close": _Tag({close_tag: On("content", "end")}),
            "broken": Broken({close_tag: On("content")}),
        }
        super().__init__(Format("lab 09", states))


class ReasoningSplitter(StreamParser):
    """Text in, reasoning and text out."""

    def __init__(
        self, open_tag: str = "<think>", close_tag: str = "</think>", *, starts_inside: bool = False
    ) -> None:
        _checked(open_tag, close_tag)
        states = {
            "start": _Tag({open_tag: On("reasoning", "close")}, otherwise=On("answer", "text")),
            "reasoning": Prose({close_tag: On("answer", "close")}, kind=ReasoningDelta),
            "answer": Prose({}),
        }
        start = "reasoning" if starts_inside else "start"
        super().__init__(Format("lab 09", states, start=start, home="answer"))
