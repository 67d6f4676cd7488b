"""Run groups of benchmarks, each in a process of its own: `python -m benchmarks [NAME ...]`.

First of all, `lab_start` prints how long the labs take to start, and last of all `site` how long
Python takes on a page, if `make site` has built the site. Results of the others go to
`benchmarks/out/`; `python -m benchmarks.report` makes a page of them. Only peers that are installed
take part; `make oracles` installs them.

At the end one table has every aim of the groups that ran: the ratio to the peer, and whether it is
met.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable

from benchmarks import aims
from benchmarks.harness import print_table, result_path
from benchmarks.peers.detokenizers import HAS_VLLM, ROOT
from benchmarks.peers.mistral import HAS_MISTRAL

GROUPS = (
    "detokenize", "growth", "encode", "decode", "shape", "stops", "tool_parsers", "formats",
    "pipeline",
    "engine", "server", "front", "grading",
)  # fmt: skip
# The first and the last print a table, and are no part of that page.
NAMES = ("lab_start", *GROUPS, "site")


def main() -> int:
    """Run the groups in turn; return 1 if any of them failed."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__,
                                     formatter_class=form)  # fmt: skip
    parser.add_argument("groups", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="only check that everything runs")
    args = parser.parse_args()
    if unknown := sorted({*args.groups} - {*NAMES}):
        parser.exit(2, f"no such group: {', '.join(unknown)}; there are {', '.join(NAMES)}\n")
    if not (HAS_VLLM and HAS_MISTRAL):
        print("vLLM or the 131k vocabulary is missing: `make oracles` installs both.", flush=True)
    failed = 0
    names = args.groups or NAMES
    for number, name in enumerate(names, start=1):
        print(f"\n[{number}/{len(names)}] {name}", flush=True)
        # A group that fails must not leave the results of an earlier run.
        result_path(name, quick=args.quick).unlink(missing_ok=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *["--quick"] * args.quick]
        failed |= subprocess.run(command, cwd=ROOT, check=False).returncode
    _print_aims(names, quick=args.quick)
    return 1 if failed else 0


def _print_aims(names: Iterable[str], *, quick: bool) -> None:
    """Print the table of the groups that left results; a quick run proves nothing."""
    paths = [result_path(name, quick=quick) for name in names]
    results = [json.loads(path.read_text("utf-8")) for path in paths if path.is_file()]
    if rows := aims.rows(results):
        print(f"\n{aims.ABOUT}")
        title = "Aims (a quick run: the figures mean nothing)" if quick else "Aims"
        print_table(title, aims.HEADER, rows)


if __name__ == "__main__":
    sys.exit(main())
