"""A call as one JSON object with the name and the arguments among its members.

The call is announced as soon as its name is known and its arguments begin. Arguments are held in
one case only: if they precede the name.
"""

import json
from dataclasses import dataclass, field

from mini_vllm.text.json_scanner import FAILED, JsonState
from mini_vllm.text.states.basic import JSON, SPACE
from mini_vllm.text.stream_parser import On, State, StreamParser


@dataclass
class _Progress:
    """A stream's place in the object.

    `expects` is the next symbol, apart from white space: `key`, `key or end`, `colon`, `value`,
    `comma or end`, or `rest` inside a key or value.
    """

    expects: str = "begin"
    in_key: bool = False
    json: JsonState | None = None
    text: list[str] = field(default_factory=list)
    member: str = ""
    seen: set[str] = field(default_factory=set)
    name: str | None = None
    id: str | None = None
    early: list[str] | None = None


@dataclass(frozen=True, eq=False)
class Object(State):
    """The object `{"name": ..., "arguments": {...}}`, in any order.

    Attributes:
        then: where the object's end leads.
        stream: the `Json` state that takes the arguments and leads back here.
        name: the member with the function's name.
        arguments: the members that may hold the arguments.
        id: the member with the call's id.
        others: the other members that are allowed; None for any.
    """

    then: On
    stream: str = "arguments"
    name: str = "name"
    arguments: tuple[str, ...] = ("arguments",)
    id: str = "id"
    others: frozenset[str] | None = None

    def take(self, parser: StreamParser, text: str) -> str:
        """Go through the members."""
        scratch = parser.scratch
        if scratch.json is None:
            call = parser.call
            scratch.json = call.progress = call.progress or _Progress()
        progress: _Progress = scratch.json
        if progress.expects == "rest":
            return self._rest(parser, progress, text)
        bare = text.lstrip(SPACE)
        if len(bare) < len(text):
            parser.hold(text[: len(text) - len(bare)])
        if not bare:
            return ""
        char = bare[0]
        if char == '"' and progress.expects in ("key", "key or end"):
            return self._begin(progress, bare, in_key=True)
        if progress.expects == "value":
            return self._begin_value(parser, progress, bare)
        expects = _AFTER.get((progress.expects, char))
        if expects is None:
            return parser.fail(f"{char!r} where the call's object does not allow it", bare)
        progress.expects = expects
        parser.hold(char)
        return self._close(parser, bare[1:]) if expects == "end" else bare[1:]

    def _begin(self, progress: _Progress, text: str, *, in_key: bool) -> str:
        progress.expects, progress.in_key = "rest", in_key
        progress.json = JSON.start
        progress.text.clear()
        return text

    def _begin_value(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        member = progress.member
        meaning = self.arguments[0] if member in self.arguments else member
        if meaning in progress.seen:
            return parser.fail(f"a second {meaning!r}", text)
        progress.seen.add(meaning)
        self._begin(progress, text, in_key=False)
        if member in self.arguments:
            if text[0] != "{":
                return parser.fail("the arguments are not a JSON object", text)
            if progress.name is not None:
                parser.announce(progress.name, progress.id)
                progress.expects = "comma or end"
                parser.go(self.stream)
        return text

    def _rest(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        """Take more of a key or value."""
        assert progress.json is not None
        taken, state = JSON.scan(progress.json, text)
        part = text if taken == len(text) else text[:taken]
        parser.hold(part)
        progress.text.append(part)
        if state is FAILED:
            return parser.fail(f"{text[taken]!r} where JSON does not allow it", text[taken:])
        progress.json = state
        if state is not None:
            return ""
        problem = self._key(progress) if progress.in_key else self._value(parser, progress)
        return parser.fail(problem, text[taken:]) if problem else text[taken:]

    def _key(self, progress: _Progress) -> str:
        progress.member = json.loads("".join(progress.text))
        progress.expects = "colon"
        known = (self.name, self.id, *self.arguments)
        if self.others is not None and progress.member not in self.others.union(known):
            return f"{progress.member!r} does not belong in a call"
        return ""

    def _value(self, parser: StreamParser, progress: _Progress) -> str:
        progress.expects = "comma or end"
        text = "".join(progress.text)
        if progress.member == self.name:
            # A long number is JSON, but Python does not convert it.
            name = json.loads(text) if text.startswith('"') else ""
            if not name:
                return f"the name is {text:.40}"
            progress.name = name
            if progress.early is not None:
                parser.announce(name, progress.id)
                parser.arguments("".join(progress.early))
        elif progress.member in self.arguments and not parser.call.announced:
            progress.early = list(progress.text)
        elif progress.member == self.id and not parser.call.announced and text.startswith('"'):
            progress.id = json.loads(text)
        return ""

    def _close(self, parser: StreamParser, rest: str) -> str:
        if not parser.call.announced:
            return parser.fail("the object has no name or no arguments", rest)
        parser.call.progress = None
        return parser.follow(self.then, "") + rest


_AFTER = {
    ("begin", "{"): "key or end",
    ("key or end", "}"): "end",
    ("colon", ":"): "value",
    ("comma or end", ","): "key",
    ("comma or end", "}"): "end",
}
