"""Why a text ended: decided in one place, translated into the API's words in one place.

    event                                      finish reason   the API's word
    EOS or a stop id is fed                    END_ID          stop, or tool_calls
    a stop string is complete                  STOP_WORDS      stop, or tool_calls
    neither, and max_tokens ids were made      LENGTH          length
    the reader or the submitter cancels        CANCELLED       none: an error
    model, text path or engine fail            ERROR           none: an error

Only the text path sees both ids and text, so it decides. It finds stop ids and stop strings itself;
`finish` reports the other causes to it. `Ending.decide` chooses between two causes. The engine
keeps the first ending of a choice.
"""

from dataclasses import dataclass
from enum import IntEnum


class FinishReason(IntEnum):
    """Why a text ended, or that it has not."""

    NOT_FINISHED = 0
    END_ID = 1
    LENGTH = 2
    CANCELLED = 3
    ERROR = 4
    STOP_WORDS = 5

    @property
    def label(self) -> str:
        """A name for people."""
        return _LABELS[self]

    @property
    def is_complete(self) -> bool:
        """Whether the answer ended in a way that clients accept: neither cancelled nor failed."""
        return self in (FinishReason.END_ID, FinishReason.STOP_WORDS, FinishReason.LENGTH)

    @property
    def cuts(self) -> bool:
        """Whether the text was cut off: the model would have continued."""
        return self not in (FinishReason.END_ID, FinishReason.STOP_WORDS)

    def openai(self, *, called: bool = False) -> str | None:
        """Return the `finish_reason` of the OpenAI API, or None while the text runs.

        `tool_calls` requires both a call and a normal stop: half an answer may contain half a call,
        which a client must not run. The API knows neither `cancelled` nor `error`; a server answers
        with an error instead.

        Args:
            called: whether a complete call was emitted.
        """
        word = _OPENAI[self]
        return "tool_calls" if called and word == "stop" else word


_LABELS = ("not-finished", "end-of-sequence", "max-length", "cancelled", "error", "stop-words")
_OPENAI = (None, "stop", "length", "cancelled", "error", "stop")


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a text ended.

    Attributes:
        reason: the kind.
        stop_reason: the stop string or stop id that ended it, as vLLM reports it; None for EOS.
        error: what went wrong, if the reason is ERROR.
    """

    reason: FinishReason
    stop_reason: str | int | None = None
    error: BaseException | None = None

    @classmethod
    def decide(
        cls, cause: FinishReason, *, stop_id: int | None = None, stop_string: str | None = None
    ) -> "Ending":
        """Return the ending of a text after its flush.

        The flush may have completed a stop string. That string precedes the id that ended the text,
        so it wins over the id and over the length. Nothing wins over a cancellation or a failure.

        Args:
            cause: the reason for which the text ended.
            stop_id: the stop id that ended the text, or None for EOS and other causes.
            stop_string: the completed stop string, or None.
        """
        if cause in (FinishReason.CANCELLED, FinishReason.ERROR):
            return cls(cause)
        if stop_string is not None:
            return cls(FinishReason.STOP_WORDS, stop_string)
        return cls(cause, stop_id)
