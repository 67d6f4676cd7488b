r"""How much of a byte stream can be decoded already, and how any bytes become well-formed text.

CPython's decoder does the work; this file adds the exact boundary. The only bytes worth holding are
a *viable prefix*: a proper prefix of some well-formed character, at most 3 bytes. `ED A0` could
only become a surrogate, so it is replaced at once; the standard library's incremental decoder would
hold it.

Source: The Unicode Standard, chapter 3, table 3-7 and section 3.9 on maximal subparts.
"""

import codecs
from enum import Enum

# After these four lead bytes the second byte is restricted, because overlong forms, surrogates and
# numbers beyond U+10FFFF are ill-formed.
_SECOND = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}


class ReplacementPolicy(Enum):
    """How many U+FFFD an ill-formed sequence becomes; the value is the codec error handler.

    `MAXIMAL_SUBPART` is the rule of WHATWG decoders, CPython and Rust: one for a legal sequence
    that is cut short. `PER_BYTE` makes one for each byte of such a sequence.
    """

    MAXIMAL_SUBPART = "replace"
    PER_BYTE = "mini_vllm.replace_per_byte"


def _replace_per_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(ReplacementPolicy.PER_BYTE.value, _replace_per_byte)


def utf8_expected_len(first_byte: int) -> int:
    """Return the length of the character that starts with `first_byte`, or 0 if none does.

    Raises:
        ValueError: `first_byte` is outside 0-255.
    """
    if 0xC2 <= first_byte <= 0xF4:
        return 2 if first_byte < 0xE0 else 3 if first_byte < 0xF0 else 4
    if not 0 <= first_byte <= 255:
        raise ValueError(f"{first_byte} is not a byte (0-255)")
    return 1 if first_byte < 0x80 else 0


def last_complete_utf8_end(data: bytes | bytearray) -> int:
    r"""Return how much of `data` is decided, whatever follows: all but a viable prefix at its end.

    The bytes before that prefix are not validated: ill-formed bytes are as decided as text.

    >>> last_complete_utf8_end(b"abc\xf0\x9f\x94"), last_complete_utf8_end(b"\xed\xa0")
    (3, 2)
    """
    size = len(data)
    for start in range(size - 1, max(size - 4, -1), -1):
        byte = data[start]
        if 0x80 <= byte < 0xC0:
            continue
        if utf8_expected_len(byte) <= size - start:
            return size
        low, high = _SECOND.get(byte, (0x80, 0xBF))
        return start if size - start < 2 or low <= data[start + 1] <= high else size
    return size


def flush_to_boundary(buffer: bytearray) -> bytes:
    r"""Remove from a buffer the bytes that may be sent, and return them; a viable prefix stays.

    For servers that send raw bytes, such as those of one token after another: no client ever gets
    half a character of well-formed text. Bytes that stay at the end of the stream were cut off.

    >>> buffer = bytearray(b"ok\xf0\x9f")
    >>> flush_to_boundary(buffer), bytes(buffer)
    (b'ok', b'\xf0\x9f')
    """
    end = last_complete_utf8_end(buffer)
    data = bytes(buffer[:end])
    del buffer[:end]
    return data


def sanitize_utf8_streaming(
    data: bytes,
    pending: bytearray,
    policy: ReplacementPolicy = ReplacementPolicy.MAXIMAL_SUBPART,
) -> str:
    """Return the text that `pending` and `data` decide together; undecided bytes stay in `pending`.

    Args:
        data: the next bytes.
        pending: the held bytes, at most 3; changed in place.
        policy: how ill-formed bytes are replaced.
    """
    pending += data
    end = last_complete_utf8_end(pending)
    text = pending[:end].decode("utf-8", policy.value)
    del pending[:end]
    return text


def sanitize_utf8_flush(
    pending: bytearray, policy: ReplacementPolicy = ReplacementPolicy.MAXIMAL_SUBPART
) -> str:
    """Settle the held bytes, which were cut off: return U+FFFD for them, and clear `pending`."""
    text = pending.decode("utf-8", policy.value)
    pending.clear()
    return text


class Utf8Sanitizer:
    r"""Turns bytes into well-formed text, and keeps the pending bytes itself.

    For sources that hand over raw bytes; token ids go through a `DecodeStream` instead.

    >>> sanitizer = Utf8Sanitizer()
    >>> sanitizer.feed(b"\xf0\x9f"), sanitizer.feed(b"\x9a\x80!"), sanitizer.flush()
    ('', '🚀!', '')
    """

    def __init__(self, policy: ReplacementPolicy = ReplacementPolicy.MAXIMAL_SUBPART) -> None:
        self._policy = policy
        self._pending = bytearray()

    @property
    def pending(self) -> bytes:
        """The held bytes of an incomplete character, at most 3."""
        return bytes(self._pending)

    def feed(self, data: bytes) -> str:
        """Feed bytes; return the text that is certain now."""
        return sanitize_utf8_streaming(data, self._pending, self._policy)

    def flush(self) -> str:
        """End the stream: return U+FFFD for the held bytes. A second flush returns `""`."""
        return sanitize_utf8_flush(self._pending, self._policy)
