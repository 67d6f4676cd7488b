"""Twenty thousand tokens of a byte-level vocabulary, as long as they come: text in five scripts."""

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

    It decodes the tokens since the last whole text, and what is new comes out, unless it ends in
    U+FFFD. But: text that really ends in U+FFFD waits, and what waits is not bounded.
    """

    def __init__(self, table: list[bytes]) -> None:
        self._ids: list[int] = []
        self._read = 0
        self._before = ""

    def feed(self, token_id: int) -> str:
        """Take one id; return what is new, if it is whole."""
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
        """Return the rest."""
        return str(TOKENIZER.decode(self._ids))[len(self._before) :]


class _LibrarysStream:
    """`DecodeStream` of the `tokenizers` library. It has no flush."""

    def __init__(self) -> None:
        self._tokenizer = LIBRARYS
        self._stream = DecodeStream(skip_special_tokens=True)

    def feed(self, token_id: int) -> str:
        return self._stream.step(self._tokenizer, token_id) or ""

    def flush(self) -> str:
        return ""


def others() -> dict[str, Callable[[], Any]]:
    """Return what else runs beside: the library's own stream, where there is the library."""
    return {} if DecodeStream is None else {"DecodeStream": _LibrarysStream}
