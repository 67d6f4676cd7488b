"""A decode stream that counts and times its steps."""

import time
from typing import TYPE_CHECKING

from mini_vllm.tokenizer.streams.decode_stream import DecodeStream, WindowDecodeStream
from mini_vllm.tokenizer.streams.token_stream import TokenStream

if TYPE_CHECKING:
    from mini_vllm.tokenizer.metrics import TokenizerMetrics


class MeteredStream(TokenStream):
    """A decode stream of a metered tokenizer.

    Two readings of the clock cost as much as many steps, so `TextPipeline` does not use this class.

    Args:
        stream: the stream.
        metrics: the instruments.
    """

    def __init__(
        self, stream: DecodeStream | WindowDecodeStream, metrics: "TokenizerMetrics"
    ) -> None:
        self._stream = stream
        self._metrics = metrics

    @property
    def held(self) -> bytes:
        """The held bytes, as in `DecodeStream`."""
        return self._stream.held

    def step(self, token_id: int) -> str:
        """Feed one id; return the text that is certain now."""
        start = time.perf_counter()
        text = self._stream.step(token_id)
        self._metrics.stream_step_duration.observe(time.perf_counter() - start)
        self._metrics.stream_tokens.inc()
        if self._stream.held:
            self._metrics.stream_incomplete_utf8.inc()
        return text

    def flush(self) -> str:
        """End the stream: return U+FFFD for a cut-off character, once."""
        return self._stream.flush()
