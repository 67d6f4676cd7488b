"""Token ids in, text out, one id at a time: two strategies, chosen by `create_decode_stream`.

`DecodeStream` reads a table of pieces: exact, and O(1) a token. A step is one look in a dictionary.
What an id adds to the text depends on the id and on the open end of the text before it; each such
pair is worked out once, for all streams of a tokenizer.

`WindowDecodeStream` serves tokenizers without such a table, because their decoder rewrites across
tokens or follows a rule that we do not know. It decodes a short window of ids again and again and
emits what is new. It sees only text, not which bytes are missing, so it takes U+FFFD at the end of
the window for a character that is still incomplete. What it promises:
- Valid text is exact, wherever prompt and output are cut.
- A U+FFFD that the text really holds comes late, with the next token or the flush. One that spans
  prompt and output is lost.
- Where the decoder rewrites what was already emitted, the text goes on from the part that both
  versions share; nothing is taken back.
- A decoder that replaces whole runs of bytes after one bad byte, together with a prompt that ends
  inside a character, may repeat characters of the prompt.

Neither keeps the ids: what a caller needs again, it keeps itself.
"""

from collections.abc import Sequence

from mini_vllm.tokenizer.pieces import STATE, State
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer_errors import TokenizerError

_CONTEXT = 5
_LONGEST_CHARACTER = 4
_MOST_HELD = 64


class DecodeStream:
    """The text of a growing id sequence, from a table of pieces.

    A character that spans prompt and output comes out whole, by the id that completes it; no other
    prompt byte does. Ids outside the vocabulary, negative ones included, and skipped special ids
    add `""` and leave a half character as it was.

    Args:
        tokenizer: one with a table of pieces.
        prompt_token_ids: what came before; only its end is looked at.
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
        pieces = tokenizer.pieces
        if pieces is None:
            raise ValueError(f"{tokenizer!r} has no table of pieces; use create_decode_stream")
        self._table = table = pieces.skipping if skip_special_tokens else pieces.showing
        state = table.state_after(prompt_token_ids) if prompt_token_ids else table.start
        self._joins = table.joins(state)

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


class WindowDecodeStream:
    """The text of a growing id sequence, from `tokenizer.decode` alone.

    Arguments and methods are those of `DecodeStream`; any tokenizer will do.

    Attributes:
        decoded_tokens: how many ids were handed to `decode`, for tests of the cost.
        resyncs: how often the hold was cut off because it grew too long.
    """

    __slots__ = (
        "_before", "_ids", "_read", "_shown", "_skip", "_tokenizer", "decoded_tokens", "resyncs",
    )  # fmt: skip

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int] = (),
        *,
        skip_special_tokens: bool = True,
    ) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens
        self.decoded_tokens = 0
        self.resyncs = 0
        self._ids = self._context(prompt_token_ids)
        self._make_context()

    def _context(self, prompt: Sequence[int]) -> list[int]:
        """Return the last ids of the prompt, from where their text begins with a character."""
        start = max(0, len(prompt) - _CONTEXT)
        for earlier in range(start, max(start - _LONGEST_CHARACTER, -1), -1):
            if "\ufffd" not in self._decode(prompt[earlier:]).rstrip("\ufffd"):
                return list(prompt[earlier:])
        return list(prompt[start:])

    @property
    def held(self) -> bytes:
        """The text that waits, as UTF-8: U+FFFD for what may become a character."""
        return self._new_text().encode()

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now, `""` while nothing is."""
        if self._tokenizer.id_to_token(token_id) is None and not self._decode([token_id]):
            return ""
        self._ids.append(token_id)
        new = self._new_text()
        stable = new.rstrip("\ufffd")
        if new and stable == new:
            del self._ids[: self._read]
            self._make_context()
            return new
        if len(self._ids) - self._read >= _MOST_HELD:
            self.resyncs += 1
            return self.flush()
        self._shown += len(stable)
        return stable

    def flush(self) -> str:
        """End the stream: return what waits. A second flush returns `""`.

        More ids may follow; no character reaches across.
        """
        text = self._new_text()
        # A later id must not complete what was held, so it is dropped from the context.
        del self._ids[self._read :]
        self._make_context()
        return text

    def _new_text(self) -> str:
        """Return the window's text beyond what was emitted."""
        now = self._decode(self._ids)
        return now[_shared(self._before, now) + self._shown :]

    def _make_context(self) -> None:
        """Count the window's ids as emitted: they are the context of the next."""
        self._read = len(self._ids)
        self._before = self._decode(self._ids)
        self._shown = 0

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
        tokenizer: any.
        prompt_token_ids: what came before; only its end is looked at.
        skip_special_tokens: leave special tokens out.
    """
    make = WindowDecodeStream if tokenizer.pieces is None else DecodeStream
    return make(tokenizer, prompt_token_ids, skip_special_tokens=skip_special_tokens)
