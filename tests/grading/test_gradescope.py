"""The Gradescope zip: what is in it, and what it does in a folder laid out as theirs."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from platform_folders import (
    HOSTILE,
    LAB,
    LABS,
    PART_RIGHT,
    RIGHT,
    ROOT,
    STARTER,
    check_schema,
    make_environment,
    open_python,
)

from labkit.cli import main
from labkit.course.lab import find_labs, pick_lab
from labkit.grading.assignment import Assignment

OVERLAY = Path(__file__).parent / "overlay"


def make_zip(folder, *options, number=LAB.number):
    out = folder / "autograder.zip"
    # Not in this process: pytest knows no marks of hidden tests.
    command = [sys.executable, "-m", "labkit", "gradescope", "--lab", number, "--out", out]
    subprocess.run([*command, *options], cwd=ROOT, check=True)
    return out


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Make `/autograder` folders, set up but for the download: `places("--seed", "7")`."""
    python = open_python()
    made = {}

    def place(*options):
        if options not in made:
            home = made[options] = tmp_path_factory.mktemp("autograder")
            # pytest closes its folders to others, and a platform's is open.
            for folder in (home, home.parent):
                folder.chmod(0o755)
            for name in ("submission", "results", "source"):
                (home / name).mkdir()
            with zipfile.ZipFile(make_zip(home, *options)) as archive:
                archive.extractall(home / "source")
            shutil.copy(home / "source/run_autograder", home)
            (home / "submission_metadata.json").write_text('{"users": ["private"]}')
            make_environment(python, home / "python")
        return made[options]

    return place


def run(home, source=None):
    submission = home / "submission"
    shutil.rmtree(submission)
    submission.mkdir()
    if source is not None:
        (submission / "starter.py").write_bytes(source)
    return finish(home)


def finish(home):
    (home / "results/results.json").unlink(missing_ok=True)
    done = subprocess.run(
        ["bash", "run_autograder"], cwd=home,
        env={"AUTOGRADER": str(home), "PATH": os.environ["PATH"]}, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    results = home / "results/results.json"
    assert not results.is_symlink()
    told = json.loads(results.read_text())
    check_schema(told, "gradescope.schema.json")
    return told, done


def scores(told):
    assert told["score"] == sum(test["score"] for test in told["tests"])
    return told["score"], sum(test["max_score"] for test in told["tests"])


def test_the_zip_is_as_gradescope_wants_it_and_always_the_same(tmp_path):
    path = make_zip(tmp_path)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        modes = {name: archive.getinfo(name).external_attr >> 16 for name in names}
    assert modes["run_autograder"] == modes["setup.sh"] == 0o100755
    assert {name.split("/")[0] for name in names} == {"run_autograder", "setup.sh", "course"}
    for script in ("run_autograder", "setup.sh"):
        with zipfile.ZipFile(path) as archive:
            assert archive.read(script).startswith(b"#!/usr/bin/env bash\n")
            checked = subprocess.run(["bash", "-n"], input=archive.read(script), check=False)
            assert checked.returncode == 0
    before = path.read_bytes()
    assert make_zip(tmp_path).read_bytes() == before


def test_it_takes_no_students_work_and_only_the_references_that_are_needed(tmp_path):
    with zipfile.ZipFile(make_zip(tmp_path, number="05")) as archive:
        names = archive.namelist()
        bugs = archive.read(next(name for name in names if name.endswith("bugs.toml"))).decode()
    solutions = {name.split("/")[-2][:6] for name in names if name.endswith("solution.py")}
    assert solutions == {"lab-01", "lab-03", "lab-04"}
    assert not [name for name in names if "starter" in name.rsplit("/")[-1] and "labs/" in name]
    assert 'find = ""' in bugs
    edits = [line for line in bugs.splitlines() if line.startswith(("find", "replace"))]
    assert set(edits) == {'find = ""', 'replace = ""'}


def test_the_packages_are_pinned_with_hashes_and_suffice(tmp_path):
    with zipfile.ZipFile(make_zip(tmp_path)) as archive:
        lock = archive.read("course/requirements.txt").decode()
        archive.extractall(tmp_path)
    entries = [line for line in lock.splitlines() if not line.startswith(" ")]
    assert all("==" in line for line in entries)
    assert lock.count("--hash=sha256:") >= 2 * len(entries)
    allowed = {line.partition("==")[0] for line in entries}
    program = (
        "import sys; import labkit.publish.gradescope_run, labkit.running.report\n"
        "from labkit.isolation.isolated_run import test_functions\n"
        "from labkit.course.lab import find_labs, pick_lab\n"
        "from pathlib import Path\n"
        f"test_functions(pick_lab(find_labs(Path.cwd()), '{LAB.number}').test_file)\n"
        "files = {getattr(m, '__file__', None) or '' for m in sys.modules.values()}\n"
        "tops = {f.partition('site-packages/')[2].split('/')[0] for f in files}\n"
        "print(*tops)"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program], cwd=tmp_path / "course", capture_output=True,
        text=True, env={"PATH": os.environ["PATH"]}, check=True,
    )  # fmt: skip
    known_as = {"_pytest": "pytest", "py.py": "pytest", "markdown_it": "markdown-it-py"}
    used = {known_as.get(name, name) for name in done.stdout.split()} - {"_distutils_hack"}
    assert "pytest" in used
    assert used <= allowed


