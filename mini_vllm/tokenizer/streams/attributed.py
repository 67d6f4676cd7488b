"""A stream that also says which token brought which text.

For logprobs and token timings a client must know where in the text each token begins. The ids of a
character share its place. The list of places grows with the output, so the plain stream has none.
"""

from collections.abc import Iterable

from mini_vllm.tokenizer.streams.decode_stream import AnyDecodeStream


class AttributedStream:
    """A decode stream with bursts, segments, and the text offset of each id.

    For servers that report `text_offset` with logprobs.

    Attributes:
        offsets: for each id so far, in characters of the emitted text, where its own text begins.
            They never decrease. For an id without text it is where the next text would begin.
        length: how many characters were emitted.
    """

    def __init__(self, stream: AnyDecodeStream) -> None:
        self._stream = stream
        self.offsets: list[int] = []
        self.length = 0

    @property
    def held(self) -> bytes:
        """What waits, as in the stream itself."""
        return self._stream.held

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now."""
        self.offsets.append(self.length)
        return self._emit(self._stream.step(token_id))

    def step_batch(self, token_ids: Iterable[int]) -> list[str]:
        """Take a burst of ids; return the text of each. How ids are grouped changes nothing."""
        return [self.step(token_id) for token_id in token_ids]

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
