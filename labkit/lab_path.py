"""A lab's pipeline as the text path of the engine: what a student built, serving real clients.

One place where the two shapes meet: a lab's pipeline takes one id and returns complete calls; the
engine's takes many and tells a call by its start, arguments and end.

But: it adds no rule of its own. What the labs do not build, such as showing the stop, is refused.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from labkit.lab import Lab
from labkit.under_test import CodeUnderTest
from mini_vllm.engine import Request
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Event,
    TextDelta,
    ToolCall,
)

_LOG = logging.getLogger(__name__)


class LabPathFactory:
    """Makes a text path of a lab's classes for each request.

    Args:
        lab: one whose `lab.toml` says what it serves.
        code: finds its classes and those of its parts.
    """

    def __init__(self, lab: Lab, code: CodeUnderTest) -> None:
        assert lab.serves is not None
        self._serves = lab.serves
        self._code = code

    def __call__(self, request: Request, prompt_token_ids: Sequence[int]) -> "LabTextPath":
        """Return a new pipeline.

        Raises:
            ValueError: the request needs what the labs do not build.
            LoadFailure: the code could not be imported.
            Exception: the code raised.
        """
        params, serves = request.params, self._serves
        for name in ("include_stop_str_in_output", "min_tokens", "ignore_eos"):
            if getattr(params, name):
                raise ValueError(f"{name} is not part of the labs: leave it out")
        layers: dict[str, Any] = {}
        for name in serves.layers:
            if name == serves.tools_go_to and request.tools is None:
                layers[name] = _NoTools()
            elif name == serves.stops_go_to:
                layers[name] = self._code.resolve(name)(list(params.stop))
            else:
                layers[name] = self._code.resolve(name)()
        pipeline = self._code.resolve(serves.pipeline)(*layers.values())
        return LabTextPath(pipeline, layers[serves.stops_go_to])


class LabTextPath:
    """The engine's `TextPath` over a lab's pipeline.

    Args:
        pipeline: has `feed(token_id)`, `finish()`, `finish_reason` and `held`.
        stop_matcher: one of its layers; its `matched` is the stop string that ended the text.
    """

    def __init__(self, pipeline: Any, stop_matcher: Any) -> None:
        self.pipeline = pipeline
        self._stop_matcher = stop_matcher
        self.tokens = 0

    @property
    def finish_reason(self) -> str | None:
        """Why the text ended, or None while it runs."""
        reason: str | None = self.pipeline.finish_reason
        return reason

    @property
    def stop_reason(self) -> str | int | None:
        """The stop string that ended it."""
        matched: str | None = self._stop_matcher.matched
        return matched

    @property
    def held(self) -> dict[str, str | bytes]:
        """What each layer holds, by name."""
        return dict(self.pipeline.held)

    def feed(self, token_ids: Iterable[int]) -> list[Event]:
        """Take ids; return what is certain."""
        events: list[Event] = []
        for token_id in token_ids:
            if self.finish_reason is not None:
                break
            self.tokens += 1
            events += self._events(self.pipeline.feed, token_id)
        return events

    def finish(self, reason: str) -> list[Event]:
        """End the text; return what was held."""
        return self._events(self.pipeline.finish)

    def _events(self, method: Callable[..., Any], *arguments: int) -> list[Event]:
        try:
            return [event for item in method(*arguments) for event in _engine_events(item)]
        except Exception:
            # The client is told that the answer failed; its author wants to know where.
            _LOG.exception("the pipeline raised")
            raise


class _NoTools:
    """In the tool parser's place where a request has no tools: all is text."""

    held = ""

    def feed(self, text: str) -> list[TextDelta]:
        return [TextDelta(text)] if text else []

    def flush(self) -> list[TextDelta]:
        return []


def _engine_events(item: Any) -> list[Event]:
    if isinstance(item, TextDelta):
        return [item]
    if isinstance(item, ToolCall):
        arguments = [ArgsDelta(item.index, item.arguments)] if item.arguments else []
        return [CallStart(item.index, None, item.name), *arguments, CallEnd(item.index)]
    raise TypeError(f"a pipeline returns lists of TextDelta and ToolCall, not of {item!r}")
