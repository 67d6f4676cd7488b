"""Lab 11: write the OpenAI stream here. README.md has the story and the tasks.

Check your work with `make lab N=11`. Stuck? `make hint N=11`.
"""

from mini_vllm.text.events import (  # noqa: F401  all that you need
    ArgsDelta,
    CallEnd,
    CallStart,
    Event,
    Malformed,
    ReasoningDelta,
    TextDelta,
)


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
        raise NotImplementedError("lab-11 task 1: start")

    def feed(self, event: Event) -> bytes:
        """Return the frame of one event, or `b""` for a `CallEnd` and for an empty text.

        Texts, ids and names are passed through unchanged.

        >>> stream = ChatStream("chatcmpl-1", 1760000000, "mini")
        >>> stream.start()[:5], stream.feed(CallStart(0, None, "f"))[:5], stream.feed(TextDelta(""))
        (b'data:', b'data:', b'')
        """
        raise NotImplementedError("lab-11 task 1: feed")

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
        raise NotImplementedError("lab-11 task 3: finish")

    def error(self, message: str) -> bytes:
        """End the stream after a failure: return the error and `[DONE]`, without a role.

        The error is not a chunk, so it has no `usage`.

        >>> SseReader().feed(ChatStream("chatcmpl-1", 1760000000, "mini").error("no memory"))[1]
        '[DONE]'
        """
        raise NotImplementedError("lab-11 task 3: error")


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
        raise NotImplementedError("lab-11 task 4: feed")
