"""The autograders for Gradescope and Classroom 50: what is in them, and what they do."""

import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from unittest.mock import Mock

import pytest
from platform_folders import (
    HOSTILE,
    LAB,
    LABS,
    OVERLAY,
    PART_RIGHT,
    RIGHT,
    ROOT,
    STARTER,
    Classroom50,
    Gradescope,
    check_schema,
    hostile,
    make_environment,
    make_zip,
    offer_packages,
    open_python,
    plant,
    read_gradescope,
    unpack,
)  # fmt: skip
from walled import brief

from labkit.cli import main
from labkit.course.lab import find_labs, pick_lab
from labkit.errors import InfrastructureError
from labkit.grading import slot
from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade
from labkit.publish import classroom50, gradescope
from labkit.publish.platforms import markdown
from labkit.running.diagnose import read_mistakes

FACTS = {
    "CLASSROOM": "cs-101",
    "ASSIGNMENT": "byte-tokenizer",
    "SUBMISSION_TAG": "submit/2026-09-30T21-59-58Z-0a1b2c3",
    "COMMIT_URL": "https://github.example/o/r/commit/0a1b2c3",
    "RELEASE_URL": "https://github.example/o/r/releases/tag/x",
}


@pytest.fixture(scope="module")
def courses(tmp_path_factory):
    """What a platform gets for a lab, unpacked: `courses(Gradescope, "02")`."""
    made = {}

    def course(platform, number=LAB.number):
        if (platform, number) not in made:
            folder = tmp_path_factory.mktemp(platform.name)
            made[platform, number] = unpack(make_zip(folder, platform.name, number=number), folder)
        return made[platform, number] / "course"

    return course


@pytest.fixture
def on(tmp_path, courses, why_not, need, sandbox_in, monkeypatch):
    """A platform with an empty folder: `on(Gradescope)`. What it starts runs every test."""

    def on(platform, number=LAB.number):
        if platform is Gradescope or why_not["sandbox"]:
            need("container")
        monkeypatch.setattr(slot, "Sandbox", lambda mode: nullcontext(sandbox_in(mode)))
        brief(monkeypatch)
        folder = tmp_path / platform.name
        folder.mkdir()
        return platform(courses(platform, number), folder)

    return on


@pytest.mark.parametrize("platform", [Gradescope, Classroom50], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("source", "score", "words"),
    [
        (RIGHT, 100, [f"{LAB.name}, graded in"]),
        (PART_RIGHT, None, ["rule", "expected", "actual", "a ValueError",
                            "looks like: ", "More hints: "]),
        (STARTER, 0, ["task 1: encode is not written yet"]),
        (None, 0, ["it contains no starter.py"]),
        (b"def broken(:\n", 0, ["not valid Python"]),
        *((name, 0, []) for name in HOSTILE),
    ],
    ids=["right", "part-right", "untouched", "missing", "broken", *HOSTILE],
)  # fmt: skip
def test_work_gets_what_it_earns_and_is_told_why(on, platform, source, score, words):
    place = on(platform)
    if source in HOSTILE:
        source = hostile(source, place.folder)
    if source is not None:
        place.put(source)
    told = place.grade()
    assert len(told.tests) == len(LAB.tests)
    if score is None:
        (failed,) = [name for name, (points, most) in told.tests.items() if points < most]
        assert failed == "test_encode_rejects_lone_surrogates"
        score = 100 - told.tests[failed][1]
        assert score > 80
        assert "make hint N=02 T=4" in told.page
    assert told.scores == (score, 100)
    assert [word for word in words if word not in told.page] == []


