"""Token ids in, text out, one id at a time: two strategies, chosen by `create_decode_stream`.

`DecodeStream` reads a table of pieces: exact, and O(1) a token. A step is one look in a dictionary.
What an id adds to the text depends on the id and on the open end of the text before it; each such
pair is worked out once, for all streams of a tokenizer.

`WindowDecodeStream` serves tokenizers without such a table, because their decoder rewrites across
tokens or follows a rule that we do not know. It decodes a short window of ids again and again and
emits what is new. It sees only text, not which bytes are missing, so it takes U+FFFD at the end of
the window for a character that is still incomplete. What it promises:
- Valid text is exact, wherever prompt and output are cut, and each character comes with the id that
  completes it. An id that has no text of its own is left out: it changes nothing beside it.
- A U+FFFD that the text really holds comes late: with other text, at most three ids of text later,
  or with the flush. One that spans prompt and output is lost.
- Where the decoder rewrites what was already emitted, the text goes on from the part that both
  versions share; nothing is taken back.

Neither keeps the ids: what a caller needs again, it keeps itself.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from mini_vllm.tokenizer.adapter import as_tokenizer, pieces_of
from mini_vllm.tokenizer.ids import plain_ids
from mini_vllm.tokenizer.pieces import STATE, State, StreamTable
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer.streams.token_stream import TokenStream
from mini_vllm.tokenizer_errors import TokenizerError

_UNFINISHED = "\ufffd"
# An id of text has a byte or more, and no character more than four: the fourth id from the end is
# never the beginning of an unfinished one.
_MOST_WAITING = 3
# How many ids of text at the end of a prompt a stream begins with. The first ones may be the end of
# a character, and the last ones the beginning of another; two more are sure to be neither.
_TAIL = 2 * _MOST_WAITING + 2


class DecodeStream(TokenStream):
    """The text of a growing id sequence, from a table of pieces.

    A character that spans prompt and output comes out whole, by the id that completes it; no other
    prompt byte does. Ids outside the vocabulary, negative ones included, and skipped special ids
    add `""` and leave a half character as it was.

    Args:
        tokenizer: one with a table of pieces. Steps are not counted here; see `MeteredStream`.
        prompt_token_ids: what came before, a sequence or an array; only its end is looked at.
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
        """The bytes that wait for what follows: of a character, at most 3."""
        return self._table.held(self._joins[STATE])

    @property
    def position(self) -> tuple[object, State]:
        """What the text of the next id depends on: the table and its state."""
        return self._table.identity, self._joins[STATE]

    @position.setter
    def position(self, position: tuple[object, State]) -> None:
        self._joins = self._table.joins(position[1])

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now, `""` while nothing is."""
        text: str
        try:
            text, self._joins = self._joins[token_id]
        except KeyError:
            text, self._joins = self._table.join(self._joins, token_id)
        return text

    def flush(self) -> str:
        """End the stream: a cut-off character is one U+FFFD. A second flush returns `""`.

        More ids may follow; no character reaches across.
        """
        text = self.held.decode("utf-8", "replace")
        if self._joins[STATE] != self._table.start:
            self._joins = self._table.joins(self._table.idle)
        return text

    def __getstate__(self) -> tuple[StreamTable, State]:
        return self._table, self._joins[STATE]

    def __setstate__(self, place: tuple[StreamTable, State]) -> None:
        self._table, state = place
        self._joins = self._table.joins(state)


class _Cut(NamedTuple):
    """A place between the ids that wait: how many are before it, and their text in context."""

    taken: int
    text: str

    @property
    def damage(self) -> int:
        """How many U+FFFD the text has; a cut inside a character makes one too many."""
        return self.text.count(_UNFINISHED)


class WindowDecodeStream(TokenStream):
    """The text of a growing id sequence, from `tokenizer.decode` alone.

    Arguments and methods are those of `DecodeStream`; any tokenizer will do.

    Attributes:
        decoded_tokens: how many ids were handed to `decode`, for tests of the cost.
    """

    __slots__ = (
        "_before", "_context", "_out", "_skip", "_tokenizer", "_waiting", "decoded_tokens",
    )  # fmt: skip

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int] = (),
        *,
        skip_special_tokens: bool = True,
    ) -> None:
        self._tokenizer = as_tokenizer(tokenizer)
        self._skip = skip_special_tokens
        self.decoded_tokens = 0
        # The ids that wait, and what of their text is out or belongs to the prompt.
        self._waiting: list[int] = []
        self._out = ""
        # The ids just before, which are needed to decode those, and their text: all of it is out.
        self._context: list[int] = []
        self._before = ""
        self._begin(plain_ids(prompt_token_ids))

    @property
    def held(self) -> bytes:
        """The text that waits, as UTF-8: U+FFFD for what may become a character."""
        if not self._waiting:
            return b""
        return self._new(next(self._cuts()).text).encode()

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now, `""` while nothing is."""
        if not self._has_text(token_id):
            return ""
        self._waiting.append(token_id)
        cuts = self._cuts()
        whole = next(cuts)
        if whole.text and not whole.text.endswith(_UNFINISHED):
            return self._emit(whole)
        complete = whole.text.rstrip(_UNFINISHED)
        if new := self._new(complete):
            # So the unfinished character begins in this id, in which another one may have ended.
            self._out = complete
            self._settle(next(cuts), whole.text)
            return new
        if len(self._waiting) <= _MOST_WAITING:
            return ""
        # Of equally good cuts the first one, which leaves the fewest ids.
        return self._emit(min([whole, *cuts], key=lambda cut: cut.damage))

    def flush(self) -> str:
        """End the stream: return what waits. A second flush returns `""`.

        More ids may follow; no character reaches across.
        """
        text = self._new(next(self._cuts()).text)
        self._waiting, self._out = [], ""
        return text

    def _begin(self, prompt: Sequence[int]) -> None:
        """Step through the end of the prompt, for nobody to read; its text counts as out."""
        tail = [*islice(filter(self._has_text, reversed(prompt)), _TAIL)][::-1]
        if len(tail) == _TAIL:
            tail = min((tail[start:] for start in range(_MOST_WAITING + 1)), key=self._damage)
        for token_id in tail:
            self.step(token_id)
        self._out = next(self._cuts()).text

    def _damage(self, ids: list[int]) -> int:
        """Return how many U+FFFD the text of ids has, without a character unfinished at its end."""
        without_last = (ids[: len(ids) - left] for left in range(_MOST_WAITING + 1))
        return min(self._decode(some).count(_UNFINISHED) for some in without_last)

    def _has_text(self, token_id: int) -> bool:
        # Of two spaces `decode` may strip the first one only.
        if self._decode([token_id]) or self._decode([token_id, token_id]):
            return True
        # Or it strips both, and a space only counts behind other text.
        before = self._context + self._waiting
        together = self._decode([*before, token_id])
        return together not in ("", self._decode(before))

    def _cuts(self) -> Iterator[_Cut]:
        """Yield the cut behind all ids that wait, then those before the last ones, one by one.

        Each is decoded when it is asked for.
        """
        for left in range(min(len(self._waiting), _MOST_WAITING) + 1):
            taken = len(self._waiting) - left
            yield _Cut(taken, self._text_of(self._waiting[:taken]))

    def _text_of(self, ids: list[int]) -> str:
        """Return what ids add to the text of the context."""
        together = self._decode(self._context + ids)
        text = together[_shared(self._before, together) :]
        if _UNFINISHED not in text:
            return text
        # Among other bytes a decoder may show more damage than there is in these ids.
        alone = self._decode(ids)
        return alone if alone.count(_UNFINISHED) < text.count(_UNFINISHED) else text

    def _new(self, text: str) -> str:
        """Return what of the waiting text is not out yet."""
        return text[_shared(self._out, text) :]

    def _emit(self, cut: _Cut) -> str:
        """Settle a cut; return what of its text is new."""
        new = self._new(cut.text)
        if new:
            self._out = cut.text
        self._settle(cut)
        return new

    def _settle(self, cut: _Cut, whole: str = "") -> None:
        """Make the ids before a cut the context of the others.

        `whole` is the text of all ids, if those behind the cut complete a character of theirs.
        """
        if not cut.taken:
            return
        shared = _shared(cut.text, whole) if whole else len(cut.text)
        self._out = self._out[shared:]
        self._context = self._waiting[: cut.taken]
        del self._waiting[: cut.taken]
        self._before = self._decode(self._context)
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
