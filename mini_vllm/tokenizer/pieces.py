"""The table for exact streaming: which bytes each token id contributes to the text.

For most decoders the text of a sequence is the concatenation of the tokens' pieces. Only the
*first* token of a text may have another piece, for example without a leading space. Two columns of
bytes then contain everything that `decode` knows, and a stream needs no `decode` at all. Two kinds
of decoder also depend on the previous token: they have stream tables of their own.

But: a decoder that rewrites further back has no table; `WindowDecodeStream` serves it.
"""

import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any

from mini_vllm.text.utf8 import last_complete_utf8_end

Piece = bytes | None
State = Hashable
Joins = dict[Any, Any] | list[Any]

STATE = object()
_START = "start"
_LONGEST_HOLD = 3
_TRIED = 1000
_MOST_DRAWN = 4 * _TRIED
_LONGEST_TRIED = 8


class StreamTable:
    """The steps of all streams of one tokenizer, each computed once.

    A *state* is everything that the text of the next id depends on: here the bytes of an incomplete
    character, or that there was no token yet. Each state has its *joins*: for an id, (text, joins
    of the next state). They are a dictionary that holds the state itself under the key `STATE`.
    Most steps begin in the state without an incomplete character: its joins are a list by id,
    because a list neither hashes nor compares. Joins are added for the ids that occur, a small part
    of all ids: at most `MOST_JOINS`, not counting the list.

    Attributes:
        start: the state before the first token.
        idle: the state without an incomplete character.
        identity: represents the table in remembered positions, without keeping it alive.
    """

    MOST_JOINS = 1 << 18

    def __init__(self, rest: Sequence[Piece], first: Sequence[Piece]) -> None:
        self.identity = object()
        self._rest = rest
        self._first = first
        self.idle: State = b""
        self.start: State = self.idle if first is rest else _START
        self._joins: dict[State, Joins] = {}
        self._learned = 0

    def state_after(self, prompt: Sequence[int]) -> State:
        """Return the state after the ids of a prompt, looking only at its end."""
        tail, has_text = b"", False
        for token_id in reversed(prompt):
            piece = self._rest[token_id] if 0 <= token_id < len(self._rest) else None
            if piece is not None:
                tail, has_text = piece + tail, True
            if tail and tail[-1] < 0x80:
                # ASCII, as at the end of most prompts: no character is incomplete.
                return self.idle
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
        """Return the bytes that are held in a state."""
        return state if isinstance(state, bytes) else b""

    def joins(self, state: State) -> Joins:
        """Return the joins of a state: the same object each time."""
        try:
            return self._joins[state]
        except KeyError:
            new: Joins = [None] * len(self._rest) if state == self.idle else {STATE: state}
            # Threads that get here at once must leave with the same object.
            return self._joins.setdefault(state, new)

    def state(self, joins: Joins) -> State:
        """Return the state that joins belong to."""
        return self.idle if isinstance(joins, list) else joins[STATE]

    def join(self, joins: Joins, token_id: int) -> tuple[str, Joins]:
        """Return (text, joins of the next state) for an id, and remember it.

        An id outside the vocabulary adds `""` and changes nothing.
        """
        # A scalar of torch hashes by identity, so it would be a new key each time.
        token_id = index(token_id)
        if not 0 <= token_id < len(self._rest):
            return "", joins
        state = self.state(joins)
        text, after = self.transition(state, token_id)
        join = (text, self.joins(after))
        if state == self.idle or self._learned < self.MOST_JOINS:
            self._learned += state != self.idle
            joins[token_id] = join
        return join

    def __getstate__(self) -> dict[str, Any]:
        # The joins are learned again: their keys mean nothing in another process.
        return {**self.__dict__, "_joins": {}, "_learned": 0}

    def text(self, ids: Iterable[int]) -> str:
        """Return the text of a whole sequence: the reference that a stream must equal."""
        parts, state = [], self.start
        for token_id in ids:
            if 0 <= token_id < len(self._rest):
                text, state = self.transition(state, token_id)
                parts.append(text)
        return "".join(parts) + self.held(state).decode("utf-8", "replace")