@pytest.mark.parametrize("platform", ["gradescope", "classroom50"])
def test_a_zip_is_always_the_same_and_takes_no_students_work_no_edits_and_few_references(
    tmp_path, platform
):
    before = make_zip(tmp_path, platform, number="03").read_bytes()
    solutions = {}
    programs = {"gradescope": {"run_autograder", "setup.sh"}, "classroom50": {"autograder.py"}}
    for lab in LABS:
        path = make_zip(tmp_path, platform, number=lab.number)
        assert path.stat().st_size < 10 << 20
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            assert {name.split("/")[0] for name in names} == {*programs[platform], "course"}
            for name in {"run_autograder", "setup.sh"} & {*names}:
                assert archive.getinfo(name).external_attr >> 16 == 0o100755
                assert archive.read(name).startswith(b"#!/usr/bin/env bash\n")
                subprocess.run(["bash", "-n"], input=archive.read(name), check=True)
        own = [name.split("/")[-2][:6] for name in names if name.endswith("/solution.py")]
        solutions[lab.number] = {*own}
        # A student's work is in `starter.py`; the starters as handed out say whose a file is.
        starters = {n for n in names if "starter" in n.rsplit("/")[-1] and "labs/" in n}
        handed_out = (other.pristine_starter.relative_to(ROOT).as_posix() for other in LABS)
        assert starters == {f"course/{name}" for name in handed_out}
        assert not [name for name in names if name.endswith("test_hidden.py")]
        # What is hidden of a hunt's pool is in its labs' edits, which no student may fetch.
        hidden = lab.hunt is not None and platform == "gradescope"
        assert any(name.endswith("bugs.toml") for name in names) == hidden
        mistakes = f"course/{lab.path.relative_to(ROOT).as_posix()}/course/mistakes.py"
        assert (mistakes in names) == (lab.hunt is None)
    assert (tmp_path / f"{platform}-03.zip").read_bytes() == before
    # Students can fetch what Classroom 50 has.
    parts = {"lab-01", "lab-03", "lab-04"} if platform == "gradescope" else set()
    assert (solutions["02"], solutions["05"]) == (set(), parts)
    assert platform == "gradescope" or not any(solutions.values())


@pytest.mark.parametrize("platform", [Gradescope, Classroom50], ids=lambda kind: kind.name)
def test_what_is_in_a_zip_suffices_and_its_packages_are_pinned_with_hashes(courses, platform):
    course = courses(platform)
    rooms = {path.parent.relative_to(course).as_posix() for path in course.rglob("labkit/**/*.py")}
    assert rooms >= {"labkit/grading", "labkit/isolation", "labkit/publish", "labkit/running"}
    assert not rooms & {"labkit/gates", "labkit/serving", "labkit/grading/reports"}
    assert not (course / "labkit/cli.py").exists()
    lock = (course / "requirements.txt").read_text()
    entries = [line for line in lock.splitlines() if not line.startswith(" ")]
    assert all("==" in line for line in entries)
    assert lock.count("--hash=sha256:") >= 2 * len(entries)
    program = f"""
import sys
from pathlib import Path
from unittest.mock import Mock
import labkit.publish.{platform.name}
from labkit.running.import_file import test_functions
from labkit.course.lab import find_labs, pick_lab
from labkit.errors import InfrastructureError
test_functions(pick_lab(find_labs(Path.cwd()), "{LAB.number}").test_file)
files = [getattr(module, "__file__", None) or "" for module in sys.modules.values()]
print(*{{file.partition("site-packages/")[2].split("/")[0] for file in files}})
"""
    done = subprocess.run(
        [sys.executable, "-B", "-c", program], cwd=course, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"]}, check=True,
    )  # fmt: skip
    known_as = {"_pytest": "pytest", "py.py": "pytest", "markdown_it": "markdown-it-py"}
    used = {known_as.get(name, name) for name in done.stdout.split()} - {"_distutils_hack"}
    assert "pytest" in used
    assert used <= {line.partition("==")[0] for line in entries}


def test_it_grades_against_the_same_as_at_home(courses):
    for number in ("02", "05"):
        there = find_labs(courses(Gradescope, number))
        lab, home = pick_lab(there, number), pick_lab(LABS, number)
        assert Assignment.of(lab, there).digest == Assignment.of(home, LABS).digest
        assert len(read_mistakes(lab.path)) == len(read_mistakes(home.path)) > 0


def test_mistakes_get_one_line(tmp_path, capsys):
    for options, message in (
        ([], "name a lab"),
        (["--lab", "02", "--seed", "a b"], "letters and digits"),
        (["--lab", "01", "--seed", "0", "--overlay", str(OVERLAY)], "no hidden tests of lab-01"),
    ):
        assert main(["gradescope", *options, "--out", str(tmp_path / "x.zip")], ROOT) == 2
        err = capsys.readouterr().err
        assert message in err
        assert len(err.splitlines()) == 1


