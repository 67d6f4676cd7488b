"""Why a text ended: decided in one place, said in the API's words in one place.

    what happens                               finish reason   the API's word
    EOS or a stop id comes                     END_ID          stop, or tool_calls
    a stop string is complete                  STOP_WORDS      stop, or tool_calls
    neither, and max_tokens ids were made      LENGTH          length
    the reader or the submitter cancels        CANCELLED       none: an error
    model, text path or engine fail            ERROR           none: an error

Only the text path sees ids and text, so it decides. It finds ids and stop strings itself and is
told of the rest by `finish`; `Ending.decide` says which of two causes counts. The engine keeps the
first ending of a choice.
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
        """Whether the answer came to an end that clients accept: neither cancelled nor failed."""
        return self in (FinishReason.END_ID, FinishReason.STOP_WORDS, FinishReason.LENGTH)

    @property
    def cuts(self) -> bool:
        """Whether the text ended where the model would have written on."""
        return self not in (FinishReason.END_ID, FinishReason.STOP_WORDS)

    def openai(self, *, called: bool = False) -> str | None:
        """Return the `finish_reason` of the OpenAI API, or None while the text runs.

        `tool_calls` takes both a call and a normal stop: half an answer may hold half a call, and
        a client must not run that. The API knows neither `cancelled` nor `error`; a server answers
        with an error instead.

        Args:
            called: whether the reader was given a complete call.
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
        """Return the ending of a text that ends for a cause, and whose flush has run.

        A stop string may be complete only now, with the last characters that were held. It comes
        before the id that ended the text, so it wins over that and over the length. Nothing wins
        over a cancellation or a failure.

        Args:
            cause: what ended the text.
            stop_id: the stop id that did, unless it was EOS.
            stop_string: the stop string that is complete, if one is.
        """
        if cause in (FinishReason.CANCELLED, FinishReason.ERROR):
            return cls(cause)
        if stop_string is not None:
            return cls(FinishReason.STOP_WORDS, stop_string)
        return cls(cause, stop_id)
