"""Finds the end of a JSON value in text that arrives in pieces, and the first invalid character.

Every character is examined once. The state holds everything that matters about the earlier text:
the symbols that may follow, and the open brackets. The scanner builds no value; a caller that needs
the value parses the text when it is complete.

The scanner is as strict as the standard. It refuses NaN and Infinity, which `json.loads` accepts,
and brackets nested more than `DEEPEST` deep.

Source: RFC 8259.
"""

import re
from typing import Any

DEEPEST = 256
_MOST_STATES = 1 << 12

_SPACE = " \t\n\r"
_DIGITS = "0123456789"
_HEX = _DIGITS + "abcdefABCDEF"
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')

# After a complete value the innermost bracket decides what may follow; without one, the scan ends.
_AFTER = "after"
_VALUE_STARTS = {
    '"': "string", "-": "minus", "0": "zero", **dict.fromkeys("123456789", "digits"),
    "t": "rue", "f": "alse", "n": "ull",
}  # fmt: skip
_TABLE: dict[str, dict[str, str]] = {
    "value": _VALUE_STARTS,
    "element": _VALUE_STARTS,
    "member": {'"': "key"},
    "next member": {'"': "key"},
    "colon": {":": "value"},
    "string": {'"': _AFTER, "\\": "string\\"},
    "key": {'"': "colon", "\\": "key\\"},
    "minus": {"0": "zero", **dict.fromkeys("123456789", "digits")},
    "zero": {".": "point", "e": "power", "E": "power"},
    "digits": {**dict.fromkeys(_DIGITS, "digits"), ".": "point", "e": "power", "E": "power"},
    "point": dict.fromkeys(_DIGITS, "fraction"),
    "fraction": {**dict.fromkeys(_DIGITS, "fraction"), "e": "power", "E": "power"},
    "power": {"+": "sign", "-": "sign", **dict.fromkeys(_DIGITS, "exponent")},
    "sign": dict.fromkeys(_DIGITS, "exponent"),
    "exponent": dict.fromkeys(_DIGITS, "exponent"),
}
for _name in ("string", "key"):
    _TABLE[f"{_name}\\"] = {**dict.fromkeys('"\\/bfnrt', _name), "u": f"{_name}4"}
    for _left in (4, 3, 2, 1):
        _next = f"{_name}{_left - 1}" if _left > 1 else _name
        _TABLE[f"{_name}{_left}"] = dict.fromkeys(_HEX, _next)
for _word in ("rue", "alse", "ull"):
    for _place, _char in enumerate(_word):
        _TABLE[_word[_place:]] = {_char: _word[_place + 1 :] or _AFTER}
_MAY_SPACE = {"value", "element", "member", "next member", "colon", _AFTER}
_NUMBER_ENDS = {"zero", "digits", "fraction", "exponent"}


class JsonState:
    """The expected symbol, and the open brackets; equal states are one object.

    Attributes:
        mode: the name of the expected symbol.
        brackets: the open brackets, outermost first.
    """

    __slots__ = ("brackets", "mode")

    def __init__(self, mode: str, brackets: str) -> None:
        self.mode = mode
        self.brackets = brackets

    def __deepcopy__(self, memo: dict[int, Any]) -> "JsonState":
        return self


class JsonScanner:
    """The scanner. All streams share it; each stream keeps its own state.

    Attributes:
        start: the state before a value.
        examined: how many characters it has looked at, for tests of the cost.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], JsonState] = {}
        self.start = self._state("value", "")
        self.examined = 0

    def scan(self, state: JsonState, text: str) -> tuple[int, JsonState | None]:
        """Take the next piece of text.

        Returns:
            (how much of `text` belongs to the value, the next state). The state is None if the
            value ends there, within the text, and `FAILED` if the character at that place is
            invalid. A number ends only at the character after it.
        """
        mode, brackets = state.mode, state.brackets
        place = 0
        while place < len(text):
            if mode in ("string", "key"):
                plain = _PLAIN.match(text, place)
                if plain:
                    self.examined += plain.end() - place
                    place = plain.end()
                    continue
            char = text[place]
            self.examined += 1
            if mode in _NUMBER_ENDS and char not in _TABLE[mode]:
                if not brackets:
                    return place, None
                mode = _AFTER
            if mode in _MAY_SPACE and char in _SPACE:
                place += 1
                continue
            step = _step(mode, char, brackets)
            if step is None:
                return place, FAILED
            mode, brackets = step
            place += 1
            if mode == _AFTER and not brackets:
                return place, None
        return place, self._state(mode, brackets)

    def _state(self, mode: str, brackets: str) -> JsonState:
        state = self._states.get((mode, brackets))
        if state is None:
            if len(self._states) >= _MOST_STATES:
                # Streams keep their states; a state that is needed again is made again.
                self._states.clear()
            state = self._states.setdefault((mode, brackets), JsonState(mode, brackets))
        return state


def _step(mode: str, char: str, brackets: str) -> tuple[str, str] | None:
    """Return the mode and brackets after one character other than white space, or None."""
    after = _TABLE.get(mode, {}).get(char)
    if after is not None:
        return after, brackets
    if mode in ("value", "element") and char in "{[" and len(brackets) < DEEPEST:
        return ("member" if char == "{" else "element"), brackets + char
    if mode == _AFTER and char == ",":
        return ("next member" if brackets[-1] == "{" else "value"), brackets
    closes = {"{": "}", "[": "]"}.get(brackets[-1:])
    if char == closes and mode in (_AFTER, "member" if char == "}" else "element"):
        return _AFTER, brackets[:-1]
    return None


FAILED = JsonState("failed", "")
