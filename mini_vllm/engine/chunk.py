"""The news of one iteration for one reader. A chunk never changes once made."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mini_vllm.engine.finish import FinishReason
from mini_vllm.text.events import Event


@dataclass(frozen=True, slots=True)
class LogprobEntry:
    """How likely a model thought one token.

    Attributes:
        token_id: which.
        logprob: natural logarithm of its probability, at most 0.0.
        piece: its bytes, which need not be whole characters.
    """

    token_id: int
    logprob: float
    piece: bytes


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """One step of a generation: the token that was taken, and the likeliest ones, best first.

    The chosen one is here even if it is not among the likeliest.
    """

    chosen: LogprobEntry
    top: tuple[LogprobEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """The news of one choice.

    Attributes:
        token_ids: the new ids. They may be ahead of the text, never behind it.
        text: the new text; may be empty.
        finished: whether this is the last chunk.
        reason: why it ended; NOT_FINISHED in every chunk but the last.
        logprobs: one for each id, where they were asked for.
        events: text, reasoning and tool calls in their order, where there is more than text;
            otherwise empty.
        stop_reason: the stop string or stop id that ended it, as vLLM reports it.
        held: what each layer of the text path holds by now, in a stream that asked for it.

    Raises:
        ValueError: `finished` and `reason` disagree, or the text has no UTF-8 form.
    """

    token_ids: tuple[int, ...] = ()
    text: str = ""
    finished: bool = False
    reason: FinishReason = FinishReason.NOT_FINISHED
    logprobs: tuple[TokenLogprobs, ...] = ()
    events: tuple[Event, ...] = ()
    stop_reason: str | int | None = None
    # A dict has no hash; equality looks at it all the same.
    held: Mapping[str, str | bytes] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if self.finished != (self.reason is not FinishReason.NOT_FINISHED):
            raise ValueError(f"finished={self.finished} and reason={self.reason.name} disagree")
        if not self.text.isascii():
            self.text.encode()
