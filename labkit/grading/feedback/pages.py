"""An account as a page that opens without a network, and as plain text."""

import textwrap
from pathlib import Path

from markupsafe import Markup

from labkit.grading.feedback.account import Account
from labkit.grading.reports.page import environment_of
from labkit.running.recording.recording import Recording
from labkit.running.reporting.explain import WIDTH
from labkit.student.show_page import digest_of, drawing_script, drawing_style, place_of_drawing

_TEMPLATES = Path(__file__).resolve().parent / "templates"


class Pages:
    """Makes pages; equal accounts make equal bytes."""

    def __init__(self) -> None:
        self._style = (_TEMPLATES / "feedback.css").read_text(encoding="utf-8")
        self._template = environment_of(_TEMPLATES).get_template("feedback.html.j2")

    def html(self, account: Account, recording: Recording | None = None) -> str:
        """Return the page. It loads nothing, whatever texts are in it.

        It runs nothing but the program that draws the recording, if there is one.
        """
        style, script = self._style, ""
        if recording is not None:
            style, script = style + drawing_style(), drawing_script()
        return self._template.render(
            account=account,
            style=Markup(style),
            style_hash=digest_of(style),
            script=Markup(script),
            script_hash=digest_of(script),
            recording=None if recording is None else Markup(place_of_drawing(recording)),
            shown=None if recording is None else recording.test,
        )


def text(account: Account) -> str:
    """Return the account as plain text, in lines that fit; failures are laid out already."""
    lines = [f"{account.lab}: {account.title}", f"Feedback for {account.student}", ""]
    lines += _wrapped(f"Score: {account.score} of {account.max_score} points for the tests")
    if account.mark:
        lines += _wrapped(f"Mark: {account.mark}")
    if len(account.lines) > 1:
        lines += [line for paragraph in account.lines for line in _wrapped(paragraph, "    ")]
    lines.append("")
    if account.fault:
        lines += [*_wrapped(f"No test could run: {account.fault}"), ""]
    for remark in account.remarks:
        lines += [*_wrapped(f"Remark: {remark}"), ""]
    for task in account.tasks:
        lines += _wrapped(
            f"Task {task.number} ({task.title}): {task.passed} of {task.tests} tests, "
            f"{task.score} of {task.max_score} points"
        )
    if account.hidden is not None:
        lines += _wrapped(
            f"Tests that are not shown: {account.hidden.score} of {account.hidden.max_score} points"
        )
    if account.looks_like:
        lines += ["", *_wrapped(f"It looks like this mistake: {account.looks_like}")]
    if account.advice:
        lines += ["", account.advice]
    for failure in account.failed:
        lines += ["", f"FAIL {failure.name} ({failure.worth})"]
        lines += [f"  {line}" for line in failure.explanation.splitlines()]
    for waiting in account.waiting:
        lines += ["", *_wrapped(f"{waiting.what}: {waiting.why}")]
        lines += _wrapped(", ".join(waiting.names), "    ")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _wrapped(prose: str, indent: str = "") -> list[str]:
    return [
        line
        for paragraph in prose.splitlines()
        for line in textwrap.wrap(
            paragraph,
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
    ]
