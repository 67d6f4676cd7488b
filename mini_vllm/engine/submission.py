"""Taking a submission in: all of it, or none.

What is wrong with a request or a channel is found before anything runs. The channels of a refused
submission are ended with the error, so a reader who waits already is not left waiting; a channel
that belongs to another request is left alone.

Source: seed 004; it refuses too, but leaves the channels open.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress

from mini_vllm.engine.channel import StreamChannel, _attach
from mini_vllm.engine.engine_errors import ChannelStateError, StreamingSubmissionError
from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.producer import Owner, Producer
from mini_vllm.engine.request import Request

Channels = Sequence[StreamChannel | None]

# Of all engines, for a channel could be given to two: whoever attaches or ends several channels
# does so undisturbed. Otherwise two submissions could each take what the other needs.
_LOCK = threading.Lock()


def validate_streaming_submission(requests: Sequence[Request], channels: Channels | None) -> None:
    """Check that there is one channel, or None, for each choice of each request, in their order.

    No channels at all, or an empty list, means that nobody reads along.

    Raises:
        StreamingSubmissionError: there are too many or too few, or one is none, is given twice,
            belongs to a request already, or has ended; the index is the first such place.
    """
    if isinstance(channels, StreamChannel):
        raise StreamingSubmissionError(0, "channels is one channel: give a list of them")
    if not channels:
        return
    choices = sum(request.params.n for request in requests)
    if len(channels) != choices:
        raise StreamingSubmissionError(
            min(len(channels), choices),
            f"{len(channels)} channels for {choices} choices: give one, or None, for each",
        )
    seen: set[int] = set()
    for index, channel in enumerate(channels):
        if channel is None:
            continue
        if not isinstance(channel, StreamChannel):
            raise StreamingSubmissionError(index, f"{channel!r} is no channel: give one, or None")
        if id(channel) in seen:
            raise StreamingSubmissionError(index, "the same channel is given twice")
        if channel.is_finished or channel.is_attached:
            raise StreamingSubmissionError(index, "the channel was used before: make a new one")
        seen.add(id(channel))


def attach_all(channels: Channels, owner: Owner) -> list[Producer | None]:
    """Attach the channels: all of them, or those that were attached are ended with the error.

    Raises:
        StreamingSubmissionError: another submission was quicker with one of them.
    """
    producers: list[Producer | None] = []
    with _LOCK:
        try:
            for index, channel in enumerate(channels):
                producers.append(None if channel is None else _attach(channel, index, owner))
        except BaseException as error:
            refusal = error
            if isinstance(error, ChannelStateError):
                refusal = StreamingSubmissionError(len(producers), str(error))
            for producer in producers:
                if producer is not None:
                    producer.finish(FinishReason.ERROR, refusal)
            raise refusal from None
    return producers


def refuse(channels: Channels | None, owner: Owner, error: BaseException) -> None:
    """End the fresh ones among the channels of a refused submission."""
    # A single channel would be iterated, and waited for.
    several = [channels] if isinstance(channels, StreamChannel) else channels or ()
    with _LOCK:
        for index, channel in enumerate(several):
            if isinstance(channel, StreamChannel):
                with suppress(ChannelStateError):
                    _attach(channel, index, owner).finish(FinishReason.ERROR, error)
