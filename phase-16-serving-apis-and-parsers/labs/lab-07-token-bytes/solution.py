r"""Token ids to text by their bytes: a table says which bytes an id stands for, UTF-8 the rest.

The table is made once for a tokenizer. A stream costs one table lookup for each id, and holds at
most 3 bytes. The bytes of an id do not depend on its neighbours, so emitted text is never wrong
later.

But: only for tokenizers whose text is the bytes of their tokens, one after the other. A decoder
that rewrites earlier text needs decode and compare.
"""

import re
from collections.abc import Callable, Iterable, Sequence

_MARK = "\u2581"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_of_character() -> dict[str, int]:
    """Return GPT-2's map: 188 visible bytes are themselves, the others follow from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + number): byte for number, byte in enumerate(others)
    }


_BYTE_OF = _byte_of_character()


def _byte_level(token: str) -> bytes:
    if all(character in _BYTE_OF for character in token):
        return bytes(_BYTE_OF[character] for character in token)
    return token.encode()


def _byte_fallback(token: str) -> bytes:
    if match := _BYTE_TOKEN.fullmatch(token):
        return bytes.fromhex(match[1])
    return token.replace(_MARK, " ").encode()


_KINDS: dict[str, Callable[[str], bytes]] = {
    "byte_level": _byte_level,
    "byte_fallback": _byte_fallback,
}


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
    if kind not in _KINDS:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(_KINDS)}")
    spelled = _KINDS[kind]
    return [
        None if token is None else token.encode() if token_id in special else spelled(token)
        for token_id, token in enumerate(vocabulary)
    ]


# A proper prefix of a character at the end of the bytes. Unicode, table 3-7, less each last byte.
_OPEN_END = re.compile(
    rb"""(?: [\xC2-\xF4]
      | (?: \xE0 [\xA0-\xBF] | \xED [\x80-\x9F] | [\xE1-\xEC\xEE\xEF] [\x80-\xBF] )
      | (?: \xF0 [\x90-\xBF] | \xF4 [\x80-\x8F] | [\xF1-\xF3] [\x80-\xBF] ) [\x80-\xBF]?
    )\Z""",
    re.VERBOSE,
)
_LONGEST_HOLD = 3


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
        self._strip_first_space = strip_first_space
        self._at_start = strip_first_space
        # The text that this returns belongs to the prompt.
        self._decide(self._end_of(prompt_ids))

    @property
    def held(self) -> bytes:
        """The bytes at the end that can still become a character, at most 3."""
        return self._held

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
        return self._decide(self._bytes_of(token_id))

    def feed_many(self, ids: Iterable[int]) -> str:
        r"""Feed a burst of ids; return the text that feeding them one by one gives, joined.

        >>> detokenizer = TokenDetokenizer([b"caf", b"\xc3", b"\xa9"])
        >>> detokenizer.feed_many([0, 1, 2, 1]), detokenizer.held
        ('café', b'\xc3')
        """
        return self._decide(b"".join(map(self._bytes_of, ids)))

    def flush(self) -> str:
        r"""End the stream: return the held bytes as text, and start with fresh state.

        A character that was cut off is one U+FFFD; a second flush returns `""`. The next id begins
        another stream, with the same options and without a prompt.

        >>> detokenizer = TokenDetokenizer([b"ok \xf0\x9f"])
        >>> detokenizer.feed(0), detokenizer.flush(), detokenizer.flush()
        ('ok ', '\ufffd', '')
        """
        text = self._held.decode("utf-8", "replace")
        self._held = b""
        self._at_start = self._strip_first_space
        return text

    def _bytes_of(self, token_id: int) -> bytes:
        if token_id in self._skipped or not 0 <= token_id < len(self._table):
            return b""
        return self._table[token_id] or b""

    def _decide(self, data: bytes) -> str:
        """Add bytes; return the text that is now certain, and hold the rest."""
        if self._at_start and data:
            data = data.removeprefix(b" ")
            self._at_start = False
        data = self._held + data
        held = _OPEN_END.search(data, max(0, len(data) - _LONGEST_HOLD))
        end = held.start() if held else len(data)
        self._held = data[end:]
        return data[:end].decode("utf-8", "replace")

    def _end_of(self, ids: Sequence[int]) -> bytes:
        """Return the last bytes of these ids, at least as many as may be held."""
        end = b""
        for token_id in reversed(ids):
            end = self._bytes_of(token_id) + end
            if len(end) >= _LONGEST_HOLD:
                break
        return end
