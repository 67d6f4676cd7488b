"""Calls as Python calls, `f(a=1, b="x")`, to JSON arguments.

A call is announced at its closing bracket or its first `name=`; until then `[f(` may be prose.
Strings stream as they are written; other literals wait for their end. Arguments are literals by
keyword: positional arguments, arithmetic and `"a" "b"` make the call malformed.
"""

import re
from dataclasses import dataclass, field

from mini_vllm.text.parser_states import SPACE
from mini_vllm.text.python_literals import EscapeError, split_string, to_json, unescape
from mini_vllm.text.schemas import canonical, escaped
from mini_vllm.text.stream_parser import On, StreamParser

_DEEPEST = 64
_LONGEST_NAME = 256
_WORD = re.compile(r"[^\W\d][\w.]*")
_PLAIN = re.compile(r"[^\\'\"\[\](){},]+")
_CLOSES = {"[": "]", "(": ")", "{": "}"}


@dataclass
class _Progress:
    """Where in the call a stream is.

    `expects` is the first of a pair in `_NEXT`, or `word`, `string` or `literal` inside one.
    """

    expects: str = "call"
    word: str = ""
    after_word: str = ""
    quote: str = ""
    tail: str = ""
    brackets: str = ""
    escaped: bool = False
    literal: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PythonCall:
    """One call, up to its closing bracket.

    Attributes:
        then: where its end leads.
        lines: a string may hold line breaks as they are, which Python allows in other quotes only.
    """

    then: On
    lines: bool = False

    def take(self, parser: StreamParser, text: str) -> str:
        """Go through the call."""
        scratch = parser.scratch
        progress = scratch.json = scratch.json or _Progress()
        if progress.expects == "string":
            if not progress.tail and _NO_ESCAPES[progress.quote].fullmatch(text):
                parser.arguments(escaped(text))
                return ""
            return self._string(parser, progress, text)
        if progress.expects == "word":
            return self._word(parser, progress, text)
        if progress.expects == "literal":
            return self._literal(parser, progress, text)
        bare = text.lstrip(SPACE)
        if len(bare) < len(text):
            parser.hold(text[: len(text) - len(bare)])
        return self._punctuation(parser, progress, bare) if bare else ""

    def _punctuation(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        char, expects = text[0], progress.expects
        if expects == "value":
            return self._begin_value(parser, progress, text)
        if _WORD.match(char) and expects in ("call", "argument"):
            progress.word = ""
            progress.expects = "word"
            progress.after_word = "bracket" if expects == "call" else "equals"
            return text
        after = _NEXT.get((expects, char))
        if after is None:
            return parser.fail(f"{char!r} where a Python call does not allow it", text)
        progress.expects = after
        parser.hold(char)
        if after == "value":
            self._announce(parser, progress)
            start = "{" if parser.parameters == 0 else ", "
            parser.parameters = (parser.parameters or 0) + 1
            parser.arguments(f"{start}{canonical(progress.word)}: ")
        elif char == ")":
            self._announce(parser, progress)
            parser.follow(self.then, "")
        return text[1:]

    def _announce(self, parser: StreamParser, progress: _Progress) -> None:
        if not parser.announced:
            parser.announce(parser.name)
            parser.parameters = 0

    def _word(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        """Take more of the name of a function or argument."""
        match = _WORD.match(progress.word + text)
        end = (match.end() if match else 0) - len(progress.word)
        progress.word += text[:end]
        parser.hold(text[:end])
        if len(progress.word) > _LONGEST_NAME:
            return parser.fail(f"{progress.word:.40} is not a name", text[end:])
        if end < len(text):
            progress.expects = progress.after_word
            if progress.word.endswith(".") or ".." in progress.word:
                return parser.fail(f"{progress.word:.40} is not a name", text[end:])
            if progress.expects == "bracket":
                parser.name = progress.word
        return text[end:]

    def _begin_value(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        if text[0] not in "'\"":
            progress.expects = "literal"
            progress.literal.clear()
            progress.brackets, progress.quote = "", ""
            return text
        progress.expects, progress.quote, progress.tail = "string", text[0], ""
        parser.arguments('"')
        return text[1:]

    def _string(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        """Emit the characters of a string, except for an incomplete escape."""
        inside, rest, possible = split_string(progress.tail + text, progress.quote, self.lines)
        progress.tail = ""
        try:
            parser.arguments(escaped(unescape(inside)))
        except EscapeError as error:
            parser.arguments(escaped(unescape(inside[: error.place])))
            return parser.fail(str(error), inside[error.place :] + rest)
        if not possible:
            return parser.fail(f"{rest[0]!r} in a string", rest)
        if not rest.startswith(progress.quote):
            progress.tail = rest
            return ""
        parser.arguments('"')
        progress.expects = "after value"
        return rest[1:]

    def _literal(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        """Keep the characters of a literal up to the comma or bracket after it."""
        place = 0
        while place < len(text):
            plain = _PLAIN.match(text, place)
            if plain and not progress.escaped:
                place = plain.end()
                continue
            char = text[place]
            if progress.quote:
                progress.quote = (
                    "" if char == progress.quote and not progress.escaped else progress.quote
                )
                progress.escaped = char == "\\" and not progress.escaped
            elif char in "'\"":
                progress.quote = char
            elif char in _CLOSES and len(progress.brackets) < _DEEPEST:
                progress.brackets += _CLOSES[char]
            elif progress.brackets and char == progress.brackets[-1]:
                progress.brackets = progress.brackets[:-1]
            elif char != "," or not progress.brackets:
                return self._end_literal(parser, progress, text, place)
            place += 1
        progress.literal.append(text)
        parser.hold(text)
        return ""

    def _end_literal(self, parser: StreamParser, progress: _Progress, text: str, place: int) -> str:
        progress.literal.append(text[:place])
        try:
            parser.arguments(to_json("".join(progress.literal), self.lines))
        except ValueError as error:
            parser.hold(text[:place])
            return parser.fail(str(error), text[place:])
        progress.expects = "after value"
        return text[place:]

    def waiting(self, parser: StreamParser) -> str:
        """Return an incomplete escape."""
        progress = parser.scratch.json
        return progress.tail if progress else ""

    def end(self, parser: StreamParser) -> bool:
        """Return False: a text that ends here is incomplete."""
        return False


# What a piece of a string is that ends neither in nor with anything special.
_NO_ESCAPES = {quote: re.compile(rf"[^\\\n{quote}]+") for quote in "'\""}
_NEXT = {
    ("bracket", "("): "argument",
    ("equals", "="): "value",
    ("argument", ")"): "end",
    ("after value", ","): "argument",
    ("after value", ")"): "end",
}
