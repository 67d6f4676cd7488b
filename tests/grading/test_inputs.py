"""Whatever is handed in becomes a submission, or one with a fault that says why."""

import io
import json
import os
import random
import socket
import stat
import tracemalloc
import zipfile
from hashlib import sha256
from pathlib import Path
from unittest.mock import MagicMock, call

import pytest

from labkit.course.lab import find_labs, pick_lab
from labkit.errors import UsageError
from labkit.grading.reading import inputs, tree
from labkit.grading.reading.inputs import collect
from labkit.grading.reading.one_student import MOST_ZIP_BYTES, Course
from labkit.grading.reading.tree import MOST_FILES, Refused, read_folder
from labkit.grading.reading.zips import MOST_DIRECTORY_BYTES, read_zip
from labkit.running.source import MOST_SOURCE_BYTES

LABS = find_labs(Path(__file__).resolve().parents[2])
LAB02, LAB03, LAB05 = (pick_lab(LABS, number) for number in ("02", "03", "05"))
ANY = Course(LABS)
THREE = Course(LABS, LAB03)
STARTER = f"labs/{LAB03.name}/starter.py"


def bundle(lab=LAB03, sources=None, lab_name="", **told):
    """Return the bytes of a bundle; `told` changes its manifest."""
    sources = {lab.name: b"x = 1\n"} if sources is None else sources
    files = {f"labs/{name}/starter.py": data for name, data in sources.items()}
    manifest = {
        "schema": "labkit/submission/v1",
        "student": "somebody else",
        "lab": lab_name or lab.name,
        "files": {name: sha256(data).hexdigest() for name, data in files.items()},
        **told,
    }
    return zipped({**files, "submission.json": json.dumps(manifest).encode()})


def zipped(files, method=zipfile.ZIP_DEFLATED):
    """Return the bytes of a zip; a name may be a ZipInfo, and files may be pairs."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items() if isinstance(files, dict) else files:
            archive.writestr(name, data)
    return out.getvalue()


def entry(name, mode):
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = mode << 16
    return info


def put(root, files):
    """Write files below a folder; return the folder."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def facts(submissions):
    """Return what counts of submissions for lab 03: student -> source or fault."""
    assert {one.lab for one in submissions} == {LAB03.name}
    return {one.student: one.fault or one.sources[one.lab].decode() for one in submissions}


def fault_of(path, course=THREE):
    (submission,) = collect([path], course)
    assert submission.sources == {}
    assert submission.lab == LAB03.name
    return submission.fault


def test_a_file_is_named_after_itself_and_a_starter_after_its_folder(tmp_path):
    put(tmp_path, {"ada.py": b"a", "bob/starter.py": b"b", f"{LAB03.name}/starter.py": b"c"})
    paths = ["ada.py", "bob/starter.py", f"{LAB03.name}/starter.py"]
    found = facts(collect([tmp_path / path for path in paths], THREE))
    assert found == {"ada": "a", "bob": "b", "starter": "c"}


def test_a_name_tells_the_lab_or_it_needs_the_option(tmp_path):
    for name in ("lab-03.py", "ada_lab3.py", f"{LAB03.name}/ada.py", "hand-ins lab 03/ada.py"):
        (found,) = collect([put(tmp_path, {name: b"a"}) / name], ANY)
        assert found.lab == LAB03.name
    for name in ("ada.py", "collab3.py", "lab-77.py", "lab-030.py", "labs.py"):
        put(tmp_path, {f"x/{name}": b"a"})
        with pytest.raises(UsageError, match="is unknown"):
            collect([tmp_path / "x" / name], ANY)


def test_a_lab_folder_gives_its_starter():
    assert facts(collect([LAB03.path], ANY)) == {"starter": LAB03.starter.read_text()}


def test_a_bundle_is_named_after_its_file_and_brings_its_parts(tmp_path):
    assert LAB03.name in LAB05.parts.values()
    assert LAB02.name not in LAB05.parts.values()
    own = {LAB05.name: b"five", LAB03.name: b"three"}
    put(tmp_path, {"ada.zip": bundle(LAB05, {**own, LAB02.name: b"two"})})
    (found,) = collect([tmp_path / "ada.zip"], ANY)
    assert (found.student, found.lab, found.sources) == ("ada", LAB05.name, own)


