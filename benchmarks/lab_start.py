"""How long a lab under `LAB_IMPL=starter` takes, as a ratio to a pytest session without tests.

Both are whole processes with the same flags, run in turns; their medians are compared.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from labkit.course.lab import ROOT, find_labs

RUNS = 7


def main() -> None:
    """Measure every lab and print the table; with `--quick`, after one run of each."""
    runs = 1 if "--quick" in sys.argv[1:] else RUNS
    with tempfile.TemporaryDirectory(dir=ROOT / ".labkit") as empty:
        targets = [Path(empty), *(lab.path for lab in find_labs(ROOT))]
        times: dict[Path, list[float]] = {target: [] for target in targets}
        for _ in range(runs):
            for target in targets:
                times[target].append(_seconds(target))
        base = statistics.median(times[Path(empty)])
    table = Table("session", "median ms", "ratio to an empty one")
    for target in targets:
        median = statistics.median(times[target])
        name = "empty" if target == Path(empty) else target.name
        table.add_row(name, f"{median * 1000:.0f}", f"{median / base:.2f}")
    Console().print(table)


def _seconds(target: Path) -> float:
    command = [sys.executable, "-m", "pytest", str(target), "-q", "-p", "no:cacheprovider",
               "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]  # fmt: skip
    env = {**os.environ, "LAB_IMPL": "starter", "LAB_PARTS": "reference"}
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
