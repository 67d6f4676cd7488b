"""The last line: whatever happens, every channel gets its terminal chunk.

Source: seed 004; there it forgets text that stop strings held back.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType

from mini_vllm.engine.engine_errors import EngineStateError
from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.sequence import SequenceState
from mini_vllm.engine.slot_stream import SlotStreamState

Rows = Iterable[tuple[SequenceState, SlotStreamState]]


class StreamChannelFinalizer:
    """Wraps what attaches channels and serves them; at its end none is left open.

    A channel that is still open gets one chunk with what its reader was not told yet, ids and text,
    and the reason ERROR. It never raises and swallows nothing.

    Args:
        rows: asked at the end for whatever may still be open.
    """

    def __init__(self, rows: Callable[[], Rows]) -> None:
        self._rows = rows

    def __enter__(self) -> "StreamChannelFinalizer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(error or EngineStateError("the engine stopped before the end of the stream"))

    def close(self, error: BaseException) -> None:
        """End all that is open with this error."""
        for sequence, stream in self._rows():
            producer = stream.producer
            with suppress(BaseException):
                stream.fail(sequence, error)
                stream.emit(sequence)
            # Where nothing could be said any more, that it ended still can.
            with suppress(BaseException):
                if producer is not None:
                    producer.finish(FinishReason.ERROR, error)
