"""The table behind exact streaming: which bytes each token id contributes to the text.

For most decoders the text of a sequence is the concatenation of what each token contributes, where
only the *first* token of a text may contribute something else (one leading space less, say). Two
columns of bytes then hold everything that `decode` knows, and a stream needs no `decode` at all.
Two kinds of decoder depend on the one token before as well: they have stream tables of their own.

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
Joins = dict[Any, Any]

STATE = object()
_START = "start"
_LONGEST_HOLD = 3
_TRIED = 1000
_MOST_DRAWN = 4 * _TRIED
_LONGEST_TRIED = 8


class StreamTable:
    """What streams of one tokenizer have learned, shared by all of them.

    A *state* is all that the text of the next id depends on: here the bytes of an open character,
    or that there was no token yet. Each state has a dictionary, its *joins*, from an id to
    (text, joins of the next state); under the key `STATE` it holds the state itself. Joins are
    filled in as ids come by, which are few of the possible ones: at most `MOST_JOINS`, not counting
    the state in which nothing is open.

    Attributes:
        start: the state before the first token.
        idle: the state in which nothing is open.
        identity: stands for the table where its states are remembered, and keeps nothing of it.
    """

    MOST_JOINS = 1 << 18

    def __init__(self, rest: list[Piece], first: list[Piece]) -> None:
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
                # ASCII, as at the end of most prompts: nothing is open.
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
        """Return the bytes that wait in a state."""
        return state if isinstance(state, bytes) else b""

    def joins(self, state: State) -> Joins:
        """Return the joins of a state: the same object each time."""
        try:
            return self._joins[state]
        except KeyError:
            # Threads that get here at once must leave with the same one.
            return self._joins.setdefault(state, {STATE: state})

    def join(self, joins: Joins, token_id: int) -> tuple[str, Joins]:
        """Return (text, joins of the next state) for an id, and remember it.

        An id outside the vocabulary adds `""` and changes nothing.
        """
        # One out of an array of torch is an object of its own each time: no key of a dictionary.
        token_id = index(token_id)
        if not 0 <= token_id < len(self._rest):
            return "", joins
        text, after = self.transition(joins[STATE], token_id)
        join = (text, self.joins(after))
        if joins[STATE] == self.idle or self._learned < self.MOST_JOINS:
            self._learned += joins[STATE] != self.idle
            joins[token_id] = join
        return join

    def __getstate__(self) -> dict[str, Any]:
        # What was learned is learned again; its keys mean nothing in another process.
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
    """CTC: a token equal to the one before it adds nothing. The state is the id before."""

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

    The state is what the last token owes from its first suffix on.
    """

    def __init__(self, rest: list[Piece], first: list[Piece], *, suffix: str) -> None:
        super().__init__(rest, first)
        self._suffix = suffix
        self.idle = self.start = ""

    def state_after(self, prompt: Sequence[int]) -> State:
        """Return what the last token of the prompt owes."""
        known = (i for i in reversed(prompt) if 0 <= i < len(self._rest))
        last = next((piece for i in known if (piece := self._rest[i]) is not None), b"")
        return self._split(last.decode())[1]

    def transition(self, state: State, token_id: int) -> tuple[str, State]:
        """Pay what is owed, and return the id's text up to its first suffix."""
        piece = self._rest[token_id]
        if piece is None:
            return "", state
        text, owed = self._split(piece.decode())
        return str(state).replace(self._suffix, " ") + text, owed

    def held(self, state: State) -> bytes:
        """Return what the state owes if nothing follows."""
        return str(state).replace(self._suffix, "").encode()

    def _split(self, token: str) -> tuple[str, str]:
        cut = token.find(self._suffix)
        return (token, "") if cut < 0 else (token[:cut], token[cut:])


@dataclass(frozen=True)
class PieceTable:
    """Bytes by token id.

    Attributes:
        rest: what an id contributes anywhere after the start; None for an id without text.
        first: what it contributes as the first token of a text; the same object if all are equal.
        special: the ids that `skip_special_tokens` leaves out.
        make: how the columns become a table for streams.
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
        """The table for streams that skip special tokens: there these have no text."""

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
        """Return whether the table says what the backend's own `decode` says.

        A table is made by the rule that we know for a decoder, and the backend may be newer than
        the rule. So it is tried at load, on random sequences of well-formed text: on ill-formed
        bytes some backends deviate from the byte-exact text, and they may.

        Args:
            decode: the backend's decoding of a whole sequence: ids, and whether to skip special
                tokens.
            samples: id sequences with split characters, which random ids rarely make; parts of
                them are tried.
        """
        generator = random.Random(len(self.rest))
        for skip, stream in ((False, self.showing), (True, self.skipping)):
            drawn = generator.sample(range(len(self.rest)), min(_MOST_DRAWN, len(self.rest)))
            # Tokens of whole characters can stand anywhere, so most of the tried ids are such.
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
