"""Gate: the official `openai` client reads a lab's stream, and misreads wrong streams as recorded.

The streams to play, and the client's results, are in a lab's `client.toml`.
"""

import importlib.util
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from labkit.course.lab import Lab
from labkit.course.rows import build, read_toml
from labkit.errors import LabkitError
from labkit.gates.finding import Finding, of_labs
from labkit.running.drive import Driver, perform
from labkit.running.lab_impl import choose
from labkit.running.trace import EVENTS
from labkit.running.under_test import CodeUnderTest

FILE = "client.toml"
REFERENCE = "solution"
FEWEST_WRONG = 3
# A size that cuts characters, line endings and names of fields.
_PIECE = 7
_EVENTS = {kind.__name__: kind for kind in EVENTS}
_MISSING = "nothing"


@dataclass(frozen=True)
class Play:
    """A stream that is played to the client.

    Attributes:
        implementation: the implementation that writes the stream, as a value of `LAB_IMPL`.
        symptom: the symptom for a user of the client.
        sees: from a place in the completion, such as `choices.0.message.role`, to its value;
            `raises` is the name of the client's exception.
    """

    implementation: str
    symptom: str
    sees: Mapping[str, Any]


@of_labs
def clients_read_as_recorded(root: Path, labs: list[Lab]) -> list[Finding]:
    """Play the streams of every lab that has some to the client."""
    labs = [lab for lab in labs if (lab.path / FILE).exists() and lab.bugs]
    if labs and importlib.util.find_spec("openai") is None:
        message = "not tried: the openai client is missing; make check installs it into .venv"
        return [Finding(FILE, message, is_note=not os.environ.get("CI"))]
    findings: list[Finding] = []
    for lab in labs:
        place = f"{lab.name}/{FILE}"
        try:
            findings += [Finding(place, message) for message in _check(lab, root)]
        except (LabkitError, AssertionError, KeyError, TypeError) as error:
            findings.append(Finding(place, f"it cannot be played: {error or type(error).__name__}"))
    return findings


def _check(lab: Lab, root: Path) -> Iterator[str]:
    facts = read_toml(lab.path / FILE)
    plays = [build(Play, row, lab.path / FILE) for row in facts["play"]]
    right = [play for play in plays if play.implementation == REFERENCE]
    if len(right) != 1 or len(plays) <= FEWEST_WRONG:
        yield f"it plays the {REFERENCE} once, and {FEWEST_WRONG} bugs at least"
        return
    reference = _seen(_written(lab, root, REFERENCE, facts["stream"]))
    for play in plays:
        whose = play.implementation
        seen = _seen(_written(lab, root, whose, facts["stream"]))
        for place, expected in play.sees.items():
            if (there := _at(seen, place)) != expected:
                yield f"{whose}: the client sees {place} = {there!r}, not {expected!r}"
        shows = any(_at(reference, place) != expected for place, expected in play.sees.items())
        if whose != REFERENCE and not shows:
            yield f"{whose}: its recorded results also hold for the {REFERENCE}"


def _written(lab: Lab, root: Path, whose: str, stream: dict[str, Any]) -> bytes:
    """Return the bytes of a stream.

    Raises:
        AssertionError: the implementation raised, or did not return bytes.
        UsageError: there is no such implementation.
    """
    code = CodeUnderTest(lab, choose(whose, [lab], root)[lab.path], root, lambda _: False)
    driver = Driver(partial(perform, code.resolve), "0")
    new = driver.new(stream["class"], *stream["arguments"], **stream.get("options", {}))
    calls = [(name, *map(_event, arguments)) for name, *arguments in stream["calls"]]
    outputs = driver.script(new, calls, watch="").outputs
    assert all(type(output) is bytes for output in outputs), f"{whose} does not return bytes"
    return b"".join(outputs)


def _event(value: Any) -> Any:
    """Return the event for `{Kind = {field = value}}`; any other value unchanged."""
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _EVENTS:
        ((kind, fields),) = value.items()
        return _EVENTS[kind](**{"id": None, **fields} if kind == "CallStart" else fields)
    return value


def _seen(data: bytes) -> dict[str, Any]:
    """Return the completion that the client assembles, or its exception."""
    # Not above: if only the core is installed, the other gates can still run.
    import httpx2
    import openai

    def answer(_: httpx2.Request) -> httpx2.Response:
        pieces = (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=pieces)

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        client = openai.OpenAI(
            api_key="none", base_url="http://lab.invalid/v1", max_retries=0, http_client=http
        )
        try:
            with client.chat.completions.stream(model="any", messages=[]) as events:
                for _ in events:
                    pass
                return events.get_final_completion().to_dict()
        except Exception as error:
            return {"raises": type(error).__name__}


def _at(seen: Any, place: str) -> Any:
    for step in place.split("."):
        try:
            seen = seen[int(step) if isinstance(seen, list) else step]
        except (LookupError, TypeError, ValueError):
            return _MISSING
    return seen
