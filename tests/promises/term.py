"""What the instructors' pages take for granted, at the root of a clone: `python term.py LAB`.

It writes a zip of submissions to the lab and a folder of repositories, the lists of students,
times and points as these pages show them, and the hidden test that they show.
"""

import re
import shutil
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

PAGES = ("INSTRUCTORS.md", "labkit/grading/FORMATS.md")
TEXT = "".join(Path(name).read_text(encoding="utf-8") for name in PAGES)
LISTS = {"student,id,name,email": "roster.csv", "student,submitted_at": "times.csv",
         "student,points,reason": "points.csv",
         "student,lab,extension,reason": "extensions.csv"}  # fmt: skip


def main(number):
    (lab,) = Path().glob(f"phase-*/labs/lab-{number}-*")
    right = (lab / "solution.py").read_text(encoding="utf-8")
    work = {
        "ada": right,
        "bob": re.sub(r"^( +)return ", r"\1return 'x' or ", right, count=1, flags=re.MULTILINE),
        "cyd": (lab / "course/starter.py.orig").read_text(encoding="utf-8"),
    }
    shutil.rmtree("repositories", ignore_errors=True)
    with zipfile.ZipFile("submissions.zip", "w") as archive:
        for student, source in work.items():
            archive.writestr(f"{student}/starter.py", source)
            folder = Path("repositories", student, lab)
            folder.mkdir(parents=True)
            (folder / "starter.py").write_text(source, encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    for _, block in blocks:
        name = LISTS.get(block.partition("\n")[0])
        if name:
            Path(name).write_text(block, encoding="utf-8")
    place, hidden = next(
        (place.strip(), hidden)
        for (_, place), (kind, hidden) in pairwise(blocks)
        if kind == "python"
    )
    test = Path("..", place)
    test.parent.mkdir(parents=True, exist_ok=True)
    test.write_text(hidden, encoding="utf-8")


main(sys.argv[1])
