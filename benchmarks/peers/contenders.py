"""The contenders that stream text from ids: ours, the floor, and the peers that are installed.

vLLM's two classes get the same tokenizer, though vLLM itself would only use `Fast` for it.

Each has three ways to run: `one` stream with one id a step, one stream in `bursts`, and `many`
streams with one id a step each. All pass every piece of text to `emit`. A `stepper` takes one id.

But: the loops are alike and still not shared, because one more call per token would show in the
figures.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tokenizers
from tokenizers.decoders import DecodeStream as PeerStream

from benchmarks.peers.detokenizers import HAS_VLLM, has, vllm_detokenizer, vllm_tokenizer
from mini_vllm.tokenizer import HuggingFaceTokenizer, create_decode_stream
from mini_vllm.tokenizer.pieces import PieceTable

Emit = Callable[[Any], None]
Ids = Sequence[int]
OURS, FLOOR, HF = "ours", "floor", "HF"
FAST, SLOW = "vLLM Fast", "vLLM Slow"


class Floor:
    """The least that a Python method can do: look up a list. It does not detokenize."""

    __slots__ = ("_texts",)

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def step(self, token_id: int) -> str:
        """Return the token's text."""
        return self._texts[token_id]


class Stateful(Floor):
    """The least that a stream can do: also remember a state. It takes -1 for the last id."""

    __slots__ = ("_pairs",)

    def __init__(self, texts: list[str]) -> None:
        pairs: list[tuple[str, Any]] = []
        pairs += [(text, pairs) for text in texts]
        self._pairs = pairs

    def step(self, token_id: int) -> str:
        """Return the token's text."""
        text, self._pairs = self._pairs[token_id]
        return text


class _WithStep:
    """A contender whose streams have a method `step` that takes one id."""

    def __init__(self, make: Callable[[Ids], Any]) -> None:
        self.make = make

    def stream(self, ids: Ids, emit: Emit, prompt: Ids = ()) -> None:
        step = self.make(prompt).step
        for token_id in ids:
            emit(step(token_id))

    def stepper(self, prompt: Ids) -> Callable[[int], object]:
        return self.make(prompt).step

    def bursts(self, bursts: Sequence[list[int]], emit: Emit) -> None:
        step = self.make(()).step
        for burst in bursts:
            emit("".join(map(step, burst)))

    def many(self, rows: Sequence[Ids], emit: Emit) -> None:
        steps = [self.make(()).step for _ in rows[0]]
        for row in rows:
            for step, token_id in zip(steps, row, strict=True):
                emit(step(token_id))


class _HuggingFace:
    """The `tokenizers` library's own stream; its `step` also takes the tokenizer."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self.inner = inner

    def make(self, prompt: Ids = ()) -> PeerStream:
        return PeerStream(ids=list(prompt), skip_special_tokens=True)

    def stream(self, ids: Ids, emit: Emit, prompt: Ids = ()) -> None:
        inner, step = self.inner, self.make(prompt).step
        for token_id in ids:
            emit(step(inner, token_id))

    def stepper(self, prompt: Ids) -> Callable[[int], object]:
        return partial(self.make(prompt).step, self.inner)

    def bursts(self, bursts: Sequence[list[int]], emit: Emit) -> None:
        inner, step = self.inner, self.make().step
        for burst in bursts:
            emit(step(inner, burst))

    def many(self, rows: Sequence[Ids], emit: Emit) -> None:
        inner, steps = self.inner, [self.make().step for _ in rows[0]]
        for row in rows:
            for step, token_id in zip(steps, row, strict=True):
                emit(step(inner, token_id))


class _Vllm:
    """vLLM's classes, called as its engine calls them: a list of new ids, then the new text."""

    def __init__(self, kind: str, inner: tokenizers.Tokenizer) -> None:
        self.make = partial(vllm_detokenizer, kind, vllm_tokenizer(inner))

    def stream(self, ids: Ids, emit: Emit, prompt: Ids = ()) -> None:
        stream = self.make(prompt)
        update, text = stream.update, stream.get_next_output_text
        for token_id in ids:
            update([token_id], False)
            emit(text(False, True))

    def stepper(self, prompt: Ids) -> Callable[[int], object]:
        update = self.make(prompt).update
        return lambda token_id: update([token_id], False)

    def bursts(self, bursts: Sequence[list[int]], emit: Emit) -> None:
        stream = self.make()
        update, text = stream.update, stream.get_next_output_text
        for burst in bursts:
            update(burst, False)
            emit(text(False, True))

    def many(self, rows: Sequence[Ids], emit: Emit) -> None:
        streams = [self.make() for _ in rows[0]]
        for row in rows:
            for stream, token_id in zip(streams, row, strict=True):
                stream.update([token_id], False)
                emit(stream.get_next_output_text(False, True))


Contender = _WithStep | _HuggingFace | _Vllm


def ours(tokenizer: HuggingFaceTokenizer) -> Contender:
    """Return our stream over a tokenizer."""
    return _WithStep(lambda prompt: create_decode_stream(tokenizer, prompt))


def contenders(inner: tokenizers.Tokenizer) -> dict[str, Contender]:
    """Return the contenders for a tokenizer, by name: those whose packages are installed."""
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    assert tokenizer.pieces is not None
    floor = Floor(shown(tokenizer.pieces))
    by_name: dict[str, Contender] = {
        OURS: ours(tokenizer),
        FLOOR: _WithStep(lambda prompt: floor),
        HF: _HuggingFace(inner),
    }
    if HAS_VLLM and has("transformers"):
        by_name[FAST] = _Vllm("Fast", inner)
        by_name[SLOW] = _Vllm("Slow", inner)
    return by_name


def shown(pieces: PieceTable) -> list[str]:
    """Return the text of each id alone, with U+FFFD for bytes that are no character."""
    return [(piece or b"").decode("utf-8", "replace") for piece in pieces.rest]


def parts(inner: tokenizers.Tokenizer) -> dict[str, Contender]:
    """Return the steps between the floor and ours, by name: each does more than the one before."""
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    assert tokenizer.pieces is not None
    floor, state = Floor(shown(tokenizer.pieces)), Stateful(shown(tokenizer.pieces))
    return {
        "floor: a call, a lookup in a list": _WithStep(lambda prompt: floor),
        "... that also remembers a state": _WithStep(lambda prompt: state),
        "ours: ... of half a character, and refuses -1": ours(tokenizer),
    }


def check(contender: Contender, ids: Ids, text: str) -> None:
    """Make sure that a contender does the work before it is timed.

    Raises:
        AssertionError: its text is not `text` (a character cut off at the end aside).
    """
    parts: list[str | None] = []
    contender.stream(ids, parts.append)
    streamed = "".join(part or "" for part in parts)
    if not text.startswith(streamed) or len(text) - len(streamed) > 3:
        raise AssertionError(f"streams {streamed[-40:]!r}, not {text[-40:]!r}")
