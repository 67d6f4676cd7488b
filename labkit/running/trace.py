"""A run as data: what was made, what was called, and what came of it.

Only plain values and the event types cross between tests and the implementation under test, so a
run can as well happen in another process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from mini_vllm.text.events import TextDelta


@dataclass(frozen=True)
class New:
    """A recipe for an object: its class by name, and the arguments (recipes included)."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [_show_argument(value) for value in self.args]
        words += [f"{key}={_show_argument(value)}" for key, value in self.kwargs.items()]
        return f"{self.name}({', '.join(words)})"


class Call(NamedTuple):
    """One step of a run: a method call on object number `object`; without `args`, an attribute
    read.
    """

    name: str
    args: tuple[Any, ...] | None = ()
    kwargs: Mapping[str, Any] = MappingProxyType({})
    object: int = 0

    def __str__(self) -> str:
        if self.args is None:
            return self.name
        words = [_show_argument(value) for value in self.args]
        words += [f"{key}={_show_argument(value)}" for key, value in self.kwargs.items()]
        return f"{self.name}({', '.join(words)})"


@dataclass(frozen=True)
class Raised:
    """An exception of the implementation, as data. `line` is the deepest line of its own code."""

    kind: str
    message: str
    line: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" + (f"\n{self.line}" if self.line else "")


class Step(NamedTuple):
    """What one call returned, and what its object held afterwards."""

    call: Call
    result: Any
    held: Any = None


@dataclass
class Trace:
    """A run and its outcome. `raised` is set if the implementation raised; the run ends there."""

    new: tuple[New, ...]
    steps: list[Step]
    raised: Raised | None = None

    @property
    def outputs(self) -> list[Any]:
        """What every call returned, in order."""
        return [step.result for step in self.steps]

    @property
    def held(self) -> list[Any]:
        """What was held after every call, in order."""
        return [step.held for step in self.steps]

    @property
    def calls(self) -> list["Step"]:
        """The steps that were method calls, without the attribute reads."""
        return [step for step in self.steps if step.call.args is not None]

    @property
    def text(self) -> str:
        """What the method calls returned, joined; fails if one of them is not a `str`."""
        for step in self.calls:
            if not isinstance(step.result, str):
                returned = f"{step.result!r} ({type(step.result).__name__})"
                raise Failure("a str; '' when nothing is ready", returned, str(step.call), self)
        return "".join(step.result for step in self.calls)

    @property
    def events(self) -> list[Any]:
        """What the method calls returned as one list of events, adjacent `TextDelta`s merged."""
        merged: list[Any] = []
        texts: list[str] = []

        def end_text() -> None:
            if texts:
                merged.append(TextDelta("".join(texts)))
                texts.clear()

        for step in self.calls:
            if not isinstance(step.result, list):
                returned = f"{step.result!r} ({type(step.result).__name__})"
                wanted = "a list of events; [] when there are none"
                raise Failure(wanted, returned, str(step.call), self)
            for event in step.result:
                if event == TextDelta(""):
                    raise Failure("no empty TextDelta", "TextDelta('')", str(step.call), self)
                if isinstance(event, TextDelta):
                    texts.append(event.text)
                else:
                    end_text()
                    merged.append(event)
        end_text()
        return merged


class Failure(AssertionError):
    """The implementation broke the rule under test. `labkit.running.report` says how it reads.

    Attributes:
        expected, actual: already in words or as `repr`.
        call: the call that shows it.
        trace: the run, or None.
    """

    def __init__(
        self, expected: str, actual: str, call: str = "", trace: Trace | None = None
    ) -> None:
        super().__init__(f"expected {expected}, got {actual}")
        self.expected = expected
        self.actual = actual
        self.call = call
        self.trace = trace


def _show_argument(value: Any) -> str:
    if isinstance(value, New):
        return str(value)
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:40]}…{text[-15:]}"
