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

from collections.abc import Sequence
from itertools import islice

from mini_vllm.tokenizer.ids import plain_ids
from mini_vllm.tokenizer.pieces import STATE, State, StreamTable
from mini_vllm.tokenizer.protocols import Tokenizer, as_tokenizer, pieces_of
from mini_vllm.tokenizer.streams.token_stream import TokenStream
from mini_vllm.tokenizer_errors import TokenizerError

_UNFINISHED = "\ufffd"
# A character has at most four bytes, and each id of text at least one: whatever is four ids old is
# complete, or never will be.
_MOST_WAITING = 3
# So many ids of text at the end of a prompt are enough to begin with: a few where its unfinished
# character may be, a few where the window may begin inside another one, and one or two that stay.
_TAIL = 8


class DecodeStream(TokenStream):
    """The text of a growing id sequence, from a table of pieces.

    A character that spans prompt and output comes out whole, by the id that completes it; no other
    prompt byte does. Ids outside the vocabulary, negative ones included, and skipped special ids
    add `""` and leave a half character as it was.

    Args:
        tokenizer: one with a table of pieces.
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
        # The ids whose text is out, as far as they are needed to decode the next ones, and their
        # text; the ids that wait, and what of their text is out or belongs to the prompt.
        self._context: list[int] = []
        self._before = ""
        self._waiting: list[int] = []
        self._out = ""
        self._begin(plain_ids(prompt_token_ids))

    @property
    def held(self) -> bytes:
        """The text that waits, as UTF-8: U+FFFD for what may become a character."""
        return self._new(self._text_of(len(self._waiting))).encode()

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now, `""` while nothing is."""
        if not self._has_text(token_id):
            return ""
        self._waiting.append(token_id)
        taken = len(self._waiting)
        text = self._text_of(taken)
        certain = text.rstrip(_UNFINISHED)
        new = self._emit(certain)
        if text and text == certain:
            self._settle(taken, text)
        elif new:
            # So the unfinished character begins in this id, in which another one may have ended.
            self._settle(taken - 1, self._text_of(taken - 1), text)
        elif taken > _MOST_WAITING:
            new = self._settle_oldest()
        return new

    def flush(self) -> str:
        """End the stream: return what waits. A second flush returns `""`.

        More ids may follow; no character reaches across.
        """
        text = self._new(self._text_of(len(self._waiting)))
        self._waiting, self._out = [], ""
        return text

    def _begin(self, prompt: Sequence[int]) -> None:
        """Step through the end of the prompt, for nobody to read; its text counts as out."""
        tail = [*islice(filter(self._has_text, reversed(prompt)), _TAIL)][::-1]
        start = self._clean_start(tail) if len(tail) == _TAIL else 0
        for token_id in tail[start:]:
            self.step(token_id)
        self._out = self._text_of(len(self._waiting))

    def _clean_start(self, tail: list[int]) -> int:
        """Return where a character begins among the first of these ids.

        One U+FFFD or more is shown by a start inside a character, and by an end inside one, so the
        last ids are left out as need be.
        """
        ends = range(len(tail) - _MOST_WAITING, len(tail) + 1)
        return min(
            range(_MOST_WAITING + 1),
            key=lambda start: min(self._decode(tail[start:end]).count(_UNFINISHED) for end in ends),
        )

    def _has_text(self, token_id: int) -> bool:
        # Of two spaces `decode` may strip the first one only.
        if self._decode([token_id]) or self._decode([token_id, token_id]):
            return True
        # Or it strips both, and a space only counts behind other text.
        before = self._context + self._waiting
        together = self._decode([*before, token_id])
        return together not in ("", self._decode(before))

    def _text_of(self, taken: int) -> str:
        """Return the text of the first ids that wait, in context."""
        waiting = self._waiting[:taken]
        together = self._decode(self._context + waiting)
        text = together[_shared(self._before, together) :]
        if _UNFINISHED not in text:
            return text
        # Among other bytes a decoder may show more damage than there is in what waits.
        alone = self._decode(waiting)
        return min(text, alone, key=lambda one: one.count(_UNFINISHED))

    def _new(self, text: str) -> str:
        """Return what of the waiting text is not out yet."""
        return text[_shared(self._out, text) :]

    def _emit(self, text: str) -> str:
        new = self._new(text)
        if new:
            self._out = text
        return new

    def _settle(self, taken: int, text: str, whole: str = "") -> None:
        """Make the first ids that wait, and have this text, the context of the others.

        `whole` is the text of all that wait, if the others complete a character of the first ones.
        """
        if taken == 0:
            return
        self._out = self._out[_shared(text, whole or text) :]
        self._context, self._waiting = self._waiting[:taken], self._waiting[taken:]
        before = self._decode(self._context)
        together = self._decode(self._context + self._waiting) if whole else before
        self._before = before[: _shared(before, together)]

    def _settle_oldest(self) -> str:
        """Settle the ids before the unfinished character, if there is one; return their text."""
        last = len(self._waiting)
        texts = {taken: self._text_of(taken) for taken in range(last, last - _MOST_WAITING - 1, -1)}
        # A cut inside a character shows a U+FFFD too many. Of equally good ones this is the last.
        taken = min(texts, key=lambda taken: texts[taken].count(_UNFINISHED))
        new = self._emit(texts[taken])
        self._settle(taken, texts[taken])
        return new

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


AnyDecodeStream = DecodeStream | WindowDecodeStream


def create_decode_stream(
    tokenizer: Tokenizer,
    prompt_token_ids: Sequence[int] = (),
    *,
    skip_special_tokens: bool = True,
) -> AnyDecodeStream:
    """Return the stream for a tokenizer: by its table of pieces where it has one.

    Args:
        tokenizer: any; one of the `tokenizers` library will do, here and elsewhere.
        prompt_token_ids: what came before, a sequence or an array; only its end is looked at.
        skip_special_tokens: leave special tokens out.
    """
    make = WindowDecodeStream if pieces_of(tokenizer) is None else DecodeStream
    return make(tokenizer, prompt_token_ids, skip_special_tokens=skip_special_tokens)
