"""The standard output of code that is recorded."""

import io
from collections.abc import Callable
from typing import Any


class Output(io.TextIOWrapper):
    """A standard output like that of a test: in UTF-8, with a `buffer`.

    Args:
        take: called with each text that is written.
    """

    def __init__(self, take: Callable[[str], None]) -> None:
        super().__init__(_Bytes(take), encoding="utf-8", newline="", write_through=True)


class _Bytes(io.BytesIO):
    def __init__(self, take: Callable[[str], None]) -> None:
        super().__init__()
        self._take = take

    def write(self, data: Any, /) -> int:
        """Pass the text of some bytes on, and keep nothing."""
        text = bytes(data)
        self._take(text.decode("utf-8", "replace"))
        return len(text)