def test_a_cohort_may_mix_files_folders_bundles_and_checkouts(tmp_path):
    files = {
        "ada.py": b"a",
        "b.o.b/starter.py": b"b",
        "cy.zip": bundle(sources={LAB03.name: b"c"}),
        f"dee/{STARTER}": b"d",
        f"eve/repo/phase-16-x/{STARTER}": b"e",
        f"eve/repo/phase-16-x/labs/{LAB02.name}/starter.py": b"not this",
        "Fay F._17_assignsubmission_file_/work.py": b"f",
        "Gil_18_assignsubmission_file_/hand in.zip": zipped({"starter.py": b"g"}),
        ".DS_Store": b"junk",
        "__MACOSX/ada.py": b"junk",
    }
    assert facts(collect([put(tmp_path, files)], THREE)) == {
        "Fay F._17_assignsubmission_file_": "f", "Gil_18_assignsubmission_file_": "g",
        "ada": "a", "b.o.b": "b", "cy": "c", "dee": "d", "eve": "e",
    }  # fmt: skip


@pytest.mark.parametrize("wrapper", ["", "hand-ins/", "a/"])
def test_a_zip_of_submissions_is_read_as_the_folder_would_be(tmp_path, wrapper):
    files = {
        f"{wrapper}ada.py": b"a",
        f"{wrapper}bob/starter.py": b"b",
        f"{wrapper}lovelaceada_1_2_submission-lab-03.zip": bundle(sources={LAB03.name: b"c"}),
        "__MACOSX/x.py": b"junk",
    }
    put(tmp_path, {"all.zip": zipped(files), **{f"all/{name}": files[name] for name in files}})
    found = collect([tmp_path / "all.zip"], THREE)
    assert facts(found) == {"ada": "a", "bob": "b", "lovelaceada_1_2_submission-lab-03": "c"}
    assert found == collect([(tmp_path / "all" / wrapper)], THREE)


@pytest.mark.parametrize(
    ("data", "course", "found"),
    [
        (zipped({f"repo-main/{STARTER}": b"a"}), THREE, {"repo-main": "a"}),
        (zipped({STARTER: b"b"}), ANY, {"all": "b"}),
        # A backslash is what Windows means by it.
        (zipped({"labs-ada.py": b"a"}).replace(b"labs-ada", b"ada\\work"), THREE, {"ada": "a"}),
    ],
)
def test_a_zip_of_one_folder_is_one_student(tmp_path, data, course, found):
    assert facts(collect([put(tmp_path, {"all.zip": data}) / "all.zip"], course)) == found


NAMED = b"class StreamingDetokenizer: utf8_expected_len = 0\n"
EMPTY = b"StreamingDetokenizer = utf8_expected_len = 0"
WHOLE = LAB03.solution.read_bytes()


