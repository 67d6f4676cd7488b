"""Logprobs on the wire: a list of tokens for chats, four parallel lists for completions.

A token's string is its own bytes decoded, so half a character is U+FFFD. A chat also lists the
bytes; joined over all tokens, they are the text. If a client asks for ids instead, as with vLLM's
`return_tokens_as_token_ids`, the string of token 5 is `token_id:5`.
"""

from codecs import getincrementaldecoder
from collections.abc import Iterable, Set

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
    """The chosen token, and the likeliest tokens, best first."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct):
    """The logprobs of a chat's choice, or of a part of a choice."""

    content: list[ChatTokenLogprob]


class CompletionLogprobs(msgspec.Struct):
    """The logprobs of a completion's choice, or of a part of it: four lists of equal length.

    The first token of a prompt has no logprobs.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


def joined(parts: Iterable[CompletionLogprobs]) -> CompletionLogprobs:
    """Return the lists of all parts, one after the other."""
    whole = CompletionLogprobs([], [], [], [])
    for part in parts:
        whole.tokens += part.tokens
        whole.token_logprobs += part.token_logprobs
        whole.top_logprobs += part.top_logprobs
        whole.text_offset += part.text_offset
    return whole


def chat_logprobs(steps: Iterable[TokenLogprobs], *, as_ids: bool = False) -> ChatLogprobs:
    """Return the logprobs of some steps for a chat; with `as_ids`, tokens are named by ids."""

    def parts(entry: LogprobEntry) -> tuple[str, float, list[int]]:
        return _token(entry, as_ids), _logprob(entry), list(entry.piece)

    return ChatLogprobs(
        [
            ChatTokenLogprob(*parts(step.chosen), [TopLogprob(*parts(entry)) for entry in step.top])
            for step in steps
        ]
    )


def _token(entry: LogprobEntry, as_ids: bool) -> str:
    return f"token_id:{entry.token_id}" if as_ids else entry.piece.decode("utf-8", "replace")


def _logprob(entry: LogprobEntry) -> float:
    # In this order NaN also becomes the least.
    return max(_LEAST, entry.logprob)


class CompletionLogprobsStream:
    """Makes the four lists, and counts characters for `text_offset`.

    A token's offset is the start of the first character that it has a part of, in the text that the
    client gets. vLLM also counts special tokens that the text leaves out.

    Args:
        as_ids: name tokens by their ids.
        hidden_ids: the special tokens that answers leave out.
    """

    def __init__(self, *, as_ids: bool = False, hidden_ids: Set[int] = frozenset()) -> None:
        self._as_ids = as_ids
        self._hidden_ids = hidden_ids
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._length = 0

    def feed(
        self,
        steps: Iterable[TokenLogprobs | LogprobEntry],
        *,
        prompt: str | None = None,
        special_ids: Set[int] = frozenset(),
    ) -> CompletionLogprobs:
        """Return the logprobs of the next steps for a completion.

        Args:
            steps: the steps; a `LogprobEntry` is a token without logprobs.
            prompt: the text, if the steps are those of a whole prompt: it has the special tokens
                that the client wrote, but neither those nor the spaces that encoding added.
            special_ids: the ids of the special tokens of a prompt.
        """
        hidden_ids = self._hidden_ids if prompt is None else special_ids
        lists = CompletionLogprobs([], [], [], [])
        for step in steps:
            token, known = (step.chosen, step) if isinstance(step, TokenLogprobs) else (step, None)
            lists.tokens.append(_token(token, self._as_ids))
            lists.token_logprobs.append(None if known is None else _logprob(token))
            lists.top_logprobs.append(None if known is None else self._by_token(known))
            self._close_character(token.piece)
            lists.text_offset.append(self._length)
            if token.token_id in hidden_ids:
                text = token.piece.decode("utf-8", "replace")
                if prompt is None or not prompt.startswith(text, self._length):
                    continue
            piece = token.piece
            if prompt is not None and piece.startswith(b" ") and not self._has_space(prompt):
                piece = piece[1:]
            self._length += len(self._decoder.decode(piece))
        if prompt is not None:
            # The answer is behind all of the prompt. If that ends in half a character, the text has
            # a U+FFFD for it, and the answer nevertheless begins with the whole character.
            self._length = len(prompt)
        return lists

    def _has_space(self, prompt: str) -> bool:
        return prompt[self._length : self._length + 1].isspace()

    def _close_character(self, piece: bytes) -> None:
        """Count an incomplete character as U+FFFD if the next bytes do not belong to it."""
        begun = self._decoder.getstate()[0]
        if not begun or not piece:
            return
        try:
            getincrementaldecoder("utf-8")("strict").decode(begun + piece[:1])
        except UnicodeDecodeError:
            self._length += len(self._decoder.decode(b"", final=True))

    def _by_token(self, step: TokenLogprobs) -> dict[str, float]:
        """Return the likeliest tokens and the chosen token; of equal strings, the likeliest."""
        best: dict[str, float] = {}
        for entry in (*step.top, step.chosen):
            best.setdefault(_token(entry, self._as_ids), _logprob(entry))
        return best
