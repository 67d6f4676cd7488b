"""Gate: the READMEs are true: headings, facts, tables of tests, hints and links."""

import re
from pathlib import Path

from labkit.course.hints import FILE as HINTS
from labkit.course.hints import read_hints
from labkit.course.lab import Lab, find_labs
from labkit.course.matrix import generated_pages
from labkit.errors import LabFolderError
from labkit.gates.finding import Finding
from labkit.gates.promises.documents import documents
from labkit.running.diagnose import FILE as MISTAKES
from labkit.running.diagnose import read_mistakes

HEADINGS = [
    "Goal", "Where this sits in a serving engine", "Why this lab exists", "Background", "Files",
    "Run", "Tasks", "What the tests prove", "Not in scope", "Stuck?", "Hitchhiker's notes",
    "Going further", "References",
]  # fmt: skip
# The words that a student reads before the first line of code, folded text included.
MOST_WORDS = 600
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)#\s]+)")


def readmes_are_true(root: Path, labs: list[Lab] | None = None) -> list[Finding]:
    """Check every lab's README, the generated parts, and the links of all Markdown.

    If only some labs are named, it checks only their READMEs.
    """
    findings: list[Finding] = []
    for lab in find_labs(root) if labs is None else labs:
        if lab.readme.exists():
            findings += [Finding(f"{lab.name}/README.md", message) for message in _lab(lab)]
        else:
            findings.append(Finding(f"{lab.name}/README.md", "is missing: every lab has one"))
    findings += _generated(root) if labs is None else []
    for path in documents(root, records=True) if labs is None else []:
        name = str(path.relative_to(root))
        text = path.read_text(encoding="utf-8")
        findings += [Finding(name, message) for message in
                  [*_links(path, text), *_markers(text)]]  # fmt: skip
    return findings


def _lab(lab: Lab) -> list[str]:
    text = lab.readme.read_text(encoding="utf-8")
    faults: list[str] = []
    if _headings(text) != HEADINGS:
        faults.append(f"the headings are {_headings(text)}; they must be {HEADINGS}")
    faults += [
        f"{what} of lab.toml, {value!r}, is not in the text"
        for what, value in vars(lab).items()
        if what in ("title", "time", "difficulty", "prerequisites") and value not in text
    ]
    try:
        hints = read_hints(lab)
    except LabFolderError as error:
        faults.append(str(error).replace(f"{lab.path}/", ""))
    else:
        diagnoses = {mistake.name for mistake in read_mistakes(lab.path)}
        named = {name for levels in hints.values() for hint in levels for name in hint.looks_like}
        faults += [
            f"{HINTS}: a hint looks like {name!r}, which {MISTAKES} does not have"
            for name in sorted(named - diagnoses)
        ]
    for task in lab.tasks:
        points = sum(test.points for test in lab.tests if test.task == task.number)
        heading = f"### Task {task.number}: {task.title} ({points} points)"
        if heading not in text:
            faults.append(f"there is no line {heading!r}")
    # A hunt has a `test_killed` for each wrong implementation.
    names = dict.fromkeys(test.name.partition("[")[0] for test in lab.tests)
    table = re.findall(r"^\| `(test_\w+)`", text, re.MULTILINE)
    faults += [f"{name} is not in the table of tests" for name in names if name not in table]
    faults += [
        f"the table of tests has {name}, which does not exist" for name in set(table) - set(names)
    ]
    words = len(re.findall(r"\S*\w\S*", _before_code(text)))
    if words > MOST_WORDS:
        faults.append(
            f"{words} words from the title to the end of task 1; {MOST_WORDS} are the most: move "
            "background to the task that needs it"
        )
    return faults


def _before_code(text: str) -> str:
    """Return the text that a student reads before the first line of code."""
    return re.split(r"^### Task 2\b", text, maxsplit=1, flags=re.MULTILINE)[0]


def _headings(text: str) -> list[str]:
    """Return the `##` headings of a Markdown text, outside code blocks."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^## (.+)$", outside, re.MULTILINE)


def _generated(root: Path) -> list[Finding]:
    findings: list[Finding] = []
    try:
        for page, text in generated_pages(root):
            if text != page.read_text(encoding="utf-8"):
                message = "its generated part is out of date: run make matrix"
                findings.append(Finding(str(page.relative_to(root)), message))
    except LabFolderError as error:
        findings.append(Finding(str(root), str(error)))
    return findings


def _links(path: Path, text: str) -> list[str]:
    outside = re.sub(r"^```.*?^```|`[^`\n]+`", "", text, flags=re.MULTILINE | re.DOTALL)
    return [
        f"the link to {target} leads nowhere"
        for target in _LINK.findall(outside)
        if "://" not in target and not (path.parent / target).exists()
    ]


def _markers(text: str) -> list[str]:
    """Check that each marker of the edition or the site is alone on its line, and closed."""
    faults: list[str] = []
    ends = {
        "<!-- full -->": "<!-- /full -->",
        "<!-- edition": "-->",
        "<!-- checkout -->": "<!-- /checkout -->",
        "<!-- site": "-->",
    }
    opened = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if opened and line == ends[opened]:
            opened = ""
        elif not opened and line in ends:
            opened = line
        elif re.search(r"<!--\s*/?(full|edition|checkout|site)\b", re.sub("`[^`]+`", "", line)):
            after = f"; {opened} is still open" if opened else ""
            faults.append(f"line {number}: {line!r} is not a marker here{after}")
    return faults + ([f"{opened} is never closed"] if opened else [])
