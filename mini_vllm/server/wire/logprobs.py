"""Logprobs as clients read them: for chats a list of tokens, for completions four lists.

A token's string is its bytes, decoded for itself: half a character is U+FFFD. A chat has the bytes
beside it; joined over all tokens they are the text again.
"""

from codecs import getincrementaldecoder
from collections.abc import Iterable

import msgspec

from mini_vllm.engine import LogprobEntry, TokenLogprobs

# JSON has no infinity. This is what vLLM says of what cannot be.
_LEAST = -9999.0


class TopLogprob(msgspec.Struct):
    """One of the likeliest tokens."""

    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(msgspec.Struct):
    """The token that was taken, and the likeliest ones, best first."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct):
    """The logprobs of a chat's choice or of a part of it."""

    content: list[ChatTokenLogprob]


class CompletionLogprobs(msgspec.Struct):
    """The logprobs of a completion's choice or of a part of it: four lists of one length."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


def chat_logprobs(steps: Iterable[TokenLogprobs]) -> ChatLogprobs:
    """Return what a chat says of some steps."""
    return ChatLogprobs(
        [
            ChatTokenLogprob(*_said(step.chosen), [TopLogprob(*_said(entry)) for entry in step.top])
            for step in steps
        ]
    )


def _said(entry: LogprobEntry) -> tuple[str, float, list[int]]:
    return _token(entry), _logprob(entry), list(entry.piece)


def _token(entry: LogprobEntry) -> str:
    return entry.piece.decode("utf-8", "replace")


def _logprob(entry: LogprobEntry) -> float:
    # In this order NaN is the least as well.
    return max(_LEAST, entry.logprob)


class CompletionLogprobsStream:
    """Makes the four lists, and counts the characters.

    `text_offset` is where the first character begins that a token has a part of. It counts what the
    tokens say, so one that is left out of the text, as special tokens are, moves it.
    """

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._length = 0

    def feed(self, steps: Iterable[TokenLogprobs]) -> CompletionLogprobs:
        """Return what a completion says of the next steps."""
        lists = CompletionLogprobs([], [], [], [])
        for step in steps:
            lists.tokens.append(_token(step.chosen))
            lists.token_logprobs.append(_logprob(step.chosen))
            lists.top_logprobs.append(_by_token(step))
            lists.text_offset.append(self._length)
            self._length += len(self._decoder.decode(step.chosen.piece))
        return lists


def _by_token(step: TokenLogprobs) -> dict[str, float]:
    """The chosen token is among them. Of tokens that look the same the likeliest one counts."""
    best: dict[str, float] = {}
    for entry in (*step.top, step.chosen):
        best.setdefault(_token(entry), _logprob(entry))
    return best
