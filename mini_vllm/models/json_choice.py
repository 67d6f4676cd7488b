"""Choices for JSON that a grammar demands: the model's next bytes, by the place in the text.

A mask says which bytes are valid, but not which of them end a text. `JsonChoice` reads the output,
knows the place in it, and prefers bytes that lead to the end: suggestions of the schema and words
of the prompt, and then the closing quote or bracket. For a regular expression it prefers a text
made from the expression, and then the end. Validity is up to the mask: a preference that the mask
excludes is dropped.
"""

import random
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from mini_vllm.engine.request import StructuredOutputsParams
from mini_vllm.engine.structured_output import TokenMask
from mini_vllm.models.pattern_sample import pattern_sample
from mini_vllm.models.suggestions import (
    Schemas,
    Suggestions,
    as_json,
    count_of,
    list_of,
    owner_of,
    properties_of,
    schemas_in,
)
from mini_vllm.text.schemas import schema_branches

# Below this depth, and in the second half of the tokens, objects have only their required members,
# and arrays the items they need.
_DEEP = 5
_MOST_MEMBERS = 8
# From this length on, a string that a pattern keeps open may get any character of the mask.
_LONG = 64
_ALNUM = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_DIGITS_AND_SPACES = frozenset(b"0123456789 \t\r\n")
_QUOTE, _ESCAPE = ord('"'), ord("\\")
# The first byte of a value, in the order of preference if no type is known.
_FIRST = b'"1234567890tf[{n-'
# The member of a call that has the arguments, in every format whose calls are objects.
_ARGUMENTS = ("arguments", "parameters")


@dataclass(slots=True)
class _Frame:
    """An open object or array.

    Attributes:
        branches: the schemas that apply to it.
        is_object: whether it is an object.
        size: how many members or items are complete.
        names: the names of its members so far.
        name: the name of the current member.
    """

    branches: Schemas
    is_object: bool
    size: int = 0
    names: list[str] = field(default_factory=list)
    name: str = ""


