"""Each gate is silent on the tiny repository, and finds the fault that is planted in it."""

import importlib.util
import re
import shutil

import pytest

from labkit.cli import main
from labkit.course.matrix import write
from labkit.errors import LoadFailure
from labkit.gates import GATES, RUNNING
from labkit.gates.lab_runs import runs
from labkit.gates.text.wording import CEILINGS, counts_of, lower_ceilings
from labkit.running.lab_impl import choose

OUTCOMES = {}
RUN_LAB = runs.run_lab
# From the folder of the lab.
ATTEMPTS = "../../../tests/attempts/90"


@pytest.fixture(autouse=True)
def _equal_runs_once(monkeypatch):
    """Most faults leave most runs of a lab as they were: run what has been run before only once."""

    def remembered(root, lab, implementation, *how):
        try:
            source = choose(implementation, [lab], root)[lab.path].source()
        except LoadFailure:
            return RUN_LAB(root, lab, implementation, *how)
        files = (lab.test_file, lab.path / "course/lab.toml", lab.path / "course/mistakes.py")
        key = (source, *(file.read_bytes() for file in files))
        if key not in OUTCOMES:
            OUTCOMES[key] = RUN_LAB(root, lab, implementation, *how)
        return OUTCOMES[key]

    monkeypatch.setattr(runs, "run_lab", remembered)


def path_of(lab, name):
    """The path of a file of a lab, in its folder or in `course`."""
    path = lab.path / name
    return path if path.exists() else lab.path / "course" / name


def edit(path, find, replace):
    text = path.read_text()
    assert find in text
    path.write_text(text.replace(find, replace))


def findings(gate, root):
    return [str(finding) for finding in GATES[gate](root) if not finding.is_note]


@pytest.mark.parametrize("gate", GATES)
def test_gate_is_silent_on_a_good_lab(tiny, gate):
    assert findings(gate, tiny) == []


