"""A decoder that stops: token ids in, text out, until a stop token or a stop string.

Each stop string counts how many of its first characters the text ends with; the largest count of a
hidden stop is the number of characters to hold. New since lab-04: the end is decided among ids,
which of them count, and which text the last of them still releases.

But: it decodes nothing itself, and keeps no text except the held text.
"""

from collections.abc import Collection, Iterable
from typing import Any

from mini_vllm.text.events import StopOutput


class StopSequenceDecoder:
    """Turn ids into text until a stop ends it: a token or a string, hidden or visible.

    A stop token is checked before any string. The string that *ends first* wins; if several end at
    the same character, the longest wins. A stop in both lists, hidden and visible, is hidden.

    Args:
        detokenizer: has `feed(token_id) -> str`, `flush() -> str` and `held: bytes`; fresh, and for
            this decoder alone.
        stop_token_ids: ids that end the text and are not shown.
        visible_stop_token_ids: ids that end the text and are shown.
        stops: strings that end the text; no part of one is shown.
        visible_stops: strings that end the text and are shown.
        min_tokens: the number of tokens that cannot end the text. A string counts if its last
            character is decoded with a later token.

    Raises:
        ValueError: `stops` or `visible_stops` is a bare `str`, or one of the stops is empty.

    >>> detokenizer = TokenDetokenizer([b"the E", b"N", b"D of"])
    >>> decoder = StopSequenceDecoder(detokenizer, stops=["END"])
    >>> [decoder.process(token_id).text for token_id in (0, 1)]
    ['the ', '']
    >>> decoder.process(2)
    StopOutput(text='', stopped=True, reason='END')
    """

    def __init__(
        self,
        detokenizer: Any,
        *,
        stop_token_ids: Iterable[int] = (),
        visible_stop_token_ids: Iterable[int] = (),
        stops: Collection[str] = (),
        visible_stops: Collection[str] = (),
        min_tokens: int = 0,
    ) -> None:
        if isinstance(stops, str) or isinstance(visible_stops, str):
            raise ValueError('stops are a list of str; for one stop write ["END"]')
        self._detokenizer = detokenizer
        self._stop_token_ids = frozenset(stop_token_ids)
        self._visible_stop_token_ids = frozenset(visible_stop_token_ids)
        self._stops = frozenset(stops)
        self._min_tokens = min_tokens
        every = [*dict.fromkeys([*stops, *visible_stops])]
        if "" in every:
            raise ValueError("one of the stops is empty: it would match everywhere")
        self._searches = [_Search(stop, every) for stop in every]
        self._begin()

    def _begin(self) -> None:
        for search in self._searches:
            search.found = 0
        self._taken = 0
        self._held = ""
        self._reason: int | str | None = None

    @property
    def held(self) -> str:
        """The text that is held because it may become a hidden stop; `""` after an end."""
        return self._held

    def process(self, token_id: int) -> StopOutput:
        """Take one token; return the text that is now certain, and whether and why the text ended.

        After an end, always returns `StopOutput("", True, reason)`.

        >>> decoder = StopSequenceDecoder(TokenDetokenizer([b"a", b"b"]), stop_token_ids=[1])
        >>> decoder.process(0).text, decoder.process(1).reason, decoder.process(0).text
        ('a', 1, '')
        """
        if self._reason is not None:
            return self._output("")
        self._taken += 1
        counts = self._taken > self._min_tokens
        if counts and token_id in self._stop_token_ids:
            return self._end("", token_id)
        text = self._detokenizer.feed(token_id)
        if counts and token_id in self._visible_stop_token_ids:
            return self._end(text, token_id)
        return self._output(self._read(text))

    def process_many(self, token_ids: Iterable[int]) -> tuple[list[StopOutput], int]:
        """Take a burst of tokens, up to the one that ends the text.

        Returns:
            An output for each token that was taken, and the number of these tokens; the token that
            ends the text is included. After an end, `[StopOutput("", True, reason)]` and 0.

        >>> decoder = StopSequenceDecoder(TokenDetokenizer([b"a", b"b"]), stop_token_ids=[1])
        >>> outputs, taken = decoder.process_many([0, 0, 1, 0, 0])
        >>> [output.text for output in outputs], taken
        (['a', 'a', ''], 3)
        """
        if self._reason is not None:
            return [self._output("")], 0
        outputs = []
        for token_id in token_ids:
            outputs.append(self.process(token_id))
            if self._reason is not None:
                break
        return outputs, len(outputs)

    def flush(self) -> StopOutput:
        """End the stream from outside; return the held text, and U+FFFD for half a character.

        If this text completes a stop, the text has ended there. Otherwise the decoder then has
        fresh state.

        >>> decoder = StopSequenceDecoder(TokenDetokenizer([b"the E", b"N"]), stops=["END"])
        >>> decoder.process(0).text, decoder.flush().text, decoder.flush().text
        ('the ', 'E', '')
        """
        if self._reason is not None:
            return self._output("")
        output = self._end("", None)
        if not output.stopped:
            self._begin()
        return output

    def reset(self) -> None:
        """Forget all earlier tokens, even an end: the next token is the first of another stream.

        >>> decoder = StopSequenceDecoder(TokenDetokenizer([b"a", b"b"]), stop_token_ids=[1])
        >>> decoder.process(1).stopped, decoder.reset(), decoder.process(0).text
        (True, None, 'a')
        """
        self._detokenizer.flush()
        self._begin()

    def _end(self, text: str, token_id: int | None) -> StopOutput:
        """Release all held text in order, through the stops; a stop token is the reason."""
        text = self._read(text + self._detokenizer.flush())
        text, self._held = text + self._held, ""
        if token_id is not None:
            self._reason = token_id
        return self._output(text)

    def _output(self, text: str) -> StopOutput:
        return StopOutput(text, self._reason is not None, self._reason)

    def _read(self, text: str) -> str:
        """Return all text except the text to hold, or all up to a stop that counts."""
        unshown = self._held + text
        counts = self._taken > self._min_tokens
        for end, char in enumerate(text, start=len(self._held) + 1):
            complete = [search.stop for search in self._searches if search.take(char)]
            if complete and counts:
                stop = max(complete, key=len)
                self._reason, self._held = stop, ""
                return unshown[: end - len(stop) if stop in self._stops else end]
        shown = len(unshown) - max(map(self._hold, self._searches), default=0)
        self._held = unshown[shown:]
        return unshown[:shown]

    def _hold(self, search: "_Search") -> int:
        """Return how many characters may become this stop, if hidden, before another stop ends."""
        next_counts = self._taken >= self._min_tokens
        beaten = next_counts and search.found < search.inner_end
        return 0 if beaten or search.stop not in self._stops else search.found


class _Search:
    """How many first characters of a stop the text ends with (Knuth, Morris and Pratt, 1977)."""

    def __init__(self, stop: str, every: Collection[str]) -> None:
        self.stop = stop
        self.found = 0  # the length of the longest suffix of the text that is a proper prefix
        ends = [stop.rindex(other, 0, -1) + len(other) for other in every if other in stop[:-1]]
        self.inner_end = max(ends, default=0)  # where the last stop inside this one ends
        # The prefix length to fall back to if the character after the first `n` does not match.
        self._shorter = [0, 0]
        for char in stop[1:]:
            self._shorter.append(self._after(self._shorter[-1], char))

    def take(self, char: str) -> bool:
        """Take the next character; return whether the stop is complete."""
        self.found = self._after(self.found, char)
        complete = self.found == len(self.stop)
        if complete:
            self.found = self._shorter[self.found]
        return complete

    def _after(self, found: int, char: str) -> int:
        while found and self.stop[found] != char:
            found = self._shorter[found]
        return found + (self.stop[found] == char)