def test_no_zip_is_written_with_tests_that_the_reference_fails(tmp_path, monkeypatch, capsys):
    failed = InfrastructureError("the reference of lab-02 has 95 of 100 points")
    monkeypatch.setattr(gradescope, "check_tests", Mock(side_effect=failed))
    options = ["--lab", "02", "--seed", "0", "--out", str(tmp_path / "x.zip")]
    assert main(["gradescope", *options], ROOT) == 2
    assert capsys.readouterr().err == f"labkit: {failed}\n"
    assert not (tmp_path / "x.zip").exists()


# Gradescope.


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """An `/autograder` folder with hidden tests and seed 7, set up but for the download."""
    python = open_python()
    home = tmp_path_factory.mktemp("autograder")
    # pytest closes its folders to others, and a platform's is open.
    for folder in (home, home.parent):
        folder.chmod(0o755)
    for name in ("submission", "results", "source"):
        (home / name).mkdir()
    unpack(make_zip(home, "gradescope", "--overlay", str(OVERLAY), "--seed", "7"), home / "source")
    shutil.copy(home / "source/run_autograder", home)
    (home / "submission_metadata.json").write_text('{"users": ["private"]}')
    make_environment(python, home / "python", home / "source/course")
    return home


def run_autograder(home, source):
    (home / "submission/starter.py").write_bytes(source)
    (home / "results/results.json").unlink(missing_ok=True)
    env = {"AUTOGRADER": str(home), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["bash", "run_autograder"], cwd=home, env=env, capture_output=True, text=True, timeout=100
    )
    return read_gradescope(home / "results/results.json"), done


def test_a_submission_can_read_and_change_nothing(home):
    spy = f"""
seen = []
for path in ("source/course", "submission_metadata.json", "submission/starter.py"):
    try:
        os.listdir("{home}/" + path) if path.endswith("course") else open("{home}/" + path).close()
        seen.append(path)
    except OSError:
        pass
raise RuntimeError(f"it can read {{seen}}")
"""
    told, _ = run_autograder(home, hostile("writes and links the results", home) + spy.encode())
    assert told.scores == (0, 100)
    assert "it can read []" in " ".join(told.page.split())
    for name, mode in (("source", 0o700), ("submission", 0o700), ("results", 0o755)):
        assert (home / name).stat().st_mode & 0o777 == mode
    assert (home / "submission_metadata.json").stat().st_mode & 0o777 == 0o600


def test_hidden_tests_keep_their_visibility_and_the_sum(home):
    told, done = run_autograder(home, RIGHT)
    assert (told.scores, done.returncode) == ((100, 100), 0)
    assert "container mode" in told.page
    assert told.data["stdout_visibility"] == "hidden"
    assert LAB.tests[-1].name in done.stdout
    seen = {test["name"]: test["visibility"] for test in told.data["tests"]}
    shown = {"test_hidden_scripts": "after_due_date", "test_hidden_unknown_ids": "hidden"}
    assert seen.items() >= {**shown, LAB.tests[0].name: "visible"}.items()
    assert "seed" not in told.data["extra_data"]
    assert "seed" not in told.page
    assert not [test for test in told.data["tests"] if "hidden" in test["output"]]


def test_the_placeholder_is_there_before_anything_can_fail(home, tmp_path):
    shutil.copytree(home, tmp_path / "autograder", symlinks=True)
    python = tmp_path / "autograder/python/bin/python"
    python.unlink()
    # Not even the grader's own end takes it away.
    for program in (None, "#!/bin/sh\nkill -9 $$\n"):
        if program is not None:
            python.write_text(program)
            python.chmod(0o755)
        told, done = run_autograder(tmp_path / "autograder", STARTER)
        assert done.returncode != 0
        assert told.data["score"] == 0
        assert "did not finish" in told.page