@pytest.mark.parametrize(
    ("files", "student", "source", "remark"),
    [
        # Canvas: two attachments; the name decides, and the second number is the file's.
        ({"adal_11_900_starter.py": NAMED, "adal_11_901_notes.txt": b"n"},
         "adal_11_900_starter", NAMED, "starter.py was graded; notes.txt was not"),
        ({"adal_LATE_11_900_notes.pdf": b"n", "adal_LATE_11_901_starter-1.py": NAMED},
         "adal_LATE_11_901_starter-1", NAMED, "starter-1.py was graded; notes.pdf was not"),
        ({"adal_11_900_starter.py": EMPTY, "adal_11_901_work.py": NAMED, "adal_11_text.html": b""},
         "adal_11_900_starter", EMPTY, "starter.py was graded; work.py and adal_11_text.html were"),
        ({"anon_aB3dE_900_a.py": EMPTY, "anon_aB3dE_901_b.py": NAMED},
         "anon_aB3dE_901_b", NAMED, "b.py was graded; a.py was not"),
        ({"adal_11_9_starter.py": NAMED, "adal_11_10_starter.py": NAMED + b"#"},
         "adal_11_10_starter", NAMED + b"#",
         "adal_11_10_starter.py and adal_11_9_starter.py may each be the file to grade. "),
        # Moodle: a text beside a file, and files without folders.
        ({"Ada L_7_assignsubmission_file/starter.py": NAMED,
          "Ada L_7_assignsubmission_onlinetext/onlinetext.html": b"see file"},
         "Ada L_7_assignsubmission_file", NAMED,
         "Ada L_7_assignsubmission_file was graded; Ada L_7_assignsubmission_onlinetext was not"),
        ({"Ada L_7_assignsubmission_file/starter.py": NAMED,
          "Ada L_7_assignsubmission_file/notes.txt": b""},
         "Ada L_7_assignsubmission_file", NAMED, "starter.py was graded; notes.txt was not"),
        # By hand: names are the same without suffixes and copies.
        ({"jan/starter.py": NAMED, "jan.zip": zipped({"starter.py": NAMED})}, "jan", NAMED,
         "jan.zip was graded; jan was not"),
        ({"kim.py": EMPTY, "kim/starter.py": NAMED}, "kim", NAMED,
         "kim was graded; kim.py was not"),
        ({"kim.py": WHOLE, "kim (1).py": WHOLE + b"#"}, "kim", WHOLE + b"#",
         "kim (1).py and kim.py may each be the file to grade. kim (1).py was graded; kim.py was "
         "not: hand in one file named starter.py"),
        ({"kim.py": NAMED, "kim (1).py": NAMED}, "kim", NAMED, "kim (1).py was graded; kim.py was"),
        ({"kim (1).py": NAMED}, "kim", NAMED, None),
        ({"kim.py": NAMED, "kim.txt": b"", "b.o.b/starter.py": b"b"}, "kim", NAMED,
         "kim.py was graded; kim.txt was not"),
        ({"kim.py": NAMED, "kim.zip": b"damaged"}, "kim", NAMED, "kim.py was graded; kim.zip was"),
        # In a student's folder.
        ({"kim/starter (1).py": NAMED}, "kim", NAMED, None),
        ({"kim/starter.py": NAMED, "kim/starter (1).py": WHOLE}, "kim", WHOLE,
         "starter (1).py was graded; starter.py was not"),
        ({"kim/starter.py": WHOLE, "kim/starter (2).py": WHOLE + b"#"}, "kim", WHOLE + b"#",
         "starter (2).py and starter.py may each be the file to grade."),
        ({"kim/one.py": EMPTY, "kim/two.py": NAMED}, "kim", NAMED, "two.py was graded; one.py was"),
        ({"kim/starter.py.txt": NAMED}, "kim", NAMED,
         "starter.py.txt was graded; hand it in as starter.py, without .txt"),
        ({"kim_1_2_starter.py.txt": NAMED}, "kim_1_2_starter", NAMED, "starter.py.txt was graded"),
        ({"kim/starter.py": NAMED, "kim/README.md": b"", "kim/test_lab.py": b""}, "kim", NAMED,
         None),
        ({f"kim/{LAB03.name}/starter.py": NAMED, f"kim/old/{LAB03.name}/starter.py": WHOLE}, "kim",
         NAMED, None),
        ({"kim/a.zip": zipped({"starter.py": NAMED}), "kim/essay.py": EMPTY}, "kim", NAMED,
         "a.zip was graded; essay.py was not"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_zip", [False, True])
def test_several_files_of_a_student_are_one_submission(
    tmp_path, files, student, source, remark, is_zip
):
    files = {**files, "zoe.py": b"z"}
    put(tmp_path, {"all.zip": zipped(files)} if is_zip else {f"all/{n}": files[n] for n in files})
    found = collect([tmp_path / ("all.zip" if is_zip else "all")], THREE)
    (own,) = (one for one in found if one.student not in ("zoe", "b.o.b"))
    assert (own.student, own.sources, own.fault) == (student, {LAB03.name: source}, None)
    if remark is None:
        assert own.remarks == ()
    else:
        (text,) = own.remark_texts
        assert remark in text
        assert own.remarks[0].is_doubt == ("may each be" in text)


ENGINE = LAB03.path.parents[2] / "mini_vllm/text"


@pytest.mark.parametrize(
    ("source", "remark"),
    [
        (LAB03.pristine_starter.read_bytes(), None),
        (b"from x import *\nStreamingDetokenizer = y\nsetattr(z, 'utf8_expected_len', 1)", None),
        (LAB02.solution.read_bytes(), "This is the file of lab-02, which defines ByteTokenizer: it "
         "lacks utf8_expected_len and StreamingDetokenizer, which lab-03 asks for"),
        (b"def utf8_expected_len(byte): ...\n" + LAB02.solution.read_bytes(),
         "it lacks StreamingDetokenizer, which lab-03 asks for"),
        ((ENGINE / "utf8.py").read_bytes(),
         "This looks like the engine's module mini_vllm/text/utf8.py: it lacks Streaming"),
        (NAMED + (ENGINE / "utf8.py").read_bytes(),
         "This looks like the engine's module mini_vllm/text/utf8.py"),
        (b"class StopMatcher:\n    def feed(self): ...\n", "This may be another file: it lacks"),
        (b"", None),
    ],
)  # fmt: skip
def test_a_source_that_is_not_the_labs_has_a_remark(tmp_path, source, remark):
    (found,) = collect([put(tmp_path, {"ada.py": source}) / "ada.py"], THREE)
    assert found.fault is None
    assert [text.startswith(remark or "?") for text in found.remark_texts] == [True] * bool(remark)


def test_no_solution_has_a_remark():
    for lab in LABS:
        (found,) = collect([lab.solution], Course(LABS, lab))
        assert (found.remarks, found.fault) == ((), None)


@pytest.mark.parametrize(
    ("entries", "student", "place", "remark"),
    [
        (["a/ada.py", "b/ada.py"], "ada", "b",
         "ada in b and ada in a may each be the file to grade. ada in b was graded"),
        (["b/ada_LATE_11_905_starter.py", "a/ada_11_906_starter-1.py"], "ada_11_906_starter-1", "a",
         "starter-1 in a and starter in b may each be the file to grade"),
        (["x/s/ada.py", "y/s/ada.py"], "ada", "y/s", "ada in {}/y/s and ada in {}/x/s may each"),
    ],
)  # fmt: skip
def test_a_student_of_two_paths_is_that_students_doubt(tmp_path, entries, student, place, remark):
    files = {entry: b"# " + entry.encode() for entry in [*entries, "a/bob.py"]}
    put(tmp_path, files)
    paths = sorted({(tmp_path / entry).parent for entry in files})
    students = {one.student: one for one in collect(paths, THREE)}
    assert {*students} == {student, "bob"}
    assert students[student].sources[LAB03.name].startswith(f"# {place}/".encode())
    found = students[student].remarks[-1]
    assert found.is_doubt
    assert found.text.startswith(remark.format(tmp_path, tmp_path))
    assert not any(remark.is_doubt for remark in students["bob"].remarks)


def test_the_same_file_of_two_paths_is_no_doubt(tmp_path):
    put(tmp_path, dict.fromkeys(["a/ada.py", "b/ada.py"], b"x = 1"))
    (ada,) = collect([tmp_path / "a", tmp_path / "b", tmp_path / "a"], THREE)
    assert ada.remark_texts[-1] == "ada in b was graded; ada in a was not"
    assert not ada.remarks[-1].is_doubt


def test_what_cannot_be_read_belongs_to_the_lab_of_all_others(tmp_path):
    put(tmp_path, {"ada.zip": bundle(), "bob.zip": b"damaged"})
    assert [one.lab for one in collect([tmp_path], ANY)] == [LAB03.name] * 2
    put(tmp_path, {"cy.zip": bundle(LAB02)})
    with pytest.raises(UsageError, match=r"of 'ada' are for lab-03.* of 'cy' for lab-02.*--lab 03"):
        collect([tmp_path], ANY)
    # Of several paths each tells its own lab, so what cannot be read could be for either.
    put(tmp_path / "apart", {"cy.zip": bundle(LAB02), "dee.zip": b"damaged"})
    with pytest.raises(UsageError, match="lab of 'dee' is unknown"):
        collect([tmp_path / "ada.zip", *(tmp_path / "apart").iterdir()], ANY)


def test_no_name_of_a_file_moves_it_to_another_lab(tmp_path):
    names = ("ada", "lab-02", "bob-lab-02/starter", "cy/lab-02/starter")
    put(tmp_path, {f"{place}/{name}.py": b"" for place in ("x", "lab 03") for name in names})
    for path, course in ((tmp_path / "x", THREE), (tmp_path / "lab 03", ANY)):
        found = collect([path], course)
        assert (len(found), {one.lab for one in found}) == (len(names), {LAB03.name})
    with pytest.raises(UsageError, match=r"names contain lab-02.* and lab-03.*--lab 03"):
        collect([tmp_path / "lab 03/lab-02.py"], ANY)


def test_the_order_is_that_of_labs_and_students_not_of_the_disk(tmp_path, monkeypatch):
    put(tmp_path, {f"lab-{lab}/{name}.py": b"" for name in "cab" for lab in ("03", "02")})
    paths = [tmp_path / "lab-03", tmp_path / "lab-02"]
    forwards = collect(paths, ANY)
    scandir = os.scandir

    class Backwards(list):
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(os, "scandir", lambda path: Backwards(reversed([*scandir(path)])))
    assert collect(paths, ANY) == forwards
    assert [(one.lab, one.student) for one in forwards] == [
        (lab.name, student) for lab in (LAB02, LAB03) for student in "abc"
    ]


def test_names_that_no_report_can_hold_are_escaped(tmp_path):
    folder = os.fsencode(tmp_path)
    for name in (b"\xff\xfe.py", b"a\nb.py", b"\x1b[31mred.py", "\u202eevil.py".encode()):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"x")
    expected = ["\\u202eevil", "\\udcff\\udcfe", "\\x1b[31mred", "a\\nb"]
    for paths in ([tmp_path], [*tmp_path.iterdir()]):
        assert [one.student for one in collect(paths, THREE)] == expected


def test_thousands_of_entries_are_read(tmp_path):
    put(tmp_path, {"all.zip": zipped({f"s{number:05}.py": b"x" for number in range(5_000)})})
    assert len(collect([tmp_path / "all.zip"], THREE)) == 5_000


def test_what_is_not_there_or_empty_or_too_much_is_a_mistake_of_the_caller(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "MOST_COHORT_BYTES", 100)
    (tmp_path / "empty").mkdir()
    put(tmp_path, {"none.zip": zipped({}), "all/ada.py": b"x" * 60, "all/bob.py": b"x" * 60})
    for name, message in (
        ("nowhere", r"there is no .*nowhere"),
        ("empty", "nothing to grade"),
        ("none.zip", "nothing to grade"),
        ("all", "grade it in parts"),
    ):
        with pytest.raises(UsageError, match=message):
            collect([tmp_path / name], THREE)


def test_only_plain_files_are_read(tmp_path):
    secret = put(tmp_path, {"secret.py": b"secret"}) / "secret.py"
    files = [
        "inner/notes.txt",
        "folder/starter.py/x.py",
        "paper.pdf",
        "note.ipynb",
        "deep/notes.txt",
    ]
    folder = put(tmp_path / "hand-ins", dict.fromkeys(files, b""))
    os.mkfifo(folder / "pipe.py")
    for name, target in (
        ("link.py", secret), ("links", tmp_path), ("inner/starter.py", secret),
        (f"deep/{LAB03.name}", tmp_path),
    ):  # fmt: skip
        (folder / name).symlink_to(target)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket.py"))
        found = {one.student: one.fault for one in collect([folder], THREE)}
    assert found == {
        "deep": f"it contains no starter.py of this lab: {LAB03.name} is a link; "
        "hand in the file itself",
        "folder": "starter.py is a folder, and should be a file",
        "inner": "starter.py is a link; hand in the file itself",
        "link": "link.py is a link; hand in the file itself",
        "links": "links is a link; hand in the file itself",
        "note": "note.ipynb is a notebook; hand in starter.py, a file of Python (in Jupyter: File, "
        "Save and Export Notebook As, Executable Script)",
        "paper.pdf": "paper.pdf is neither a .py file nor a zip nor a folder",
        "pipe": "pipe.py is not a plain file",
        "socket": "socket.py cannot be read: No such device or address",
    }

    # As though it became a link meanwhile.
    with pytest.raises(Refused, match="is a link"):
        tree.read_file(folder / "link.py", "link.py", 100)
    assert fault_of(Path("/dev/zero")) == "zero is neither a .py file nor a zip nor a folder"


def test_a_long_file_is_not_read(tmp_path, monkeypatch):
    path = put(tmp_path, {"ada.py": b""}) / "ada.py"
    os.truncate(path, 50 << 20)
    opened = []

    def open_counted(descriptor, mode):
        file = os.fdopen(descriptor, mode)
        opened.append(MagicMock(wraps=file))
        opened[-1].__enter__.return_value = opened[-1]
        opened[-1].__exit__.side_effect = lambda *error: file.close()
        return opened[-1]

    monkeypatch.setattr(tree, "open", open_counted, raising=False)
    assert "ada.py has more than 65536 bytes: hand in your code only" in fault_of(path)
    os.truncate(path, 10)
    assert collect([path], THREE)[0].fault is None
    assert [file.read.mock_calls for file in opened] == [[], [call(MOST_SOURCE_BYTES + 1)]]


@pytest.mark.parametrize("size", [MOST_SOURCE_BYTES, MOST_SOURCE_BYTES + 1])
def test_the_longest_source_is_read_and_no_longer_one(tmp_path, size):
    files = {"ada.py": b"#" * size}
    put(tmp_path, {**files, "z/bob.zip": zipped(files)})
    for path in (tmp_path / "ada.py", tmp_path / "z/bob.zip"):
        (found,) = collect([path], THREE)
        assert (found.fault is None) == (size == MOST_SOURCE_BYTES)


def test_a_folder_of_too_many_files_is_not_listed_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(tree, "MOST_FILES", 20)
    put(tmp_path / "ada", {f"{number}.txt": b"" for number in range(21)})
    put(tmp_path / "bob", {"starter.py": b"b"})
    with pytest.raises(Refused):
        read_folder(tmp_path / "ada")
    found = facts(collect([tmp_path], THREE))
    assert found == {"ada": "it has more than 20 files", "bob": "b"}


def test_a_source_that_is_not_there_or_among_very_many_is_a_fault(tmp_path):
    both = [f"bob/{name}/{LAB03.name}/starter.py" for name in "ab"]
    many = [f"ada/{number:02}.py" for number in range(51)]
    others = ["cy/notes.txt", f"dee/labs/{LAB02.name}/starter.py"]
    put(tmp_path, {name: name.encode() for name in [*both, *many, *others]})
    submissions = {one.student: one for one in collect([tmp_path], THREE)}
    found = {name: one.fault for name, one in submissions.items()}
    assert "several files (00.py, 01.py); rename yours to starter.py" in found["ada"]
    assert found["bob"] is None
    assert submissions["bob"].remarks[-1].is_doubt
    assert found["cy"] == found["dee"] == "it contains no starter.py of this lab"


def test_a_checkout_of_several_labs_needs_the_option(tmp_path):
    put(tmp_path / "ada", {f"labs/{lab.name}/starter.py": b"" for lab in (LAB02, LAB03)})
    with pytest.raises(UsageError, match="several labs; name the lab to grade"):
        collect([tmp_path / "ada"], ANY)
    (found,) = collect([tmp_path / "ada"], THREE)
    assert found.fault is None


@pytest.mark.parametrize(
    ("labs", "own"), [("phase-16-x/labs/", True), ("labs/", True), ("", False), ("work/", False)]
)
def test_a_checkout_is_graded_on_its_own_parts_as_on_its_platform(tmp_path, labs, own):
    parts = [*LAB05.parts.values()]
    for student in ("ada", "bob"):
        names = [LAB05.name, *parts[:2]] if student == "ada" else [LAB05.name]
        put(tmp_path / student, {f"{labs}{name}/starter.py": name.encode() for name in names})
    ada, bob = collect([tmp_path], Course(LABS, LAB05))
    assert ada.sources == {name: name.encode() for name in [LAB05.name, *parts[:2] * own]}
    assert bob.sources == {LAB05.name: LAB05.name.encode()}


def with_manifest(data):
    return zipped({"submission.json": data, "starter.py": b""})


def patched(data, start, offset, value, size=2):
    """Return a zip with a field of every record that begins with `start` set to `value`."""
    data = bytearray(data)
    at = data.find(start)
    while at >= 0:
        data[at + offset : at + offset + size] = value.to_bytes(size, "little")
        at = data.find(start, at + 1)
    return bytes(data)


DIRECTORY, LOCAL, END = b"PK\1\2", b"PK\3\4", b"PK\5\6"
PLAIN = zipped({"starter.py": b"x = 1\n" * 50})
ENCRYPTED = patched(patched(PLAIN, DIRECTORY, 8, 1), LOCAL, 6, 1)
TEN_GB = (10 << 30) & 0xFFFFFFFF
# From the fault that a zip becomes to the zip.
ZIPS = {
    "starter.py is a link": zipped({entry("starter.py", stat.S_IFLNK | 0o777): b"/etc/passwd"}),
    "starter.py is not a plain file": zipped({entry("starter.py", stat.S_IFIFO | 0o666): b""}),
    "the zip has ../starter.py, which leads out of it": zipped({"../starter.py": b""}),
    "the zip has /starter.py, which": zipped({"/starter.py": b""}),
    "the zip has C:/starter.py, which": zipped({"C:/starter.py": b""}),
    "the zip has D:/starter.py, which": zipped({"D:\\starter.py": b""}),
    "starter.py is encrypted": ENCRYPTED,
    "a method other than deflate": zipped({"starter.py": b"x"}, zipfile.ZIP_LZMA),
    "starter.py has more than 65536 bytes": patched(PLAIN, DIRECTORY, 24, 2 << 30, 4),
    "starter.py has more than 65536 bytes: hand in": zipped({"starter.py": bytes(5 << 20)}),
    "the zip is damaged: Bad CRC-32": patched(PLAIN, DIRECTORY, 24, 10, 4),
    "it is not a zip, or its end is missing": PLAIN[:-30],
    "the zip is damaged: starter.py ends early": patched(
        zipped({"starter.py": b"x" * 100}, zipfile.ZIP_STORED), DIRECTORY, 24, 200, 4
    ),
    "the zip is damaged": PLAIN[:40] + b"\xff" * 8 + PLAIN[48:],
    f"its list of files has {MOST_DIRECTORY_BYTES + 1} bytes": patched(
        PLAIN, END, 12, MOST_DIRECTORY_BYTES + 1, 4
    ),
    "submission.json is not JSON": with_manifest(b"{"),
    "submission.json is not JSON: nested deeper than 256": with_manifest(b"[" * 30_000),
    "submission.json is not JSON: nested deeper than 256;": with_manifest(b"[" * 257 + b"]" * 257),
    "submission.json lacks the schema 'labkit/": with_manifest(b"[" * 256 + b"]" * 256),
    "submission.json lacks the schema": with_manifest(b"[]"),
    "submission.json lacks lab or files": with_manifest(
        b'{"schema": "labkit/submission/v1", "lab": 3}'
    ),
    "submission.json has more than 65536 bytes": with_manifest(b" " * 65_537),
    "it was made for lab-99-none, which this course does not have": bundle(lab_name="lab-99-none"),
    f"it was made for {LAB02.name}, not for {LAB03.name}": bundle(LAB02),
    f"it contains no {STARTER}": bundle(sources={}),
    f"{STARTER} is not the file that submission.json lists": bundle(files={STARTER: "0" * 64}),
    f"{STARTER} is not the file that submission.json lists;": bundle(files={}),
    "it is a zip64 archive": PLAIN.replace(END, b"PK\6\7" + bytes(16) + END),
}
with pytest.warns(UserWarning, match="Duplicate name"):
    ZIPS["it contains starter.py twice"] = zipped([("starter.py", b"a"), ("starter.py", b"b")])


@pytest.mark.parametrize("fault", ZIPS)
def test_a_damaged_zip_is_a_fault_alone_and_among_others(tmp_path, fault):
    put(tmp_path, {"all/ada.zip": ZIPS[fault], "all/bob.py": b"b"})
    put(tmp_path, {"cohort.zip": zipped({"ada.zip": ZIPS[fault], "bob.py": b"b"})})
    for among in ("all", "cohort.zip"):
        found = facts(collect([tmp_path / among], THREE))
        assert fault in found.pop("ada")
        assert found == {"bob": "b"}
    assert collect([tmp_path / "all/ada.zip"], THREE)[0].fault is not None


def test_a_zip_in_a_students_zip_or_one_that_is_too_long_is_not_opened(tmp_path):
    put(tmp_path, {"all/ada.zip": zipped({"a/inner.zip": PLAIN})})
    assert fault_of(tmp_path / "all") == "inner.zip is a zip in a zip; hand in one zip"
    os.truncate(tmp_path / "all/ada.zip", MOST_ZIP_BYTES + 1)
    assert f"ada.zip has more than {MOST_ZIP_BYTES} bytes" in fault_of(tmp_path / "all")


def listing(count):
    """Return a zip that lists so many files, though its end states no more than 65,535."""
    one = zipped({".": b""}, zipfile.ZIP_STORED)
    start, end = one.index(DIRECTORY), one.index(END)
    rows = one[start:end] * count
    tail = patched(one[end:], END, 12, len(rows), 4)
    tail = patched(patched(tail, END, 8, count % 65_536), END, 10, count % 65_536)
    return one[:start] + rows + tail


def test_entries_of_a_zip_are_counted_before_they_are_read(tmp_path, monkeypatch):
    put(tmp_path, {"all/ada.zip": listing(MOST_FILES + 1), "all.zip": listing(134_261)})
    monkeypatch.setattr(zipfile, "ZipFile", lambda file: pytest.fail("it is read"))
    assert fault_of(tmp_path / "all") == "it has more than 20000 files"
    assert fault_of(tmp_path / "all.zip") == "all.zip cannot be read: it has more than 65535 files"
    monkeypatch.undo()
    assert read_zip(io.BytesIO(listing(MOST_FILES)), MOST_FILES).files == {}


def test_a_fault_calls_a_file_as_its_author_does(tmp_path):
    link = entry("eve/a/starter.py", stat.S_IFLNK | 0o777)
    long = {"ada/starter.py": bytes(70_000), "bob/x.ipynb": b"", link: b"/etc/passwd"}
    put(tmp_path, {"all.zip": zipped(long)})
    begins = {"ada": "starter.py has more", "bob": "x.ipynb is a", "eve": "starter.py is a"}
    for name, fault in facts(collect([tmp_path / "all.zip"], THREE)).items():
        assert fault.startswith(begins[name])


def test_names_in_a_zip_are_read_as_they_were_written(tmp_path):
    utf8 = zipped({"Björk.py": b"a", "ada.py": b"b"})
    # What Linux writes, with nothing said about the encoding, and what DOS writes.
    silent = utf8.replace(b"\x14\0\0\x08", b"\x14\0\0\0")
    dos = zipped({"Bj_rk.py": b"a", "ada.py": b"b"}).replace(b"Bj_rk", b"Bj\x94rk")
    assert len({utf8, silent, dos}) == 3
    for data in (utf8, silent, dos):
        found = collect([put(tmp_path, {"all.zip": data}) / "all.zip"], THREE)
        assert facts(found) == {"Björk": "a", "ada": "b"}


def test_of_what_lies_about_its_length_only_that_is_unpacked():
    data = patched(zipped({"starter.py": bytes(50 << 20)}), DIRECTORY, 24, 1000, 4)
    tracemalloc.start()
    with pytest.raises(Refused, match="damaged"):
        read_zip(io.BytesIO(data)).read("starter.py", MOST_SOURCE_BYTES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_damage_anywhere_is_refused_or_changes_a_source_but_never_raises():
    whole = zipped({"starter.py": b"x = 1\n" * 20, "labs/a/b.py": b"y", "c/": b""})
    chance = random.Random(4)
    seen = 0
    for _ in range(3_000):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 8))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        try:
            found = read_zip(io.BytesIO(data))
            for path in found.paths():
                found.read(path, 1000)
        except Refused:
            seen += 1
    assert 1_000 < seen < 3_000
