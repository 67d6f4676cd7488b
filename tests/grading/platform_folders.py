"""Submissions for tests of platforms: right, part-right, none, hostile; and where to run them."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import jsonschema
from walled import give_up

from labkit.cli import main
from labkit.course.lab import find_labs, pick_lab
from labkit.publish import classroom50, gradescope

ROOT = Path(__file__).resolve().parents[2]
LABS = find_labs(ROOT)
LAB = pick_lab(LABS, "02")
OVERLAY = Path(__file__).parent / "overlay"
SCHEMAS = ROOT / "labkit/publish/schemas"

RIGHT = LAB.solution.read_bytes()
STARTER = LAB.pristine_starter.read_bytes()
PART_RIGHT = RIGHT.replace(b'text.encode("utf-8")', b'text.encode("utf-8", "replace")', 1)
# Each tries to reach the results or the runner from inside; PLACE is the platform's folder.
HOSTILE = {
    "exits": "import os\nos._exit(0)\n",
    "writes and links the results": """
import glob, os
paths = ["PLACE/results/results.json", "PLACE/result.json"]
for path in paths + glob.glob("PLACE/**", recursive=True):
    try:
        with open(path, "w") as file:
            file.write('{"score": 100}')
    except OSError:
        pass
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

# What else lies in a student's folder; each program gives itself away if anything starts it.
PLANTED = (
    *("venv.py", "pip.py", "json.py", "site.py", "sitecustomize.py", "usercustomize.py"),
    *("labkit/__init__.py", "labkit/publish/classroom50.py", "mini_vllm/__init__.py"),
    *("conftest.py", "pytest.py", "setup.py", "__init__.py", "starter.pth", "setup.sh"),
    *("run_autograder", "autograder.py", ".git/hooks/post-checkout", "results/__main__.py"),
)


def plant(folder):
    """Put all of these into a folder; return the file that they would leave behind."""
    left = folder.parent / "started"
    for name in PLANTED:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import os; open({str(left)!r}, 'w').close(); os._exit(0)\n")
        path.chmod(0o755)
    (folder / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--co"\n')
    return left


def hostile(name, place):
    """Return the source of one of the hostile, for a platform's folder."""
    return HOSTILE[name].replace("PLACE", str(place)).encode()


def check_schema(value, name):
    """Check a value against one of the schemas for what is published."""
    jsonschema.validate(value, json.loads((SCHEMAS / name).read_text()))


@dataclass
class Told:
    """What a student is told: on a page, and as data in the platform's own form."""

    page: str
    data: dict

    @property
    def tests(self):
        """By name of a test, its points and the most that it can have."""
        keys = ("name", "max_score") if "output" in self.data else ("test-name", "max-score")
        return {test[keys[0]]: (test["score"], test[keys[1]]) for test in self.data["tests"]}

    @property
    def scores(self):
        score, most = map(sum, zip(*self.tests.values(), strict=True))
        assert self.data["score"] == score
        return score, most


class Gradescope:
    """What runs in its container, on a folder with what a student uploaded."""

    name = "gradescope"

    def __init__(self, course, folder):
        self.course, self.folder, self.submission = course, folder, folder / "submission"
        self.submission.mkdir()

    def put(self, source, lab=LAB):
        (self.submission / "starter.py").write_bytes(source)

    def grade(self, lab=LAB):
        results = self.folder / "results.json"
        words = ["--lab", lab.number, "--submission", str(self.submission)]
        assert gradescope.main([*words, "--results", str(results)], self.course) == 0
        return read_gradescope(results)


def read_gradescope(results):
    assert not results.is_symlink()
    told = json.loads(results.read_text())
    check_schema(told, "gradescope.schema.json")
    return Told("\n".join([told["output"], *(test["output"] for test in told["tests"])]), told)


class Classroom50:
    """What runs in a checkout of a student's repository, with a `starter.py` of each lab."""

    name = "classroom50"

    def __init__(self, course, folder):
        self.course, self.folder = course, folder
        for lab in LABS:
            self.place(lab).parent.mkdir(parents=True)
            shutil.copy(lab.pristine_starter, self.place(lab))
        self.place(LAB).unlink()

    def place(self, lab):
        return self.folder / lab.path.relative_to(ROOT) / "starter.py"

    def put(self, source, lab=LAB):
        self.place(lab).write_bytes(source)

    def grade(self, lab=LAB):
        words = ["--lab", lab.number, "--checkout", str(self.folder)]
        assert classroom50.main(words, self.course) == 0
        return self.read()

    def read(self):
        result, page = self.folder / "result.json", self.folder / "release-body.md"
        assert not result.is_symlink()
        assert not page.is_symlink()
        told = json.loads(result.read_text())
        check_schema(told, "classroom50.schema.json")
        return Told(page.read_text(), told)


def make_zip(folder, platform, *options, number=LAB.number):
    """Return the zip that a verb of labkit writes; its seed is not kept, its tests are right."""
    out = folder / f"{platform}-{number}.zip"
    seed = ["--seed", "0"] if platform == "gradescope" else []
    with patch.object(gradescope, "check_tests"):
        assert main([platform, "--lab", number, "--out", str(out), *seed, *options], ROOT) == 0
    return out


def unpack(path, folder):
    """Unpack a zip into a folder; return the folder."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    return folder


def open_python():
    """Return a Python that every user may run, as a platform's is; give up where that cannot be."""
    if os.geteuid() != 0:
        give_up("--container needs root: run the tests with sudo")
    for path in (os.path.realpath(sys._base_executable), "/usr/bin/python3"):
        version = [path, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        is_open = (folder.stat().st_mode & stat.S_IXOTH for folder in Path(path).resolve().parents)
        if os.path.exists(path) and all(is_open) and subprocess.run(version).returncode == 0:
            return path
    return give_up("no Python here may be run by all users: apt install python3")


def make_environment(python, folder, course):
    """Make a virtual environment that has what this one has and a course, without a network."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (site / "course.pth").write_text(f"{course}\n")


def offer_packages(course, folder):
    """Return variables for pip: real packages in `make soak`, one without a network otherwise.

    The one is a wheel in a local folder that lends the packages of this environment; the course's
    requirements name it with its hash, as they name the real ones.
    """
    if os.environ.get("SOAK"):
        return {}
    wheel = folder / "lender-1-py3-none-any.whl"
    about = "lender-1.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("lender.pth", sysconfig.get_path("purelib") + "\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: lender\nVersion: 1\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (course / "requirements.txt").write_text(f"lender==1 --hash=sha256:{digest}\n")
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
