"""An incremental detokenizer over any tokenizer that can decode: a window of tokens, and a diff.

It knows nothing about bytes. It decodes the last few tokens with and without the new one, and
returns the difference. Text that ends in U+FFFD may end inside a character, so that end is held.

It decodes at most a fixed number of ids per token, whatever the text and however long it is.
"""

from collections.abc import Sequence
from typing import Protocol

UNFINISHED = "\ufffd"


class Tokenizer(Protocol):
    """The tokenizer that the detokenizer gets."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids, special tokens included; unknown ids have no text."""


class IncrementalDetokenizer:
    r"""Turn tokens into the text that they add to a prompt, one token at a time.

    For well-formed text, all text that `push` and `flush` return, joined, is the text that
    `decode(prompt + output)` has beyond `decode(prompt)`. If the prompt ends inside a character,
    that character is emitted whole; no other text of the prompt is emitted.

    Args:
        tokenizer: only its `decode(ids)` is used.
        prompt_ids: the tokens before the output. They are read when the stream is made, and only
            the last of them are read.

    >>> class Utf8:
    ...     def decode(self, ids):
    ...         return bytes(ids).decode("utf-8", "replace")
    >>> detokenizer = IncrementalDetokenizer(Utf8(), [0x61, 0xC3])
    >>> [detokenizer.push(byte) for byte in b"\xa9!"], detokenizer.flush()
    (['é', '!'], '')
    """

    def __init__(self, tokenizer: Tokenizer, prompt_ids: Sequence[int]) -> None:
        self._decode = tokenizer.decode
        # The tokens whose text has been emitted, as far as the next ones need them. Task 3 begins
        # here with `prompt_ids`.
        self._context: list[int] = []
        # The held tokens: their text has not been emitted, or not all of it.
        self._waiting: list[int] = []

    def push(self, token_id: int) -> str:
        r"""Push one token; return the text that is now certain, or `""` if there is none yet.

        A character is emitted with the token that completes it, and complete text before an
        unfinished end at once. A U+FFFD that the model wrote looks like such an end: it is emitted
        when other text follows, and at most three tokens of text late. An id without text gives
        `""` and changes nothing, even inside a character. A token such as `▁`, which is empty only
        at the start of a text, is not an id without text. After `flush` every token gives `""`.

        >>> class Utf8:
        ...     def decode(self, ids):
        ...         return bytes(ids).decode("utf-8", "replace")
        >>> detokenizer = IncrementalDetokenizer(Utf8(), [])
        >>> [detokenizer.push(byte) for byte in "a🚀".encode()]
        ['a', '', '', '', '🚀']
        """
        raise NotImplementedError("lab-06 task 1: push")

    def flush(self) -> str:
        r"""End the output: return the held text, once.

        A character that was cut off becomes U+FFFD, as `decode` shows it.

        >>> class Utf8:
        ...     def decode(self, ids):
        ...         return bytes(ids).decode("utf-8", "replace")
        >>> detokenizer = IncrementalDetokenizer(Utf8(), [])
        >>> detokenizer.push(0xF0), detokenizer.flush(), detokenizer.flush()
        ('', '\ufffd', '')
        """
        raise NotImplementedError("lab-06 task 4: flush")
