"""Lab 07: write the table of token bytes and its stream here. README.md has the tasks.

Check your work with `make lab N=07`. Stuck? `make hint N=07`.
"""

from collections.abc import Iterable, Sequence


def token_bytes(
    vocabulary: Sequence[str | None], kind: str, *, special: frozenset[int] = frozenset()
) -> list[bytes | None]:
    r"""Return the bytes that each id of a vocabulary contributes to the text.

    Args:
        vocabulary: the tokens by id, as the tokenizer spells them; None for an id without a token.
        kind: how it spells bytes. `"byte_level"`: each character is a byte, by GPT-2's map; a token
            with any other character in it is plain text. `"byte_fallback"`: a token like `<0xE4>`,
            with two hexadecimal digits, upper or lower case, is that byte; in all other tokens
            every `▁` (U+2581) is a space.
        special: the ids whose token is plain text, whatever its characters. Ids that the vocabulary
            does not have are ignored.

    Returns:
        A new list: for each id its bytes, which for plain text are its UTF-8; None if the
        vocabulary has None.

    Raises:
        ValueError: `kind` is neither of the two; the message contains it.

    >>> token_bytes(["Ġthe", "ðŁ", None, "<s>"], "byte_level", special=frozenset({3}))
    [b' the', b'\xf0\x9f', None, b'<s>']
    >>> token_bytes(["▁the", "<0xF0>", "▁▁"], "byte_fallback")
    [b' the', b'\xf0', b'  ']

    Source: `bytes_to_unicode` of GPT-2's `encoder.py`; the `ByteLevel` and `ByteFallback` decoders
    of Hugging Face's tokenizers.
    """
    raise NotImplementedError("lab-07 task 1: token_bytes")


class TokenDetokenizer:
    r"""Turn token ids into text, by a table of their bytes.

    Ids without bytes add nothing and change nothing, not even in the middle of a character. These
    are ids outside the table, negative ids included, ids for which the table has None, and special
    ids that are skipped.

    Args:
        table: the bytes of each id, as `token_bytes` returns them. Many streams share it: it is
            neither changed nor copied.
        special: the ids of special tokens.
        skip_special_tokens: whether special tokens are left out of the text.
        prompt_ids: the ids before the stream. They are read when the stream is made, and only the
            last of them are read. Their text is not emitted, except for a character that they begin
            and the stream completes: it is emitted whole. If the stream breaks it off, it is one
            U+FFFD.
        strip_first_space: leave out one space where the text begins, as Llama 2's decoder does.
            A prompt that has text, or half a character, begins the text.

    >>> detokenizer = TokenDetokenizer([b" caf", b"\xc3", b"\xa9!", b"<s>"], special=frozenset({3}))
    >>> [detokenizer.feed(token_id) for token_id in (0, 1, 3, 2)]
    [' caf', '', '', 'é!']
    """

    def __init__(
        self,
        table: Sequence[bytes | None],
        *,
        special: frozenset[int] = frozenset(),
        skip_special_tokens: bool = True,
        prompt_ids: Sequence[int] = (),
        strip_first_space: bool = False,
    ) -> None:
        self._table = table
        self._skipped = special if skip_special_tokens else frozenset()
        self._held = b""
        # Task 3 begins here with `prompt_ids`, task 4 with `strip_first_space`.

    @property
    def held(self) -> bytes:
        """The bytes at the end that can still become a character, at most 3."""
        raise NotImplementedError("lab-07 task 2: held")

    def feed(self, token_id: int) -> str:
        r"""Feed one id; return the text that is now certain, or `""` if there is none.

        The text of a stream, flush included, is that of `bytes.decode("utf-8", "replace")` for all
        its bytes. Each character is emitted with the token that completes it, after all text before
        it, and each U+FFFD with the token after which no other text is possible. Only bytes at the
        end that can still become a character are held.

        >>> detokenizer = TokenDetokenizer([b"a \xf0", b"\x9f\x9a\x80\xe4", b"b"])
        >>> detokenizer.feed(0), detokenizer.held
        ('a ', b'\xf0')
        >>> detokenizer.feed(1), detokenizer.feed(2)
        ('🚀', '\ufffdb')
        """
        raise NotImplementedError("lab-07 task 2: feed")

    def feed_many(self, ids: Iterable[int]) -> str:
        r"""Feed a burst of ids; return the text that feeding them one by one gives, joined.

        >>> detokenizer = TokenDetokenizer([b"caf", b"\xc3", b"\xa9"])
        >>> detokenizer.feed_many([0, 1, 2, 1]), detokenizer.held
        ('café', b'\xc3')
        """
        raise NotImplementedError("lab-07 task 3: feed_many")

    def flush(self) -> str:
        r"""End the stream: return the held bytes as text, and start with fresh state.

        A character that was cut off is one U+FFFD; a second flush returns `""`. The next id begins
        another stream, with the same options and without a prompt.

        >>> detokenizer = TokenDetokenizer([b"ok \xf0\x9f"])
        >>> detokenizer.feed(0), detokenizer.flush(), detokenizer.flush()
        ('ok ', '\ufffd', '')
        """
        raise NotImplementedError("lab-07 task 3: flush")
