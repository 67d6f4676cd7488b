"""Lab 07: know the bytes of every token here. README.md has the story and the tasks.

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
            with any other character in it is plain text. `"byte_fallback"`: `<0xE4>`, two
            hexadecimal digits, is that byte; in all other tokens every `▁` (U+2581) is a space.
        special: the ids whose token is plain text, whatever its characters.

    Returns:
        For each id its bytes, of plain text the UTF-8; None where the vocabulary has None.

    Raises:
        ValueError: the kind is neither of the two; the message gives it.

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

    Ids without bytes add nothing and change nothing, not even in the middle of a character: ids
    outside the table, negative ones included, ids that the table has None for, and special ids that
    are skipped.

    Args:
        table: the bytes of each id, as `token_bytes` returns them.
        special: the ids that `skip_special_tokens` is about.
        skip_special_tokens: whether they are left out of the text.
        prompt_ids: the ids before the stream. Their text does not come out, but for a character
            that they begin and the stream completes: it comes out whole.
        strip_first_space: leave out one space where the text begins, as Llama 2's decoder does.
            After a prompt that has text, the text has begun.

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
        """The bytes that wait for the rest of their character, at most 3."""
        raise NotImplementedError("lab-07 task 2: held")

    def feed(self, token_id: int) -> str:
        r"""Take one id; return the text that is now certain, or `""` if there is none.

        The text of a stream, flush included, is that of all its bytes: of `bytes.decode("utf-8",
        "replace")`. Each character comes out with the token that completes it, with all that is
        before it, and each U+FFFD with the token after which nothing else is possible. Only bytes
        at the end that can still become a character are held.

        >>> detokenizer = TokenDetokenizer([b"a \xf0", b"\x9f\x9a\x80\xe4", b"b"])
        >>> detokenizer.feed(0), detokenizer.held
        ('a ', b'\xf0')
        >>> detokenizer.feed(1), detokenizer.feed(2)
        ('🚀', '\ufffdb')
        """
        raise NotImplementedError("lab-07 task 2: feed")

    def feed_many(self, ids: Iterable[int]) -> str:
        r"""Take a burst of ids; return what feeding them one by one gives, joined.

        >>> detokenizer = TokenDetokenizer([b"caf", b"\xc3", b"\xa9"])
        >>> detokenizer.feed_many([0, 1, 2, 1]), detokenizer.held
        ('café', b'\xc3')
        """
        raise NotImplementedError("lab-07 task 3: feed_many")

    def flush(self) -> str:
        r"""End the stream: return what is held as text, and start afresh.

        A character that was cut off is one U+FFFD; a second flush returns `""`. What is fed next is
        another stream, with the same options and without a prompt.

        >>> detokenizer = TokenDetokenizer([b"ok \xf0\x9f"])
        >>> detokenizer.feed(0), detokenizer.flush(), detokenizer.flush()
        ('ok ', '\ufffd', '')
        """
        raise NotImplementedError("lab-07 task 3: flush")
