"""Logprobs on the wire: a list of tokens for chats, four parallel lists for completions.

A token's string is its own bytes decoded, so half a character is U+FFFD. A chat also lists the
bytes; joined over all tokens, they are the text.
"""

from codecs import getincrementaldecoder
from collections.abc import Iterable

import msgspec

from mini_vllm.engine import LogprobEntry, TokenLogprobs

# JSON has no infinity; vLLM sends this for an impossible token.
_LEAST = -9999.0


class TopLogprob(msgspec.Struct):
    """One of the likeliest tokens."""

    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(msgspec.Struct):
    """The token that was chosen, and the likeliest ones, best first."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct):
    """The logprobs of a chat's choice, or of a part of one."""

    content: list[ChatTokenLogprob]


class CompletionLogprobs(msgspec.Struct):
    """The logprobs of a completion's choice, or of a part of one: four lists of equal length.

    The first token of a prompt has none.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


def chat_logprobs(steps: Iterable[TokenLogprobs]) -> ChatLogprobs:
    """Return the logprobs of some steps for a chat."""
    return ChatLogprobs(
        [
            ChatTokenLogprob(
                *_parts(step.chosen), [TopLogprob(*_parts(entry)) for entry in step.top]
            )
            for step in steps
        ]
    )


def _parts(entry: LogprobEntry) -> tuple[str, float, list[int]]:
    return _token(entry), _logprob(entry), list(entry.piece)


def _token(entry: LogprobEntry) -> str:
    return entry.piece.decode("utf-8", "replace")


def _logprob(entry: LogprobEntry) -> float:
    # In this order NaN becomes the least, too.
    return max(_LEAST, entry.logprob)


class CompletionLogprobsStream:
    """Makes the four lists, and counts characters for `text_offset`.

    A token's offset is where the first character that it has a part of begins. All tokens count,
    even those that are left out of the text, as special tokens are.
    """

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._length = 0

    def feed(self, steps: Iterable[TokenLogprobs | bytes]) -> CompletionLogprobs:
        """Return the logprobs of the next steps for a completion.

        Args:
            steps: a token without logprobs is its bytes alone.
        """
        lists = CompletionLogprobs([], [], [], [])
        for step in steps:
            if isinstance(step, bytes):
                piece, logprob, top = step, None, None
            else:
                piece, logprob, top = step.chosen.piece, _logprob(step.chosen), _by_token(step)
            lists.tokens.append(piece.decode("utf-8", "replace"))
            lists.token_logprobs.append(logprob)
            lists.top_logprobs.append(top)
            lists.text_offset.append(self._length)
            self._length += len(self._decoder.decode(piece))
        return lists


def _by_token(step: TokenLogprobs) -> dict[str, float]:
    """Return the likeliest tokens and the chosen one; of tokens that look alike, the likeliest."""
    best: dict[str, float] = {}
    for entry in (*step.top, step.chosen):
        best.setdefault(_token(entry), _logprob(entry))
    return best
