"""Gate: hostile submissions earn what their honest work earns, and harm nobody."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from labkit.gates.finding import Finding

SUITE = "tests/grading/test_cheats.py"


def cheats_earn_nothing(root: Path) -> list[Finding]:
    """Run the suite of cheats, where a repository has one and the machine a sandbox."""
    if not (root / SUITE).exists():
        return []
    if shutil.which("bwrap") is None:
        message = "not tried: bubblewrap is not installed (Debian: apt install bubblewrap)"
        return [Finding(SUITE, message, is_note=True)]
    quiet = ["-q", "-rfEs", "-p", "no:cacheprovider", "--tb=line"]
    command = [sys.executable, "-m", "pytest", SUITE, *quiet]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        reasons = dict.fromkeys(re.findall(r"^SKIPPED .*?: (.+)$", done.stdout, re.MULTILINE))
        return [Finding(SUITE, f"not all was tried: {why}", is_note=True) for why in reasons]
    failed = re.findall(r"^(?:FAILED|ERROR) (?:\S+::)?(.+)$", done.stdout, re.MULTILINE)
    return [Finding(SUITE, message) for message in failed or [done.stdout.strip()[-2000:]]]
