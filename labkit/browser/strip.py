"""The strip "your code, live": one text, fed piece by piece to the reader's code and beside it.

The naive way runs beside it and, if there is one, the reference. The classes and their input are in
`lab.toml`: a lab's rows `[[serves]]`, or its table `[strip]`. A hunt has neither: there the code is
given, and the reader writes tests.
"""

import contextlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labkit.browser.vocabulary import ids_of, read_tokenizer
from labkit.course.lab import PIPELINE, Lab, find_labs, pick_lab
from labkit.errors import LabkitError, LoadFailure, UsageError
from labkit.running import platform
from labkit.running.lab_impl import Implementation, load
from labkit.running.limits.time_limit import OverdueError, time_limit
from labkit.running.limits.watchdog import PageWatchdog
from labkit.running.racing import FILE as RACE
from labkit.running.source import last_line_in
from labkit.serving.composed import Composed, Part
from labkit.serving.showable import WHOLE, Shown, shown_of
from labkit.serving.subjects import (
    Alone,
    Crossing,
    Make,
    Queue,
    Subject,
    Whole,
    make_subject,
    naive_part,
)
from labkit.serving.vocabulary import bytes_of
from labkit.student.progress import Progress
from mini_vllm.tokenizer import Tokenizer

MOST_PIECES = 400
SECONDS = 2.0
STOP = "END"
_MOST_SHOWN = 2_000
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|[nt\\])")


