"""Grade a lab's reference by an archive for a platform: `python archive.py PLATFORM LAB`.

It runs at the root of a clone, after `make gradescope` or `make classroom50`: the archive is
unpacked where the platform would have it, and its own programs run. What they need is installed for
the first lab, as the platform does, and kept for the others. The exit code is 77 where this machine
cannot do that, which the last line explains.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path.cwd()
PLACE = HERE.parent / "platform"
SKIPPED = 77


def main(platform, number):
    """Grade, print the score, and remove the archive."""
    python = open_python()
    archive = HERE / f"{platform}-lab-{number}.zip"
    home = PLACE / platform
    shutil.rmtree(home / "source", ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    # Submissions run as other users, who have to reach the environment that is made there.
    for folder in (home, PLACE, *PLACE.parents[:2]):
        folder.chmod(0o755)
    with zipfile.ZipFile(archive) as files:
        files.extractall(home / "source")
    archive.unlink()
    score = GRADE[platform](home, python, number)
    print(f"{platform}, lab {number}: score {score:g}/100")


def by_gradescope(home, python, number):
    (lab,) = HERE.glob(f"phase-*/labs/lab-{number}-*")
    env = {**os.environ, "AUTOGRADER": str(home)}
    env["PATH"] = f"{Path(python).parent}{os.pathsep}{env['PATH']}"
    if not (home / "python").exists():
        subprocess.run(["bash", "source/setup.sh"], cwd=home, env=env, check=True)
    submission = home / "submission"
    submission.mkdir(exist_ok=True)
    shutil.copyfile(lab / "solution.py", submission / "starter.py")
    subprocess.run(["bash", "source/run_autograder"], cwd=home, env=env, check=True)
    return json.loads((home / "results/results.json").read_text(encoding="utf-8"))["score"]


def by_classroom50(home, python, number):
    checkout = home / "checkout"
    for lab in HERE.glob("phase-*/labs/lab-*"):
        place = checkout / lab.relative_to(HERE)
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(lab / "solution.py", place / "starter.py")
    result = checkout / "result.json"
    if not result.exists():
        subprocess.run([python, home / "source/autograder.py"], cwd=checkout, check=True)
    else:
        course = home / "source/course"
        command = [HERE / ".venv/bin/python", "-P", "-B", "-m", "labkit.publish.classroom50"]
        options = ["--lab", number, "--checkout", checkout]
        env = {**os.environ, "PYTHONPATH": str(course)}
        result.unlink()
        subprocess.run([*command, *options], cwd=course, env=env, check=True)
    return json.loads(result.read_text(encoding="utf-8"))["score"]


def open_python():
    """Return a Python that every user of the machine may run, as a platform's is."""
    if os.geteuid() != 0:
        give_up("a platform's archive runs as root: run this with sudo")
    for path in (os.path.realpath(sys._base_executable), "/usr/bin/python3"):
        version = [path, "-c", "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))"]
        is_open = (folder.stat().st_mode & 0o001 for folder in Path(path).resolve().parents)
        if os.path.exists(path) and all(is_open) and subprocess.run(version).returncode == 0:
            return path
    return give_up("no Python here may be run by all users: apt install python3 python3-venv")


def give_up(why):
    print(why)
    raise SystemExit(SKIPPED)


GRADE = {"gradescope": by_gradescope, "classroom50": by_classroom50}
main(*sys.argv[1:])
