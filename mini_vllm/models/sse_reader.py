"""Server-sent events, read from bytes that come in pieces of any size.

But: it gives the data of events alone. Event names, ids and retry times, which no OpenAI-compatible
server needs, are passed over.

Source: the HTML standard, section 9.2.6, "Interpreting an event stream".
"""

import re

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseReader:
    r"""Bytes in, the data of whole events out.

    A line ends with LF, CR or CRLF; an empty line ends an event, and an event that the stream cuts
    off is none. Held is only the unfinished event.

    >>> reader = SseReader()
    >>> reader.feed(b"data: on"), reader.feed(b"e\r\n: ping\r\n\r"), reader.feed(b"\ndata:two\n\n")
    ([], ['one'], ['two'])
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._after_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes; return the data of each event that is complete now."""
        # A CR has ended its line already, so no event waits to see whether an LF follows.
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if data:
            self._after_cr = data.endswith(b"\r")
        events = []
        *ends, rest = _LINE_END.split(data)
        for end in ends:
            self._line += end
            line = bytes(self._line)
            self._line.clear()
            if self._at_start:
                line, self._at_start = line.removeprefix(_BYTE_ORDER_MARK), False
            if line:
                self._take(line)
            elif self._data:
                events.append("\n".join(self._data))
                self._data = []
        self._line += rest
        return events

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            # Lines are cut at ASCII bytes, so never inside a character.
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
