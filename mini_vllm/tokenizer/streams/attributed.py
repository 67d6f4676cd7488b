"""A stream that also reports which token contributed which text.

For logprobs and token timings a client must know where in the text each token begins. All ids of a
character share its place. The list of places grows with the output, so the plain stream has none.
"""

from mini_vllm.tokenizer.streams.factory import AnyDecodeStream
from mini_vllm.tokenizer.streams.token_stream import TokenStream


class AttributedStream(TokenStream):
    """A decode stream with bursts, segments, and the text offset of each id.

    For servers that report `text_offset` with logprobs.

    Attributes:
        offsets: for each id so far, in characters of the emitted text, where its own text begins.
            Offsets never decrease. The offset of an id without text is that of the next text.
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
        """The bytes that the decode stream holds."""
        return self._stream.held

    def step(self, token_id: int) -> str:
        """Feed one id; return the text that is certain now."""
        self._ids.append(token_id)
        self.offsets.append(self.length)
        return self._emit(self._stream.step(token_id))

    def end_segment(self) -> str:
        """End a segment, such as one before a switch of channels; return the rest of its text.

        No character continues across the end: a cut-off character is U+FFFD. The next id continues
        the same text.
        """
        return self._emit(self._stream.flush())

    def flush(self) -> str:
        """End the stream: return U+FFFD for a cut-off character, once."""
        return self._emit(self._stream.flush())

    def _emit(self, text: str) -> str:
        self.length += len(text)
        return text
