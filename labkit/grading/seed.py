"""The secret seed of a course's gradings, from which each lab's seed is derived.

Students' own runs use the public seed, so a table of its answers is easily made. Gradings that
count use a seed that no student knows: the instructor's repository keeps it in a file, and `make
grade` and `make gradescope` use the same file.
"""

import hmac
import os
import secrets
import sys
import tempfile
from pathlib import Path

from labkit.course.lab import Lab
from labkit.errors import UsageError
from labkit.running.score import PUBLIC_SEED

FILE = ".labkit/grading-seed"
# In hexadecimal digits, of the file's secret and of a lab's seed.
_SECRET, _SEED = 64, 32


def grading_seed(lab: Lab, root: Path, ledger: Path | None = None) -> str:
    """Return the seed with which a lab is graded; make the file if it is missing, and say so.

    In a student edition, which has no solutions, this is the public seed.

    Args:
        lab: the lab.
        root: the repository.
        ledger: the ledger of the grading, if there is one.

    Raises:
        UsageError: the file can neither be read nor made, or has other content; or it is missing,
            and the ledger has grades, which were made with another seed then.
    """
    if not lab.solution.exists():
        return PUBLIC_SEED
    if not (root / FILE).exists() and _has_grades(ledger):
        raise UsageError(
            f"--ledger {ledger} has grades, but the seed that they were made with is missing: copy "
            f"{FILE} from the machine where the ledger was made; or name a new ledger, and "
            "everything is graded with another seed"
        )
    return hmac.digest(_secret(root / FILE), lab.name.encode(), "sha256").hex()[:_SEED]


def _has_grades(ledger: Path | None) -> bool:
    if ledger is None or not ledger.is_file():
        return False
    with ledger.open("rb") as lines:
        return any(b',"grade":{' in line for line in lines)


def _secret(path: Path) -> bytes:
    try:
        if not path.exists():
            _make(path)
        text = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise UsageError(
            f"the seed of the gradings cannot be kept in {path} ({error.strerror}): make the file "
            "writable, or name a seed that students do not know, --seed S"
        ) from None
    except ValueError:
        text = ""
    if len(text) != _SECRET or not text.isalnum():
        raise UsageError(
            f"{path} does not contain the seed of the gradings ({_SECRET} hexadecimal digits): "
            "restore a copy of the seed; or remove the file, and later gradings get another seed"
        )
    return text.encode()


def _make(path: Path) -> None:
    """Make the file in one step: if two graders begin at once, one makes it for both."""
    path.parent.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent) as file:
        file.write(secrets.token_hex(_SECRET // 2) + "\n")
        file.flush()
        try:
            os.link(file.name, path)
        except FileExistsError:
            return
    print(
        f"labkit: made {path}, the secret seed of all gradings from now on. Keep a copy of it "
        "beside your ledgers, and away from students.",
        file=sys.stderr,
    )
