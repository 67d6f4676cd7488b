"""Lab 05: compose the serving pipeline here. README.md has the story and the tasks.

Check your work with `make lab N=05`; when you are stuck, `make hint N=05` helps.
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
        raise NotImplementedError("lab-05 task 2: finish_reason")

    @property
    def held(self) -> dict[str, Any]:
        """The bytes or text that each layer holds now, by its name, in a new dictionary.

        The names are `detokenizer`, `stop_matcher` and `tool_parser`.
        """
        raise NotImplementedError("lab-05 task 1: held")

    def feed(self, token_id: int) -> list[TextDelta | ToolCall]:
        """Feed one token; return the events that are now certain, in a new list.

        EOS, or a stop string that completes, ends the stream here: the list then also has the
        events of the text that the layers still held, and the layers are empty. Text that a layer
        held passes through all the layers after it, as any text does.

        The pipeline then stays ended: every later call returns `[]` and changes neither `held` nor
        `finish_reason`.
        """
        raise NotImplementedError("lab-05 task 1: feed")

    def finish(self) -> list[TextDelta | ToolCall]:
        """End the stream from outside, for example at `max_tokens`; return the held text's events.

        The reason is `length`, unless held text completes a stop string: then the stream has ended
        normally after all. After an end, `finish` returns `[]` and changes nothing.
        """
        raise NotImplementedError("lab-05 task 3: finish")
