"""Records the first failure of every known bug and every attempt, and checks where it opens.

    python tests/recording/show_all.py 04 08       # all bugs and attempts of two labs: minutes
    python tests/recording/show_all.py --first 1   # the first bug and the first attempt of each lab

A recording must open at a line of the file that ran, or say why there is nothing to show: the code
makes no step in the failing case, or the tests only wait for code that is not written.

But: whether a reader sees the cause at that step is for a person to judge. `--list` prints the
steps.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from labkit.course.lab import Lab, find_labs
from labkit.gates.attempts import folder_of, read_attempts, source_of

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 120
# The outputs of `show` for a case without steps.
_REASONS = ("no line of the file ran", "no failure to show", "every test that ran passes",
            "the test makes no calls")  # fmt: skip


def implementations(lab: Lab, scratch: Path, first: int | None) -> Iterator[tuple[str, str]]:
    """Yield the name of each bug and each attempt of a lab, and its value of `LAB_IMPL`."""
    for bug in lab.bugs[:first]:
        yield f"bug {bug.name}", f"bug:{bug.name}"
    folder = folder_of(ROOT, lab)
    for attempt in read_attempts(folder)[:first]:
        path = scratch / f"{lab.number}-{attempt.file}"
        path.write_bytes(source_of(folder, attempt))
        yield attempt.file, str(path)


def outcome(lab: Lab, implementation: str, scratch: Path) -> tuple[str, str]:
    """Return the fault of a recording, "" for none, and its step in words."""
    target = scratch / "recording.json"
    target.unlink(missing_ok=True)
    command = [sys.executable, "-m", "labkit", "show", "--lab", lab.number,
               "--impl", implementation, "--json", str(target)]  # fmt: skip
    env = {**os.environ, "LAB_PARTS": "reference"}
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True,
                              timeout=_SECONDS, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"did not end within {_SECONDS} s", ""
    printed = (done.stdout + done.stderr).strip()
    if not target.exists():
        reason = next((words for words in _REASONS if words in printed), "")
        return ("" if reason else printed[-500:]), reason
    data = json.loads(target.read_text(encoding="utf-8"))
    if data["opens"] is None:
        reason = any(words in data["why"] for words in _REASONS)
        return ("" if reason else f"opens nowhere: {data['why']}"), data["why"]
    step = data["steps"][data["opens"]]
    if str(step["line"]) not in data["counts"]:
        return f"opens at line {step['line']}, which did not run", ""
    return "", f"{data['kind']}, {data['test']}: {data['why']}"


def main() -> int:
    """Record the labs named; return 0 if each recording opens at a step or says why not."""
    labs = {lab.number: lab for lab in find_labs(ROOT) if lab.hunt is None}
    parser = argparse.ArgumentParser(description="See where every known bug and attempt opens.")
    parser.add_argument("labs", nargs="*", metavar="NN", help="number of a lab (default: all)")
    parser.add_argument("--first", type=int, metavar="N", help="only the first N of each kind")
    parser.add_argument("--list", action="store_true", help="print where each recording opens")
    options = parser.parse_args()
    if unknown := {*options.labs} - {*labs}:
        parser.error(f"there is no lab {min(unknown)}; there are {', '.join(labs)}")
    if options.first is not None and options.first < 1:
        parser.error(f"--first is {options.first}, but must be at least 1")
    total, all_faults = 0, []
    with TemporaryDirectory(prefix="recordings-") as name:
        scratch = Path(name)
        for number in options.labs or labs:
            count, faults = 0, []
            for title, implementation in implementations(labs[number], scratch, options.first):
                fault, words = outcome(labs[number], implementation, scratch)
                count += 1
                if options.list:
                    print(f"{number} {title}: {fault or words}", flush=True)
                faults += [f"{number} {title}: {fault}"] if fault else []
            print(f"lab {number}: {count} recordings", *faults, sep="\n  ", flush=True)
            total, all_faults = total + count, all_faults + faults
    print(f"{total} recordings, {len(all_faults)} faults")
    return int(bool(all_faults))


if __name__ == "__main__":
    sys.exit(main())
