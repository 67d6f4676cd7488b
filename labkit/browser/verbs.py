"""The verbs of the page's Python: each is a function from JSON to JSON.

`worker.js` calls `prepare`, or restores the memory after it; then `begin`, and then one verb. A run
changes the files of the course around it, so the page has a fresh interpreter for each. An error of
the reader is returned as `{"error": words}`; an exception is an error of the course.

Before its result a verb sends the page events: `{"event": "test", "name", "passed"}` at the end of
a test; `{"event": "print", "name", "text"}` with its output; and the events of time limits of
`labkit.running.platform.Page`.
"""

import base64
import binascii
import contextlib
import functools
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit.course.lab import ROOT, Lab, find_labs, pick_lab
from labkit.errors import LabkitError, UsageError
from labkit.running import platform

_PROGRESS = Path(".labkit/progress.json")

_NO_MEMORY = (
    "The run was stopped: there is no memory left for the report. Does starter.py return or keep "
    "many megabytes? Run one task alone to see the line."
)

Tell = Callable[[dict[str, Any]], object]
Verb = Callable[[str], str]
_tell: list[Tell] = []


def prepare() -> None:
    """Import the modules of a run. A page keeps the memory after this for its next interpreters."""
    os.environ["LAB_IMPL"] = "starter"
    from labkit.browser import running

    running.prepare()


def begin(tell: Callable[[str], object], interrupts: bool) -> None:
    """Make this interpreter ready for one verb.

    Args:
        tell: sends the page an event, as JSON.
        interrupts: whether the page can write a signal's number into Python's memory.
    """
    _tell[:] = [lambda event: tell(json.dumps(event))]
    platform.set_page(platform.Page(_tell[0], interrupts=interrupts))
    platform.guard_stack()


def _verb(answer: Callable[..., Any]) -> Verb:
    """Return the verb of a function that takes a request and returns the answer, as plain data."""

    @functools.wraps(answer)
    def verb(request: str) -> str:
        try:
            return json.dumps(answer(json.loads(request)))
        except LabkitError as error:
            return json.dumps({"error": str(error)})

    return verb


@_verb
def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run a lab's tests on the reader's code.

    Args:
        request: `lab`, its number; `task`, a number for the tests of one task, or None; `files`,
            the text of each `starter.py` by number of its lab; `progress`, as an earlier run
            returned it.

    Returns:
        The report, see `labkit.running.reporting.as_data`, with `progress`: the records of all
        labs after the run, as in `.labkit/progress.json`.
    """
    from labkit.browser.running import run_lab

    labs = find_labs(ROOT)
    lab = pick_lab(labs, request["lab"])
    _take_in(request, labs)
    try:
        with platform.no_event_loop():
            report = run_lab(lab, request.get("task"), _tell[0])
    except MemoryError:
        raise UsageError(_NO_MEMORY) from None
    return report | {"progress": _progress()}


@_verb
def show(request: dict[str, Any]) -> dict[str, Any]:
    """Record the failing case of a test on the reader's code, as `make show` does.

    Args:
        request: `lab`, `files` and `progress` as for `run`; `test`, the name of the test.

    Returns:
        The recording; `recording.schema.json` of `labkit.running.recording` describes it.
    """
    with platform.deep_stack():
        from labkit.browser.showing import recording_of_test

    labs = find_labs(ROOT)
    lab = pick_lab(labs, request["lab"])
    _take_in(request, labs)
    try:
        with platform.no_event_loop():
            return recording_of_test(lab, request["test"])
    except MemoryError:
        raise UsageError(_NO_MEMORY) from None


@_verb
def bundle(request: dict[str, Any]) -> dict[str, str]:
    """Pack the zip to hand in, byte for byte as `make bundle` does.

    Args:
        request: `lab`, `files` and `progress` as for `run`; `student`, a name or "".

    Returns:
        `zip`, in base64, and the `name` of the file.
    """
    with platform.deep_stack():
        from labkit.grading.reading.bundles import make_bundle, packed

    labs = find_labs(ROOT)
    lab = pick_lab(labs, request["lab"])
    _take_in(request, labs)
    data = packed(make_bundle(lab, labs, ROOT, request.get("student") or ""))
    return {"zip": base64.b64encode(data).decode(), "name": f"submission-{lab.label}.zip"}


@_verb
def plugin(request: dict[str, Any]) -> dict[str, str]:
    """Make the file that vLLM and SGLang load, byte for byte as `make plugin` does.

    Args:
        request: `lab`, `files` and `progress` as for `run`.

    Returns:
        `text`, and the `name` of the file.
    """
    with platform.deep_stack():
        from labkit.serving.plugin_file import NAME, make_plugin
        from labkit.student.progress import Progress

    labs = find_labs(ROOT)
    lab = pick_lab(labs, request["lab"])
    _take_in(request, labs)
    if not Progress(ROOT).passes(lab):
        raise UsageError("your current code has not passed all tests: run it first")
    text = make_plugin(lab, lab.starter.read_bytes(), lab.starter.name, NAME, ROOT)
    return {"text": text, "name": f"{NAME}.py"}


@_verb
def open(request: dict[str, Any]) -> dict[str, Any]:
    """Read a submission, as a grader does.

    Args:
        request: `zip`, in base64; `lab`, the number of the lab if the zip has none or several.

    Returns:
        `lab`, the number of its lab; and `files` by number, as for `run`.
    """
    with platform.deep_stack():
        from labkit.grading.reading.one_student import Course, of_tree
        from labkit.grading.reading.tree import Refused
        from labkit.grading.reading.zips import read_zip

    labs = find_labs(ROOT)
    lab = pick_lab(labs, request["lab"])
    try:
        tree = read_zip(io.BytesIO(base64.b64decode(request["zip"], validate=True)))
        readings = [of_tree("", tree, Course(labs), hint) for hint in (lab, None)]
        submission = next((read for read in readings if read.fault is None), readings[0])
    except (Refused, binascii.Error) as error:
        raise UsageError(f"{error}") from None
    if submission.fault is not None:
        raise UsageError(submission.fault)
    by_name = {lab.name: lab.number for lab in labs}
    files = {by_name[name]: _text(name, data) for name, data in submission.sources.items()}
    return {"lab": by_name[submission.lab], "files": files}


@_verb
def live(request: dict[str, Any]) -> dict[str, Any]:
    """Feed a text to the reader's code; see `labkit.browser.strip.live`.

    Args:
        request: `{lab, part, text, stops}`, and `files` and `progress` as for `run`.
    """
    with platform.deep_stack():
        from labkit.browser.strip import live as feed

    _take_in(request, find_labs(ROOT))
    with platform.no_event_loop():
        return feed(request, ROOT)


def _take_in(request: dict[str, Any], labs: list[Lab]) -> None:
    """Write the reader's files and progress into the repository."""
    for number, text in (request.get("files") or {}).items():
        pick_lab(labs, number).starter.write_bytes(text.encode("utf-8", "surrogatepass"))
    if request.get("progress"):
        place = ROOT / _PROGRESS
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(request["progress"]), encoding="utf-8")


def _progress() -> dict[str, Any]:
    with contextlib.suppress(OSError):
        progress: dict[str, Any] = json.loads((ROOT / _PROGRESS).read_text("utf-8"))
        return progress
    return {}


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"starter.py of {name} is not UTF-8 (byte {error.start}): save it as UTF-8"
        ) from None
