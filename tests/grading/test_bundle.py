"""What `make bundle` writes: always the same bytes, and nothing but what belongs in it."""

import json
import os
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path

import jsonschema
import pytest

from labkit.cli import main
from labkit.course.lab import find_labs, pick_lab
from labkit.grading.reading.inputs import collect
from labkit.grading.reading.one_student import Course
from labkit.publish.packing import write_zip
from labkit.student.progress import Progress

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "labkit/publish/schemas"


@pytest.fixture
def course(tmp_path):
    """The labs alone, with `starter.py` written in each, so that tests can change them."""
    root = tmp_path / "course"
    for lab in find_labs(ROOT):
        shutil.copytree(lab.path, root / lab.path.relative_to(ROOT))
    for lab in find_labs(root):
        lab.starter.write_bytes(lab.solution.read_bytes() + b"# mine\n")
    return root


def make(root, number, *options):
    out = root / "out.zip"
    assert main(["bundle", "--lab", number, "--out", str(out), *options], root) == 0
    return out


def entries(path):
    with zipfile.ZipFile(path) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def test_it_holds_the_starter_and_what_describes_it(course):
    lab = pick_lab(find_labs(course), "03")
    (lab.path / "notes.txt").write_text("private")
    files = entries(make(course, "03", "--student", "Zoë"))
    assert files.keys() == {f"labs/{lab.name}/starter.py", "submission.json"}
    told = json.loads(files["submission.json"])
    jsonschema.validate(told, json.loads((SCHEMAS / "submission.schema.json").read_text()))
    assert (told["student"], told["lab"]) == ("Zoë", lab.name)
    for name, digest in told["files"].items():
        assert sha256(files[name]).hexdigest() == digest


def test_equal_work_gives_equal_bytes(course, tmp_path):
    first = make(course, "03").read_bytes()
    other = tmp_path / "elsewhere" / "course"
    shutil.copytree(course, other)
    starter = pick_lab(find_labs(other), "03").starter
    os.utime(starter, (1e9, 1e9))
    starter.chmod(0o777)
    before = os.umask(0o077)
    try:
        assert make(other, "03").read_bytes() == first
    finally:
        os.umask(before)


def test_zips_have_one_order_one_date_and_no_compression(tmp_path):
    names = ["b", "a/z", "a/b", "c", "run"]
    write_zip(tmp_path / "one.zip", dict.fromkeys(names, b"x" * 99), ["run"])
    write_zip(tmp_path / "two.zip", dict.fromkeys(reversed(names), b"x" * 99), ["run"])
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        found = archive.infolist()
    assert [entry.filename for entry in found] == sorted(names)
    assert {entry.date_time for entry in found} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.compress_type for entry in found} == {zipfile.ZIP_STORED}
    assert [entry.external_attr >> 16 for entry in found] == [0o100644] * 4 + [0o100755]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.zip", "two.zip"]


def test_parts_come_along_where_they_pass_as_they_are(course, capsys):
    labs = find_labs(course)
    for number in ("03", "04"):
        Progress(course).save_score(pick_lab(labs, number), 100)
    pick_lab(labs, "04").starter.write_text("# changed since")
    Progress(course).save_score(pick_lab(labs, "01"), 99)
    files = entries(make(course, "05"))
    assert sorted(name.split("/")[1][:6] for name in files if "/" in name) == ["lab-03", "lab-05"]
    out = capsys.readouterr().out
    assert "StopStringMatcher is left out" in out
    assert "StreamingDetokenizer is left out" not in out


def test_it_tells_the_score_seen_here_only_of_this_file(course, capsys):
    lab = pick_lab(find_labs(course), "02")
    make(course, "02")
    assert "has not been run here yet" in capsys.readouterr().out
    Progress(course).save_score(lab, 83)
    make(course, "02")
    assert "83/100 when it last ran here" in capsys.readouterr().out
    lab.starter.write_text("# changed")
    make(course, "02")
    assert "has not been run here yet" in capsys.readouterr().out


def test_mistakes_get_one_line_and_an_untouched_starter_needs_force(course, capsys):
    def refused(*options):
        assert main(["bundle", *options], course) == 2
        err = capsys.readouterr().err
        assert len(err.splitlines()) == 1
        return err

    lab = pick_lab(find_labs(course), "02")
    assert "name a lab" in refused()
    assert "'77'" in refused("--lab", "77")
    assert "/nowhere/there" in refused("--lab", "02", "--out", "/nowhere/there/x.zip")
    lab.starter.write_bytes(b"#" * (64 << 10) + b"#")
    assert "more than 65536 bytes" in refused("--lab", "02")
    lab.starter.write_bytes(lab.pristine_starter.read_bytes())
    assert "nothing to hand in" in refused("--lab", "02")
    assert not [*course.glob("*.zip")]
    assert make(course, "02", "--force").exists()
    lab.starter.unlink()
    assert "make reset N=02" in refused("--lab", "02")
    lab.starter.mkdir()
    assert "make reset N=02" in refused("--lab", "02")


def test_the_grader_reads_it(course):
    labs = find_labs(course)
    Progress(course).save_score(pick_lab(labs, "03"), 100)
    (submission,) = collect([make(course, "05")], Course(labs))
    lab = pick_lab(labs, "05")
    assert (submission.fault, submission.lab) == (None, lab.name)
    both = (lab, pick_lab(labs, "03"))
    assert submission.sources == {one.name: one.starter.read_bytes() for one in both}
