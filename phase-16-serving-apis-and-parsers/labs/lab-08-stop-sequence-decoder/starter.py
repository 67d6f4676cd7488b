"""Lab 08: write the stop-sequence decoder here. README.md has the story and the tasks.

Check your work with `make lab N=08`; when you are stuck, `make hint N=08` helps.
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
        if "" in (*stops, *visible_stops):
            raise ValueError("one of the stops is empty: it would match everywhere")
        self._detokenizer = detokenizer
        self._stop_token_ids = frozenset(stop_token_ids)
        self._visible_stop_token_ids = frozenset(visible_stop_token_ids)
        self._stops = [*stops]
        self._visible_stops = [*visible_stops]
        self._min_tokens = min_tokens
        self._reason: int | str | None = None

    @property
    def held(self) -> str:
        """The text that is held because it may become a hidden stop; `""` after an end."""
        raise NotImplementedError("lab-08 task 2: held")

    def process(self, token_id: int) -> StopOutput:
        """Take one token; return the text that is now certain, and whether and why the text ended.

        After an end, always returns `StopOutput("", True, reason)`.

        >>> decoder = StopSequenceDecoder(TokenDetokenizer([b"a", b"b"]), stop_token_ids=[1])
        >>> decoder.process(0).text, decoder.process(1).reason, decoder.process(0).text
        ('a', 1, '')
        """
        raise NotImplementedError("lab-08 task 1: process")

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
        raise NotImplementedError("lab-08 task 3: process_many")

    def flush(self) -> StopOutput:
        """End the stream from outside; return the held text, and U+FFFD for half a character.

        If this text completes a stop, the text has ended there. Otherwise the decoder then has
        fresh state.

        >>> decoder = StopSequenceDecoder(TokenDetokenizer([b"the E", b"N"]), stops=["END"])
        >>> decoder.process(0).text, decoder.flush().text, decoder.flush().text
        ('the ', 'E', '')
        """
        raise NotImplementedError("lab-08 task 4: flush")

    def reset(self) -> None:
        """Forget all earlier tokens, even an end: the next token is the first of another stream.

        >>> decoder = StopSequenceDecoder(TokenDetokenizer([b"a", b"b"]), stop_token_ids=[1])
        >>> decoder.process(1).stopped, decoder.reset(), decoder.process(0).text
        (True, None, 'a')
        """
        raise NotImplementedError("lab-08 task 4: reset")
