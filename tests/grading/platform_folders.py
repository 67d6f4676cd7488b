"""Submissions for tests of platforms: right, part-right, none, hostile; and where to run them."""

import json
import os
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path

import jsonschema
import pytest

from labkit.course.lab import find_labs, pick_lab

ROOT = Path(__file__).resolve().parents[2]
LABS = find_labs(ROOT)
LAB = pick_lab(LABS, "02")
SCHEMAS = ROOT / "labkit/grading/schemas"

RIGHT = LAB.solution.read_bytes()
STARTER = LAB.pristine_starter.read_bytes()
PART_RIGHT = RIGHT.replace(b'text.encode("utf-8")', b'text.encode("utf-8", "replace")', 1)
# Each tries to reach the results or the runner from inside; PLACE is the platform's folder.
HOSTILE = {
    "exits": "import os\nos._exit(0)\n",
    "writes the results": """
import glob, os
paths = ["PLACE/results/results.json", "PLACE/result.json"]
for path in paths + glob.glob("PLACE/**", recursive=True):
    try:
        with open(path, "w") as file:
            file.write('{"score": 100}')
    except OSError:
        pass
""",
    "links the results": """
import os
for name in ("results/results.json", "result.json"):
    try:
        os.remove("PLACE/" + name)
        os.symlink("/dev/null", "PLACE/" + name)
    except OSError:
        pass
""",
    "outlives its call": """
import os, time
if os.fork() == 0:
    os.setsid()
    for _ in range(200):
        time.sleep(0.02)
        try:
            open("PLACE/results/results.json", "w").write('{"score": 100}')
        except OSError:
            pass
    os._exit(0)
""",
    "kills whom it can": "import os, signal\nos.kill(-1, signal.SIGKILL)\n",
}


def check_schema(value, name):
    jsonschema.validate(value, json.loads((SCHEMAS / name).read_text()))


def open_python():
    """Return a Python that every user may run, as a platform's is; skip where that cannot be."""
    if os.geteuid() != 0:
        pytest.skip("container mode needs root")
    for path in (os.path.realpath(sys._base_executable), "/usr/bin/python3"):
        version = [path, "-c", "import sys; print(sys.version_info >= (3, 11))"]
        if not os.path.exists(path) or not all(map(_is_open, Path(path).resolve().parents)):
            continue
        if subprocess.run(version, capture_output=True, text=True).stdout.strip() == "True":
            return path
    pytest.skip("no Python here may be run by all users")


def _is_open(folder):
    return bool(folder.stat().st_mode & stat.S_IXOTH)


def make_environment(python, folder):
    """Make a virtual environment that has what this one has, without a network."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
