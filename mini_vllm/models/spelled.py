"""A model of bytes, spelled in the ids of any vocabulary.

The embedded model continues a text byte by byte. A `Speller` cuts its bytes into tokens, always the
longest that fits, so that a demonstration without any download has real tokens: several characters
in one token, or one character in three tokens.

A tokenizer's own `encode` cuts by the merges that it was trained on, often in other places. The
text is the same.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from mini_vllm.engine.model import Burst, Model, SlotView
from mini_vllm.engine.structured_output import TokenMask
from mini_vllm.tokenizer.backends.byte import ByteTokenizer
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer_errors import EncodeError

_EOS = ByteTokenizer.eos_token_id
# Up to this number, sorting the allowed tokens is faster than passing over the other tokens.
_FEW = 4096


class Speller:
    """Cuts bytes into the tokens of a vocabulary.

    Args:
        tokenizer: its vocabulary has a token for each byte, as byte-level vocabularies and those
            with byte fallback do.

    Raises:
        ValueError: the tokenizer lacks a byte, or has no table of bytes by id.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        pieces = tokenizer.pieces
        if pieces is None or not pieces.concatenates:
            raise ValueError(
                "this tokenizer's decoder rewrites across ids, so bytes cannot be spelled in them; "
                "name another --tokenizer"
            )
        self._tokenizer = tokenizer
        self._rest = pieces.rest
        self._ids = {
            piece: token_id
            for token_id, piece in reversed([*enumerate(pieces.rest)])
            if piece and token_id not in pieces.special
        }
        missing = next((byte for byte in range(256) if bytes([byte]) not in self._ids), None)
        if missing is not None:
            raise ValueError(
                f"this tokenizer has no token for the byte 0x{missing:02X}, so it cannot spell "
                "every text; name a --tokenizer that is byte-level or has byte fallback"
            )
        self._starts = {piece[:end] for piece in self._ids for end in range(1, len(piece) + 1)}
        self._sorted = sorted(self._ids)
        self._behind = b"\xff" * (len(max(self._ids, key=len)) + 1)

    def first(self, data: bytes, *, more: bool) -> int | None:
        """Return the id of the longest token at the start of `data`.

        Args:
            data: at least one byte.
            more: whether further bytes may follow; the result is None if they could make a longer
                token.
        """
        end = 1
        while end < len(data) and data[: end + 1] in self._starts:
            end += 1
        if more and end == len(data):
            return None
        while data[:end] not in self._ids:
            end -= 1
        return self._ids[data[:end]]

    def piece(self, token_id: int) -> bytes:
        """Return the bytes of a token."""
        return self._rest[token_id] or b""

    def candidates(self, mask: TokenMask) -> list[bytes]:
        """Return sorted tokens that include all tokens of a mask, and no others if it is small."""
        if len(mask) > _FEW:
            return self._sorted
        return sorted({self.piece(token_id) for token_id in mask} & self._ids.keys())

    def allowed(
        self, mask: TokenMask, candidates: list[bytes], start: bytes
    ) -> tuple[int | None, set[int]]:
        """Return the allowed token that `start` spells, and the next bytes of longer tokens.

        Args:
            mask: the allowed tokens.
            candidates: as `candidates` returns them for this mask.
            start: the first bytes of an allowed token; may be empty.
        """
        token_id, after, size = self._ids.get(start), set(), len(start)
        low = bisect_right(candidates, start)
        high = bisect_left(candidates, start + self._behind)
        while low < high:
            byte = candidates[low][size]
            end = bisect_left(candidates, start + bytes([byte]) + self._behind)
            if any(self._ids[candidates[at]] in mask for at in range(low, end)):
                after.add(byte)
            low = end
        return token_id if token_id is not None and token_id in mask else None, after

    def ids(self, text: str | bytes) -> Iterator[int]:
        """Yield ids whose bytes are a text: the tokenizer's own ids, if their bytes are the text.

        Args:
            text: as bytes, it may be ill-formed UTF-8.
        """
        data = text.encode() if isinstance(text, str) else text
        own: Sequence[int] = ()
        with suppress(EncodeError):
            own = self._tokenizer.encode(data.decode(errors="replace")).ids
        if b"".join(map(self.piece, own)) == data:
            yield from own
            return
        while data:
            token_id = self.first(data, more=False)
            assert token_id is not None
            yield token_id
            data = data[len(self.piece(token_id)) :]


PromptLogprobs = Callable[[Sequence[int], int], Sequence[Mapping[int, float] | None]]


@dataclass(slots=True)
class _Spelling:
    """The output of a slot's model of bytes, and how much of it is already spelled."""

    inner: SlotView
    spelled: int = 0
    logprobs: list[float] = field(default_factory=list)


