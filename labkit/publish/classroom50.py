"""`make classroom50 N=03`: the folder that Classroom 50 takes as an assignment's autograder.

It is a zip of `autograder.py` and what that needs. Unpacked into
`CLASSROOM/autograders/ASSIGNMENT/`, it grades each push in the student's own repository, and writes
`result.json` and `release-body.md`. What runs there is `labkit.publish.classroom50_run`.

But: students can fetch what is in it, so it holds neither references nor hidden tests.
"""

import argparse
import os
import sys
from pathlib import Path

from labkit.course.lab import ROOT, Lab, find_labs, pick_lab
from labkit.errors import LabkitError, UsageError
from labkit.publish.course_files import grader_files
from labkit.publish.fixed_zip import write_zip

_TEMPLATE = Path(__file__).parent / "templates/classroom50_autograder.py"


def make_autograder(lab: Lab, labs: list[Lab], root: Path) -> dict[str, bytes]:
    """Return the files of the folder.

    Raises:
        UsageError: a file is missing, as in a student edition.
    """
    files = {f"course/{name}": data for name, data in grader_files(lab, labs, root).items()}
    program = _TEMPLATE.read_text(encoding="utf-8").replace("@LAB@", lab.number)
    files["autograder.py"] = program.encode()
    return files


def main(argv: list[str], root: Path = ROOT) -> int:
    """Write the zip; return 0, or 2 after a mistake of the user."""
    parser = argparse.ArgumentParser(
        prog="make classroom50 N=03", description="Make the autograder of a lab for Classroom 50."
    )
    parser.add_argument("--lab", default="", metavar="N", help="number of the lab, 03")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: classroom50-lab-NN.zip")
    args = parser.parse_args(argv)
    try:
        labs = find_labs(root)
        if not args.lab:
            raise UsageError(f"name a lab, for example N={labs[0].number}")
        lab = pick_lab(labs, args.lab)
        files = make_autograder(lab, labs, root)
        out = args.out or root / f"classroom50-{lab.label}.zip"
        write_zip(out, files)
    except LabkitError as error:
        print(f"classroom50: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"classroom50: {error.filename} cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    print(f"Wrote {os.path.relpath(out)}: {len(files)} files, {out.stat().st_size} bytes.")
    print("Unpack it into CLASSROOM/autograders/ASSIGNMENT/ of your classroom50 repository.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
