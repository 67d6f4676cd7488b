"""Why a generation ended."""

from enum import IntEnum


class FinishReason(IntEnum):
    """Why a generation ended, or that it has not. Values and labels are seed 004's."""

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
    def openai(self) -> str | None:
        """The `finish_reason` of the OpenAI API, or None while it runs.

        `cancelled` and `error` are no values of that API; a server turns them into an error.
        """
        return _OPENAI[self]


_LABELS = (
    "not-finished",
    "end-of-sequence",
    "max-length",
    "cancelled",
    "error",
    "stop-words",
)
_OPENAI = (None, "stop", "length", "cancelled", "error", "stop")
