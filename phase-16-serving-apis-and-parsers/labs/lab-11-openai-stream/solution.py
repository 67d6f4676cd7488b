"""The last layer of a serving engine: events out as server-sent events, and such bytes back in.

A client joins the deltas: strings are concatenated, and the entries of `tool_calls` are matched by
their `index`. So a field that occurs once in a message (its role, the id and the name of a call) is
sent once.

The reader is the other end of the wire. A network cuts bytes anywhere, so it collects bytes until a
line ends, and only then decodes them.

But: one choice, and no HTTP. Headers, pings and clients that leave are the server's work.
"""

import json
import re
from typing import Any

from mini_vllm.text.events import (
    ArgsDelta,
    CallStart,
    Event,
    Malformed,
    ReasoningDelta,
    TextDelta,
)

# Characters that JSON allows and a frame does not: UTF-8 has no surrogates, and clients that split
# lines as `str.splitlines` does take the others for line ends.
_ON_THE_WIRE = {
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
    **{code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)},
}


class ChatStream:
    """Turn the events of one answer into server-sent events, as the OpenAI API streams a chat.

    A frame is `data: `, JSON in one line, and an empty line. In the JSON, U+0085, U+2028 and U+2029
    are escaped, and a lone surrogate becomes U+FFFD. After `finish` or `error` the stream has
    ended: every call returns `b""`.

    Args:
        id: the id of the answer. Every chunk has `id`, `created` and `model`.
        created: the time of creation, in seconds since 1970.
        model: the name of the model.
        include_usage: whether the client asked for token counts.

    >>> import json
    >>> stream = ChatStream("chatcmpl-1", 1760000000, "mini")
    >>> frames = stream.start() + stream.feed(TextDelta("Hi"))
    >>> [json.loads(data)["choices"] for data in SseReader().feed(frames)][1]
    [{'index': 0, 'delta': {'content': 'Hi'}, 'finish_reason': None}]
    """

    def __init__(self, id: str, created: int, model: str, *, include_usage: bool = False) -> None:
        self._id = id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._started = False
        self._ended = False

    def start(self) -> bytes:
        """Return the first frame: the role, with empty content. A second call returns `b""`.

        If `start` has not been called, this frame precedes the first frame of `feed` or `finish`,
        whichever event that frame is of.

        >>> b'"role"' in ChatStream("chatcmpl-1", 1760000000, "mini").start()
        True
        """
        if self._started or self._ended:
            return b""
        self._started = True
        return self._chunk({"role": "assistant", "content": ""})

    def feed(self, event: Event) -> bytes:
        """Return the frame of one event, or `b""` for a `CallEnd` and for an empty text.

        Texts, ids and names are passed through unchanged.

        >>> stream = ChatStream("chatcmpl-1", 1760000000, "mini")
        >>> stream.start()[:5], stream.feed(CallStart(0, None, "f"))[:5], stream.feed(TextDelta(""))
        (b'data:', b'data:', b'')
        """
        delta = _delta(event)
        if self._ended or delta is None:
            return b""
        return self.start() + self._chunk(delta)

    def finish(self, reason: str, usage: dict[str, int] | None = None) -> bytes:
        """End the stream: an empty delta with the reason, the token counts, and `[DONE]`.

        Args:
            reason: `stop`, `length`, `tool_calls` or `content_filter`, passed through unchanged.
            usage: the token counts, passed through unchanged in a chunk without choices, even if
                the dictionary is empty. There is no such chunk if `usage` is None, or if the client
                did not ask for the counts.

        >>> stream = ChatStream("chatcmpl-1", 1760000000, "mini")
        >>> len(stream.start()) > 0, stream.finish("stop").count(b"data: "), stream.finish("length")
        (True, 2, b'')
        """
        if self._ended:
            return b""
        frames = self.start() + self._chunk({}, reason)
        if self._include_usage and usage is not None:
            frames += _frame({**self._head(), "choices": [], "usage": usage})
        return frames + self._end()

    def error(self, message: str) -> bytes:
        """End the stream after a failure: return the error and `[DONE]`, without a role.

        The error is not a chunk, so it has no `usage`.

        >>> SseReader().feed(ChatStream("chatcmpl-1", 1760000000, "mini").error("no memory"))[1]
        '[DONE]'
        """
        if self._ended:
            return b""
        return _frame({"error": {"message": message, "type": "server_error"}}) + self._end()

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        usage = {"usage": None} if self._include_usage else {}
        return _frame({**self._head(), "choices": [choice], **usage})

    def _head(self) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
        }

    def _end(self) -> bytes:
        self._ended = True
        return b"data: [DONE]\n\n"


def _delta(event: Event) -> dict[str, Any] | None:
    match event:
        case TextDelta(text=text) | Malformed(raw=text) if text:
            return {"content": text}
        case ReasoningDelta(text=text) if text:
            return {"reasoning_content": text}
        case CallStart(index=index, id=id, name=name):
            call = {"index": index, "id": f"call_{index}" if id is None else id, "type": "function"}
            return {"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]}
        case ArgsDelta(index=index, text=text) if text:
            return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
    return None


def _frame(payload: dict[str, Any]) -> bytes:
    line = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + line.translate(_ON_THE_WIRE).encode() + b"\n\n"


_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseReader:
    """Read server-sent events from bytes, however they are cut.

    >>> reader = SseReader()
    >>> [reader.feed(part) for part in (b"data: a\\ndata:", b"b\\n", b"\\ndata: [DONE]\\n\\n")]
    [[], [], ['a\\nb', '[DONE]']]

    Source: the HTML standard, section 9.2, "Server-sent events".
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._values: list[str] = []
        self._is_first_line = True
        self._after_cr = False

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes; return a new list: the data of each event that they complete, also
        `[DONE]`.

        An event is complete with the byte that ends its empty line. A CR ends a line at once. An LF
        right after it is part of the same line ending, even if it arrives with the next bytes.

        >>> reader = SseReader()
        >>> reader.feed(b"data: \\xe4\\xbd"), reader.feed(b"\\xa0\\r\\n\\r"), reader.feed(b"\\n")
        ([], ['你'], [])
        """
        if not data:
            return []
        rest = data.removeprefix(b"\n") if self._after_cr else data
        self._after_cr = data.endswith(b"\r")
        first, *others = _LINE_END.split(rest)
        self._line += first
        events = []
        for beginning in others:
            events += self._end_line()
            self._line += beginning
        return events

    def _end_line(self) -> list[str]:
        line, self._line = bytes(self._line), bytearray()
        if self._is_first_line:
            line, self._is_first_line = line.removeprefix(_BYTE_ORDER_MARK), False
        if line:
            field, _, value = line.partition(b":")
            if field == b"data":
                self._values.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            return []
        values, self._values = self._values, []
        return ["\n".join(values)] if values else []
