"""What the course gives to a lab's code reaches it, wherever that runs and is packed for."""

from dataclasses import replace

import pytest

from labkit.course.lab import ROOT, find_labs
from labkit.errors import LabFolderError, UsageError
from labkit.grading.assignment import Assignment
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission
from labkit.isolation.host import Host, Sources
from labkit.publish.grader_files import grader_files
from labkit.publish.student_edition import _lab_files
from labkit.running.given import for_tests, read_given
from labkit.running.lab_impl import Implementation
from labkit.running.source import Given
from labkit.running.trace import Call, New
from labkit.running.under_test import CodeUnderTest

PROGRAM = b"""
try:
    import tokenizers
except ImportError:
    tokenizers = None
NAMES = [*FILES]
class Handle:
    def __init__(self, name): self.text, self.count = FILES[name].decode(), 0
    def read(self): self.count += 1; return self.text
def library(): return tokenizers is not None
def check_file(name):
    if b"?" in FILES[name]: raise ValueError("it has no word")
"""
SECOND = b"def names(): return NAMES"
READS = """
class Reads:
    def __init__(self, handle): self.handle = handle
    def feed(self, text): return text + self.handle.read()
"""
TABLE = """
[given]
files = ["../../shared/given.py", "given.py", "../../shared/word.txt"]
own = { LAB_WORD = "own.txt" }
"""
TEST = '''

@pytest.mark.given
def test_given(lab):
    """The handle reads what the tests read."""
    handle = lab.new("given.Handle", "word.txt")
    trace = lab.script([lab.new("Reads", handle), handle], [
        ("feed", "a "), Call("count", None, object=1), ("feed", "b "), Call("count", None, object=1)
    ], watch="")
    word = lab.given.Handle("word.txt").text
    expect(trace.outputs, ["a " + word, 1, "b " + word, 2], trace)
'''


@pytest.fixture
def lab(tiny, tiny_lab, monkeypatch):
    """The tiny lab, with a handle that it is given."""
    monkeypatch.delenv("LAB_WORD", raising=False)
    shared = tiny / "phase-90-tiny/shared"
    shared.mkdir()
    (shared / "given.py").write_bytes(PROGRAM)
    (shared / "word.txt").write_bytes("wörd".encode())
    (tiny_lab.path / "given.py").write_bytes(SECOND)
    for name, more in {"course/lab.toml": TABLE, "solution.py": READS, "test_lab.py": TEST}.items():
        with (tiny_lab.path / name).open("a") as file:
            file.write(more)
    test = tiny_lab.test_file.read_text()
    tiny_lab.test_file.write_text(
        test.replace("import pytest\n", "import pytest\n\nfrom labkit.running.trace import Call\n")
    )
    return find_labs(tiny)[0]


def resolve(lab, root):
    code = CodeUnderTest(lab, Implementation("solution", lab.solution), root, lambda _: False)
    return code.resolve


def test_a_lab_is_given_what_its_toml_names(lab, tiny):
    given = resolve(lab, tiny)
    assert given("given.names")() == ["word.txt"]
    assert given("given.Handle")("word.txt").read() == "wörd"
    assert given("given.library")()
    with pytest.raises(AttributeError, match="gone"):
        given("given.gone")
    # The tests have their own.
    assert for_tests(read_given(lab)).Handle is not given("given.Handle")


def test_a_file_of_ones_own_is_given_here_only(lab, tiny, tmp_path, monkeypatch):
    (tmp_path / "mine").write_text("mine")
    monkeypatch.setenv("LAB_WORD", str(tmp_path / "mine"))
    assert resolve(lab, tiny)("given.Handle")("own.txt").read() == "mine"
    assert read_given(lab).files.keys() == {"word.txt"}
    monkeypatch.setenv("LAB_WORD", "nowhere/x")
    with pytest.raises(UsageError, match=r"LAB_WORD='nowhere/x' cannot be read \(No such file"):
        resolve(lab, tiny)
    (tmp_path / "wrong").write_text("?")
    monkeypatch.setenv("LAB_WORD", str(tmp_path / "wrong"))
    with pytest.raises(UsageError, match="wrong' cannot be used: it has no word; give"):
        resolve(lab, tiny)


