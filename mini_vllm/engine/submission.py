"""Taking a submission in: all of it, or none.

What is wrong with a request or a channel is found before anything runs. The channels of a refused
submission are ended with the error, so a reader who waits already is not left waiting; a channel
that belongs to another request is left alone.

Source: seed 004; it refuses too, but leaves the channels open.
"""

from collections.abc import Sequence

from mini_vllm.engine.channel import StreamChannel, _attach
from mini_vllm.engine.errors import ChannelStateError, StreamingSubmissionError
from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.producer import Owner, Producer
from mini_vllm.engine.request import Request

Channels = Sequence[StreamChannel | None]


def validate_streaming_submission(requests: Sequence[Request], channels: Channels | None) -> None:
    """Check that there is one channel, or None, for each choice of each request, in their order.

    No channels at all, or an empty list, means that nobody reads along.

    Raises:
        StreamingSubmissionError: there are too many or too few, or one is given twice, belongs to a
            request already, or has ended; the index is the first such place.
    """
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
    for index, channel in enumerate(channels):
        try:
            producers.append(None if channel is None else _attach(channel, index, owner))
        except ChannelStateError as error:
            refusal = StreamingSubmissionError(index, str(error))
            for producer in producers:
                if producer is not None:
                    producer.finish(FinishReason.ERROR, refusal)
            raise refusal from None
    return producers


def refuse(channels: Channels | None, owner: Owner, error: BaseException) -> None:
    """End the fresh ones among the channels of a refused submission."""
    for index, channel in enumerate(channels or ()):
        if channel is not None:
            try:
                _attach(channel, index, owner).finish(FinishReason.ERROR, error)
            except ChannelStateError:
                continue
