"""The autograder for Classroom 50, started in a checkout as its runner does."""

import json
import os
import shutil
import subprocess
import zipfile
from datetime import UTC, datetime

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
from labkit.course.lab import pick_lab
from labkit.grading.grade import Grade
from labkit.publish import classroom50_run

FACTS = {
    "CLASSROOM": "cs-101",
    "ASSIGNMENT": "byte-tokenizer",
    "SUBMISSION_TAG": "submit/2026-09-30T21-59-58Z-0a1b2c3",
    "COMMIT_URL": "https://github.example/o/r/commit/0a1b2c3",
    "RELEASE_URL": "https://github.example/o/r/releases/tag/x",
}
TESTS = len(LAB.tests)


def unpack(folder, number):
    out = folder / "autograder.zip"
    assert main(["classroom50", "--lab", number, "--out", str(out)], ROOT) == 0
    bundle = folder / f"bundle-{number}"
    with zipfile.ZipFile(out) as archive:
        archive.extractall(bundle)
    return bundle


@pytest.fixture(scope="module")
def grade(tmp_path_factory):
    """Grade a checkout by what `autograder.py` starts: `grade(checkout)`; no download is needed."""
    home = tmp_path_factory.mktemp("classroom50")
    make_environment(open_python(), home / "python")
    bundles = {}

    def run(checkout, lab=LAB, **facts):
        if lab.number not in bundles:
            bundles[lab.number] = unpack(home, lab.number)
        done = subprocess.run(
            [home / "python/bin/python", "-B", "-m", "labkit.publish.classroom50_run",
             "--lab", lab.number, "--checkout", checkout],
            cwd=bundles[lab.number] / "course", env={"PATH": os.environ["PATH"], **facts},
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not (checkout / "result.json").is_symlink()
        told = json.loads((checkout / "result.json").read_text())
        check_schema(told, "classroom50.schema.json")
        assert told["score"] == sum(test["score"] for test in told["tests"])
        assert told["max-score"] == sum(test["max-score"] for test in told["tests"]) == 100
        return told

    return run


@pytest.fixture
def checkout(tmp_path):
    """A student's repository, with a `starter.py` of each lab as it was handed out."""
    folder = tmp_path / "checkout"
    for lab in LABS:
        place = folder / lab.path.relative_to(ROOT)
        place.mkdir(parents=True)
        shutil.copy(lab.pristine_starter, place / "starter.py")
    return folder


def write(checkout, lab, source):
    (checkout / lab.path.relative_to(ROOT) / "starter.py").write_bytes(source)


def test_what_is_graded_and_when_it_was_handed_in(grade, checkout):
    write(checkout, LAB, RIGHT)
    told = grade(checkout, **FACTS)
    assert told["score"] == 100
    assert (told["classroom"], told["assignment"]) == ("cs-101", "byte-tokenizer")
    assert told["submission"] == FACTS["SUBMISSION_TAG"]
    assert told["datetime"] == "2026-09-30T21:59:58Z"
    assert told["commit"] == told["review"] == FACTS["COMMIT_URL"]
    assert told["release"] == FACTS["RELEASE_URL"]
    assert grade(checkout, **FACTS, REVIEW_URL="https://review")["review"] == "https://review"
    page = (checkout / "release-body.md").read_text()
    assert "lab-02: 100 of 100 points" in page
    assert "mode" in page


def test_part_right_untouched_and_broken_work(grade, checkout):
    write(checkout, LAB, PART_RIGHT)
    told = grade(checkout)
    (failed,) = [test for test in told["tests"] if not test["passed"]]
    assert told["score"] == 100 - failed["max-score"] > 80
    assert "encode never complains" in (checkout / "release-body.md").read_text()
    write(checkout, LAB, STARTER)
    assert grade(checkout)["score"] == 0
    (checkout / LAB.path.relative_to(ROOT) / "starter.py").unlink()
    assert grade(checkout)["score"] == 0
    assert "there is no starter.py" in (checkout / "release-body.md").read_text()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_work_gets_what_it_earns(grade, checkout, name):
    write(checkout, LAB, HOSTILE[name].replace("PLACE", str(checkout)).encode())
    told = grade(checkout)
    assert told["score"] == 0
    assert len(told["tests"]) == TESTS


def test_links_in_the_checkout_are_not_followed(grade, checkout, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("kept")
    for name in ("result.json", "release-body.md"):
        (checkout / name).symlink_to(secret)
    write(checkout, LAB, RIGHT)
    assert grade(checkout)["score"] == 100
    assert secret.read_text() == "kept"
    starter = checkout / LAB.path.relative_to(ROOT) / "starter.py"
    starter.unlink()
    starter.symlink_to(LAB.solution)
    assert grade(checkout)["score"] == 0
    assert "is a link" in (checkout / "release-body.md").read_text()


def test_the_results_belong_to_whoever_owns_the_checkout(grade, checkout):
    os.chown(checkout, 1234, 1234)
    grade(checkout)
    assert (checkout / "result.json").stat().st_uid == 1234


def test_a_lab_is_graded_on_the_students_own_parts(grade, checkout):
    lab = pick_lab(LABS, "05")
    for part in LABS:
        write(checkout, part, part.solution.read_bytes())
    assert grade(checkout, lab)["score"] == 100
    write(checkout, pick_lab(LABS, "04"), pick_lab(LABS, "04").pristine_starter.read_bytes())
    assert grade(checkout, lab)["score"] == 0
    shutil.rmtree(checkout / pick_lab(LABS, "04").path.relative_to(ROOT))
    assert grade(checkout, lab)["score"] == 0
    assert "no starter.py of lab-04" in (checkout / "release-body.md").read_text()


def test_what_students_can_fetch_has_neither_references_nor_edits(tmp_path):
    for lab in LABS:
        bundle = unpack(tmp_path, lab.number)
        names = [path.name for path in bundle.rglob("*")]
        assert "autograder.py" in names
        assert "solution.py" not in names
        assert "test_hidden.py" not in names
        bugs = next(bundle.rglob("bugs.toml")).read_text()
        assert not [bug for bug in lab.bugs if bug.replace and bug.replace in bugs.splitlines()]
        size = (tmp_path / "autograder.zip").stat().st_size
        assert size < 10 << 20


def test_the_zip_is_always_the_same(tmp_path):
    unpack(tmp_path, "03")
    before = (tmp_path / "autograder.zip").read_bytes()
    unpack(tmp_path, "03")
    assert (tmp_path / "autograder.zip").read_bytes() == before


def test_a_grader_that_cannot_be_set_up_is_no_verdict(tmp_path, checkout):
    bundle = unpack(tmp_path, LAB.number)
    (bundle / "course/requirements.txt").write_text("pytest==0.0.0 --hash=sha256:" + "0" * 64)
    done = subprocess.run(
        [open_python(), bundle / "autograder.py"], cwd=checkout, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1"}, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "could not be set up" in done.stderr
    assert not (checkout / "result.json").exists()


@pytest.mark.skipif(not os.environ.get("SOAK"), reason="it downloads; make soak")
def test_the_autograder_sets_itself_up(tmp_path, checkout):
    write(checkout, LAB, RIGHT)
    done = subprocess.run(
        [open_python(), unpack(tmp_path, LAB.number) / "autograder.py"], cwd=checkout,
        env={**os.environ, **FACTS}, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert json.loads((checkout / "result.json").read_text())["score"] == 100


def test_a_tag_that_tells_no_time_is_replaced_by_now():
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    empty = Grade("", LAB.name, "", "", "0", "sandbox", None, None, ())
    for tag in ("", "submit/soon", "submit/2026-13-45T99-99-99Z-abc"):
        told = classroom50_run.result(empty, {"SUBMISSION_TAG": tag}, now)
        assert told["datetime"] == "2026-01-02T03:04:05Z"
        check_schema(told, "classroom50.schema.json")