def test_a_bundle_and_a_file_of_another_name_are_understood(on, tmp_path):
    place = on(Gradescope)
    root = tmp_path / "student"
    shutil.copytree(LAB.path, root / LAB.path.relative_to(ROOT))
    find_labs(root)[0].starter.write_bytes(RIGHT)
    out = tmp_path / "bundle.zip"
    assert main(["bundle", "--lab", LAB.number, "--out", str(out)], root) == 0
    # Gradescope unpacks what is uploaded.
    unpack(out, place.submission)
    assert place.grade().scores == (100, 100)
    shutil.rmtree(place.submission)
    place.submission.mkdir()
    (place.submission / "starter (1).py").write_bytes(STARTER)
    assert "task 1: encode is not written yet" in place.grade().page


def test_only_a_file_of_that_name_is_read_of_an_upload(on, tmp_path):
    place = on(Gradescope)
    left = plant(place.submission)
    place.put(RIGHT)
    assert place.grade().scores == (100, 100)
    starter = place.submission / "starter.py"
    starter.unlink()
    for make, words in (
        (lambda: starter.symlink_to(LAB.solution), "is a link"),
        (lambda: starter.symlink_to("/proc/self/environ"), "is a link"),
        (lambda: os.mkfifo(starter), "not a plain file"),
        (starter.mkdir, "is a folder"),
    ):
        make()
        told = place.grade()
        assert told.scores == (0, 100)
        assert words in told.page
        starter.rmdir() if starter.is_dir() and not starter.is_symlink() else starter.unlink()
    assert not left.exists()


@pytest.mark.timeout(300)
def test_setup_makes_an_environment_that_grades(home, tmp_path):
    other = tmp_path / "autograder"
    shutil.copytree(home, other, symlinks=True)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    shutil.rmtree(other / "python")
    path = f"{Path(open_python()).parent}:{os.environ['PATH']}"
    offer = offer_packages(other / "source/course", tmp_path)
    env = {**os.environ, "AUTOGRADER": str(other), "PATH": path, **offer}
    subprocess.run(["bash", "source/setup.sh"], cwd=other, env=env, check=True)
    assert run_autograder(other, RIGHT)[0].scores == (100, 100)


# Classroom 50.


def test_what_was_graded_and_when_it_was_handed_in(on, monkeypatch):
    place = on(Classroom50)
    place.put(STARTER)
    for name, value in FACTS.items():
        monkeypatch.setenv(name, value)
    told = place.grade().data
    assert (told["classroom"], told["assignment"]) == ("cs-101", "byte-tokenizer")
    assert (told["submission"], told["release"]) == (FACTS["SUBMISSION_TAG"], FACTS["RELEASE_URL"])
    assert told["datetime"] == "2026-09-30T21:59:58Z"
    assert told["commit"] == told["review"] == FACTS["COMMIT_URL"]
    monkeypatch.setenv("REVIEW_URL", "https://review")
    assert place.grade().data["review"] == "https://review"


def test_another_labs_file_is_called_so(on):
    place = on(Gradescope)
    place.put(pick_lab(LABS, "04").solution.read_bytes())
    told = place.grade()
    assert told.scores == (0, 100)
    assert "Remark: This is the file of lab-04, which defines StopStringMatcher: it" in told.page


def test_a_doubtful_grade_and_remarks_are_on_every_platforms_page():
    """Else a student keeps a score that a machine without memory gave."""
    told = Grade("", LAB.name, "", "", "0", "sandbox", None, None, ())
    told = replace(told, doubt="its process was killed in test_a", remarks=("a.py was graded",))
    for page in (gradescope.results(told, LAB)["output"], markdown(told, LAB)):
        assert "This score is in doubt: its process was killed in test_a. Perhaps this" in page
        assert "Run the autograder again." in page
        assert "Remark: a.py was graded" in page
    plain = replace(told, doubt=None, remarks=())
    assert "doubt" not in gradescope.results(plain, LAB)["output"]


def test_a_tag_that_tells_no_time_is_replaced_by_now():
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    empty = Grade("", LAB.name, "", "", "0", "sandbox", None, None, ())
    for tag in ("", "submit/soon", "submit/2026-13-45T99-99-99Z-abc"):
        told = classroom50.result(empty, {"SUBMISSION_TAG": tag}, now)
        assert told["datetime"] == "2026-01-02T03:04:05Z"
        check_schema(told, "classroom50.schema.json")


