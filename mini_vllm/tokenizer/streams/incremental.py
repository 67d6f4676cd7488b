"""A detokenizer with vLLM's interface: made with a prompt, then `push` and `flush`.

vLLM decodes a window of tokens twice and emits the difference; this class reads the table of
pieces, if there is one. The table is exact in two cases in which the difference is not: if the
prompt ends inside a character, and if the text really contains U+FFFD.
"""

from collections.abc import Sequence

from mini_vllm.tokenizer.protocols import Decoder, Tokenizer
from mini_vllm.tokenizer.streams.factory import create_decode_stream
from mini_vllm.tokenizer.streams.token_stream import TokenStream


class IncrementalDetokenizer(TokenStream):
    """The text that the output adds to a prompt, special tokens shown.

    For callers that know vLLM's interface; `create_decode_stream` offers more. The outputs of all
    pushes and the flush together are `decode(prompt + output)[len(decode(prompt)):]`, except that a
    character in which the prompt ends is emitted whole.

    Args:
        tokenizer: any tokenizer, or any object with `decode(ids, skip_special_tokens=...)`; without
            a table of pieces `WindowDecodeStream` decodes.
        prompt_ids: the prompt, a sequence or an array; its own text is never returned.

    Raises:
        TypeError: the object has no such `decode`.
    """

    def __init__(self, tokenizer: Tokenizer | Decoder, prompt_ids: Sequence[int]) -> None:
        self._stream = create_decode_stream(tokenizer, prompt_ids, skip_special_tokens=False)

    def push(self, token_id: int) -> str:
        """Push one new id; return the text that it makes certain, `""` inside a character."""
        return self._stream.step(token_id)

    step = push

    def flush(self) -> str:
        """End the output: return U+FFFD for a cut-off character, once."""
        return self._stream.flush()