def test_a_run_says_that_a_file_of_ones_own_is_not_there(lab, run_pytest):
    assert run_pytest("solution", "-k", "test_given").returncode == 0
    done = run_pytest("solution", LAB_WORD="nowhere/x")
    assert done.returncode == 4
    assert "LAB_WORD='nowhere/x' cannot be read" in done.stdout


@pytest.mark.parametrize("mode", ["trust", "sandbox"])
def test_a_submission_is_given_it_in_its_process(lab, sandbox_in, mode, need):
    source = lab.solution.read_bytes()
    assignment = Assignment(lab, {})
    submission = Submission("ann", lab.name, {lab.name: source})
    told = grade(submission, assignment, sandbox_in(need(mode)))
    assert told.score == 100
    assert {row.name for row in told.tests if not row.passed} == set()


def test_a_worker_has_no_library_and_tells_what_fails(sandbox_in):
    given = Given((), (("given.py", "given.py", PROGRAM),), {"word.txt": b"w"})
    sources = Sources("m", {"m": ("m.py", "m.py", READS.encode())}, given=given)
    host = Host(sandbox_in("trust"), sources)
    host.begin(5)
    try:
        assert host.load() is None
        assert host.perform([], [Call("given.library", ())], "").outputs == [False]
        handle = New("given.Handle", ("word.txt",))
        trace = host.perform([New("Reads", (handle,)), handle], [Call("read", (), object=1)], "")
        assert trace.outputs == ["w"]
        trace = host.perform([New("given.Handle", ("gone",))], [Call("read", ())], "")
        assert (trace.raised.kind, trace.raised.message) == ("KeyError", "'gone'")
        trace = host.perform([New("given.Gone")], [Call("read", ())], "")
        assert trace.raised.kind == "AttributeError"
    finally:
        host.close()


def test_what_is_given_moves_a_grade_and_comes_along(lab, tiny):
    assignment = Assignment(lab, {})
    names = {"phase-90-tiny/shared/given.py", "phase-90-tiny/shared/word.txt"}
    for path in lab.given_files:
        before, data = replace(assignment).digest, path.read_bytes()
        path.write_bytes(data + b"\n# edited\n")
        assert replace(assignment).digest != before
        path.write_bytes(data)
    assert names <= _lab_files(lab, tiny).keys()
    for folder in ("labkit", "mini_vllm", "requirements"):
        (tiny / folder).symlink_to(ROOT / folder)
    assert names <= grader_files("labkit/publish/gradescope.py", lab, [lab], tiny).keys()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("modules = 'json'", "holds modules"),
        ("files = ['a', 1]", "holds modules"),
        ("own = ['a']", "holds modules"),
        ("own = { A = 1 }", "holds modules"),
        ("folders = []", "holds modules"),
        ("", "holds modules"),
        ("files = ['../../../given.py']", "given.py, which is not in its phase"),
        ("files = ['a.json', 'b/a.json']", "two files with the same name"),
        ("files = ['a.json']\nown = { A = 'a.json' }", "two files with the same name"),
        ("modules = ['mini_vllm.gone']", "'mini_vllm.gone', which is not a module"),
    ],
)
def test_another_table_is_refused(tiny, tiny_lab, table, said):
    with (tiny_lab.path / "course/lab.toml").open("a") as file:
        file.write(f"\n[given]\n{table}\n")
    with pytest.raises(LabFolderError, match=said):
        find_labs(tiny)


def test_there_are_two_tracks(tiny, tiny_lab):
    file = tiny_lab.path / "course/lab.toml"
    text = file.read_text()
    assert tiny_lab.track == "core"
    file.write_text(f'track = "advanced"\n{text}')
    assert find_labs(tiny)[0].track == "advanced"
    file.write_text(f'track = "fast"\n{text}')
    with pytest.raises(LabFolderError, match="track is 'fast'"):
        find_labs(tiny)
