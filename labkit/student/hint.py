"""`make hint`: one more hint, which starts from the last report.

After a diagnosis, its own hint is the first. Then the hints of the same symptom follow, and at last
the other hints of the task. In a hunt, hints are about a wrong implementation that survives.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markdown import Markdown

from labkit.course.hints import read_hints
from labkit.course.lab import Lab, find_labs
from labkit.student.pick import add_lab, add_task, lab_or_next, remember, task_of
from labkit.student.progress import Progress, next_alive

_WIDTH = 88


class Topic(NamedTuple):
    """The hints about one thing, in order.

    Attributes:
        about: the task, diagnosis or wrong implementation, as the progress names it.
        title: the same for the student.
        hints: the symptom and the text of each.
        deeper: how many of them are about the same symptom.
        ends: the words after "the last hint", if all have been read.
    """

    about: int | str
    title: str
    hints: list[tuple[str, str]]
    deeper: int
    ends: str


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit hint`."""
    add_lab(command)
    add_task(command)


def run(args: argparse.Namespace, root: Path) -> int:
    """Print the next hint, and remember that it was read; return 0."""
    progress = Progress(root)
    at_work = progress.at_work(find_labs(root)) if not args.lab else None
    lab = at_work or lab_or_next(args.lab, root)
    if not args.task and progress.passes(lab):
        again = f"make hint N={lab.number} T={lab.tasks[0].number}"
        print(f"{lab.label} passes, so it needs no hint. To read its hints: {again}")
        return 0
    task = task_of(lab, args.task) if args.task else progress.next_task(lab)
    topic = _topic(lab, task, progress)
    level = progress.next_hint(lab, topic.about, len(topic.hints))
    console = Console(
        width=_WIDTH if not sys.stdout.isatty() else None, highlight=False, markup=False
    )
    console.print(f"{lab.label} {topic.title}, hint {level} of {len(topic.hints)}:")
    symptom, text = topic.hints[level - 1]
    console.print(Markdown(f"*{symptom}*\n\n{text}"))
    again = f"make hint N={lab.number} T={task}"
    if level == len(topic.hints):
        console.print(f"\nThis is the last hint of {topic.ends}.")
    elif level < topic.deeper:
        console.print(f"\nOne level deeper: {again}")
    else:
        console.print(f"\nThe other hints of {topic.ends}: {again}")
    if lab.hunt is None:
        console.print(f"Step through your failing case: make show N={lab.number} T={task}")
    remember(partial(progress.save_hint, lab, topic.about, level))
    return 0


def _topic(lab: Lab, task: int, progress: Progress) -> Topic:
    """Return the topic of the next hint for a task."""
    if (alive := next_alive(lab, task, progress)) is not None:
        own = [(alive.symptom, text) for text in alive.hints]
        return Topic(alive.name, alive.name, own, len(own), alive.name)
    title = f"task {task} ({next(row.title for row in lab.tasks if row.number == task)})"
    hints = read_hints(lab)
    rest = hints[task]
    diagnosis = progress.diagnosis(lab, task)
    if diagnosis is None:
        levels = [(hint.symptom.strip(), hint.text) for hint in rest]
        return Topic(task, title, levels, len(levels), "this task")
    every = [hint for row in hints.values() for hint in row]
    same = [hint for hint in every if diagnosis.name in hint.looks_like]
    others = [hint for hint in rest if hint not in same]
    levels = [
        (diagnosis.symptom, diagnosis.hint),
        *((hint.symptom.strip(), hint.text) for hint in (*same, *others)),
    ]
    title = f"{title}, from the last report"
    return Topic(diagnosis.name, title, levels, 1 + len(same), "this task")
