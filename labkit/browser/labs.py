"""The labs as data for pages: the content of a bench before Python is loaded.

Markdown texts of the course become HTML here; HTML inside of them is escaped.
"""

import re
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from labkit.course.hints import read_hints
from labkit.course.lab import Lab, find_labs
from labkit.course.predictions import read_questions
from labkit.serving.plugin_file import plugged_rows


def labs_data(root: Path) -> list[dict[str, Any]]:
    """Return the data of each lab for pages, in the order of the ladder.

    Args:
        root: the repository, or a student edition.

    Raises:
        LabFolderError: a file of a lab is missing or malformed.
    """
    return [_lab(lab) for lab in find_labs(root)]


def page_starter(text: str) -> str:
    """Return a starter as a page shows it: its docstring names the page's buttons, not `make`."""
    text = _README.sub("This page has", text, count=1)
    return _CHECK.sub("Check your work with Run. Stuck? Open Report and hints.", text)


def _lab(lab: Lab) -> dict[str, Any]:
    return {
        "number": lab.number,
        "name": lab.name,
        "title": lab.title,
        "tasks": [{"number": task.number, "title": task.title} for task in lab.tasks],
        "starter": page_starter(lab.pristine_starter.read_text("utf-8")),
        "hints": _hints(lab),
        "pool": _pool(lab),
        "predictions": _predictions(lab),
        "has_solution": lab.solution.exists(),
        "has_plugin": bool(plugged_rows(lab)),
    }


def _hints(lab: Lab) -> list[dict[str, Any]]:
    """Return the hints of all tasks, mildest first."""
    return [
        {
            "task": task,
            "symptom_html": _inline(hint.symptom),
            "text_html": _html(hint.text),
            "looks_like": [*hint.looks_like],
        }
        for task, hints in read_hints(lab).items()
        for hint in hints
    ]


def _pool(lab: Lab) -> list[dict[str, Any]]:
    """Return the wrong implementations of a hunt, each with its own hints."""
    if lab.hunt is None:
        return []
    return [
        {
            "name": code.name,
            "task": code.target.task,
            "symptom": code.symptom.strip(),
            "hints_html": [*map(_html, code.hints)],
        }
        for code in lab.pool.wrong()
    ]


def _predictions(lab: Lab) -> list[dict[str, Any]]:
    return [
        {
            "ask_html": _inline(question.ask),
            "code": question.code.strip(),
            "choices": [*question.choices],
            "answer": question.answer,
            "why_html": _inline(question.why),
        }
        for question in read_questions(lab)
    ]


def _html(text: str) -> str:
    html: str = _MARKDOWN.render(text.strip())
    return html


def _inline(text: str) -> str:
    html: str = _MARKDOWN.renderInline(text.strip())
    return html


_README = re.compile(r"\bREADME\.md has\b")
_CHECK = re.compile(r"^Check your work with `make lab N=\d\d`.*$", re.MULTILINE)
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
