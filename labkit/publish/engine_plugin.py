"""`make plugin N=09 OUT=my_parser.py`: a passing lab as a file that vLLM and SGLang load.

See `labkit.serving.plugin_file`.
"""

import argparse
import json
import keyword
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from labkit.course.lab import Lab, find_labs, pick_lab
from labkit.errors import LoadFailure, UsageError
from labkit.running.lab_impl import choose
from labkit.running.result_kind import ResultKind
from labkit.serving.plugin_file import FIRST_LINE, NAME, make_plugin, plugged_rows
from labkit.student.progress import Progress

_DEFAULT = Path(f"{NAME}.py")
_ENGINES = ("vllm", "sglang", "torch", "transformers", "mini_vllm", "labkit", "upstream")


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit plugin`."""
    add = command.add_argument
    add("--lab", default="", metavar="N", help="number of the lab, such as 09")
    add("--out", type=Path, default="", metavar="FILE",
        help="the file to write; the parsers get its name (default: my_parser.py)")  # fmt: skip
    add("--impl", default="starter", help="as LAB_IMPL (default: starter)")


def run(args: argparse.Namespace, root: Path) -> int:
    """Write the file.

    Returns:
        0; 1 if the lab does not pass, or its code cannot be made into one file.

    Raises:
        UsageError: the lab has no plug-in, or the file cannot have this name.
    """
    labs = find_labs(root)
    have = ", ".join(f"N={lab.number}" for lab in labs if plugged_rows(lab))
    if not args.lab:
        raise UsageError(f"name a lab; the labs with a plug-in are {have}")
    lab = pick_lab(labs, args.lab)
    if not plugged_rows(lab):
        raise UsageError(f"{lab.label} has no plug-in; the labs with a plug-in are {have}")
    out = _checked(args.out if args.out != Path() else _DEFAULT)
    chosen = choose(args.impl, [lab], Path.cwd())[lab.path]
    passes = chosen.kind == "starter" and Progress(root).passes(lab)
    tested = str(chosen.path) if chosen.kind == "path" else args.impl
    missing = None if passes else _missing(lab, tested, root)
    if missing is not None:
        print(missing)
        return 1
    try:
        text = make_plugin(lab, chosen.source(), chosen.path.name, out.stem, root)
    except LoadFailure as error:
        print(f"No plug-in: {error}")
        return 1
    out.write_text(text, encoding="utf-8")
    print(
        f"Wrote {os.path.relpath(out)}: {lab.label}'s parsers, as `{out.stem}` in vLLM and SGLang."
    )
    print("The commands that start the engines with it are at the top of the file.")
    return 0


def _checked(out: Path) -> Path:
    """Return the path of the file.

    Raises:
        UsageError: a module cannot have this name, or the file is something else.
    """
    name = out.stem
    if out.suffix != ".py" or not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(
            f"OUT={out}: the engines import the file, so its name has only letters, digits and _, "
            "and ends in .py, for example OUT=my_parser.py"
        )
    if name in sys.stdlib_module_names or name in _ENGINES:
        raise UsageError(
            f"OUT={out}: there is another module {name!r}, which this file would hide; "
            "choose another name, for example OUT=my_parser.py"
        )
    if not out.parent.is_dir():
        raise UsageError(f"OUT={out}: there is no folder {out.parent}")
    if out.is_dir() or (out.exists() and not _is_ours(out)):
        raise UsageError(f"OUT={out}: it is there and was not written by `make plugin`")
    return out


def _is_ours(out: Path) -> bool:
    return out.read_bytes().startswith(FIRST_LINE.encode())


def _missing(lab: Lab, implementation: str, root: Path) -> str | None:
    """Run the lab's tests; return why there is no plug-in, or None if all pass."""
    print(f"Running the tests of {lab.label} ...", flush=True)
    again = f"make lab N={lab.number}"
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.json")
        command = [sys.executable, "-P", "-m", "labkit", "lab", "--lab", lab.number,
                   "--impl", implementation, "--", "--lab-results", str(results)]  # fmt: skip
        # In a process of its own: the code may exit, or have to be killed.
        subprocess.run(command, cwd=root, check=False, capture_output=True)
        if not results.exists():
            return f"No plug-in: the tests of {lab.label} did not end. See why: {again}"
        (run,) = json.loads(results.read_text(encoding="utf-8"))
    passed = ResultKind.PASSED.value
    for test in lab.tests:
        result = run["tests"].get(test.name, {"kind": "", "message": "it did not run"})
        if test.points and result["kind"] != passed:
            why = f": {result['message']}" if result["message"] else ""
            return (
                f"No plug-in: {lab.label} has {run['score']}/100 points, and only a lab that "
                f"passes becomes one.\nThe first failing test is {test.name} (task {test.task})"
                f"{why}\nSee all: {again}"
            )
    return None
