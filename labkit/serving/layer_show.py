"""`make demo N=03`: one layer of a lab beside the naive way, piece by piece.

The naive way handles each piece by itself, as if there were no other, and holds nothing. The layer
is the student's own if it runs, else the reference or the engine's.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.cells import cell_len, set_cell_size

from labkit.course.lab import PIPELINE, TEXT_PATH, Lab, find_labs, pick_lab
from labkit.errors import LabkitError, UsageError
from labkit.running.lab_impl import Implementation, choose
from labkit.running.limits.time_limit import OverdueError, time_limit
from labkit.serving import engine_layers
from labkit.serving.composed import (
    LAYER_BY_LAYER,
    Composed,
    Part,
    find_composed,
    in_words,
)
from labkit.serving.showable import Shown, shown_of
from labkit.serving.subjects import Alone, Emitted, Held, Subject, make_subject
from labkit.student.progress import Progress
from mini_vllm.models.spelled import Speller, end_of
from mini_vllm.tokenizer import create_tokenizer

_TEXTS = {
    "tokens": "Grüße 🚀 你!",
    "stops": "An EN is not an end. The END of it.",
    "reasoning": "<think>2 and 2</think>It is 4.",
    "calls": 'Look: <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call> Done.',
    "pipeline": 'é <tool_call>{"name": "f", "arguments": {}}</tool_call> END and not this',
}
_TAGS = {"reasoning": "<think>", "calls": "<tool_call>"}
_WORDS = {
    "reasoning": "thinks {!r}", "call": "call {}", "arguments": "{}", "malformed": "malformed {!r}",
}  # fmt: skip
_CHARACTERS = 3
_SECONDS = 10.0
_WIDTHS = (60, 100)
_PIECE = 9


@dataclass(frozen=True)
class _Row:
    """One piece: its name, the output of both ways, and the held text."""

    piece: str
    naive: list[Emitted]
    emitted: list[Emitted]
    held: Held


def run(number: str, args: argparse.Namespace, root: Path) -> int:
    """Show each layer of a lab; return 0.

    Args:
        number: the number of the lab.
        args: `impl`, `text` (None for a text that suits the layer) and `stop` of `make demo`.
        root: the repository.

    Raises:
        LabkitError: there is no such lab; or it has no layer of a text path; or the code that
            `impl` names cannot be shown.
    """
    labs = find_labs(root)
    lab = pick_lab(labs, number)
    layers = [shown for shown in shown_of(lab) if shown.role in TEXT_PATH]
    if not layers:
        have = [
            other.number for other in labs if any(row.role in TEXT_PATH for row in other.serves)
        ]
        raise UsageError(
            f"{lab.label} builds no layer of the text path; the labs that do are "
            f"{', '.join(f'N={other}' for other in have)}. `make demo` shows all layers together"
        )
    for place, shown in enumerate(layers):
        print("\n" * bool(place), end="")
        _Show(lab, shown, args, root).run()
    return 0


class _Show:
    """One layer, ready to be shown."""

    def __init__(self, lab: Lab, shown: Shown, args: argparse.Namespace, root: Path) -> None:
        self._lab, self._shown = lab, shown
        self._stops = args.stop or ["END"]
        self._passes = Progress(root).passes(lab)
        self._serves = next(row for row in lab.serves if row.role == shown.role)
        self._others = find_composed(root, "", lab.track)
        # The part to show if the student's own cannot be shown.
        self._fallback = _engines(lab, shown.role, self._serves.vocabulary)
        if lab.solution.exists():
            self._fallback = Part(lab, self._serves, Implementation("solution", lab.solution))
        self._named = None
        if args.impl not in LAYER_BY_LAYER:
            self._named = choose(args.impl, [lab], Path.cwd())[lab.path]
        vocabulary = next((lab.vocabulary(row) for row in lab.serves if row.vocabulary), None)
        if lab.parts:
            vocabulary = self._others.vocabulary
        self._tokenizer = create_tokenizer(vocabulary or "byte")
        text = _TEXTS[shown.role] if args.text is None else args.text
        self._pieces = self._cut(text)

    def run(self) -> None:
        """Print the show."""
        own = Implementation("starter", self._lab.starter)
        part = Part(self._lab, self._serves, self._named or own)
        try:
            rows = [*self._rows(part)]
        except (Exception, SystemExit, OverdueError) as error:
            said = _in_words(error)
            if self._named:
                raise UsageError(f"{self._named.title} cannot be shown: {said}") from error
            print(f"Yours cannot be shown: {said}\nTo continue: make lab N={self._lab.number}\n")
            part = self._fallback
            rows = [*self._rows(part)]
        owner = part.owner
        if owner == "yours" and not self._named and not self._passes:
            owner = "yours, which does not pass yet"
        title = f", {self._named.title}" if self._named else ""
        print(f"{self._lab.label}, {self._shown.role}: {owner}{title}")
        print("naive: each piece by itself, and nothing held")
        if part.implementation is None and self._serves.engine_differs:
            print(self._serves.engine_differs)
        if self._shown.stops:
            print(f"stop: {', '.join(repr(stop)[1:-1] for stop in self._stops)}")
        if tag := _TAGS.get(self._shown.role):
            print(f"tag: {tag}")
        print()
        self._print(rows, owner.split(",")[0])

    def _make(self, part: Part) -> Subject:
        role, parts = self._shown.role, {**self._others.parts, self._shown.role: part}
        if role == "stops" and self._shown.pieces == "ids" and part.implementation is None:
            # The engine's stops take text, so its whole path is shown for a lab whose stops take
            # ids.
            role = PIPELINE
            parts = {each: _engines(self._lab, each) for each in TEXT_PATH if each != "reasoning"}
        return make_subject(Composed(parts), role, self._tokenizer, self._stops)

    def _cut(self, text: str) -> list[Any]:
        """Return the pieces of a text: ids, or a few characters each."""
        if self._shown.pieces == "ids":
            ids: list[Any] = [*Speller(self._tokenizer).ids(text)]
            return [*ids, end_of(self._tokenizer)] if self._shown.role != "tokens" else ids
        return [text[at : at + _CHARACTERS] for at in range(0, len(text), _CHARACTERS)]

    def _rows(self, part: Part) -> Iterator[_Row]:
        """Yield a row for each piece; exceptions of the layer are raised."""
        with time_limit(_SECONDS):
            subject = self._make(part)
            for piece in self._pieces:
                emitted = [] if subject.ended else subject.feed(piece)
                yield _Row(self._name(piece), self._naive(piece), emitted, dict(subject.held))
            if subject.ended is None and (rest := subject.flush()):
                yield _Row("the end", [], rest, dict(subject.held))

    def _naive(self, piece: Any) -> list[Emitted]:
        if self._shown.pieces == "ids":
            return Alone(self._tokenizer).feed(piece)
        alone = self._make(self._fallback)
        return [*alone.feed(piece), *alone.flush()]

    def _name(self, piece: Any) -> str:
        return repr(piece) if isinstance(piece, str) else str(piece)

    def _print(self, rows: Sequence[_Row], owner: str) -> None:
        least, most = _WIDTHS
        width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
        cell = (max(least, min(most, width)) - _PIECE - 1) // 3
        table = [("piece" if self._shown.pieces != "ids" else "token", "naive", owner, "held")]
        for row in rows:
            table.append((row.piece, _said(row.naive), _said(row.emitted), _held(row.held)))
        for piece, *cells in table:
            line = [_fit(piece, _PIECE), *(_fit(text, cell) for text in cells)]
            print("".join(line).rstrip())
        naive = _said([item for row in rows for item in row.naive])
        emitted = _said([item for row in rows for item in row.emitted])
        print(f"\n{'naive':<{len(owner)}}  {naive}\n{owner}  {emitted}")


def _engines(lab: Lab, role: str, vocabulary: str = "") -> Part:
    """Return the engine's own layer in place of a lab's."""
    return Part(lab, engine_layers.row(role, vocabulary), None)


def _in_words(error: BaseException) -> str:
    if isinstance(error, NotImplementedError):
        return f"{error} is not written yet" if str(error) else "a task is not written yet"
    if isinstance(error, OverdueError):
        return "it was still running at the time limit; is there an endless loop?"
    if isinstance(error, LabkitError):
        return str(error).splitlines()[0]
    return f"it raised {in_words(error)}"


def _said(emitted: Sequence[Emitted]) -> str:
    """Return the emitted events in one line; neighbours of one kind are joined."""
    joined: list[list[Any]] = []
    for kind, text, index in emitted:
        if joined and joined[-1][::2] == [kind, index]:
            joined[-1][1] += text
        else:
            joined.append([kind, text, index])
    return " ".join(_WORDS.get(kind, "{!r}").format(text) for kind, text, _ in joined)


def _held(held: Held) -> str:
    shown = [it.hex(" ") if isinstance(it, bytes) else repr(it) for it in held.values() if it]
    return " ".join(shown)


def _fit(text: str, width: int) -> str:
    """Return a text in a cell: its end if it is too long, and a space after it."""
    while cell_len(text) > width - 1:
        text = "…" + text.removeprefix("…")[1:]
    return set_cell_size(text, width)