def test_links_in_the_checkout_are_not_followed_and_the_results_are_its_owners(on, tmp_path):
    place = on(Classroom50)
    secret = tmp_path / "secret"
    secret.write_text("kept")
    for name in ("result.json", "release-body.md"):
        (place.folder / name).symlink_to(secret)
    if os.geteuid() == 0:
        os.chown(place.folder, 1234, 1234)
    place.put(STARTER)
    assert "task 1: encode is not written yet" in place.grade().page
    assert secret.read_text() == "kept"
    owner = place.folder.stat().st_uid
    assert (place.folder / "result.json").stat().st_uid == owner
    place.place(LAB).unlink()
    place.place(LAB).symlink_to(LAB.solution)
    told = place.grade()
    assert told.scores == (0, 100)
    assert "is a link" in told.page


def test_a_lab_is_graded_on_the_students_own_parts(on):
    place, lab, part = on(Classroom50, "05"), pick_lab(LABS, "05"), pick_lab(LABS, "04")
    for one in LABS:
        place.put(one.solution.read_bytes(), one)
    assert place.grade(lab).scores == (100, 100)
    place.put(part.pristine_starter.read_bytes(), part)
    assert place.grade(lab).scores == (0, 100)
    shutil.rmtree(place.place(part).parent)
    assert place.grade(lab).scores == (0, 100)
    assert "no starter.py of lab-04" in place.read().page


@pytest.mark.parametrize("fails", ["venv", "pip", "nothing"])
def test_a_grader_that_cannot_be_set_up_is_no_verdict(courses, tmp_path, fails, capfd, monkeypatch):
    place = courses(Classroom50)
    spec = spec_from_file_location("autograder", place.parent / "autograder.py")
    autograder = module_from_spec(spec)
    spec.loader.exec_module(autograder)
    started = []

    def call(command, cwd, stdout=None):
        started.append((command[command.index("-I") :], cwd))
        if "venv" in command:
            Path(command[-1], "lib/python3/site-packages").mkdir(parents=True)
        return fails in command

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(autograder.os, "geteuid", lambda: 0)
    monkeypatch.setattr(autograder.subprocess, "call", call)
    assert autograder.main() == (0 if fails == "nothing" else 3)
    said = capfd.readouterr().err
    assert ("could not be set up" in said) == (fails != "nothing")
    assert len(started) == ["venv", "pip", "nothing"].index(fails) + 1
    # Nothing that lies in the checkout is imported.
    assert {cwd for _, cwd in started} == {place}
    assert not [*tmp_path.iterdir()]


def test_what_the_autograder_starts_grades_with_the_zip_alone(on, tmp_path):
    place = on(Classroom50)
    place.put(RIGHT)
    left = plant(place.folder)
    python = tmp_path / "python"
    make_environment(open_python(), python, place.course)
    words = ["--lab", LAB.number, "--checkout", place.folder]
    subprocess.run(
        [python / "bin/python", "-I", "-B", "-m", "labkit.publish.classroom50", *words],
        cwd=place.folder, env={"PATH": os.environ["PATH"], **FACTS}, timeout=100, check=True,
    )  # fmt: skip
    assert place.read().scores == (100, 100)
    assert place.read().data["classroom"] == "cs-101"
    assert not left.exists()


@pytest.mark.timeout(300)
def test_the_autograder_sets_itself_up(on, tmp_path):
    place = on(Classroom50)
    shutil.copytree(place.course.parent, tmp_path / "own")
    offer = offer_packages(tmp_path / "own/course", tmp_path)
    place.put(RIGHT)
    # What a student puts there is not imported.
    for name in ("venv", "pip", "json", "labkit", "sitecustomize"):
        (place.folder / f"{name}.py").write_text("raise SystemExit(0)")
    done = subprocess.run(
        [open_python(), tmp_path / "own/autograder.py"], cwd=place.folder,
        env={**os.environ, **FACTS, **offer}, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert place.read().scores == (100, 100)
