"""Token ids in, text out, one id at a time: two strategies, chosen by `create_decode_stream`.

`DecodeStream` reads a table of pieces. It is exact, and O(1) a token: a step is one lookup in a
list or a dictionary. The text that an id adds depends on the id and on the incomplete character
before it; each such pair is computed once, for all streams of a tokenizer.

`WindowDecodeStream` serves tokenizers without such a table: their decoder rewrites across tokens or
follows a rule that we do not know. The stream decodes a short window of ids again and again, and
emits the new text. It sees only text, not the missing bytes, so it treats U+FFFD at the end of the
window as a character that is still incomplete. It promises:
- Valid text is exact, for any cut between prompt and output, and the id that completes a character
  emits it, also if the decoder leaves incomplete characters out and shows no U+FFFD. An id without
  text of its own adds none.
- A real U+FFFD in the text is emitted late: together with other text, at most three ids of text
  later, or by the flush. A real U+FFFD that spans prompt and output is lost.
- If the decoder rewrites text that has been emitted, the stream continues after the part that both
  versions share; emitted text is never taken back.

Neither stream keeps the ids: a caller that needs them again keeps them itself.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import index
from typing import NamedTuple

from mini_vllm.tokenizer.adapter import as_decoder, pieces_of
from mini_vllm.tokenizer.ids import plain_ids
from mini_vllm.tokenizer.pieces import State, StreamTable
from mini_vllm.tokenizer.protocols import Decoder, Tokenizer
from mini_vllm.tokenizer.streams.token_stream import TokenStream
from mini_vllm.tokenizer_errors import TokenizerError

_UNFINISHED = "\ufffd"
# An id with text has at least one byte, and a character has at most four bytes: an unfinished
# character never begins in the fourth id from the end.
_MOST_WAITING = 3
# How many ids of a space, at the beginning of a text, a decoder may strip.
_MOST_STRIPPED = 8
# A stream begins with this many ids of text at the end of the prompt. The first ids may end a
# character, and the last ids may begin another character; two more ids do neither.
_TAIL = 2 * _MOST_WAITING + 2


class DecodeStream(TokenStream):
    """The text of a growing id sequence, from a table of pieces.

    A character that spans prompt and output is emitted whole, by the id that completes it. No other
    prompt byte is emitted. Ids outside the vocabulary, negative ids, and skipped special ids add
    `""` and leave a half character unchanged.

    Args:
        tokenizer: a tokenizer with a table of pieces. The stream does not count its steps; see
            `MeteredStream`.
        prompt_token_ids: the ids of the prompt, a sequence or an array; only the end is read.
        skip_special_tokens: leave special tokens out.

    Raises:
        ValueError: the tokenizer has no table of pieces.
    """

    __slots__ = ("_joins", "_table")

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int] = (),
        *,
        skip_special_tokens: bool = True,
    ) -> None:
        pieces = pieces_of(tokenizer)
        if pieces is None:
            raise ValueError(f"{tokenizer!r} has no table of pieces; use create_decode_stream")
        self._table = table = pieces.skipping if skip_special_tokens else pieces.showing
        prompt = plain_ids(prompt_token_ids)
        self._joins = table.joins(table.state_after(prompt) if prompt else table.start)

    @property
    def held(self) -> bytes:
        """The held bytes of an incomplete character, at most 3."""
        return self._table.held(self._table.state(self._joins))

    @property
    def position(self) -> tuple[object, State]:
        """The table and its state, which decide the text of the next id."""
        return self._table.identity, self._table.state(self._joins)

    @position.setter
    def position(self, position: tuple[object, State]) -> None:
        self._joins = self._table.joins(position[1])

    def step(self, token_id: int) -> str:
        """Feed one id; return the text that is certain now, `""` if none is."""
        text: str
        try:
            if token_id < 0:
                return ""
            text, self._joins = self._joins[token_id]
        except (LookupError, TypeError):
            # `join` raises the error of an id that is not an integer.
            text, self._joins = self._table.join(self._joins, token_id)
        return text

    def flush(self) -> str:
        """End the stream: return one U+FFFD for a cut-off character. A second flush returns `""`.

        More ids may follow; no character continues across the flush.
        """
        text = self.held.decode("utf-8", "replace")
        if self._table.state(self._joins) != self._table.start:
            self._joins = self._table.joins(self._table.idle)
        return text

    def __getstate__(self) -> tuple[StreamTable, State]:
        return self._table, self._table.state(self._joins)

    def __setstate__(self, place: tuple[StreamTable, State]) -> None:
        self._table, state = place
        self._joins = self._table.joins(state)


class _Cut(NamedTuple):
    """A place between the held ids: the number of ids before it, and their text in context."""

    taken: int
    text: str

    @property
    def damage(self) -> int:
        """How many U+FFFD the text has; a cut inside a character adds at least one."""
        return self.text.count(_UNFINISHED)


class WindowDecodeStream(TokenStream):
    """The text of a growing id sequence, from `tokenizer.decode` alone.

    Arguments and methods are those of `DecodeStream`, for any tokenizer, and for any object with
    `decode(ids, skip_special_tokens=...)`, as the tokenizers of transformers are.

    Attributes:
        decoded_tokens: how many ids were passed to `decode`, for tests of the cost.
    """

    __slots__ = (
        "_before", "_context", "_fragments", "_out", "_skip", "_tokenizer", "_waiting",
        "decoded_tokens",
    )  # fmt: skip

    def __init__(
        self,
        tokenizer: Decoder,
        prompt_token_ids: Sequence[int] = (),
        *,
        skip_special_tokens: bool = True,
    ) -> None:
        self._tokenizer = as_decoder(tokenizer)
        self._skip = skip_special_tokens
        self.decoded_tokens = 0
        # The held ids, and the part of their text that was emitted or belongs to the prompt.
        self._waiting: list[int] = []
        self._out = ""
        # The ids just before the held ids, as context for `decode`, and their text, all emitted.
        self._context: list[int] = []
        self._before = ""
        # The last ids without text, if no id is held: the decoder may leave out the bytes of an
        # incomplete character.
        self._fragments: list[int] = []
        self._begin(plain_ids(prompt_token_ids))

    @property
    def held(self) -> bytes:
        """The held text in UTF-8, with U+FFFD for an incomplete character."""
        if not self._waiting:
            return b""
        return self._new(next(self._cuts()).text).encode()

    def step(self, token_id: int) -> str:
        """Feed one id; return the text that is certain now, `""` if none is."""
        token_id = index(token_id)
        if not self._has_text(token_id):
            if not self._may_be_fragment(token_id) or _UNFINISHED.encode() in self.held:
                return ""
            if not self._waiting:
                self._fragments = [*self._fragments, token_id][-_MOST_WAITING:]
                return ""
        # If this id completes a left-out character, U+FFFD is a character like any other.
        completes = bool(self._fragments) and not self._decode([token_id])
        self._waiting += [*self._fragments, token_id]
        self._fragments = []
        cuts = self._cuts()
        whole = next(cuts)
        if whole.text and (completes or not whole.text.endswith(_UNFINISHED)):
            return self._emit(whole)
        complete = whole.text.rstrip(_UNFINISHED)
        if new := self._new(complete):
            # The unfinished character begins in this id, in which an earlier character may end.
            self._out = complete
            self._settle(next(cuts), whole.text)
            return new
        if len(self._waiting) <= _MOST_WAITING:
            return ""
        # If several cuts are equally good, the first wins, since it leaves the fewest ids.
        return self._emit(min([whole, *cuts], key=lambda cut: cut.damage))

    def flush(self) -> str:
        """End the stream: return the held text. A second flush returns `""`.

        More ids may follow; no character continues across the flush.
        """
        text = self._new(next(self._cuts()).text)
        self._waiting, self._fragments, self._out = [], [], ""
        return text

    def _begin(self, prompt: Sequence[int]) -> None:
        """Step through the end of the prompt without emitting its text."""
        ids = map(index, reversed(prompt))
        tail = [*islice(filter(self._matters, ids), _TAIL)][::-1]
        if len(tail) == _TAIL:
            tail = min((tail[start:] for start in range(_MOST_WAITING + 1)), key=self._damage)
        for token_id in tail:
            self.step(token_id)
        self._out = next(self._cuts()).text

    def _damage(self, ids: list[int]) -> int:
        """Return how many U+FFFD the text of ids has, except an unfinished character at its end."""
        without_last = (ids[: len(ids) - left] for left in range(_MOST_WAITING + 1))
        return min(self._decode(some).count(_UNFINISHED) for some in without_last)

    def _has_text(self, token_id: int) -> bool:
        # `decode` may strip the first spaces.
        if self._decode([token_id]) or self._decode([token_id] * (_MOST_STRIPPED + 1)):
            return True
        # Or it strips all of them, and a space only counts after other text.
        before = self._context + self._waiting + self._fragments
        together = self._decode([*before, token_id])
        return together not in ("", self._decode(before))

    def _may_be_fragment(self, token_id: int) -> bool:
        """Return whether an id without text may be a part of a character.

        Some decoders leave out incomplete characters, as Python does with `errors="ignore"`.
        """
        try:
            return not self._tokenizer.decode([token_id], skip_special_tokens=False)
        except TokenizerError:
            return False

    def _matters(self, token_id: int) -> bool:
        return self._has_text(token_id) or self._may_be_fragment(token_id)

    def _cuts(self) -> Iterator[_Cut]:
        """Yield the cut after all held ids, then the cuts before each of the last ids.

        Each cut is decoded only when the caller takes it.
        """
        for left in range(min(len(self._waiting), _MOST_WAITING) + 1):
            taken = len(self._waiting) - left
            yield _Cut(taken, self._text_of(self._waiting[:taken]))

    def _text_of(self, ids: list[int]) -> str:
        """Return the text that ids add to the text of the context."""
        together = self._decode(self._context + ids)
        text = together[_shared(self._before, together) :]
        if _UNFINISHED not in text:
            return text
        # Next to other bytes a decoder may show more damage than these ids have.
        alone = self._decode(ids)
        return alone if alone.count(_UNFINISHED) < text.count(_UNFINISHED) else text

    def _new(self, text: str) -> str:
        """Return the part of a text of the held ids that has not been emitted."""
        return text[_shared(self._out, text) :]

    def _emit(self, cut: _Cut) -> str:
        """Settle a cut; return the new part of its text."""
        new = self._new(cut.text)
        if new:
            self._out = cut.text
        self._settle(cut)
        return new

    def _settle(self, cut: _Cut, whole: str = "") -> None:
        """Make the ids before a cut the context of the later ids.

        `whole` is the text of all ids, if the ids after the cut complete a character of the ids
        before it.
        """
        if not cut.taken:
            return
        shared = _shared(cut.text, whole) if whole else len(cut.text)
        self._out = self._out[shared:]
        ids, size = [*self._context, *self._waiting[: cut.taken]], cut.taken
        del self._waiting[: cut.taken]
        self._context, self._before = ids[-size:], self._decode(ids[-size:])
        # If `decode` strips the first spaces, a context without text does not protect later spaces.
        while not self._before and size < len(ids):
            size += 1
            self._context, self._before = ids[-size:], self._decode(ids[-size:])
        if whole:
            together = self._decode(self._context + self._waiting)
            self._before = self._before[: _shared(self._before, together)]

    def _decode(self, ids: Sequence[int]) -> str:
        self.decoded_tokens += len(ids)
        try:
            return self._tokenizer.decode(ids, skip_special_tokens=self._skip)
        except TokenizerError:
            return ""


def _shared(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    if other.startswith(one):
        return len(one)
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
