"""`make predict N=03`: questions about tiny inputs, before any code is written.

Nothing is graded. Every question can be skipped, and an answer is explained at once.
"""

import argparse
import sys
import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from labkit.course.lab import Lab
from labkit.course.predictions import Question, read_questions
from labkit.student.pick import add_lab, lab_or_next, remember
from labkit.student.progress import Progress

_WIDTH = 88
_SKIP = ("", "s", "skip")


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit predict`."""
    add_lab(command)


def run(args: argparse.Namespace, root: Path) -> int:
    """Ask the questions of a lab and remember the answers; return 0."""
    lab = lab_or_next(args.lab, root)
    questions = read_questions(lab)
    print(f"{lab.label} {lab.title}: {len(questions)} predictions. Nothing is graded.")
    print("Type a choice or its value; Enter skips, Ctrl-C ends.")
    answers: list[bool | None] = [None] * len(questions)
    labels = _labels(questions)
    try:
        for number, question in enumerate(questions):
            print(f"\n{number + 1} of {len(questions)}")
            answers[number] = _ask(question, labels)
    except (KeyboardInterrupt, EOFError):
        note = "; your answers are kept" if any(said is not None for said in answers) else ""
        print(f"\n\nStopped here{note}.")
    _finish(lab, answers, Progress(root), root)
    return 0


def _finish(lab: Lab, answers: list[bool | None], progress: Progress, root: Path) -> None:
    """Remember the new answers beside those of earlier times, and say how many are right."""
    earlier = progress.record(lab).predictions
    known = [
        earlier.get(str(number)) if answer is None else answer
        for number, answer in enumerate(answers, start=1)
    ]
    verdicts = [answer for answer in known if answer is not None]
    if known != answers or verdicts:
        remember(partial(progress.save_predictions, lab, known))
    open_yet = f", {len(known) - len(verdicts)} not answered" if len(verdicts) < len(known) else ""
    before = " (with your earlier answers)" if known != answers else ""
    print(f"\n{sum(verdicts)} of {len(known)} right{open_yet}{before}.")
    if not progress.passes(lab):
        _say(f"next: make lab N={lab.number}, after reading {lab.readme.relative_to(root)}")


def _ask(question: Question, labels: str) -> bool | None:
    """Ask until there is an answer; return whether it is right, None if the question is skipped."""
    _say(question.ask)
    print("\n" + textwrap.indent(question.code.strip(), "    ") + "\n")
    choices = dict(zip(labels, question.choices, strict=False))
    for label, choice in choices.items():
        print(f"  {label}  {choice}")
    answer = _read(choices)
    if answer is None:
        print("Skipped.")
        return None
    right = answer == question.answer
    _say(f"{'Right.' if right else f'No: {question.answer}.'} {question.why}")
    return right


def _labels(questions: Sequence[Question]) -> str:
    """Return the signs of a lab's choices: digits, unless some choice could be mistaken for one."""
    choices = {choice for question in questions for choice in question.choices}
    return "abcd" if set("1234") & choices else "1234"


def _read(choices: dict[str, str]) -> str | None:
    first, *_, last = choices
    while True:
        said = _line(f"your answer ({first}-{last}): ")
        if said.lower() in _SKIP:
            return None
        if (choice := _meant(said, choices)) is not None:
            return choice
        print(f"Type one of {', '.join(choices)}, or the value; Enter skips.")


def _meant(said: str, choices: dict[str, str]) -> str | None:
    """Return the choice that is meant by its label, or by its value with or without quotes."""
    for choice in choices.values():
        if said in (choice, choice.strip("'\""), choice.replace("'", '"')):
            return choice
    return choices.get(said.lower())


def _line(prompt: str) -> str:
    said = input(prompt).strip()
    if not sys.stdin.isatty():
        # The terminal shows what is typed; a pipe does not.
        print(said)
    return said


def _say(text: str) -> None:
    # A path stays whole, so that it can be copied.
    print(textwrap.fill(" ".join(text.split()), _WIDTH, break_on_hyphens=False))