def live(request: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Feed a text to the code of a lab; return the output after every piece.

    Args:
        request: `{lab, part, text, stops}`; `part` is a role of `shown_of`. In the text
            `\\xff` is a byte, and `\\n`, `\\t` and `\\\\` mean the same as in Python.
        root: the repository; the starters in it are the reader's code.

    Returns:
        `{rows, own, printed}`: a row is `{token, bytes, text, own, naive, reference}`, the last
        three `{emitted, held, raised, line, ended}` or None. `own` names the owners of
        the layers, and the reason if the reader's code could not be made.

    Raises:
        UsageError: there is no such lab or part, or the text is too long.
    """
    lab = pick_lab(find_labs(root), request["lab"])
    choices = shown_of(lab)
    shown = next((choice for choice in choices if choice.role == request["part"]), None)
    if shown is None:
        raise UsageError(f"{lab.label} has no {request['part']!r} to show")
    stops = [stop for stop in request.get("stops", []) if stop]
    return _Show(lab, shown, stops, root).feed(request["text"])


def pages(root: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the data of pages before Python is loaded: by lab, the choices of its strip."""
    return {lab.number: [asdict(shown) for shown in shown_of(lab)] for lab in find_labs(root)}


def stored(root: Path) -> dict[str, dict[str, dict[str, list[dict[str, Any]]]]]:
    """Return the references' output for the examples, for sites that are built without references.

    Args:
        root: a repository with references.

    Returns:
        Rows by lab, role and text; the stop string is the one that the page begins with.
    """
    return {
        lab.number: {shown.role: _stored(lab, shown, root) for shown in shown_of(lab)}
        for lab in find_labs(root)
    }


def _stored(lab: Lab, shown: Shown, root: Path) -> dict[str, list[dict[str, Any]]]:
    show = _Show(lab, shown, [STOP] if shown.stops else [], root)
    return {text: show.feed(text, only_reference=True)["rows"] for text in shown.examples.values()}


class _Show:
    """One lab, one role and some stops, ready for texts."""

    def __init__(self, lab: Lab, shown: Shown, stops: Sequence[str], root: Path) -> None:
        self._lab, self._shown, self._stops = lab, shown, stops
        self._labs = {other.name: other for other in find_labs(root)}
        self._progress = Progress(root)
        self._reference = _all_references([lab, *self._parts_of(lab)])
        self._tokenizer = read_tokenizer(self._vocabulary())

    def feed(self, text: str, *, only_reference: bool = False) -> dict[str, Any]:
        """Return the output for the text, piece by piece."""
        pieces = self._pieces(text)
        makers = {"reference": self._make_reference} if self._reference else {}
        if not only_reference:
            makers = {"own": self._make_own, **makers}
            if self._shown.naive:
                makers["naive"] = self._make_naive
        printed = io.StringIO()
        walks, failed = {}, None
        for name, make in makers.items():
            with (
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
                _watched(self._lab.starter),
            ):
                walks[name], why = _walk(make, pieces, self._own_files())
            if name == "own":
                failed = why
        rows = _rows(pieces, walks, self._shown, self._tokenizer)
        whose = [] if only_reference else self._whose()
        return {
            "rows": rows,
            "own": {"failed": failed, "parts": whose},
            "printed": printed.getvalue()[-_MOST_SHOWN:],
        }

    def _pieces(self, text: str) -> list[Any]:
        data = _unescaped(text)
        if self._shown.pieces == "ids":
            pieces: list[Any] = ids_of(self._tokenizer, data)
            if self._shown.role in (PIPELINE, "frames"):
                pieces.append(min(self._tokenizer.eos_token_ids))
        else:
            pieces = [*data.decode("utf-8", "replace")]
        if len(pieces) > MOST_PIECES:
            raise UsageError(
                f"the text has {len(pieces)} pieces, but the strip shows at most {MOST_PIECES}: "
                "shorten the text"
            )
        return pieces

    def _vocabulary(self) -> Path | None:
        labs = (self._lab, *self._parts_of(self._lab))
        paths = (lab.vocabulary(row) for lab in labs for row in lab.serves if row.role == "tokens")
        return next(filter(None, paths), None)

    def _parts_of(self, lab: Lab) -> list[Lab]:
        return [self._labs[name] for name in lab.parts.values()]

    def _own_files(self) -> list[str]:
        return [str(lab.starter) for lab in (self._lab, *self._parts_of(self._lab))]

    def _make_own(self) -> Subject:
        return self._make(Implementation("starter", self._lab.starter), own=True)

    def _make_reference(self) -> Subject:
        return self._make(Implementation("solution", self._lab.solution), own=False)

    def _make(self, implementation: Implementation, *, own: bool) -> Subject:
        if self._shown.role == WHOLE:
            return self._make_whole(implementation)
        composed = Composed(
            {**self._other_parts(own=own), self._shown.role: self._part(self._lab, implementation)}
        )
        return make_subject(composed, self._shown.role, self._tokenizer, self._stops)

    def _make_whole(self, implementation: Implementation) -> Subject:
        strip = self._lab.strip
        assert strip is not None
        module = load(implementation, f"under_test.{self._lab.label}", self._lab.given)
        coder = getattr(module, strip.class_name)()
        return Whole(getattr(coder, strip.encode), getattr(coder, strip.decode))

    def _make_naive(self) -> Subject:
        role = self._shown.role
        if role == "channel":
            return Crossing(Queue())
        if self._shown.pieces == "ids":
            return Alone(self._tokenizer)
        race = self._part(self._lab, Implementation("path", self._lab.path / RACE))
        return make_subject(Composed({role: naive_part(race)}), role, self._tokenizer, self._stops)

    def _part(self, lab: Lab, implementation: Implementation) -> Part:
        serves = next(row for row in lab.serves if row.role == self._shown.role)
        return Part(lab, serves, implementation)

    def _other_parts(self, *, own: bool) -> dict[str, Part]:
        """Return the layers that the lab builds on: the reader's own if they pass.

        Raises:
            LoadFailure: a layer does not pass, and there is no reference.
        """
        parts: dict[str, Part] = {}
        for lab in self._parts_of(self._lab):
            implementation = self._implementation(lab, own=own)
            parts |= {row.role: Part(lab, row, implementation) for row in lab.serves}
        return parts

    def _implementation(self, lab: Lab, *, own: bool) -> Implementation:
        if own and self._progress.passes(lab):
            return Implementation("starter", lab.starter)
        if not lab.solution.exists():
            raise LoadFailure(
                f"{self._lab.label} builds on {lab.label}, but your current {lab.label} does not "
                "pass: pass it first"
            )
        return Implementation("solution", lab.solution)

    def _whose(self) -> list[dict[str, Any]]:
        """Return the owners of the layers that this lab builds on."""
        return [
            {"lab": lab.label, "title": lab.title, "own": self._progress.passes(lab)}
            for lab in self._parts_of(self._lab)
        ]


@contextlib.contextmanager
def _watched(code: Path) -> Iterator[None]:
    """Have the page, if there is one, end code that no time limit can interrupt."""
    page = platform.page()
    if page is None:
        yield
        return
    watchdog = PageWatchdog(page, code)
    watchdog.begin("the text of the strip", SECONDS)
    try:
        yield
    finally:
        watchdog.close()


def _walk(
    make: Make, pieces: Sequence[Any], files: Sequence[str]
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Feed the pieces to a new subject until it ends, raises or takes too long.

    Returns:
        The output after each piece, and the reason if the subject could not be made.
    """
    cells: list[dict[str, Any]] = []
    subject: Subject | None = None
    try:
        with time_limit(SECONDS):
            subject = make()
            for cell in _cells(subject, pieces):
                cells.append(cell)
    except (Exception, SystemExit, OverdueError) as error:
        failure = _failure(error, files)
        if subject is None:
            return cells, failure
        cells.append({"emitted": [], "held": None, "ended": None, **failure})
    return cells, None


def _cells(subject: Subject, pieces: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for piece in pieces:
        emitted = subject.feed(piece)
        yield _cell(subject, emitted)
        if subject.ended is not None:
            return
    yield _cell(subject, subject.flush())


def _cell(subject: Subject, emitted: list[Any]) -> dict[str, Any]:
    try:
        held: dict[str, Any] | None = {role: _plain(it) for role, it in subject.held.items()}
    except NotImplementedError:
        # The tasks that are done are shown even if another is not written yet.
        held = None
    cut = [(kind, _cut(text), number) for kind, text, number in emitted]
    return {"emitted": cut, "held": held, "raised": None, "line": None, "ended": subject.ended}


def _plain(held: str | bytes) -> str | list[int]:
    return _cut(held) if isinstance(held, str) else list(held[:_MOST_SHOWN])


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _failure(error: BaseException, files: Sequence[str]) -> dict[str, Any]:
    """Return the error in words, and its line in the lab's own file.

    Args:
        error: the exception.
        files: the reader's file of the lab, then those of the labs that it builds on.
    """
    where = last_line_in(error, files[0])
    line = None if where is None else where[0]
    if isinstance(error, OverdueError):
        words = "was still running at the time limit: is there an endless loop?"
    elif isinstance(error, NotImplementedError):
        words = f"{error} is not written yet" if str(error) else "a task is not written yet"
    elif isinstance(error, LabkitError):
        words = str(error)
    else:
        words = f"{type(error).__name__}: {error}"
    for file in files[1:]:
        if line is None and (where := last_line_in(error, file)):
            words += f" (in {Path(file).parent.name}, line {where[0]})"
    return {"raised": _cut(words), "line": line}


def _rows(
    pieces: Sequence[Any],
    walks: Mapping[str, list[dict[str, Any]]],
    shown: Shown,
    tokenizer: Tokenizer,
) -> list[dict[str, Any]]:
    """Return a row for each piece with output, and one for the end."""
    rows = []
    for place in range(max(map(len, walks.values()), default=0)):
        row: dict[str, Any] = {"token": None, "bytes": None, "text": None}
        if place < len(pieces) and shown.pieces == "ids":
            data = bytes_of(tokenizer, pieces[place])
            row |= {"token": pieces[place], "bytes": list(data)}
        elif place < len(pieces):
            row["text"] = pieces[place]
        for name, cells in walks.items():
            row[name] = cells[place] if place < len(cells) else None
        rows.append(row)
    return rows


def _all_references(labs: Sequence[Lab]) -> bool:
    return all(lab.solution.exists() for lab in labs)


def _unescaped(text: str) -> bytes:
    """Return the bytes of a text in which some are written as escapes."""
    plain = {"n": b"\n", "t": b"\t", "\\": b"\\"}
    data, end = b"", 0
    for escape in _ESCAPE.finditer(text):
        code = escape[1]
        data += _utf8(text[end : escape.start()]) + (plain.get(code) or bytes.fromhex(code[1:]))
        end = escape.end()
    return data + _utf8(text[end:])


def _utf8(text: str) -> bytes:
    # A lone surrogate, which an input field may hold, is not a character.
    return text.encode("utf-8", "replace")