def test_it_grades_against_the_same_as_at_home(tmp_path):
    for number in ("02", "05"):
        with zipfile.ZipFile(make_zip(tmp_path, number=number)) as archive:
            archive.extractall(tmp_path / number)
        there = find_labs(tmp_path / number / "course")
        lab = pick_lab(there, number)
        home = Assignment.of(pick_lab(LABS, number), LABS)
        assert Assignment.of(lab, there).digest == home.digest
        assert [bug.killed_by for bug in lab.bugs] == [
            bug.killed_by for bug in pick_lab(LABS, number).bugs
        ]


def test_right_work_gets_all_points(places):
    told, done = run(places(), RIGHT)
    assert scores(told) == (100, 100)
    assert done.returncode == 0
    assert "container mode" in told["output"]
    assert told["stdout_visibility"] == "hidden"
    assert LAB.tests[-1].name in done.stdout


def test_part_right_work_gets_its_points_and_is_told_why(places):
    told, _ = run(places(), PART_RIGHT)
    (failed,) = [test for test in told["tests"] if test["status"] == "failed"]
    assert failed["name"] == "test_encode_rejects_lone_surrogates"
    assert scores(told) == (100 - failed["max_score"], 100)
    for word in ("rule", "expected", "actual", "a ValueError"):
        assert word in failed["output"]
    assert "This looks like: encode never complains" in told["output"]
    assert "make hint N=02 T=1" in told["output"]


def test_a_starter_a_missing_and_a_broken_file_get_0_with_a_reason(places):
    home = places()
    told, _ = run(home, STARTER)
    assert scores(told) == (0, 100)
    assert "task 1: encode is not written yet" in told["tests"][3]["output"]
    told, done = run(home)
    assert scores(told) == (0, 100)
    assert "there is no starter.py" in told["output"]
    assert done.returncode == 0
    told, _ = run(home, b"def broken(:\n")
    assert scores(told) == (0, 100)
    assert "not valid Python" in told["tests"][3]["output"]


def test_hostile_work_gets_what_it_earns_and_changes_nothing(places):
    home = places()
    for name, source in HOSTILE.items():
        told, _ = run(home, source.replace("PLACE", str(home)).encode())
        assert scores(told) == (0, 100), name
        assert len(told["tests"]) == len(LAB.tests), name
    assert scores(run(home, RIGHT)[0]) == (100, 100)


