"""Questions to answer before writing code, from `predict.toml`: the result for a tiny input.

The answer is stored, so that a course without references can show it; the gate `predictions`
compares it with the reference.
"""

from dataclasses import dataclass

from labkit.course.lab import COURSE, Lab
from labkit.course.rows import build, read_toml
from labkit.errors import LabFolderError

FILE = f"{COURSE}/predict.toml"
FEWEST_QUESTIONS, MOST_QUESTIONS = 3, 6


@dataclass(frozen=True)
class Question:
    """A question about the value of some code.

    Attributes:
        ask: the question, in one or two sentences.
        code: Python statements, the last of which is the expression in question. Its names are
            those of the lab's solution.
        choices: three or four values, as `repr` or `ascii` writes them.
        answer: the choice that the reference returns.
        why: one sentence.
    """

    ask: str
    code: str
    choices: tuple[str, ...]
    answer: str
    why: str


def read_questions(lab: Lab) -> tuple[Question, ...]:
    """Return the questions of a lab, in the order of the file.

    Raises:
        LabFolderError: the file is missing or malformed.
    """
    file = lab.path / FILE
    rows = read_toml(file).get("question", [])
    questions = tuple(build(Question, row, file, choices=tuple) for row in rows)
    if not FEWEST_QUESTIONS <= len(questions) <= MOST_QUESTIONS:
        message = f"{len(questions)} questions; a lab has {FEWEST_QUESTIONS} to {MOST_QUESTIONS}"
        raise LabFolderError(f"{file}: {message}")
    for number, question in enumerate(questions, start=1):
        if fault := _fault(question):
            raise LabFolderError(f"{file}: question {number}: {fault}")
    return questions


def _fault(question: Question) -> str:
    if not all(isinstance(choice, str) for choice in question.choices):
        return f"choices must be text, as repr writes the values: {list(question.choices)}"
    if not 3 <= len(question.choices) <= 4:
        return f"{len(question.choices)} choices; there must be 3 or 4"
    if len(set(question.choices)) < len(question.choices):
        return f"two choices are equal: {list(question.choices)}"
    if question.answer not in question.choices:
        return f"the answer {question.answer} is not among the choices"
    return ""
