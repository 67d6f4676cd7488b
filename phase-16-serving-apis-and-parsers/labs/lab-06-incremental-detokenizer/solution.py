"""An incremental detokenizer over any tokenizer that can decode: a window of tokens, and a diff.

It knows nothing about bytes. It decodes the last few tokens with and without the new one, and
returns the difference. Text that ends in U+FFFD may end inside a character, so that end is held.

It decodes at most a fixed number of ids per token, whatever the text and however long it is.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Protocol

UNFINISHED = "\ufffd"
# A character has at most four bytes, and a token with text at least one: tokens before the last
# three are complete, or never will be.
_MOST_WAITING = 3
# The tokens at the end of a prompt to begin with: up to three of its unfinished character, up to
# three of a character that the window cuts, and two that remain.
_TAIL = 8
# The ids at the end of a prompt among which these tokens are looked for.
_MOST_EXAMINED = 64


class Tokenizer(Protocol):
    """The tokenizer that the detokenizer gets."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids, special tokens included; unknown ids have no text."""


class IncrementalDetokenizer:
    r"""Turn tokens into the text that they add to a prompt, one token at a time.

    For well-formed text, all text that `push` and `flush` return, joined, is the text that
    `decode(prompt + output)` has beyond `decode(prompt)`. If the prompt ends inside a character,
    that character is emitted whole; no other text of the prompt is emitted.

    Args:
        tokenizer: only its `decode(ids)` is used.
        prompt_ids: the tokens before the output. They are read when the stream is made, and only
            the last of them are read.

    >>> class Utf8:
    ...     def decode(self, ids):
    ...         return bytes(ids).decode("utf-8", "replace")
    >>> detokenizer = IncrementalDetokenizer(Utf8(), [0x61, 0xC3])
    >>> [detokenizer.push(byte) for byte in b"\xa9!"], detokenizer.flush()
    (['é', '!'], '')
    """

    def __init__(self, tokenizer: Tokenizer, prompt_ids: Sequence[int]) -> None:
        self._decode = tokenizer.decode
        self._ended = False
        # The tokens whose text has been emitted, as far as the next ones need them; their text;
        # the held tokens; and how much of their text has already been emitted.
        self._context: list[int] = []
        self._before = ""
        self._waiting: list[int] = []
        self._shown = 0
        self._begin(prompt_ids)

    def push(self, token_id: int) -> str:
        r"""Push one token; return the text that is now certain, or `""` if there is none yet.

        A character is emitted with the token that completes it, and complete text before an
        unfinished end at once. A U+FFFD that the model wrote looks like such an end: it is emitted
        when other text follows, and at most three tokens of text late. An id without text gives
        `""` and changes nothing, even inside a character. A token such as `▁`, which is empty only
        at the start of a text, is not an id without text. After `flush` every token gives `""`.

        >>> class Utf8:
        ...     def decode(self, ids):
        ...         return bytes(ids).decode("utf-8", "replace")
        >>> detokenizer = IncrementalDetokenizer(Utf8(), [])
        >>> [detokenizer.push(byte) for byte in "a🚀".encode()]
        ['a', '', '', '', '🚀']
        """
        if self._ended or not self._has_text(token_id):
            return ""
        self._waiting.append(token_id)
        taken = len(self._waiting)
        text = self._text_of(taken)
        certain = text.rstrip(UNFINISHED)
        new = self._show(certain)
        if text == certain:
            self._settle(taken)
        elif new:
            # So the unfinished character begins in this token.
            self._settle(taken - 1)
        elif taken > _MOST_WAITING:
            new = self._settle_oldest()
        return new

    def flush(self) -> str:
        r"""End the output: return the held text, once.

        A character that was cut off becomes U+FFFD, as `decode` shows it.

        >>> class Utf8:
        ...     def decode(self, ids):
        ...         return bytes(ids).decode("utf-8", "replace")
        >>> detokenizer = IncrementalDetokenizer(Utf8(), [])
        >>> detokenizer.push(0xF0), detokenizer.flush(), detokenizer.flush()
        ('', '\ufffd', '')
        """
        if self._ended:
            return ""
        self._ended = True
        # Among other bytes a decoder may show more damage than the held tokens have.
        together, alone = self._text_of(len(self._waiting)), self._decode(self._waiting)
        return min(together, alone, key=len)[self._shown :]

    def _begin(self, prompt_ids: Sequence[int]) -> None:
        """Push the last tokens of the prompt and drop their text, as if the stream began there."""
        with_text = filter(self._has_text, reversed(prompt_ids[-_MOST_EXAMINED:]))
        tail = [*islice(with_text, _TAIL)][::-1]
        start = self._clean_start(tail) if len(tail) == _TAIL else 0
        for token_id in tail[start:]:
            self.push(token_id)

    def _clean_start(self, tail: list[int]) -> int:
        """Return where a character begins among the first of these tokens.

        A start inside a character shows at least one U+FFFD, and so does an end inside one. So up
        to three of the last tokens may be left out.
        """
        counts = range(_MOST_WAITING + 1)

        def damage(start: int) -> int:
            texts = (self._decode(tail[start : len(tail) - count]) for count in counts)
            return min(text.count(UNFINISHED) for text in texts)

        return min(counts, key=damage)

    def _has_text(self, token_id: int) -> bool:
        # Twice, because the first of two spaces may be the one that `decode` strips.
        return self._decode([token_id, token_id]) != ""

    def _text_of(self, taken: int) -> str:
        """Return the text of the first held tokens, in context."""
        return self._decode(self._context + self._waiting[:taken])[len(self._before) :]

    def _show(self, text: str) -> str:
        """Return the part of a text that has not been emitted yet."""
        new = text[self._shown :]
        self._shown += len(new)
        return new

    def _settle(self, taken: int) -> None:
        """Make the first held tokens the context of the others."""
        if taken == 0:
            return
        self._shown = max(0, self._shown - len(self._text_of(taken)))
        self._context, self._waiting = self._waiting[:taken], self._waiting[taken:]
        self._before = self._decode(self._context)

    def _settle_oldest(self) -> str:
        """Settle the tokens before the unfinished character, if there is one; return their text."""
        texts = {taken: self._text_of(taken) for taken in range(len(self._waiting), 0, -1)}
        # A cut inside a character shows a U+FFFD too many. On a tie this takes the last cut.
        taken = min(texts, key=lambda taken: texts[taken].count(UNFINISHED))
        new = self._show(texts[taken])
        self._settle(taken)
        return new