def test_a_submission_can_read_neither_tests_nor_names(places):
    home = places()
    spy = f"""
import os
seen = []
for path in ("source/course", "submission_metadata.json", "submission/starter.py"):
    try:
        os.listdir("{home}/" + path) if path.endswith("course") else open("{home}/" + path).close()
        seen.append(path)
    except OSError:
        pass
raise RuntimeError(f"it can read {{seen}}")
"""
    told, _ = run(home, spy.encode())
    assert "it can read []" in " ".join(told["tests"][3]["output"].split())
    for name, mode in (("source", 0o700), ("submission", 0o700), ("results", 0o755)):
        assert (home / name).stat().st_mode & 0o777 == mode
    assert (home / "submission_metadata.json").stat().st_mode & 0o777 == 0o600


def test_a_bundle_and_a_file_of_another_name_are_understood(places, tmp_path):
    home = places()
    shutil.rmtree(home / "submission")
    root = tmp_path / "course"
    shutil.copytree(LAB.path, root / LAB.path.relative_to(ROOT))
    find_labs(root)[0].starter.write_bytes(RIGHT)
    assert main(["bundle", "--lab", LAB.number, "--out", str(tmp_path / "b.zip")], root) == 0
    # Gradescope unpacks what is uploaded.
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(home / "submission")
    assert scores(finish(home)[0]) == (100, 100)
    shutil.rmtree(home / "submission")
    (home / "submission").mkdir()
    (home / "submission/starter (1).py").write_bytes(RIGHT)
    assert scores(finish(home)[0]) == (100, 100)


def test_the_placeholder_is_there_before_anything_can_fail(places, tmp_path):
    home = tmp_path / "autograder"
    shutil.copytree(places(), home, symlinks=True)
    python = home / "python/bin/python"
    python.unlink()
    told, done = run(home, RIGHT)
    assert done.returncode != 0
    assert told["score"] == 0
    assert "did not finish" in told["output"]
    # Not even the grader's own end takes it away.
    python.write_text("#!/bin/sh\nkill -9 $$\n")
    python.chmod(0o755)
    assert "did not finish" in run(home, RIGHT)[0]["output"]


def test_hidden_tests_keep_their_visibility_and_the_sum(places):
    home = places("--overlay", str(OVERLAY), "--seed", "7")
    told, _ = run(home, RIGHT)
    assert scores(told) == (100, 100)
    seen = {test["name"]: test["visibility"] for test in told["tests"]}
    assert seen["test_hidden_scripts"] == "after_due_date"
    assert seen["test_hidden_unknown_ids"] == "hidden"
    assert seen[LAB.tests[0].name] == "visible"
    assert told["extra_data"]["seed"] == "7"
    assert not [test for test in told["tests"] if "hidden" in test["output"]]


def test_mistakes_get_one_line(tmp_path, capsys):
    out = ["--out", str(tmp_path / "x.zip")]
    for options, message in (
        ([], "name a lab"),
        (["--lab", "02", "--seed", "a b"], "letters and digits"),
        (["--lab", "01", "--overlay", str(OVERLAY)], "no hidden tests of lab-01"),
    ):
        assert main(["gradescope", *options, *out], ROOT) == 2
        err = capsys.readouterr().err
        assert message in err
        assert len(err.splitlines()) == 1


@pytest.mark.skipif(not os.environ.get("SOAK"), reason="it downloads; make soak")
def test_setup_makes_an_environment_that_grades(places, tmp_path):
    home = tmp_path / "autograder"
    shutil.copytree(places(), home, symlinks=True)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    shutil.rmtree(home / "python")
    path = f"{Path(open_python()).parent}:{os.environ['PATH']}"
    env = {**os.environ, "AUTOGRADER": str(home), "PATH": path}
    subprocess.run(["bash", "source/setup.sh"], cwd=home, env=env, check=True)
    assert scores(run(home, RIGHT)[0]) == (100, 100)
