"""The race of lab 07: 20,000 tokens of a byte-level vocabulary, text in several scripts.

The naive version is the window of lab 06. The stream of the `tokenizers` library races beside them,
if the library is installed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit.course.lab import read_lab
from labkit.running.given import for_tests, read_given

try:
    from tokenizers import Tokenizer
    from tokenizers.decoders import DecodeStream
except ImportError:
    Tokenizer = DecodeStream = None

GIVEN = for_tests(read_given(read_lab(Path(__file__).parents[1])))
READER = GIVEN.reader("byte_level")
TOKENIZER = GIVEN.tokenizer("byte_level")
LIBRARYS = Tokenizer and Tokenizer.from_buffer(GIVEN.FILES["byte_level.json"])
TABLE = [READER.bytes_of(token_id) for token_id in range(len(READER.vocabulary))]

UNIT = "token"
CLASS = "TokenDetokenizer"
ARGUMENTS = (TABLE,)
NAIVE = "the window of lab 06"


def workload() -> list[int]:
    """Return the ids."""
    text = "A naïve café — 你好，世界 — नमस्ते — 🚀🇫🇷 — plain ASCII in between, as most text is. "
    ids = _longest_tokens(text.encode())
    return (ids * (20_000 // len(ids) + 1))[:20_000]


def _longest_tokens(data: bytes) -> list[int]:
    id_of = {piece: token_id for token_id, piece in enumerate(TABLE)}
    longest = max(map(len, TABLE))
    ids = []
    while data:
        size = next(n for n in range(longest, 0, -1) if data[:n] in id_of)
        ids.append(id_of[data[:size]])
        data = data[size:]
    return ids


class TokenDetokenizer:
    """A window of tokens, decoded and compared, as in lab 06.

    It decodes the tokens since the last text that ended in a whole character, and emits the new
    text, unless that ends in U+FFFD. But: it also holds text that really ends in U+FFFD, and the
    held tokens are not bounded.
    """

    def __init__(self, table: list[bytes]) -> None:
        self._ids: list[int] = []
        self._read = 0
        self._before = ""

    def feed(self, token_id: int) -> str:
        """Feed one id; return the new text, or "" if it ends in U+FFFD."""
        self._ids.append(token_id)
        text: str = TOKENIZER.decode(self._ids)
        if text.endswith("\ufffd"):
            return ""
        new = text[len(self._before) :]
        self._ids = self._ids[self._read :]
        self._read = len(self._ids)
        self._before = TOKENIZER.decode(self._ids)
        return new

    def flush(self) -> str:
        """Return the held text."""
        return str(TOKENIZER.decode(self._ids))[len(self._before) :]


class _LibrarysStream:
    """`DecodeStream` of the `tokenizers` library, which has no flush."""

    def __init__(self) -> None:
        self._tokenizer = LIBRARYS
        self._stream = DecodeStream(skip_special_tokens=True)

    def feed(self, token_id: int) -> str:
        return self._stream.step(self._tokenizer, token_id) or ""

    def flush(self) -> str:
        return ""


def others() -> dict[str, Callable[[], Any]]:
    """Return the maker of the library's own stream, if the library is installed."""
    return {} if DecodeStream is None else {"DecodeStream": _LibrarysStream}
