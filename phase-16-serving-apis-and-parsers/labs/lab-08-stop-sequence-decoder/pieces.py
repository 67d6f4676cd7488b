"""The detokenizer that this lab hands to the code under test.

Some tests call the decoder as an engine does, with an iterator.
"""

import codecs
from collections.abc import Iterator, Sequence
from typing import Any


class Pieces:
    """A detokenizer: ids 0-255 are bytes; the ids from 256 on are the pieces of a table.

    All other ids have no text. A character is emitted with the token that completes it.

    Args:
        table: the bytes of the ids from 256 on; a piece may begin or end inside a character.
    """

    def __init__(self, table: Sequence[bytes] = ()) -> None:
        self._table = [bytes([byte]) for byte in range(256)] + [*table]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def held(self) -> bytes:
        """The bytes of an incomplete character."""
        return self._decoder.getstate()[0]

    def feed(self, token_id: int) -> str:
        """Take one token; return the text that is now certain."""
        known = 0 <= token_id < len(self._table)
        return self._decoder.decode(self._table[token_id] if known else b"")

    def flush(self) -> str:
        """Return U+FFFD for half a character, else ""; then start with fresh state."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text


def iterator(*token_ids: int) -> Iterator[int]:
    """Return an iterator of these ids."""
    return iter(token_ids)


class Caller:
    """A caller of a decoder: it takes bursts from iterators, and keeps all results.

    Args:
        decoder: the code under test.
    """

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._results: list[Any] = []
        self._last: Any = None

    @property
    def results(self) -> list[Any]:
        """The results of all bursts, as they are now."""
        return [*self._results]

    def take_from(self, *token_ids: int) -> list[int]:
        """Hand over an iterator of these ids as a burst; return the ids that are left in it."""
        ids = iter(token_ids)
        self._results.append(self._decoder.process_many(ids))
        return [*ids]

    def take(self, *token_ids: int) -> None:
        """Hand over a list of these ids as a burst."""
        self._results.append(self._decoder.process_many([*token_ids]))

    def repeat(self, token_id: int, count: int) -> str:
        """Process an id this many times; return all text."""
        texts = []
        for _ in range(count):
            self._last = self._decoder.process(token_id)
            texts.append(self._last.text)
        return "".join(texts)

    @property
    def last(self) -> Any:
        """The last output of `repeat`."""
        return self._last

    def burst(self, token_id: int, count: int, *more: int) -> tuple[str, Any]:
        """Process a burst of this many equal ids and more ids; return all text, and the number of
        ids that were taken.
        """
        outputs, taken = self._decoder.process_many([token_id] * count + [*more])
        return "".join(output.text for output in outputs), taken

    def append(self, value: int) -> None:
        """Change all lists that were returned: append a value."""
        for outputs, _ in self._results:
            outputs.append(value)
