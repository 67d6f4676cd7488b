"""Compare with real peers: `make oracles`. It runs the tests here, real clients, and benchmarks.

    python tests/oracles/run.py                         all of it; downloads 2 GB, and from npm
    python tests/oracles/run.py stop_strings tekken     these files of tests alone; downloads, too
    python tests/oracles/run.py --here openai_responses with what is installed here

With --here nothing is downloaded: a test whose peer is missing is skipped, and the line says which.
The official client `openai` is always installed, so its tests always run.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# The exit code of engines/install.py if this machine cannot have the engines.
NO_ENGINES = 3
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAMES = sorted(path.stem.removeprefix("test_") for path in HERE.glob("test_*.py"))
PEERS = (
    ("-I", "labkit/student/bootstrap.py", "oracles"),
    ("upstream/sources.py", "peers"),
    ("-m", "benchmarks.peers.fetch_vllm"),
)
BESIDE_PEERS = (
    ("tests/oracles/clients/run.py",),
    ("-m", "benchmarks", "detokenize", "growth", "stops", "tool_parsers", "pipeline"),
)


def main() -> int:
    """Run what the command line asks for; return the exit code of the first step that failed."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("make oracles", description=__doc__, formatter_class=form)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument(
        "--here", action="store_true", help="download nothing; skip what is missing"
    )
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in NAMES]:
        parser.exit(2, f"there are no tests {unknown[0]!r}; there are {', '.join(NAMES)}\n")
    files = [f"tests/oracles/test_{name}.py" for name in args.names] or ["tests/oracles"]
    tests = ("-m", "pytest", "-q", "-rs", *files)
    whole = not (args.names or args.here)
    env = {**os.environ, "ORACLES": "here" if args.here else "1"}
    for step in () if args.here else PEERS:
        if code := _run(step, env):
            return code
    if not args.here and (whole or "engines" in args.names):
        code = _run(("-m", "tests.oracles.engines.install"), env)
        if code not in (0, NO_ENGINES):
            return code
        if code == NO_ENGINES:
            tests = (*tests, "--ignore=tests/oracles/test_engines.py", "tests/plugins")
    for step in (tests, *(BESIDE_PEERS if whole else ())):
        if code := _run(step, env):
            return code
    return 0


def _run(step: Sequence[str], env: Mapping[str, str]) -> int:
    return subprocess.run([sys.executable, *step], cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
