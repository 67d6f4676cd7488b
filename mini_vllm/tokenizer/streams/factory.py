"""Makes the stream of any tokenizer: with or without a table of pieces, metered or not."""

from collections.abc import Sequence
from typing import Any

from mini_vllm.tokenizer.adapter import pieces_of
from mini_vllm.tokenizer.protocols import Decoder, Tokenizer, metrics_of
from mini_vllm.tokenizer.streams.decode_stream import DecodeStream, WindowDecodeStream
from mini_vllm.tokenizer.streams.metered_stream import MeteredStream

AnyDecodeStream = DecodeStream | WindowDecodeStream | MeteredStream


def create_decode_stream(
    tokenizer: Tokenizer | Decoder,
    prompt_token_ids: Sequence[int] = (),
    *,
    skip_special_tokens: bool = True,
) -> AnyDecodeStream:
    """Return the stream for a tokenizer: by its table of pieces if it has one, metered if it is.

    Args:
        tokenizer: any tokenizer, here and elsewhere also an object of the `tokenizers` library; for
            streams also any object with `decode(ids, skip_special_tokens=...)`, as the tokenizers
            of transformers are.
        prompt_token_ids: the ids of the prompt, a sequence or an array; only the end is read.
        skip_special_tokens: leave special tokens out.

    Raises:
        TypeError: the object has no such `decode`.
    """
    stream = _plain_stream(tokenizer, prompt_token_ids, skip_special_tokens)
    metrics = metrics_of(tokenizer)
    return stream if metrics is None else MeteredStream(stream, metrics)


def create_plain_stream(
    tokenizer: Tokenizer | Decoder,
    prompt_token_ids: Sequence[int] = (),
    *,
    skip_special_tokens: bool = True,
) -> DecodeStream | WindowDecodeStream:
    """Return the same stream, never metered, for a caller that counts the steps itself."""
    return _plain_stream(tokenizer, prompt_token_ids, skip_special_tokens)


def _plain_stream(
    tokenizer: Any, prompt: Sequence[int], skips: bool
) -> DecodeStream | WindowDecodeStream:
    if pieces_of(tokenizer) is None:
        return WindowDecodeStream(tokenizer, prompt, skip_special_tokens=skips)
    if skips:
        # Each request makes a stream, and CPython 3.11 is slow to pass a keyword to a class.
        return DecodeStream(tokenizer, prompt)
    return DecodeStream(tokenizer, prompt, skip_special_tokens=False)
