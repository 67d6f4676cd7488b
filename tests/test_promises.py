"""Documents and rows: what is tried where, what lacks a row, and what counts as kept."""

import shlex
import sys
import threading
import time
from dataclasses import replace

import pytest

from labkit.course.lab import ROOT
from labkit.gates.promises import gate as promises
from labkit.gates.promises import lanes
from labkit.gates.promises.documents import commands_of
from labkit.gates.promises.gate import Promise, Trial, plan
from labkit.gates.promises.lanes import Clones

PAGE = """# A course

Type `make lab` first, or
`LAB_IMPL=starter make
serve`.

```bash
make lab N=03 T=2        # one task
curl -N http://here \\
  -d '{}'
```

```
make nothing
```

<!-- site
`make hidden`
-->
<!-- full -->
Never `made up`, nor `make`.
<!-- /full -->
"""


def test_commands_are_those_that_readers_see_in_order():
    assert [text for _, text in commands_of(PAGE)] == [
        "make lab", "LAB_IMPL=starter make serve", "make lab N=03 T=2",
        "curl -N http://here -d '{}'",
    ]  # fmt: skip


@pytest.fixture
def editions(tmp_path):
    """Two editions, each with a page; only the whole course has a script for CI."""
    folders = {name: tmp_path / name for name in ("full", "student")}
    for name, folder in folders.items():
        folder.mkdir()
        more = "`make test`. All of it\nis checked.\n" * (name == "full")
        (folder / "README.md").write_text(f"`make lab N=03`, {more}")
    (folders["full"] / ".ci").mkdir()
    (folders["full"] / ".ci/run").write_text("make test\n")
    return folders


LAB = Promise(("full", "student"), ("lab",), r"make lab N=(\d\d)")
TEST = Promise(command="make test", in_ci=True)
ALL = Promise(("full",), ("checked",), sentence="All of it is checked", run="make check")
NOT = Promise(command="make test", why_not="no network", sentence="All of it is checked")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([LAB, TEST, ALL], []),
        ([LAB, ALL, NOT], []),
        ([TEST, ALL], ["`make lab N=03` has no row in tests/promises for the full edition",
                       "`make lab N=03` has no row in tests/promises for the student edition"]),
        ([replace(LAB, lanes=("term",)), TEST], ["`make lab N=03` has no row"]),
        ([LAB, TEST, replace(LAB, command="make labs")], ["no document has `make labs`: drop"]),
        ([LAB, TEST, replace(ALL, sentence="Some is")], ['no document has "Some is": drop']),
        ([LAB, replace(NOT, sentence="Some of it")], ["no document says 'Some of it'"]),
        ([LAB, TEST, replace(ALL, says=())], ["it lacks `says`"]),
        ([LAB, TEST, replace(ALL, run="")], ["and the command to `run` for it"]),
        ([replace(LAB, run="make"), TEST], ["or a `sentence` and the command to `run` for it"]),
        ([LAB, replace(TEST, lanes=("full",))], ["it has no lanes"]),
        ([LAB, TEST, replace(ALL, lanes=("full", "fool"))], ["there is no lane 'fool'"]),
    ],
)  # fmt: skip
def test_each_command_has_a_row_and_each_row_a_document(editions, rows, said):
    _, found = plan(rows, editions)
    assert len(found) == len(said), found
    for finding, words in zip(found, said, strict=True):
        assert words in str(finding)


def test_a_command_that_ci_no_longer_runs_is_found(editions):
    (editions["full"] / ".ci/run").write_text("make lint\n")
    _, (finding,) = plan([LAB, TEST], {"full": editions["full"]})
    assert str(finding) == ".ci/run: does not run `make test`"


def test_what_is_tried_is_in_the_order_of_the_documents_and_the_first_row_counts(editions):
    rows = [ALL, replace(LAB, says=(r"lab \1",)), LAB, replace(ALL, run="make more"), TEST]
    trials, found = plan(rows, {"full": editions["full"]})
    assert [str(finding) for finding in found] == []
    assert [trial.command for trial in trials["full"]] == [
        "make lab N=03",
        "make check",
        "make more",
    ]
    assert trials["full"][0].promise.says == ("lab 03",)


