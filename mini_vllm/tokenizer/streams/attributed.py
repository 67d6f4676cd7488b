"""A stream that also says which token brought which text.

For logprobs and token timings a client must know where in the text each token begins. Ids that only
complete a character share its place.

But: it costs a list that grows with the output, so the plain stream does without.
"""

from collections.abc import Iterable

from mini_vllm.tokenizer.streams.decode_stream import AnyDecodeStream


class AttributedStream:
    """A `DecodeStream` with bursts, segments, and the text offset of each id.

    Attributes:
        offsets: for each id so far, in characters of the emitted text, where its own text begins.
            They never go down. Ids without text have the place where text would come next.
        length: how many characters were emitted.
    """

    def __init__(self, stream: AnyDecodeStream) -> None:
        self._stream = stream
        self.offsets: list[int] = []
        self.length = 0

    @property
    def held(self) -> bytes:
        """What waits, as in `DecodeStream`."""
        return self._stream.held

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now."""
        self.offsets.append(self.length)
        return self._emit(self._stream.step(token_id))

    def step_batch(self, token_ids: Iterable[int]) -> list[str]:
        """Take a burst of ids; return the text of each. How ids are cut into bursts is the same."""
        return [self.step(token_id) for token_id in token_ids]

    def end_segment(self) -> str:
        """End a segment, where a channel switches: no character reaches across.

        Return what was cut off as U+FFFD. The next id goes on in the same text.
        """
        return self._emit(self._stream.flush())

    def flush(self) -> str:
        """End the stream; return what was cut off as U+FFFD, once."""
        return self._emit(self._stream.flush())

    def _emit(self, text: str) -> str:
        self.length += len(text)
        return text
