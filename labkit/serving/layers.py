"""The layers of the labs in the shapes that a pipeline expects.

Labs name their methods to suit their own task; a row in `lab.toml` maps the names. Three shapes
need more than other names, and are here: a detokenizer that shows special tokens, a stop layer that
takes ids, and reasoning, for which a pipeline has no layer of its own.
"""

import re
from collections.abc import Container, Mapping
from typing import Any

from labkit.course.lab import Serves
from labkit.serving.composed import Composed
from mini_vllm.text.events import Event, TextDelta, ToolCall

_CALL = re.compile(r"(\w+)\(([\w, ]*)\)")


class Maker:
    """Makes layers of the labs' classes.

    Args:
        composed: the labs' code.
        constants: values by name that are the same for every request: those of the vocabulary.
    """

    def __init__(self, composed: Composed, constants: Mapping[str, Any]) -> None:
        self._composed = composed
        self._constants = dict(constants)
        self._tables: dict[str, Any] = {}

    def make(self, role: str, values: Mapping[str, Any]) -> Any:
        """Return a new layer, under its own methods' names.

        An argument's value is written as the name of one of `values` or of the constants, or as a
        function of the same file with its parameters, `table(vocabulary, kind)`. Such a function
        gets constants only, and is called once. Exceptions of the code are raised.

        Raises:
            KeyError: a row asks for an unknown value.
        """
        part = self._composed.parts[role]
        known = {**self._constants, **values}
        arguments = {
            name: self._table(role, value) if "(" in value else known[value]
            for name, value in part.serves.arguments.items()
        }
        return part.resolve(part.serves.class_name)(**arguments)

    def _table(self, role: str, written: str) -> Any:
        if written not in self._tables:
            match = _CALL.fullmatch(written)
            if match is None:
                raise KeyError(f"{written!r} is not a call such as table(vocabulary, kind)")
            names = [name.strip() for name in match[2].split(",") if name.strip()]
            function = self._composed.parts[role].resolve(match[1])
            self._tables[written] = function(**{name: self._constants[name] for name in names})
        return self._tables[written]


class Renamed:
    """A layer under the names of its shape; if it has no `held`, it holds nothing."""

    def __init__(self, made: Any, serves: Serves, nothing: str | bytes) -> None:
        self.feed = getattr(made, serves.methods.get("feed", "feed"))
        self.flush = getattr(made, serves.methods.get("flush", "flush"))
        self._made = made
        self._held = serves.methods.get("held", "held")
        self._nothing = nothing

    @property
    def held(self) -> Any:
        """The held text."""
        return getattr(self._made, self._held, self._nothing)


class WithoutSpecials:
    """A detokenizer that never sees ids without text: it would show them, or raise."""

    def __init__(self, detokenizer: Any, silent: Container[int], vocab_size: int) -> None:
        self._detokenizer = detokenizer
        self._silent = silent
        self._vocab_size = vocab_size
        self.flush = detokenizer.flush

    @property
    def held(self) -> Any:
        """The held bytes of the detokenizer."""
        return self._detokenizer.held

    def feed(self, token_id: int) -> Any:
        """Feed an id to the detokenizer if it has text."""
        if token_id in self._silent or not 0 <= token_id < self._vocab_size:
            return ""
        return self._detokenizer.feed(token_id)


class StopsOnIds:
    """A stop layer that takes ids, in the place of a pipeline's detokenizer.

    The text that it returns has already passed the stops, so the pipeline gets `matcher` as its
    stop matcher, which only reports the match.

    Attributes:
        matched: the stop that matched, an id or a string, or None.
        matcher: for the pipeline.
    """

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self.matched: Any = None
        self.matcher = _Matcher(self)

    @property
    def held(self) -> Any:
        """The held text of the layer."""
        return self._layer.held

    def feed(self, token_id: int) -> Any:
        """Feed an id; return the text that no stop can remove."""
        return self._text(self._layer.feed(token_id))

    def flush(self) -> Any:
        """Return the rest of the text."""
        return self._text(self._layer.flush())

    def _text(self, output: Any) -> Any:
        if output.stopped and self.matched is None:
            self.matched = output.reason
        return output.text


class _Matcher:
    """A stop matcher that returns all text unchanged and reports the match of `StopsOnIds`."""

    held = ""

    def __init__(self, stops: StopsOnIds) -> None:
        self._stops = stops

    @property
    def matched(self) -> Any:
        return self._stops.matched

    def feed(self, text: str) -> str:
        return text

    def flush(self) -> str:
        return ""


class ReasoningFirst:
    """Reasoning and calls as one layer: text outside reasoning is fed to the calls."""

    def __init__(self, reasoning: Any, calls: Any) -> None:
        self._reasoning = reasoning
        self._calls = calls

    @property
    def held(self) -> Any:
        """The held text of both layers."""
        return self._reasoning.held + self._calls.held

    def feed(self, text: str) -> list[Event | ToolCall]:
        """Feed text; return the events of both layers."""
        return self._sorted(self._reasoning.feed(text))

    def flush(self) -> list[Event | ToolCall]:
        """Return the rest of both layers."""
        return [*self._sorted(self._reasoning.flush()), *self._calls.flush()]

    def _sorted(self, events: list[Event]) -> list[Event | ToolCall]:
        items: list[Event | ToolCall] = []
        for event in events:
            if isinstance(event, TextDelta):
                items += self._calls.feed(event.text)
            else:
                items.append(event)
        return items


class NoCalls:
    """In place of the calls if a request has no tools: everything is text."""

    held = ""

    def feed(self, text: str) -> list[TextDelta]:
        """Return the text."""
        return [TextDelta(text)] if text else []

    def flush(self) -> list[TextDelta]:
        """Return nothing."""
        return []