class Here(Clones):
    """A folder in which commands run, in place of clones."""

    def __init__(self, folder):
        self._root = ROOT
        self._scratch = folder
        self._folders = {"full": folder, "student": folder}


SERVER = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
print("ready at 1", flush=True)
signal.sigwait([signal.SIGINT])
"""
WAIT = f"{shlex.quote(sys.executable)} -c {shlex.quote(SERVER)}"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"run": "echo all  is; echo well", "says": ["all is well"]}, ""),
        ({"run": "echo all is well", "says": ["not well"]}, "it does not say 'not well'"),
        ({"run": "echo well; exit 3", "says": ["well"]}, "exit code 3, not 0"),
        ({"run": "echo well >&2; exit 3", "says": ["well"], "code": 3}, ""),
        ({"run": "cat", "typed": "well", "says": ["well"]}, ""),
        ({"run": "echo $LAB_IMPL.", "says": ["."], "env": {"X": "1"}}, ""),
        ({"run": "cat x", "prepare": "echo well >x", "says": ["well"]}, ""),
        ({"run": "cat x", "prepare": "exit 5", "says": ["well"]}, "which prepares it, ends with 5"),
        ({"run": "true", "then": "echo well; exit 1", "says": ["well"]}, "exit code 1 of `echo"),
        ({"run": WAIT, "until": "ready at", "then": "echo asked", "says": ["1 asked"]}, ""),
        ({"run": "echo over", "until": "ready at", "then": "echo asked", "says": ["asked"]},
         "it does not say 'asked'"),
        ({"run": "sleep 60", "until": "ready", "seconds": 1, "says": ["x"]}, "exit code None"),
        ({"run": "echo 'Traceback (most recent call last)'", "says": ["T"]}, "a traceback"),
        ({"run": "echo no root; exit 77", "says": ["x"]}, "not tried: no root"),
    ],
    ids=str,
)  # fmt: skip
def test_a_promise_is_kept_by_what_is_seen(tmp_path, facts, said):
    row = Promise(("full",), sentence="x", **{**facts, "says": tuple(facts["says"])})
    trial = Trial(row, "README.md", row.run)
    found = promises._keep(Here(tmp_path), {"full": [trial]}, ["full"])
    assert len(found) == bool(said), found
    assert said in "".join(map(str, found))


def test_what_cannot_be_tried_is_a_note_and_in_ci_a_finding(tmp_path, monkeypatch):
    row = Promise(("full",), ("x",), sentence="x", run="echo no root; exit 77")
    for in_ci in ("", "true"):
        monkeypatch.setenv("CI", in_ci)
        trials = {"full": [Trial(row, "README.md", row.run)]}
        (finding,) = promises._keep(Here(tmp_path), trials, ["full"])
        assert finding.is_note == (not in_ci)


def test_ctrl_c_ends_what_runs_and_lets_nothing_begin(tmp_path, monkeypatch):
    monkeypatch.setattr(lanes, "_STOPPED", threading.Event())
    here, ended = Here(tmp_path), []
    first = threading.Thread(
        target=lambda: ended.append(here.run("full", "touch begun; exec sleep 600"))
    )
    first.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    lanes.stop()
    first.join()
    assert ended[0].code == 128 + 9
    assert here.run("full", "touch more").code is None
    assert not (tmp_path / "more").exists()


def test_an_environment_that_pytest_runs_in_is_not_that_of_a_reader(tmp_path, monkeypatch):
    # `make check ARGS=promises` has ARGS in its environment.
    names = ["LAB_IMPL", "CI", "PYTHONPATH", "PYTEST_ADDOPTS", "MAKEFLAGS", "ARGS", "N"]
    for name in (*names, "NO"):
        monkeypatch.setenv(name, "x")
    env = Here(tmp_path)._env("full", bare=False)
    assert [name for name in (*names, "NO") if name in env] == ["NO"]
    assert Here(tmp_path)._env("solved", bare=False)["CI"] == "true"