class RepeatTable(StreamTable):
    """CTC: a token equal to the previous token adds nothing. The state is the previous id."""

    def __init__(self, rest: list[Piece], first: list[Piece]) -> None:
        super().__init__(rest, first)
        self.idle = self.start = None

    def state_after(self, prompt: Sequence[int]) -> State:
        """Return the last id of the prompt that is not left out."""
        known = (i for i in reversed(prompt) if 0 <= i < len(self._rest))
        return next((i for i in known if self._rest[i] is not None), None)

    def transition(self, state: State, token_id: int) -> tuple[str, State]:
        """Return the id's text, `""` if it repeats, and the id."""
        piece = self._rest[token_id]
        if piece is None:
            return "", state
        return "" if state == token_id else piece.decode(), token_id


class OwedSpaceTable(StreamTable):
    """BPE with an end-of-word suffix: a space if another token follows, else nothing.

    The state is the part of the last token from its first suffix on, which is still owed.
    """

    def __init__(self, rest: list[Piece], first: list[Piece], *, suffix: str) -> None:
        super().__init__(rest, first)
        self._suffix = suffix
        self.idle = self.start = ""

    def state_after(self, prompt: Sequence[int]) -> State:
        """Return the part that the last token of the prompt still owes."""
        known = (i for i in reversed(prompt) if 0 <= i < len(self._rest))
        last = next((piece for i in known if (piece := self._rest[i]) is not None), b"")
        return self._split(last.decode())[1]

    def transition(self, state: State, token_id: int) -> tuple[str, State]:
        """Return the owed text with the id's text up to its first suffix, and the new state."""
        piece = self._rest[token_id]
        if piece is None:
            return "", state
        text, owed = self._split(piece.decode())
        return str(state).replace(self._suffix, " ") + text, owed

    def held(self, state: State) -> bytes:
        """Return the text that the state owes if no token follows."""
        return str(state).replace(self._suffix, "").encode()

    def _split(self, token: str) -> tuple[str, str]:
        cut = token.find(self._suffix)
        return (token, "") if cut < 0 else (token[:cut], token[cut:])


@dataclass(frozen=True)
class PieceTable:
    """Bytes by token id.

    Attributes:
        rest: the piece of each id after the first token; None for an id without text.
        first: the piece of each id as the first token; the same object if all pieces are equal.
        special: the ids that `skip_special_tokens` leaves out.
        make: turns the columns into a table for streams.
    """

    rest: list[Piece]
    first: list[Piece]
    special: frozenset[int]
    make: Callable[[list[Piece], list[Piece]], StreamTable] = StreamTable

    @property
    def concatenates(self) -> bool:
        """Whether the text after the first token is just the bytes of all tokens, one by one."""
        return self.make is StreamTable

    @cached_property
    def showing(self) -> StreamTable:
        """The table for streams that show special tokens."""
        return self.make(self.rest, self.first)

    @cached_property
    def skipping(self) -> StreamTable:
        """The table for streams that skip special tokens: in it special tokens have no text."""

        def skip(column: list[Piece]) -> list[Piece]:
            shown = list(column)
            for token_id in self.special:
                shown[token_id] = None
            return shown

        rest = skip(self.rest)
        return self.make(rest, rest if self.first is self.rest else skip(self.first))

    def agrees_with(
        self,
        decode: Callable[[list[int], bool], str],
        samples: Sequence[Sequence[int]] = (),
    ) -> bool:
        """Return whether the table agrees with the backend's own `decode`.

        A table is made by the rule that we know for a decoder, and the backend may be newer than
        the rule. So the table is tried at load, on random sequences of well-formed text. On
        ill-formed bytes some backends deviate from the byte-exact text, which is allowed.

        Args:
            decode: the backend's decoding of a whole sequence: ids, and whether to skip special
                tokens.
            samples: id sequences with split characters, which random ids rarely contain; parts of
                these sequences are tried.
        """
        generator = random.Random(len(self.rest))
        for skip, stream in ((False, self.showing), (True, self.skipping)):
            drawn = generator.sample(range(len(self.rest)), min(_MOST_DRAWN, len(self.rest)))
            # Tokens of whole characters are valid anywhere, so most of the tried ids are of them.
            whole = [i for i in drawn if (piece := self.rest[i]) and _is_whole(piece)]
            for number in range(_TRIED):
                if samples and number % 4 == 0:
                    sample = generator.choice(samples)
                    start = generator.randrange(len(sample) + 1)
                    ids = list(sample[start : start + _LONGEST_TRIED])
                else:
                    ids = generator.choices(whole or [0], k=generator.randint(1, _LONGEST_TRIED))
                text = stream.text(ids)
                if "\ufffd" not in text and text != decode(ids, skip):
                    return False
        return True


def _is_whole(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
