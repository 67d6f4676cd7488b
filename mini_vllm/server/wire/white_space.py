"""Removal of the white space around tool calls, which templates write and clients do not show.

A parser keeps it, because the model wrote it. For a client that shows content, line breaks before a
call are not content; vLLM 0.33.0's parser engine also strips them for most formats.
"""

from collections.abc import Iterable, Iterator

from mini_vllm.text.events import ArgsDelta, CallEnd, CallStart, Event, TextDelta

_SPACE = " \t\r\n"


class WhiteSpaceStrip:
    """A filter for the events of one choice that leaves out the white space next to calls."""

    def __init__(self) -> None:
        # White space after text. It is content unless a call follows.
        self._waits: list[str] = []
        self._behind_call = False

    def feed(self, events: Iterable[Event], *, finished: bool) -> Iterator[Event]:
        """Return the events that clients get.

        Args:
            events: the next ones.
            finished: whether they are the last.
        """
        for event in events:
            if isinstance(event, TextDelta):
                yield from self._text(event.text)
                continue
            if isinstance(event, CallStart):
                self._waits.clear()
            yield from self._release()
            self._behind_call = isinstance(event, CallStart | ArgsDelta | CallEnd)
            yield event
        if finished:
            yield from self._release()

    def passes(self, text: str) -> bool:
        """Return whether a nonempty text would pass unchanged and leave this filter unchanged."""
        return not self._waits and not self._behind_call and text[-1] not in _SPACE

    def _text(self, text: str) -> Iterator[Event]:
        if self._behind_call:
            text = text.lstrip(_SPACE)
        bare = text.rstrip(_SPACE)
        if bare:
            yield from self._release()
            yield TextDelta(bare)
            self._behind_call = False
        if len(bare) < len(text):
            self._waits.append(text[len(bare) :])

    def _release(self) -> Iterator[Event]:
        if self._waits:
            yield TextDelta("".join(self._waits))
            self._waits.clear()
