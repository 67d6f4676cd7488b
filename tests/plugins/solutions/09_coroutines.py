"""Lab 09 as coroutines: each takes characters with `yield`, and ends in the middle of nothing."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)

SPACE = frozenset(" \t\r\n")
HEX = frozenset("0123456789abcdefABCDEF")
# A number may go on with a character if this pattern still matches.
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)?(?:(?<=[0-9])\.[0-9]*)?(?:(?<=[0-9])[eE][+-]?[0-9]*)?")
WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class Fail(Exception):
    """The character `args[0]` does not fit."""


def string(c):
    """Read a string whose quote is `c`."""
    while True:
        c = yield
        if c == '"':
            return
        if c < " ":
            raise Fail(c)
        if c == "\\":
            c = yield
            if c == "u":
                for _ in range(4):
                    c = yield
                    if c not in HEX:
                        raise Fail(c)
            elif c not in '"\\/bfnrt':
                raise Fail(c)


def number(c):
    """Read a number; return the character after it. Its state is a short form of its text."""
    short = c
    while True:
        c = yield
        if c in "0123456789.eE+-":
            longer = shorten(short + c)
            if NUMBER.fullmatch(longer) and not (c in ".eE" and short[-1] not in "0123456789"):
                short = longer
                continue
        if WHOLE.fullmatch(short):
            return c
        raise Fail(c)


def shorten(text):
    """Return a number that goes on as this one does: of many digits, two are enough."""
    return re.sub(r"([0-9])[0-9]{2,}$", r"\g<1>1", text)


def spaces(c):
    """Skip white space from `c` on; return the next character."""
    while c in SPACE:
        c = yield
    return c


def value(c):
    """Read a value from `c` on; return the character after it, or None if it was not read."""
    stack: list[str] = []
    while True:
        after = None
        if c == '"':
            yield from string(c)
        elif c in "tfn":
            for wanted in {"t": "rue", "f": "alse", "n": "ull"}[c]:
                c = yield
                if c != wanted:
                    raise Fail(c)
        elif c in "-0123456789":
            after = yield from number(c)
        elif c == "{":
            c = yield from spaces((yield))
            if c != "}":
                stack.append("}")
                c = yield from key(c)
                continue
        elif c == "[":
            c = yield from spaces((yield))
            if c != "]":
                stack.append("]")
                continue
        else:
            raise Fail(c)
        while stack:
            c = yield from spaces((yield) if after is None else after)
            after = None
            if c == stack[-1]:
                stack.pop()
            elif c == ",":
                c = yield from spaces((yield))
                if stack[-1] == "}":
                    c = yield from key(c)
                break
            else:
                raise Fail(c)
        else:
            return after


def key(c):
    """Read a key and its colon; return the first character of its value."""
    if c != '"':
        raise Fail(c)
    yield from string(c)
    c = yield from spaces((yield))
    if c != ":":
        raise Fail(c)
    return (yield from spaces((yield)))


@dataclass
class JsonScanner:
    """Where an object ends."""

    done: bool = False
    failed: bool = False
    run: Any = field(default=None, repr=False)

    def feed(self, text):
        """Take the next piece."""
        for place, c in enumerate(text):
            if self.done or self.failed:
                return place
            try:
                if self.run is None:
                    if c != "{":
                        raise Fail(c)
                    self.run = value(c)
                    next(self.run)
                else:
                    self.run.send(c)
            except StopIteration:
                self.done = True
            except Fail:
                self.failed = True
                return place
        return len(text) if self.run is not None and not self.was_over(text) else 0

    def was_over(self, text):
        """Return whether the object had ended before an empty piece."""
        return not text and (self.done or self.failed)

    def flush(self):
        """End the text."""
        done = self.done
        self.done = self.failed = False
        self.run = None
        return done


class Tag:
    """Looks for a tag; `seen` is the part of it that the text ends in."""

    def __init__(self, tag):
        self.tag, self.seen = tag, ""

    def push(self, c):
        """Take a character; return the text before the tag, and whether the tag is complete."""
        text = self.seen + c
        for start in range(len(text) + 1):
            if self.tag.startswith(text[start:]):
                break
        self.seen = "" if text[start:] == self.tag else text[start:]
        return text[:start], text[start:] == self.tag


class ReasoningSplitter:
    """Reasoning and answer."""

    def __init__(self, open_tag="<think>", close_tag="</think>", *, starts_inside=False):
        if not (open_tag and close_tag):
            raise ValueError("no tag may be empty")
        self.given = open_tag, close_tag
        self.starts_inside = starts_inside
        self.begin()

    def begin(self):
        """Set fresh state."""
        self.phase = self.starts_inside + 0
        self.white: list[str] = []
        self.tag = Tag(self.given[self.phase])

    @property
    def held(self):
        """What is held."""
        return "".join(self.white) + self.tag.seen if self.phase < 2 else ""

    def feed(self, text):
        """Take the next piece."""
        events = []
        for place, c in enumerate(text):
            if self.phase == 2:
                return [*events, TextDelta(text[place:])]
            before, complete = self.tag.push(c)
            if self.phase == 1 and before:
                events.append(ReasoningDelta(before))
            elif self.phase == 0 and before.strip(" \t\r\n"):
                events.append(TextDelta("".join(self.white) + before + self.tag.seen))
                self.phase = 2
                continue
            elif self.phase == 0:
                self.white.append(before)
            if complete:
                self.white = []
                self.phase += 1
                self.tag = Tag(self.given[1])
        return events

    def flush(self):
        """End the stream."""
        held, phase = self.held, self.phase
        self.begin()
        return [ReasoningDelta(held) if phase else TextDelta(held)] if held else []


class StreamingCallParser:
    """Text and calls."""

    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not (open_tag and close_tag):
            raise ValueError("no tag may be empty")
        self.given = open_tag, close_tag
        self.begin()

    def begin(self):
        """Set fresh state."""
        self.index = 0
        self.announced = False
        self.kept: list[str] = []
        self.events: list[Any] = []
        self.run = self.stream()
        next(self.run)

    @property
    def held(self):
        """What is held."""
        return "".join(self.kept)

    def emit(self, event):
        """Emit an event: nothing is held then."""
        self.events.append(event)
        self.kept.clear()

    def feed(self, text):
        """Take the next piece."""
        self.events = []
        for c in text:
            self.run.send(c)
        return self.events

    def stream(self):
        """Take text and calls in turns."""
        c = yield
        while True:
            tag = Tag(self.given[0])
            complete = False
            while not complete:
                before, complete = tag.push(c)
                if before:
                    self.emit(TextDelta(before))
                self.kept[:] = [tag.tag if complete else tag.seen]
                c = yield
            self.announced = False
            try:
                yield from self.wrapper(c)
            except Fail as fail:
                again = fail.args[0]
                if not self.announced:
                    self.emit(TextDelta(self.held))
                    c = again
                    continue
                tag = Tag(self.given[1])
                again = list(again)
                # The characters of half a close tag are kept already.
                if len(again) > 1:
                    del self.kept[-len(again) + 1 :]
                complete = False
                while not complete:
                    c = again.pop(0) if again else (yield)
                    self.kept.append(c)
                    complete = tag.push(c)[1]
                self.emit(Malformed(self.index, self.held, "this is not a call"))
            self.announced = False
            self.index += 1
            c = yield

    def next(self, c):
        """Keep a character; take the next."""
        self.kept.append(c)
        return (yield)

    def skip(self, c):
        """Keep white space; return the next character."""
        while c in SPACE:
            c = yield from self.next(c)
        return c

    def wrapper(self, c):
        """Read an object and the close tag, from `c` on."""
        early: list[str] = []
        seen: set[str] = set()
        c = yield from self.skip(c)
        if c != "{":
            raise Fail(c)
        c = yield from self.skip((yield from self.next(c)))
        while True:
            if c != '"':
                raise Fail(c)
            name, c = yield from self.text(c, seen)
            seen.add(name)
            c = yield from self.skip(c)
            if c != ":":
                raise Fail(c)
            c = yield from self.skip((yield from self.next(c)))
            if name == "name":
                if c != '"':
                    raise Fail(c)
                source = yield from self.whole(c)
                self.kept.append('"')
                self.announced = True
                self.emit(CallStart(self.index, None, json.loads(source)))
                if early:
                    self.emit(ArgsDelta(self.index, "".join(early)))
                c = yield
            elif name == "arguments":
                if c != "{":
                    raise Fail(c)
                c = yield from self.arguments(c, early)
            else:
                c = yield from self.other(c)
            c = yield from self.skip(c)
            if c == "}" and {"name", "arguments"} <= seen:
                break
            if c != ",":
                raise Fail(c)
            c = yield from self.skip((yield from self.next(c)))
        self.kept.append(c)
        tag, complete = Tag(self.given[1]), False
        while not complete:
            c = yield
            half = tag.seen
            before, complete = tag.push(c)
            if before.strip(" \t\r\n"):
                at = len(before) - len(before.lstrip(" \t\r\n"))
                raise Fail((half + c)[at:])
            self.kept.append(c)
        self.emit(CallEnd(self.index))

    def whole(self, c):
        """Read a string up to its last quote, which is not kept; return it."""
        run, source = string(c), [c]
        next(run)
        while True:
            self.kept.append(c)
            c = yield
            source.append(c)
            try:
                run.send(c)
            except StopIteration:
                return "".join(source)

    def text(self, c, seen):
        """Read a key; return it, and the character after it."""
        name = json.loads((yield from self.whole(c)))
        if name in seen & {"name", "arguments"}:
            raise Fail('"')
        return name, (yield from self.next('"'))

    def arguments(self, c, early):
        """Read arguments; return the character after them."""
        run = value(c)
        next(run)
        while True:
            if self.announced:
                self.emit(ArgsDelta(self.index, c))
            else:
                self.kept.append(c)
                early.append(c)
            if run is None:
                return (yield)
            c = yield
            try:
                run.send(c)
            except StopIteration:
                run = None

    def other(self, c):
        """Read another member's value; return the character after it."""
        run = value(c)
        next(run)
        while True:
            c = yield from self.next(c)
            try:
                run.send(c)
            except StopIteration as end:
                return (yield from self.next(c)) if end.value is None else end.value

    def flush(self):
        """End the stream."""
        held, announced, index = self.held, self.announced, self.index
        self.begin()
        if announced:
            return [Malformed(index, held, "the end")]
        return [TextDelta(held)] if held else []
