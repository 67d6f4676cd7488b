"""Gate: the answers in `predict.toml` are the results of the reference."""

import ast
from pathlib import Path
from typing import Any

from labkit.course.lab import Lab, find_labs
from labkit.course.predictions import FILE, Question, read_questions
from labkit.errors import LabFolderError
from labkit.gates.finding import Finding, of_labs
from labkit.running.lab_impl import Implementation, load


@of_labs
def predictions_are_true(root: Path, labs: list[Lab]) -> list[Finding]:
    """Run the code of every question under the reference, and compare the answer."""
    findings: list[Finding] = []
    by_name = {lab.name: lab for lab in find_labs(root)}
    for lab in labs:
        place = f"{lab.name}/{FILE}"
        try:
            questions = read_questions(lab)
        except LabFolderError as error:
            findings.append(Finding(lab.name, str(error).replace(f"{lab.path}/", "")))
            continue
        names = _names(lab, by_name)
        for number, question in enumerate(questions, start=1):
            if fault := _fault(question, dict(names)):
                findings.append(Finding(place, f"question {number}: {fault}"))
    return findings


def _names(lab: Lab, labs: dict[str, Lab]) -> dict[str, Any]:
    """Return the names of a lab's solution and of its parts."""
    names = {name: _namespace(labs[folder])[name] for name, folder in lab.parts.items()}
    return names | _namespace(lab)


def _namespace(lab: Lab) -> dict[str, Any]:
    return vars(load(Implementation("solution", lab.solution), f"predicted.{lab.label}"))


def _fault(question: Question, names: dict[str, Any]) -> str:
    try:
        *before, last = ast.parse(question.code.strip()).body
        if not isinstance(last, ast.Expr):
            return "the last line of its code is not an expression"
        exec(compile(ast.Module(before, []), FILE, "exec"), names)
        value = eval(compile(ast.Expression(last.value), FILE, "eval"), names)
    except Exception as error:
        return f"its code raises {type(error).__name__}: {error}"
    if question.answer not in (repr(value), ascii(value)):
        return f"the reference gives {value!r}, the answer is {question.answer}"
    return ""
