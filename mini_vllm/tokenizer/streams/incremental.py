"""The detokenizer of vLLM's and seed 001's shape: made with a prompt, then `push` and `flush`.

But: where the seed decodes a window of tokens twice and emits the difference, this asks the table
of pieces. It needs no window, no fallback, and is exact where the difference is not: at a prompt
that ends inside a character, and on text that really holds U+FFFD.
"""

from collections.abc import Sequence

from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer.streams.decode_stream import create_decode_stream


class IncrementalDetokenizer:
    """The text that the output adds to a prompt, special tokens shown.

    All pushes and the flush together are `decode(prompt + output)[len(decode(prompt)):]` wherever
    the prompt does not end inside a character; where it does, that character comes out whole.

    Args:
        tokenizer: any; without a table of pieces it gets what `WindowDecodeStream` promises.
        prompt_ids: the prompt; none of its text is ever returned.

    Source: seed 001, section 6.7.
    """

    def __init__(self, tokenizer: Tokenizer, prompt_ids: Sequence[int]) -> None:
        self._stream = create_decode_stream(tokenizer, prompt_ids, skip_special_tokens=False)

    def push(self, token_id: int) -> str:
        """Take one new id; return the text that it makes certain, `""` inside a character."""
        return self._stream.step(token_id)

    def flush(self) -> str:
        """End the output: return what was cut off as U+FFFD, once."""
        return self._stream.flush()
