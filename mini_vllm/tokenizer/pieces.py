"""The table behind exact streaming: which bytes each token id contributes to the text.

For most decoders the text of a sequence is the concatenation of what each token contributes, where
only the *first* token of a text may contribute something else (a leading space less, say). Two
columns of bytes then hold everything that `decode` knows, and a stream needs no `decode` at all.

But: a decoder that rewrites across tokens has no such table. Two that depend on the token before
and no more have tables of their own, in `mini_vllm.tokenizer.linked_pieces`.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mini_vllm.text.utf8 import last_complete_utf8_end

Piece = bytes | None
State = Hashable
Joins = dict[Any, Any]

STATE = object()
_START = "start"
_LONGEST_HOLD = 3


class StreamTable:
    """What streams of one tokenizer have learned, shared by all of them.

    A *state* is all that the text of the next id depends on: here the bytes of an open character,
    or that there was no token yet. Per state there is a dictionary, its *joins*, from an id to
    (text, joins of the next state); under the key `STATE` it has the state itself. They are filled
    as ids come by: in practice few of the possible ones, and `MOST_JOINS` in any case, not counting
    the state in which nothing is open.

    Attributes:
        start: the state before the first token.
        idle: the state in which nothing is open.
    """

    MOST_JOINS = 1 << 18

    def __init__(self, rest: list[Piece], first: list[Piece]) -> None:
        self._rest = rest
        self._first = first
        self.idle: State = b""
        self.start: State = self.idle if first is rest else _START
        self._joins: dict[State, Joins] = {}
        self._learned = 0

    def state_after(self, prompt: Sequence[int]) -> State:
        """Return the state after the ids of a prompt, looking at no more of it than its end."""
        tail, has_text = b"", False
        for token_id in reversed(prompt):
            piece = self._rest[token_id] if 0 <= token_id < len(self._rest) else None
            if piece is not None:
                tail, has_text = piece + tail, True
            if len(tail) > _LONGEST_HOLD:
                break
        return tail[last_complete_utf8_end(tail) :] if has_text else self.start

    def transition(self, state: State, token_id: int) -> tuple[str, State]:
        """Return the text that an id makes certain in a state, and the state after it."""
        piece = (self._first if state == _START else self._rest)[token_id]
        if piece is None:
            return "", state
        data = self.held(state) + piece
        end = last_complete_utf8_end(data)
        return data[:end].decode("utf-8", "replace"), data[end:]

    def held(self, state: State) -> bytes:
        """Return the bytes that wait in a state."""
        return state if isinstance(state, bytes) else b""

    def joins(self, state: State) -> Joins:
        """Return what is known of a state: the same object each time."""
        return self._joins.setdefault(state, {STATE: state})

    def join(self, joins: Joins, token_id: int) -> tuple[str, Joins]:
        """Return (text, joins of the next state) for an id, and remember it.

        An id outside the vocabulary is `""` and changes nothing.
        """
        if not 0 <= token_id < len(self._rest):
            return "", joins
        text, after = self.transition(joins[STATE], token_id)
        join = (text, self.joins(after))
        if joins[STATE] == self.idle or self._learned < self.MOST_JOINS:
            self._learned += joins[STATE] != self.idle
            joins[token_id] = join
        return join

    def text(self, ids: Iterable[int]) -> str:
        """Return the text of a whole sequence: the reference that a stream must equal."""
        parts, state = [], self.start
        for token_id in ids:
            if 0 <= token_id < len(self._rest):
                text, state = self.transition(state, token_id)
                parts.append(text)
        return "".join(parts) + self.held(state).decode("utf-8", "replace")


@dataclass(frozen=True)
class PieceTable:
    """Bytes by token id.

    Attributes:
        rest: what an id contributes anywhere but at the start; None for an id without text.
        first: what it contributes as the first token of a text; the same object if all are equal.
        special: the ids that `skip_special_tokens` leaves out.
        make: how the columns become a table for streams.
    """

    rest: list[Piece]
    first: list[Piece]
    special: frozenset[int]
    make: Callable[[list[Piece], list[Piece]], StreamTable] = StreamTable

    @cached_property
    def showing(self) -> StreamTable:
        """The table for streams that show special tokens."""
        return self.make(self.rest, self.first)

    @cached_property
    def skipping(self) -> StreamTable:
        """The table for streams that skip special tokens: those have no text."""

        def skip(column: list[Piece]) -> list[Piece]:
            return [None if i in self.special else piece for i, piece in enumerate(column)]

        rest = skip(self.rest)
        return self.make(rest, rest if self.first is self.rest else skip(self.first))