class JsonChoice:
    """The place of an output within its JSON, and the bytes that the model prefers there.

    Args:
        params: the demanded form; its schemas are read.
        prompt: the text before the output; its last words become values.
        eos: the id that ends a text.
        max_tokens: how many ids the output may have.
    """

    def __init__(
        self, params: StructuredOutputsParams, prompt: str, eos: int, max_tokens: int
    ) -> None:
        self._eos = eos
        self._left = max_tokens // 2
        self._is_json = params.json is not None or params.json_object
        self._schemas = [*schemas_in(params)]
        self._roots = [schema for _, schema in self._schemas]
        # A text that may be an answer has no function to be called first.
        self._is_called = any(name is None for name, _ in self._schemas)
        self._output = bytearray()
        self._suggestions = Suggestions(prompt)
        self._stack: list[_Frame] = []
        self._text = bytearray()
        self._branches: Schemas = []
        self._plans: list[bytes] = []
        self._state = "outside"
        self._ends_in_digit = self._is_complete = False
        if self._is_json:
            self._expect_value(self._of_roots())
        self._is_expression = params.regex is not None
        if params.regex is not None:
            sample = pattern_sample(params.regex, self._suggestions.word())
            if sample:
                self._plans, self._is_complete = [sample.encode(errors="replace")], True

    def push(self, byte: int) -> None:
        """Read a byte of the output."""
        self._left -= 1
        self._output.append(byte)
        self._ends_in_digit = byte in b"0123456789"
        # A plan that begins with the space before a value may go on without it.
        plans = (plan.lstrip() if plan[:1] == b" " and byte != 32 else plan for plan in self._plans)
        self._plans = [plan[1:] for plan in plans if plan[:1] == bytes([byte]) and len(plan) > 1]
        if self._is_expression:
            return
        if self._state in ("string", "key"):
            self._push_string(byte)
        elif self._state == "scalar" and byte not in b",]} \t\r\n":
            self._text.append(byte)
        elif byte not in b" \t\r\n":
            self._push_token(byte)

    def ranking(self, mask: TokenMask | None) -> list[int] | None:
        """Return the preferred bytes of a mask, the best first, or None for no preference.

        Args:
            mask: the valid ids; None if the model is to choose freely.
        """
        allowed: Collection[int] = range(self._eos + 1) if mask is None else [*mask]
        plans = self._plans
        if 32 not in allowed and self._state not in ("string", "key", "outside"):
            plans = [plan.lstrip() for plan in plans]
        planned = dict.fromkeys(plan[0] for plan in plans)
        options = [byte for byte in planned if byte in allowed]
        if options:
            # Deep in a recursion, a plan at random could be the one that goes deeper.
            return options[:1] if self._is_deep else options
        self._plans = []
        match self._state:
            case "outside":
                ends = self._is_complete or self._left < 0
                may_end = mask is not None and self._eos in mask
                return [self._eos] if ends and may_end else self._after_number(mask)
            case "done":
                return [self._eos] if self._eos in allowed else None
            case "string" | "key":
                return self._in_string(allowed)
            case "value" | "first":
                order = (b"}]" if self._state == "first" else b"") + _FIRST
            case "name":
                order = b'"'
            case "colon":
                order = b":"
            case _:
                order = self._order_after()
        options = [byte for byte in (*order, self._eos) if byte in allowed][:1]
        if self._state == "scalar":
            options = options or pick(allowed, len(self._text))
        return options or None

    def _after_number(self, mask: TokenMask | None) -> list[int] | None:
        """Return an id that ends a number outside JSON, such as the number of a call, or None."""
        if mask is None or not self._schemas or not self._ends_in_digit:
            return None
        options = [token_id for token_id in mask if token_id not in _DIGITS_AND_SPACES]
        return options[:1] or None

    def _in_string(self, allowed: Collection[int]) -> list[int] | None:
        if self._is_escaped:
            return [byte for byte in b'"/ntu\\bfr' if byte in allowed][:1] or None
        if _QUOTE in allowed and (self._text or self._state == "string"):
            return [_QUOTE]
        frame = self._stack[-1] if self._stack else None
        depth = len(self._stack)
        is_function = not self._is_json and depth <= 2 and self._state == "string"
        if is_function and frame and frame.name == "name" and len(self._text) < _LONG:
            # The name of a function: the model copies one from the prompt.
            return None
        if self._text and 32 in allowed and len(self._text) < _LONG and self._state == "string":
            self._plans = [f" {self._suggestions.word()}".encode()]
            return [32]
        return pick(allowed, len(self._text))

    @property
    def _is_escaped(self) -> bool:
        return (len(self._text) - len(self._text.rstrip(b"\\"))) % 2 == 1

    def _order_after(self) -> bytes:
        """Return the bytes after a value, in the order of preference."""
        if not self._stack:
            return b""
        frame = self._stack[-1]
        close = b"}" if frame.is_object else b"]"
        # A number is complete only with the byte after it.
        size = frame.size + (self._state == "scalar")
        more = self._names_ahead(frame) if frame.is_object else size < self._items(frame)
        return b"," + close if more else close + b","

    def _push_string(self, byte: int) -> None:
        if byte != _QUOTE or self._is_escaped:
            self._text.append(byte)
        elif self._state == "key":
            frame, self._state = self._stack[-1], "colon"
            frame.name = self._text.decode(errors="replace")
            frame.names.append(frame.name)
            # Only alternatives that have this member still apply.
            with_name = [schema for schema in frame.branches if frame.name in properties_of(schema)]
            if len(with_name) == 1 and "allOf" not in frame.branches[0]:
                frame.branches = with_name
        else:
            self._end_value()

    def _push_token(self, byte: int) -> None:
        if self._state == "scalar":
            self._end_value()
        char = chr(byte)
        if self._state in ("value", "first", "outside") and char in "{[":
            branches = self._of_roots() if self._state == "outside" else self._branches
            if self._state == "first":
                branches = self._item_branches()
            self._open(char == "{", branches)
        elif self._stack and char in "]}" and self._state in ("after", "first"):
            self._stack.pop()
            self._end_value()
        elif self._state == "after" and char == "," and self._stack:
            frame = self._stack[-1]
            if frame.is_object:
                self._state = "name"
                names = self._name_plans(frame) or [as_json(self._fresh_name(frame))]
                self._plans = [b" " + plan for plan in names]
            else:
                self._expect_value(self._item_branches(), space=True)
        elif char == '"' and self._state in ("first", "name", "value"):
            is_key = self._state == "name" or (self._state == "first" and self._stack[-1].is_object)
            self._state = "key" if is_key else "string"
            self._text.clear()
        elif self._state == "colon" and char == ":":
            self._expect_value(self._member_branches(), space=True)
        elif self._state in ("value", "first") and char in "-0123456789tfn":
            self._state = "scalar"
            self._text[:] = [byte]
        elif self._state != "outside":
            # A marker of a call that only looked like the beginning of JSON.
            self._stack.clear()
            self._state = "outside"
            self._plans = []

    @property
    def _is_deep(self) -> bool:
        return self._left < 0 or len(self._stack) >= _DEEP

    def _open(self, is_object: bool, branches: Schemas) -> None:
        frame = _Frame(branches, is_object)
        self._stack.append(frame)
        self._state = "first"
        if self._plans:
            return
        if is_object:
            self._plans = self._name_plans(frame) or [b"}"]
        else:
            self._plans = self._values(self._item_branches()) if self._items(frame) else [b"]"]

    def _end_value(self) -> None:
        self._text.clear()
        if self._stack:
            self._stack[-1].size += 1
            self._state = "after"
        else:
            self._state, self._is_complete = "done", True

    def _expect_value(self, branches: Schemas, *, space: bool = False) -> None:
        self._state, self._branches = "value", branches
        if not self._plans:
            self._plans = [b" " * space + plan for plan in self._values(branches)]

    def _of_roots(self) -> Schemas:
        """Return the schemas for the function that the output named last, or for the answer."""
        output = self._output.decode(errors="replace")
        ends = {
            (output.rfind(name) + len(name), len(name)): name
            for name, _ in self._schemas
            if name is not None and name in output
        }
        called = ends[max(ends)] if ends else None
        self._is_called |= called is not None
        roots = [schema for name, schema in self._schemas if name == called]
        self._roots = roots or self._roots
        return [branch for root in self._roots for branch in schema_branches(root, root)]

    def _inside(self, schemas: list[Any]) -> Schemas:
        branches = [
            branch
            for schema in schemas
            for root in self._roots[:1]
            for branch in schema_branches(schema, owner_of(self._roots, schema) or root)
        ]
        if self._is_deep and len(branches) > 2:
            # The alternative that ends a recursion refers to the fewest schemas.
            branches[1:] = sorted(branches[1:], key=lambda branch: str(branch).count("'$ref'"))
        return branches

    def _member_branches(self) -> Schemas:
        """Return the schemas of the current member."""
        frame = self._stack[-1]
        inner = [p[frame.name] for p in map(properties_of, frame.branches) if frame.name in p]
        if not inner and not self._is_json and frame.name in _ARGUMENTS:
            return self._of_roots()
        return self._inside(
            inner or [schema.get("additionalProperties") for schema in frame.branches]
        )

    def _item_branches(self) -> Schemas:
        """Return the schemas of the next item."""
        frame = self._stack[-1]
        items = []
        for branch in frame.branches:
            first = branch.get("prefixItems")
            at = first if isinstance(first, list) else []
            items.append(at[frame.size] if frame.size < len(at) else branch.get("items"))
        return self._inside(items)

    def _items(self, frame: _Frame) -> int:
        """Return how many items an array should have."""
        least = max((count_of(branch, "minItems") for branch in frame.branches), default=0)
        return max(least, not self._is_deep)

    def _names_ahead(self, frame: _Frame) -> list[str]:
        """Return the names that an object should still have, in their order."""
        deep = self._is_deep
        names = [*dict.fromkeys(n for branch in frame.branches for n in properties_of(branch))]
        required = {n for branch in frame.branches for n in list_of(branch, "required")}
        if frame.names and frame.names[-1] in names:
            names = names[names.index(frame.names[-1]) + 1 :]
        if names or required:
            names += [name for name in sorted(required, key=str) if name not in names]
        elif not (frame.names or deep):
            names = self._suggestions.names if len(self._stack) == 1 else [self._suggestions.word()]
        elif len(self._stack) == 1 and set(frame.names) <= {*self._suggestions.names}:
            names = self._suggestions.names
        few = frame.size >= _MOST_MEMBERS or deep
        return [name for name in names if name not in frame.names and (not few or name in required)]

    def _values(self, branches: Schemas) -> list[bytes]:
        frame = self._stack[-1] if self._stack else None
        if frame and frame.name == "name" and self._schemas and not self._is_called:
            # No word of the user becomes the name of a function.
            return []
        return self._suggestions.values(
            branches,
            0 if frame is None or frame.is_object else frame.size,
            is_root=frame is None,
            is_deep=self._is_deep,
        )

    def _fresh_name(self, frame: _Frame) -> str:
        """Return a name for a member that only `minProperties` demands."""
        word = self._suggestions.word()
        return f"{word}{frame.size}" if word in frame.names else word

    def _name_plans(self, frame: _Frame) -> list[bytes]:
        return [as_json(name) for name in self._names_ahead(frame)]


def pick(allowed: Collection[int], place: int) -> list[int]:
    """Return ids of a mask for a text without a preference: an end, or letters and digits.

    A replacement character is left out if any other is possible. From the 64th byte on, all ASCII
    characters but the backslash count, so that a pattern which only they complete is completed.

    Args:
        allowed: the mask.
        place: the place in the text. At the beginning the lowest id is the first, and later any id.
    """
    ends = [token_id for token_id in allowed if token_id > 255]
    ascii = [byte for byte in allowed if 32 <= byte < 127 and byte not in (_ESCAPE, _QUOTE)]
    letters = [byte for byte in ascii if byte in _ALNUM]
    # The bytes EF BF BD are U+FFFD.
    others = [byte for byte in allowed if byte not in (0xEF, 0xBD)]
    options = ends or (letters if place < _LONG else ascii) or ascii or others or [*allowed]
    first = random.Random(place).randrange(len(options)) if place else 0
    return options[first:] + options[:first]
