"""A stream that also says which token brought which text.

For logprobs and token timings a client must know where in the text each token begins. The ids of a
character share its place. The list of places grows with the output, so the plain stream has none.
"""

from mini_vllm.tokenizer.streams.factory import AnyDecodeStream
from mini_vllm.tokenizer.streams.token_stream import TokenStream


class AttributedStream(TokenStream):
    """A decode stream with bursts, segments, and the text offset of each id.

    For servers that report `text_offset` with logprobs.

    Attributes:
        offsets: for each id so far, in characters of the emitted text, where its own text begins.
            They never decrease. For an id without text it is where the next text would begin.
        length: how many characters were emitted.
    """

    def __init__(self, stream: AnyDecodeStream) -> None:
        self._stream = stream
        self._ids: list[int] = []
        self.offsets: list[int] = []
        self.length = 0

    def tokens(self) -> tuple[int, ...]:
        """Return the ids so far, one for each offset."""
        return tuple(self._ids)

    @property
    def held(self) -> bytes:
        """What waits, as in the stream itself."""
        return self._stream.held

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now."""
        self._ids.append(token_id)
        self.offsets.append(self.length)
        return self._emit(self._stream.step(token_id))

    def end_segment(self) -> str:
        """End a segment, as where a channel switches: no character reaches across.

        Return what was cut off as U+FFFD. The next id continues the same text.
        """
        return self._emit(self._stream.flush())

    def flush(self) -> str:
        """End the stream; return what was cut off as U+FFFD, once."""
        return self._emit(self._stream.flush())

    def _emit(self, text: str) -> str:
        self.length += len(text)
        return text
