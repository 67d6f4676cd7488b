"""The engine's stop matcher in the shape of lab 04."""

from collections.abc import Collection

from mini_vllm.text.stop import StopMatcher


class StopStringMatcher:
    """Text in, text up to a stop string out."""

    def __init__(self, stops: Collection[str], *, include_stop: bool = False) -> None:
        self._matcher = StopMatcher(stops, include_stop_str_in_output=include_stop)

    @property
    def matched(self) -> str | None:
        """The stop that ended the stream."""
        return self._matcher.matched

    @property
    def held(self) -> str:
        """The text that waits."""
        return self._matcher.held

    def feed(self, text: str) -> str:
        """Take the next piece."""
        return self._matcher.feed(text)

    def flush(self) -> str:
        """End the stream."""
        return self._matcher.flush()
