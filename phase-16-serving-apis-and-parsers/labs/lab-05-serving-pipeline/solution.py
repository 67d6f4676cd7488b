"""The text path of a serving engine: token ids in, events for the client out.

Each of the three layers is a hold-back buffer with its own rule, and no layer knows the others: the
output of one is the honest input of the next. The pipeline holds no text of its own. It passes text
on, and at the end makes sure that held text passes through all the layers after its own.

It does not choose tokens, count them, or know `max_tokens`: the engine does, and calls `finish`.
"""

from typing import Any

from mini_vllm.text.events import TextDelta, ToolCall


class ServingPipeline:
    """Detokenizer, stop matcher and tool parser as one stream.

    The three parts are passed in, each fresh: they, and not copies, are `self._detokenizer` and so
    on. Import nothing from other labs.

    Args:
        detokenizer: has `feed(token_id) -> str`, `flush() -> str`, `held: bytes`.
        stop_matcher: has `feed(text) -> str`, `flush() -> str`, `matched: str | None`, `held: str`.
        tool_parser: has `feed(text) -> list`, `flush() -> list`, `held: str`.
        eos_token_id: the id that ends the stream. Its text, if it has any, is not shown. Which
            other ids have text depends on the detokenizer.

    >>> pipeline = ServingPipeline(
    ...     StreamingDetokenizer(), StopStringMatcher(["END"]), StreamingToolParser()
    ... )
    >>> [pipeline.feed(token_id) for token_id in b"a END"]
    [[TextDelta(text='a')], [TextDelta(text=' ')], [], [], []]
    >>> pipeline.finish_reason
    'stop'
    """

    def __init__(
        self, detokenizer: Any, stop_matcher: Any, tool_parser: Any, *, eos_token_id: int = 257
    ) -> None:
        self._detokenizer = detokenizer
        self._stop_matcher = stop_matcher
        self._tool_parser = tool_parser
        self._eos_token_id = eos_token_id
        self._finish_reason: str | None = None
        self._called = False

    @property
    def finish_reason(self) -> str | None:
        """Why the stream ended; None while it runs.

        A normal end, by EOS or a stop string, is `tool_calls` if a call was emitted at any time,
        else `stop`. An end by `finish` is `length`.
        """
        return self._finish_reason

    @property
    def held(self) -> dict[str, Any]:
        """The bytes or text that each layer holds now, by its name, in a new dictionary.

        The names are `detokenizer`, `stop_matcher` and `tool_parser`.
        """
        return {
            "detokenizer": self._detokenizer.held,
            "stop_matcher": self._stop_matcher.held,
            "tool_parser": self._tool_parser.held,
        }

    def feed(self, token_id: int) -> list[TextDelta | ToolCall]:
        """Feed one token; return the events that are now certain, in a new list.

        EOS, or a stop string that completes, ends the stream here: the list then also has the
        events of the text that the layers still held, and the layers are empty. Text that a layer
        held passes through all the layers after it, as any text does.

        The pipeline then stays ended: every later call returns `[]` and changes neither `held` nor
        `finish_reason`.
        """
        if self._finish_reason is not None:
            return []
        if token_id == self._eos_token_id:
            return self._end("stop")
        events = self._parse(self._stop_matcher.feed(self._detokenizer.feed(token_id)))
        if self._stop_matcher.matched is not None:
            events += self._end("stop")
        return events

    def finish(self) -> list[TextDelta | ToolCall]:
        """End the stream from outside, for example at `max_tokens`; return the held text's events.

        The reason is `length`, unless held text completes a stop string: then the stream has ended
        normally after all. After an end, `finish` returns `[]` and changes nothing.
        """
        if self._finish_reason is not None:
            return []
        return self._end("length")

    def _end(self, reason: str) -> list[TextDelta | ToolCall]:
        events = self._parse(self._stop_matcher.feed(self._detokenizer.flush()))
        events += self._parse(self._stop_matcher.flush())
        events += self._noted(self._tool_parser.flush())
        if self._stop_matcher.matched is not None:
            reason = "stop"
        if reason == "stop" and self._called:
            reason = "tool_calls"
        self._finish_reason = reason
        return events

    def _parse(self, text: str) -> list[TextDelta | ToolCall]:
        return self._noted(self._tool_parser.feed(text))

    def _noted(self, events: list[TextDelta | ToolCall]) -> list[TextDelta | ToolCall]:
        self._called = self._called or any(isinstance(event, ToolCall) for event in events)
        return events
