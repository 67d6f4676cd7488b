"""The autograder of one lab for Classroom 50. Started in a student's checkout without arguments, it
leaves `result.json` there.

It only sets the grader up: in an environment of its own, and as root if sudo needs no password, so
that the submission can run as another user. The programs that it starts run in its own folder, and
import nothing from the checkout.

Exit codes: 0 graded, 3 the grader could not run here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COURSE = Path(__file__).resolve().parent / "course"
VARIABLES = ("CLASSROOM", "ASSIGNMENT", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL", "REVIEW_URL")


def main() -> int:
    """Set up and grade."""
    if sys.version_info < (3, 11):  # noqa: UP036 -- nothing has checked that before
        print(f"The grader needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
        return 3
    as_root = _as_root()
    if shutil.which("bwrap") is None and as_root is not None and shutil.which("apt-get"):
        # The better wall; without it the grader uses its own.
        subprocess.call([*as_root, "apt-get", "install", "-qy", "bubblewrap"], stdout=2)
    with tempfile.TemporaryDirectory(prefix="autograder-") as scratch:
        python = [os.path.join(scratch, "bin/python"), "-I"]
        pip = [*python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        for command in (
            [sys.executable, "-I", "-m", "venv", scratch],
            [*pip, "--require-hashes", "-r", str(COURSE / "requirements.txt")],
        ):
            if subprocess.call(command, cwd=COURSE, stdout=2) != 0:
                print(f"The grader could not be set up: {' '.join(command)}", file=sys.stderr)
                return 3
        (site,) = Path(scratch).glob("lib/python*/site-packages")
        (site / "course.pth").write_text(f"import sys; sys.path.append({str(COURSE)!a})\n")
        facts = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
        command = [*(as_root or []), "env", "-i", f"PATH={os.environ['PATH']}", "LANG=C.UTF-8",
                   *facts, *python, "-B", "-m", "labkit.publish.classroom50", "--lab", "@LAB@",
                   "--checkout", os.getcwd()]  # fmt: skip
        return subprocess.call(command, cwd=COURSE)


def _as_root() -> list[str] | None:
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "-n"]
    if shutil.which("sudo") and subprocess.call([*sudo, "true"], stderr=subprocess.DEVNULL) == 0:
        return sudo
    return None


if __name__ == "__main__":
    sys.exit(main())