# (gate, file below the lab's folder, what to find, what to put there, a part of the finding)
FAULTS = [
    ("marks", "test_lab.py", "@pytest.mark.points(15)\ndef test_pairs", "def test_pairs",
     "0 points"),
    ("marks", "test_lab.py", "points(10)", "points(11)", "add up to 101"),
    ("marks", "test_lab.py", "points(15)\ndef test_pairs", "points(16)\ndef test_pairs", "1 to 15"),
    ("marks", "test_lab.py", "task(1)\n@pytest.mark.points(15)\ndef test_held",
     "task(7)\n@pytest.mark.points(15)\ndef test_held", "task 7"),
    ("marks", "test_lab.py", "@pytest.mark.given", "@pytest.mark.skip", "'skip' has no place"),
    ("marks", "test_lab.py", "    assert 2 % 2 == 0", "    pytest.skip()", "scores 0"),
    ("marks", "test_lab.py", "def test_property_linear", "def test_linear", "15 points together"),
    ("marks", "test_lab.py", '    """Two is even."""\n', "", "no docstring"),
    ("marks", "test_lab.py", "import pytest\n", "import pytest\nimport labkit.running.drive\n",
     "may not import labkit.running.drive"),
    ("marks", "test_lab.py", "def test_flush(lab)", "def test_flush_once(lab)", "defined twice"),
    ("pristine", "starter.py.orig", "lab-90 task 2: flush", "lab-90 task 2: end", "is edited"),
    ("signatures", "starter.py.orig", "def flush(self) -> str", "def flush(self) -> int",
     "signature"),
    ("signatures", "starter.py.orig", "Return the rest.", "Return all.", "docstring"),
    ("signatures", "starter.py.orig", "def flush", "def finish", "in the starter only"),
    ("readmes", "README.md", "## Not in scope", "## Out of scope", "headings"),
    ("readmes", "README.md", "`test_held`", "`test_hold`", "test_held is not in the table"),
    ("readmes", "README.md", "(45 points)", "(40 points)", "Task 1: feed (45 points)"),
    ("readmes", "README.md", "`course/`", "", "out of date: run make matrix"),
    ("readmes", "README.md", "Text.", "word " * 600, "words from the title to the end of task 1"),
    ("readmes", "README.md", "course.\n<!-- /full -->\n", "", "<!-- full --> is still open"),
    ("readmes", "README.md", "In the full course.", "<!--full-->", "'<!--full-->' is not a marker"),
    ("readmes", "README.md", "In the full course.", "<!-- site", "'<!-- site' is not a marker"),
    ("readmes", "hints.toml", "task = 1\nsymptom = \"symptom 3\"", "task = 2\nsymptom = \"s\"",
     "task 1 has 2 hints"),
    ("readmes", "hints.toml", "task = 1\nsymptom = \"symptom 3\"", "task = 3\nsymptom = \"s\"",
     "a hint is for task 3"),
    ("readmes", "hints.toml", "symptom = \"symptom 3\"", "", "missing"),
    ("readmes", "hints.toml", "symptom = \"symptom 3\"", "symptom = 3", "must be text"),
    ("readmes", "hints.toml", "[\"eager\"]", "[\"eager\", \"keen\"]", "looks like 'keen'"),
    ("wording", "README.md", "## Goal\n\nText.", "## Goal\n\nReturn what is held.", "1 times"),
    ("predictions", "predict.toml", "answer = \"1\"", "answer = \"3\"",
     "question 2: the reference gives 1, the answer is 3"),
    ("predictions", "predict.toml", "answer = \"1\"", "answer = \"2\"", "not among the choices"),
    ("predictions", "predict.toml", "[\"3\", \"1\", \"0\"]", "[\"1\", \"1\", \"0\"]", "are equal"),
    ("predictions", "predict.toml", "[\"3\", \"1\", \"0\"]", "[\"1\", \"0\"]", "2 choices"),
    ("predictions", "predict.toml", "len(pairs.held)", "n = len(pairs.held)", "not an expression"),
    ("predictions", "predict.toml", "Pairs().feed('abc')", "Pair()", "raises NameError"),
    ("predictions", "predict.toml", "[[question]]\nask = \"Fed `a`", "[[other]]\nask = \"Fed `a`",
     "2 questions; a lab has 3 to 6"),
    ("diagnoses", "mistakes.py", "def drops(", "def drop(", "bug drops has no probe"),
    ("diagnoses", "mistakes.py", "== [\"\", \"\"]", "== [\"\", \"a\"]", "drops: its probe fires"),
    ("diagnoses", "mistakes.py", "task=2", "task=3", "task 3 is not in lab.toml"),
    ("diagnoses", "mistakes.py", "\n\n    Something still", "\n    Something still", "the hint"),
    ("races", "race.py", "return text\n", "return text[1:]\n", "at flush, the naive version"),
    ("races", "race.py", "return text\n", "return text[1:]\n", "at flush, the library leaves"),
    ("races", "race.py", "UNIT =", "UNITS =", "has no UNIT"),
    ("races", "solution.py", "return self._held", "return 1", "cannot be measured"),
    ("readmes", "README.md", "## Goal\n\nText.", "## Goal\n\n[here](nowhere.md)", "leads nowhere"),
    ("readmes", "lab.toml", 'time = "5 min"', 'time = "9 min"', "time of lab.toml"),
    ("readmes", "bugs.toml", 'killed_by = ["test_flush_once"]', "killed_by = []", "out of date"),
    ("arrows", "../../../tiny_engine/text.py", "room", 'room."""\nimport tiny_engine.server  # """',
     "tiny_engine.text -> tiny_engine.server"),
    ("arrows", "../../../tiny_engine/text.py", "room", 'room."""\nimport typing\n\n'
     'if typing.TYPE_CHECKING:\n    import tiny_engine.server  # """',
     "No cycles are allowed in tiny_engine"),
    ("arrows", "solution.py", "class Pairs", "import numpy\n\n\nclass Pairs", "imports 'numpy'"),
    ("arrows", "lab.toml", "place = 1", "place = 1\n[given]\nfiles = ['gone.py']",
     "gone.py: No such file"),
    ("arrows", "lab.toml", "place = 1", "place = 1\n[given]\nfiles = ['test_lab.py']",
     "test_lab.py line 3 imports 'pytest'"),
    ("readmes", "lab.toml", "place = 1", "place = 1\n[given]\nfiles = ['../../words.txt']",
     "out of date: run make matrix"),
    ("solution", "solution.py", "return rest", "return rest * 2", "the solution fails test_flush"),
    ("solution", "solution.py", "class Pairs", "class Other", "the solution fails"),
    ("starter", "starter.py.orig", "lab-90 task 1: feed", "write me", "must wait for"),
    ("starter", "starter.py.orig", "lab-90 task 1: feed", "lab-90 task 2: feed", "does not block"),
    ("starter", "test_lab.py", "assert 2 % 2 == 0", "assert 2 % 2 == 1", "a given test fails"),
    ("tables", "test_lab.py", 'return "".join(lab.random.choices("abcdé", k=length))',
     'return "abcdeabc"[:length]', "earns 85 points with a seed that it does not know"),
    ("tables", "test_lab.py", 'lab.random.choices("abcdé", k=length)',
     'lab.random.sample("abcdefgh", k=length)', "in which characters are renamed"),
    ("order", "test_lab.py",
     """trace = lab.script(lab.new("Pairs"), [("feed", ""), ("feed", text), ("feed", "")])
    expect(trace.outputs, ["", text, ""], trace)""", """trace = lab.stream(lab.new("Pairs"), [""])
    expect(trace.outputs, ["", ""], trace)""", "test_empty fails with tasks 1 to 1 done"),
    ("order", f"{ATTEMPTS}/after_task_1.py", 'raise NotImplementedError("lab-90 task 2: flush")',
     """rest, self._held = self._held, ""
        return rest
        raise NotImplementedError("lab-90 task 2: flush")""", "more than task 1 is done"),
    ("order", f"{ATTEMPTS}/after_task_1.py", "NotImplementedError", "ValueError",
     "Pairs.flush is of task 2"),
    ("attempts", f"{ATTEMPTS}/echoes.py", "return text", "return text[1:]", "toml says 40"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", '"triples"', '"drops"', "looks_like is 'triples'"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", "echoes.py", "echo.py", "echo.py is in attempts"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", "echoes.py", "echo.py", "echoes.py is not in"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", '[[attempt]]\nfile = "echo', '[[row]]\nfile = "echo',
     "7 attempts; 8 is the least for 2 tasks"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", '        return ""', "        pass",
     "keeps_the_end.py, edit 1: `find` occurs 0 times"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", 'of = "drops', 'of = "drop', "drop_the_end.py is in"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", 'of = "drops_the_end.py"\n', "",
     "edits and no `of`"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", "score = 0", "score = 6", "at most 5"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", "score = 0\n", "", "missing"),
    ("bugs", "bugs.toml", 'name = "triples"', 'name = "thirds"', "thirds: is taken for triples"),
    ("bugs", "mistakes.py", "@mistake(task=2)\ndef keeps", "@mistake(task=1)\ndef keeps",
     "its probe keeps is of task 1, and runs only if that task is the first that fails"),
    ("bugs", "mistakes.py", "@mistake(task=1)\ndef space(lab)", "def space(lab)",
     "write its probe `def space(lab)`"),
    ("bugs", "mistakes.py", '== [" "]', '== ["  "]', "its probe space does not return True"),
    ("bugs", "bugs.toml", '["test_pairs", "test_held"]', '["test_pairs"]',
     'killed_by = [\n    "test_pairs",\n    "test_held",\n]'),
    ("bugs", "bugs.toml", 'killed_by = ["test_flush_once"]',
     'killed_by = ["test_flush_once", "test_held"]', "listed but passing"),
    ("bugs", "bugs.toml", 'find = "even ="', 'find = "no such text"', "occurs 0 times"),
    ("bugs", "bugs.toml", 'find = "even ="', 'find = "even"', "occurs 3 times"),
    ("bugs", "bugs.toml", "len(text) // 3 * 3", "len(text) // 2 * (1 + 1)", "survives every test"),
    ("bugs", "bugs.toml", "len(text) // 3 * 3", "lne(text) // 2 * 2", "not by assertion"),
    ("bugs", "bugs.toml", '["test_empty", "test_property_chunk_invariant"]',
     '["test_property_chunk_invariant"]', "test_empty kills no bug"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("gate", "file", "find", "replace", "said"), FAULTS, ids=lambda value: str(value)[:24]
)
def test_gate_finds_a_planted_fault(tiny, tiny_lab, monkeypatch, gate, file, find, replace, said):
    if gate == "pristine":
        monkeypatch.setenv("CI", "true")
    edit(path_of(tiny_lab, file), find, replace)
    found = findings(gate, tiny)
    assert any(said in message for message in found), found


def test_what_a_run_finds_imported_is_there():
    """A forkserver says nothing of a module that it cannot import; each run would import it."""
    assert [name for name in runs.PRELOAD if importlib.util.find_spec(name) is None] == []


def test_a_terminal_shows_how_far_a_gate_is(tiny, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert findings("solution", tiny) == []
    assert "1/1" in capsys.readouterr().out


# (gate, file below the lab's folder, what to find, what to put there, a part of the finding)
CHEAP = [
    ("bugs", "bugs.toml", "[[bug]]", "[[other]]", "0 bugs; a lab has 6 to 16"),
    ("bugs", "bugs.toml", '["test_flush_once"]', '["test_flush_twice"]',
     "killed_by names test_flush_twice, which does not exist"),
    ("bugs", "bugs.toml", 'name = "triples"', 'name = "drops"', "there are 2 bugs drops"),
    ("bugs", "bugs.toml", 'find = "even ="', 'find = "no such text"', "occurs 0 times"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", "echoes.py", "echo.py", "echo.py is in attempts"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", '"triples"', '"threes"',
     "looks like threes, which has no probe"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", 'file = "in_threes.py"', 'file = "echoes.py"',
     "2 attempts are called echoes.py"),
    ("attempts", f"{ATTEMPTS}/attempts.toml", '[[attempt]]\nfile = "echo', '[[row]]\nfile = "echo',
     "7 attempts; 8 is the least for 2 tasks"),
    ("order", f"{ATTEMPTS}/after_task_1.py", "NotImplementedError", "ValueError",
     "Pairs.flush is of task 2"),
]  # fmt: skip


@pytest.mark.parametrize(("gate", "file", "find", "replace", "said"), CHEAP)
def test_what_shows_without_a_run_is_found_before_any(
    tiny, tiny_lab, monkeypatch, gate, file, find, replace, said
):
    monkeypatch.setattr(runs, "run_lab", lambda *_: pytest.fail("a lab was run"))
    edit(path_of(tiny_lab, file), find, replace)
    found = findings(gate, tiny)
    assert any(said in message for message in found), found


def test_a_bug_that_lists_no_killers_yet_is_run_and_its_killers_are_told(tiny, tiny_lab):
    edit(tiny_lab.path / "course/bugs.toml", '["test_flush_once"]', "[]")
    found = findings("bugs", tiny)
    assert any("failing but not listed: test_flush_once." in said for said in found), found


def test_gates_share_the_runs_of_an_implementation(tiny, tiny_lab, monkeypatch, capsys):
    """Each source is run once with each limit, however many gates ask for it."""
    started = []
    run_lab = runs.run_lab

    def counted(root, lab, implementation, hurry, collected):
        started.append((hurry, choose(implementation, [lab], root)[lab.path].source()))
        return run_lab(root, lab, implementation, hurry, collected)

    monkeypatch.setattr(runs, "run_lab", counted)
    folder = tiny_lab.path / ATTEMPTS
    shutil.copy(tiny_lab.solution, folder / "solves.py")
    rows = (folder / "attempts.toml").read_text()
    row = '[[attempt]]\nfile = "solves.py"\nscore = 100\nlooks_like = ""\nwhat = "nothing"\n'
    (folder / "attempts.toml").write_text(f"{row}\n{rows}")
    assert main(["check", *RUNNING], tiny) == 0, capsys.readouterr().out
    bugs, attempts = len(tiny_lab.bugs), row.count("[[attempt]]") + rows.count("[[attempt]]")
    # The solution is an attempt as well, and so is what `order` runs; the starter is none.
    assert len(started) == len(set(started)) == bugs + attempts + 1
    out = capsys.readouterr().out
    assert [gate for gate in RUNNING if not re.search(rf"^{gate} +ok +\d+ s$", out, re.M)] == []


def test_what_is_wrong_only_for_want_of_time_is_run_again_with_the_whole_limits(
    tiny, tiny_lab, monkeypatch
):
    limits = []

    def late(root, lab, implementation, hurry, collected):
        limits.append(hurry)
        kind = "timeout" if hurry < enough else "passed"
        tests = {test.name: {"kind": "passed", "message": ""} for test in lab.tests}
        return {"tests": {**tests, "test_flush_once": {"kind": kind, "message": "late"}}}

    monkeypatch.setattr(runs, "run_lab", late)
    for enough, fails in (1.0, []), (2.0, ["fails test_flush_once: late"]):
        found = findings("solution", tiny)
        assert [message.partition("the solution ")[2] for message in found] == fails, enough
    assert limits == [runs.HURRY, 1.0] * 2
    # A run that broke off has no second chance: time is not what it lacked.
    monkeypatch.setattr(runs, "run_lab", lambda *_: limits.append("broke off") or {"error": "gone"})
    assert "did not run: gone" in findings("solution", tiny)[0]
    assert limits[4:] == ["broke off"]


NAMES = [
    ("labkit/x.py", "match = 1", []),
    ("labkit/x.py", "told, _found = 1, 2", ["found", "told"]),
    ("labkit/x.py", "def asked(wanted): pass", ["asked", "wanted"]),
    ("mini_vllm/a/x.py", "class Kept:\n    def __init__(self): self.told = 1", ["kept", "told"]),
    ("labkit/x.py", "def f(one, other): return one < other", []),
    ("labkit/x.py", "def f(ones):\n    for one in ones: print(one)", ["one"]),
    ("labkit/course/x.py", "given = 1", []),
    ("labkit/grading/x.py", "print(lab.given)", []),
    ("labkit/grading/x.py", "def f(given): pass", ["given"]),
    ("tests/x.py", "told = 1", []),
]


WORDINGS = [
    ("It returns what is held.", "what"), ("It says what is held.", ""), ("What is held?", ""),
    ("| `x` | what is held |", "what"), ("The text comes late.", "come"), ("`come`", ""),
    ("Such a one may be late.", "one"), ("The last ones are late.", "one"),
    ("Where no lab passes, it ends.", "where"), ("Where no lab passes?", ""),
    ("It is late. Of two stops, one wins.", "of"), ("Nobody knows.", "nobody"),
    ("It is no string.", "is no"), ("There is no string.", ""), ("It is no longer late.", ""),
    ("The text is out.", "words"), ("Mend it. To mend it is late.", "words"),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "word"), WORDINGS)
def test_a_wording_that_readers_stumble_over_is_counted(tmp_path, sentence, word):
    (tmp_path / "README.md").write_text(sentence)
    assert counts_of(tmp_path) == ({"README.md": {word: 1}} if word else {})


def test_a_ceiling_is_lowered_and_never_raised(tmp_path):
    ceilings = tmp_path / CEILINGS
    ceilings.parent.mkdir(parents=True)
    ceilings.write_text('"README.md" = { "come" = 2, "one" = 1 }\n"gone.md" = { "come" = 1 }\n')
    (tmp_path / "README.md").write_text("It comes. It came with another one and that one.")
    messages = findings("wording", tmp_path)
    assert [message.split(":")[0] for message in messages] == ["README.md", "gone.md"]
    assert "2 times the wording 'one', and 1 are allowed" in messages[0]
    assert lower_ceilings(tmp_path)
    assert '"README.md" = { "come" = 2, "one" = 1 }' in ceilings.read_text()
    assert "gone.md" not in ceilings.read_text()
    assert not lower_ceilings(tmp_path)


@pytest.mark.parametrize(("file", "source", "words"), NAMES)
def test_a_name_that_is_no_noun_is_refused(tmp_path, file, source, words):
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(source)
    found = findings("names", tmp_path)
    assert [re.search("`(.*)`", message)[1] for message in found] == words
    assert all(message.startswith(f"{file}:") for message in found)


def test_a_run_of_a_collected_lab_is_like_any_other(tiny, tiny_lab, monkeypatch):
    """A fork of a process that has collected the lab, beside a pytest of its own."""
    monkeypatch.setattr(runs, "run_lab", RUN_LAB)
    (tiny_lab.path / "exits.py").write_text("import os\nclass Pairs:\n    def __init__(self):\n"
                                            "        os._exit(3)\n")  # fmt: skip
    chosen = ["solution", "bug:triples", str(tiny_lab.path / "exits.py"), "bug:none"]
    with runs.Runs(tiny) as shared:
        forked = [shared.run(tiny_lab, one, runs.HURRY) for one in chosen]
        for one, outcome in zip(chosen, forked, strict=True):
            alone = RUN_LAB(tiny, tiny_lab, one, runs.HURRY)
            assert outcome.result().keys() == alone.keys()
            if "error" not in alone:
                assert outcome.result() == alone
    assert "Python ended during" in forked[2].result()["error"]
    assert "has no such bug" in forked[3].result()["error"]
    edit(tiny_lab.test_file, "import pytest\n", "import pytest\nimport gone\n")
    with runs.Runs(tiny) as shared:
        assert "No module named 'gone'" in shared.run(tiny_lab, "solution", 1).result()["error"]


def test_a_lab_without_its_stages_or_attempts_is_a_finding(tiny, tiny_lab):
    shutil.rmtree(tiny / "tests" / "attempts")
    for gate, said in (("order", "after_task_1.py: is missing"), ("attempts", "is missing")):
        (found,) = findings(gate, tiny)
        assert said in found


def test_too_few_bugs_or_a_phase_without_markers_is_a_finding(tiny, tiny_lab):
    text = (tiny_lab.path / "course/bugs.toml").read_text()
    (tiny_lab.path / "course/bugs.toml").write_text("[[bug]]" + text.split("[[bug]]")[1])
    (tiny / "phase-90-tiny" / "README.md").write_text("# Phase\n")
    for gate, said in (("bugs", "1 bugs; a lab has 6 to 16"), ("readmes", "has no lines")):
        found = findings(gate, tiny)
        assert any(said in message for message in found), found


def test_an_edited_starter_is_a_note_for_a_student(tiny, tiny_lab):
    edit(tiny_lab.starter, "raise NotImplementedError", "print('mine'); raise NotImplementedError")
    notes = GATES["pristine"](tiny)
    assert [finding.is_note for finding in notes] == [True]
    for gate in ("signatures", "starter"):
        assert findings(gate, tiny) == []


def test_matrix_is_written_between_its_markers(tiny):
    page = (tiny / "phase-90-tiny" / "KILL_MATRIX.md").read_text()
    assert "| `test_flush_once` |   | ✗ |   | ✗ | ✗ |   |" in page
    assert write(tiny) == []
