"""The detokenizer in vLLM's shape: made with a prompt, then `push` and `flush`.

vLLM decodes a window of tokens twice and emits the difference; this asks the table of pieces, where
there is one. That is exact where the difference is not: at a prompt that ends inside a character,
and on text that really holds U+FFFD.
"""

from collections.abc import Sequence

from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer.streams.factory import create_decode_stream
from mini_vllm.tokenizer.streams.token_stream import TokenStream


class IncrementalDetokenizer(TokenStream):
    """The text that the output adds to a prompt, special tokens shown.

    For callers that know vLLM's interface; `create_decode_stream` offers more. All pushes and the
    flush together are `decode(prompt + output)[len(decode(prompt)):]`, except that a character in
    which the prompt ends comes out whole.

    Args:
        tokenizer: any; without a table of pieces it gets what `WindowDecodeStream` promises.
        prompt_ids: the prompt, a sequence or an array; its own text is never returned.
    """

    def __init__(self, tokenizer: Tokenizer, prompt_ids: Sequence[int]) -> None:
        self._stream = create_decode_stream(tokenizer, prompt_ids, skip_special_tokens=False)

    def push(self, token_id: int) -> str:
        """Take one new id; return the text that it makes certain, `""` inside a character."""
        return self._stream.step(token_id)

    step = push

    def flush(self) -> str:
        """End the output: return what was cut off as U+FFFD, once."""
        return self._stream.flush()
