"""The pipeline that the labs make together: whose code it is, part by part, and how it is made."""

import traceback
from pathlib import Path
from typing import Any, NamedTuple

from labkit.course.lab import Lab, Serves, find_labs
from labkit.errors import UsageError
from labkit.running.lab_impl import choose
from labkit.running.under_test import CodeUnderTest
from labkit.student.progress import Progress
from mini_vllm.text.events import TextDelta


class Composed(NamedTuple):
    """The lab that composes the others, found in a repository.

    Attributes:
        lab: it has `serves`.
        code: finds its classes and those of its parts.
        told: whose code that is, a line for each part.
    """

    lab: Lab
    code: CodeUnderTest
    told: str

    @property
    def serves(self) -> Serves:
        """How its classes make a pipeline."""
        assert self.lab.serves is not None
        return self.lab.serves


def find_composed(root: Path, wanted: str) -> Composed:
    """Return the code of the labs that make a pipeline.

    A part is the student's own where its lab passes, else the reference.

    Args:
        root: the repository.
        wanted: which code of the composing lab, as `LAB_IMPL` says it. Empty is the student's own
            where that passes, else what it means elsewhere.

    Raises:
        UsageError: no lab composes others, `wanted` is unknown, or a part does not pass and there
            is no reference for it.
    """
    lab = next((lab for lab in find_labs(root) if lab.serves is not None), None)
    if lab is None:
        raise UsageError("no lab.toml has [serves], so no lab makes a pipeline")
    passes = Progress(root).passes
    if not wanted and passes(lab):
        wanted = "starter"
    implementation = choose(wanted, [lab], Path.cwd())[lab.path]
    code = CodeUnderTest(lab, implementation, root, passes)
    lines = [f"Text path: {implementation.title} of {lab.name}", *code.where_parts_come_from()]
    return Composed(lab, code, "\n  ".join(lines))


def make_pipeline(
    composed: Composed, stops: list[str], *, eos_token_id: int | None = None, tools: bool = True
) -> tuple[Any, Any]:
    """Return a new pipeline, and the layer of it that knows which stop string matched.

    Whatever the code raises is raised here.

    Args:
        composed: whose code.
        stops: the stop strings.
        eos_token_id: the id that ends the text; None for the pipeline's own default.
        tools: false leaves the tool parser out, so that calls are text.
    """
    serves, code = composed.serves, composed.code
    layers: dict[str, Any] = {}
    for name in serves.layers:
        if name == serves.tools_go_to and not tools:
            layers[name] = _NoTools()
        elif name == serves.stops_go_to:
            layers[name] = code.resolve(name)(stops)
        else:
            layers[name] = code.resolve(name)()
    make = code.resolve(serves.pipeline)
    eos = {} if eos_token_id is None else {serves.eos_goes_to: eos_token_id}
    pipeline = make(*layers.values(), **eos)
    return pipeline, layers[serves.stops_go_to]


def why_not_ready(composed: Composed, what: str, error: BaseException) -> UsageError:
    """Return what to tell the author of code that cannot be shown or served.

    Args:
        composed: whose code.
        what: was tried, as in "ready to serve".
        error: that it raised.
    """
    lab = composed.lab
    if isinstance(error, NotImplementedError):
        said = f"{error} is still to do. Go on with" if str(error) else "a task is still to do:"
        return UsageError(f"{lab.label} is not {what}: {said} `make lab N={lab.number}`")
    return UsageError(
        f"{lab.label} is not {what}: its pipeline raised {type(error).__name__}: "
        f"{error}{_where(error, lab.path.parent)}. See `make lab N={lab.number}`"
    )


def _where(error: BaseException, labs: Path) -> str:
    """Return the deepest line of the traceback that is in a lab's folder, in words."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if labs in path.parents:
            return f" in {path.relative_to(labs)}, line {frame.lineno} (`{frame.line}`)"
    return ""


class _NoTools:
    """In the tool parser's place where a request has no tools: all is text."""

    held = ""

    def feed(self, text: str) -> list[TextDelta]:
        return [TextDelta(text)] if text else []

    def flush(self) -> list[TextDelta]:
        return []