class SpelledModel:
    """A model of bytes as a model of another vocabulary.

    It writes the same text as the model of bytes does with the same seed. The logprob of a token is
    the sum over its bytes, and no other tokens are ranked. Sampling parameters apply to bytes. A
    `logit_bias`, which is about tokens, is left out; a server refuses it.

    Args:
        model: its ids are bytes, as the ids of `ByteTokenizer` are.
        tokenizer: the vocabulary.

    Raises:
        ValueError: the vocabulary lacks a byte, or an id that ends a text.
    """

    takes_logit_bias = False

    def __init__(self, model: Model, tokenizer: Tokenizer) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._speller = Speller(tokenizer)
        self._eos = end_of(tokenizer)
        self._slots: dict[tuple[str, int], _Spelling] = {}
        self.reasons = getattr(model, "reasons", True)
        score = getattr(model, "prompt_logprobs", None)
        self.prompt_logprobs = score and partial(self._prompt_logprobs, score)

    def prefill(self, slots: Sequence[SlotView]) -> list[Burst]:
        """Take in the prompts of new slots; return one id for each."""
        bursts = []
        for slot in slots:
            prompt = tuple(self._tokenizer.decode(slot.prompt_token_ids).encode())
            params = replace(slot.params, logit_bias=None)
            inner = SlotView(slot.request_id, slot.choice_index, prompt, params)
            spelling = self._slots[slot.key] = _Spelling(inner)
            news = self._model.prefill([inner])
            if slot.mask is None:
                self._step(spelling, *news)
            bursts.append(self._next(slot, spelling))
        return bursts

    def decode(self, slots: Sequence[SlotView]) -> list[Burst]:
        """Return the next id of each slot."""
        return [self._next(slot, self._slots[slot.key]) for slot in slots]

    def release(self, slot: SlotView) -> None:
        """Drop all state of a slot."""
        spelling = self._slots.pop(slot.key, None)
        if spelling is not None:
            self._model.release(spelling.inner)

    def _prompt_logprobs(
        self, score: PromptLogprobs, token_ids: Sequence[int], most: int
    ) -> list[Mapping[int, float] | None]:
        """Return the logprob of each id of a prompt after the ids before it, from its bytes."""
        pieces = [self._speller.piece(token_id) for token_id in token_ids]
        scores = iter(score(tuple(b"".join(pieces)), 0))
        logprobs: list[Mapping[int, float] | None] = []
        for token_id, piece in zip(token_ids, pieces, strict=True):
            # No byte precedes the first byte, so its token has no logprob.
            known = [scored[byte] for byte, scored in zip(piece, scores, strict=False) if scored]
            logprobs.append({token_id: sum(known)} if len(known) == len(piece) else None)
        return logprobs

    def _step(self, spelling: _Spelling, news: object) -> None:
        """Add a byte of the model of bytes to the spelling."""
        assert isinstance(news, Burst)
        spelling.inner.output_token_ids += news.token_ids
        spelling.inner.step += 1
        chosen = zip(news.token_ids, news.logprobs, strict=False)
        spelling.logprobs += (logprobs[token_id] for token_id, logprobs in chosen)

    def _next(self, slot: SlotView, spelling: _Spelling) -> Burst:
        """Return the next token; call the model of bytes as often as necessary."""
        if slot.mask is not None:
            return self._next_allowed(slot, spelling, slot.mask)
        while True:
            said = spelling.inner.output_token_ids[spelling.spelled :]
            ended = _EOS in said
            data = bytes(said[: said.index(_EOS)] if ended else said)
            token_id = self._speller.first(data, more=not ended) if data else None
            if token_id is not None:
                return self._burst(slot, spelling, token_id, len(self._speller.piece(token_id)))
            if ended:
                # A request may ignore the end; the text then continues after it.
                return self._burst(slot, spelling, self._eos, 1)
            self._step(spelling, *self._model.decode([spelling.inner]))

    def _next_allowed(self, slot: SlotView, spelling: _Spelling, mask: TokenMask) -> Burst:
        """Return the longest token of a mask whose bytes the model of bytes would also choose."""
        inner, candidates, start = spelling.inner, self._speller.candidates(mask), b""
        # Bytes that the last token left over, because a longer token did not fit.
        ahead = bytes(inner.output_token_ids[spelling.spelled :])
        whole: tuple[int, int] | None = None
        while True:
            token_id, bytes_after = self._speller.allowed(mask, candidates, start)
            if token_id is not None:
                whole = token_id, len(start)
            if not start and self._eos in mask:
                bytes_after.add(_EOS)
            if not bytes_after:
                break
            if len(start) < len(ahead):
                byte = ahead[len(start)]
            else:
                # After a whole token the model may choose any byte; the token ends if no longer
                # token has that byte.
                inner.mask = TokenMask.of(bytes_after, _EOS + 1) if whole is None else None
                [news] = self._model.decode([inner])
                assert isinstance(news, Burst)
                [byte] = news.token_ids
                if byte in bytes_after:
                    self._step(spelling, news)
            if byte not in bytes_after:
                break
            if byte == _EOS:
                return self._burst(slot, spelling, self._eos, 1)
            start += bytes([byte])
        if whole is not None:
            return self._burst(slot, spelling, *whole)
        # No token of the mask can be spelled, so only a special token is left.
        token_id = next(iter(mask))
        return Burst((token_id,), () if slot.params.logprobs is None else ({token_id: 0.0},))

    def _burst(self, slot: SlotView, spelling: _Spelling, token_id: int, size: int) -> Burst:
        spelled = spelling.spelled
        spelling.spelled += size
        if slot.params.logprobs is None:
            return Burst((token_id,))
        return Burst((token_id,), ({token_id: sum(spelling.logprobs[spelled : spelled + size])},))


def end_of(tokenizer: Tokenizer) -> int:
    """Return the id that ends a text.

    Raises:
        ValueError: the tokenizer defines none.
    """
    eos = min(tokenizer.eos_token_ids, default=None)
    if eos is None:
        raise ValueError(
            "this tokenizer defines no token that ends a text, such as <|endoftext|> or </s>; "
            "name another --tokenizer"
        )
    return eos
