"""Calls as Python calls, `f(a=1, b="x")`, to JSON arguments.

A call is announced at its closing bracket or its first `name=`; until then `[f(` may be prose.
Strings stream as they are written; other literals are held until their end. Arguments are literals
by keyword: positional arguments, arithmetic, `"a" "b"` and three quotes inside of brackets make the
call malformed.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from mini_vllm.text.schemas import canonical, escaped
from mini_vllm.text.states.basic import SPACE
from mini_vllm.text.states.python_literals import EscapeError, split_string, to_json, unescape
from mini_vllm.text.stream_parser import On, State, StreamParser

_DEEPEST = 64
_LONGEST_NAME = 256
_WORD = re.compile(r"[^\W\d][\w.]*")
_PLAIN = re.compile(r"[^\\'\"\[\](){},]+")
_CLOSES = {"[": "]", "(": ")", "{": "}"}


class _Progress(NamedTuple):
    """A stream's place in the call.

    Attributes:
        expects: the first item of a pair in `_NEXT`, or the present item: `word`, `quote`,
            `string` or `literal`.
        word: the name so far.
        after_word: the value of `expects` after the name.
        quote: the open quote, of a string or within a literal; three quotes are one.
        brackets: the brackets that close the open brackets of a literal.
        escaped: whether the last character of a literal was a backslash.
    """

    expects: str = "call"
    word: str = ""
    after_word: str = ""
    quote: str = ""
    brackets: str = ""
    escaped: bool = False


@dataclass(frozen=True, eq=False)
class PythonCall(State):
    """One call, up to its closing bracket.

    Attributes:
        then: where the call's end leads.
        lines: whether any string may contain line breaks; Python allows them only in triple quotes.
    """

    then: On
    lines: bool = False

    def take(self, parser: StreamParser, text: str) -> str:
        """Go through the call."""
        scratch = parser.scratch
        progress = scratch.json = scratch.json or _Progress()
        if progress.expects == "string":
            return self._string(parser, progress, text)
        if progress.expects == "quote":
            return self._quote(parser, progress, text)
        if progress.expects == "word":
            return self._word(parser, progress, text)
        if progress.expects == "literal":
            return self._literal(parser, progress, text)
        bare = text.lstrip(SPACE)
        if len(bare) < len(text):
            parser.note(text[: len(text) - len(bare)])
        return self._punctuation(parser, progress, bare) if bare else ""

    def _punctuation(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        char, expects = text[0], progress.expects
        if expects == "value":
            return self._begin_value(parser, text)
        if _WORD.match(char) and expects in ("call", "argument"):
            after_word = "bracket" if expects == "call" else "equals"
            parser.scratch.json = _Progress("word", after_word=after_word)
            return text
        after = _NEXT.get((expects, char))
        if after is None:
            return parser.fail(f"{char!r} where a Python call does not allow it", text)
        parser.scratch.json = _Progress(after)
        parser.note(char)
        if after == "value":
            self._announce(parser)
            call = parser.call
            start = "{" if call.parameters == 0 else ", "
            call.parameters = (call.parameters or 0) + 1
            parser.arguments(f"{start}{canonical(progress.word)}: ")
        elif char == ")":
            self._announce(parser)
            parser.follow(self.then, "")
        return text[1:]

    def _announce(self, parser: StreamParser) -> None:
        call = parser.call
        if not call.announced:
            parser.announce(call.name)
            call.parameters = 0

    def _word(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        """Take more of the name of a function or argument."""
        match = _WORD.match(progress.word + text)
        end = (match.end() if match else 0) - len(progress.word)
        word, after = progress.word + text[:end], progress.after_word
        parser.note(text[:end])
        if len(word) > _LONGEST_NAME:
            return parser.fail(f"{word:.40} is not a name", text[end:])
        parser.scratch.json = _Progress("word" if end == len(text) else after, word, after)
        if end < len(text):
            if word.endswith(".") or ".." in word:
                return parser.fail(f"{word:.40} is not a name", text[end:])
            if after == "bracket":
                parser.call.name = word
        return text[end:]

    def _begin_value(self, parser: StreamParser, text: str) -> str:
        if text[0] not in "'\"":
            parser.scratch.json = _Progress("literal")
            return text
        parser.scratch.json = _Progress("quote", quote=text[0])
        parser.arguments('"')
        return text[1:]

    def _quote(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        """Distinguish three quotes from one quote, and from an empty string."""
        scratch, quote = parser.scratch, progress.quote
        text = scratch.pending + text
        scratch.pending = quote if text == quote else ""
        if scratch.pending:
            return ""
        if text.startswith(quote * 2):
            quote, text = quote * 3, text[2:]
        scratch.json = _Progress("string", quote=quote)
        return text

    def _string(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        """Emit the characters of a string, except for an incomplete escape."""
        scratch = parser.scratch
        inside, rest, possible = split_string(scratch.pending + text, progress.quote, self.lines)
        scratch.pending = ""
        try:
            parser.arguments(escaped(unescape(inside)))
        except EscapeError as error:
            parser.arguments(escaped(unescape(inside[: error.place])))
            return parser.fail(str(error), inside[error.place :] + rest)
        if not possible:
            return parser.fail(f"{rest[0]!r} in a string", rest)
        if not rest.startswith(progress.quote):
            scratch.pending = rest
            return ""
        parser.arguments('"')
        scratch.json = _Progress("after value")
        return rest[len(progress.quote) :]

    def _literal(self, parser: StreamParser, progress: _Progress, text: str) -> str:
        """Keep the characters of a literal up to the comma or bracket after it."""
        scratch = parser.scratch
        quote, brackets, is_escaped = progress.quote, progress.brackets, progress.escaped
        place = 0
        while place < len(text):
            plain = _PLAIN.match(text, place)
            if plain and not is_escaped:
                place = plain.end()
                continue
            char = text[place]
            if quote:
                quote = "" if char == quote and not is_escaped else quote
                is_escaped = char == "\\" and not is_escaped
            elif char in "'\"":
                quote = char
            elif char in _CLOSES and len(brackets) < _DEEPEST:
                brackets += _CLOSES[char]
            elif brackets and char == brackets[-1]:
                brackets = brackets[:-1]
            elif char != "," or not brackets:
                return self._end_literal(parser, text, place)
            place += 1
        parser.keep(text)
        scratch.json = _Progress("literal", "", "", quote, brackets, is_escaped)
        return ""

    def _end_literal(self, parser: StreamParser, text: str, place: int) -> str:
        parser.keep(text[:place])
        try:
            parser.arguments(to_json(parser.recall(), self.lines))
        except ValueError as error:
            return parser.fail(str(error), text[place:])
        parser.scratch.json = _Progress("after value")
        return text[place:]

    def waiting(self, parser: StreamParser) -> str:
        """Return an incomplete escape or closing quote."""
        return parser.scratch.pending


_NEXT = {
    ("bracket", "("): "argument",
    ("equals", "="): "value",
    ("argument", ")"): "end",
    ("after value", ","): "argument",
    ("after value", ")"): "end",
}
