"""Debuggers on a lab: nothing is late, quitting quits, and they stop in the student's code."""

import os
import sys

import pytest

from labkit.course.lab import ROOT

pexpect = pytest.importorskip("pexpect", reason="Windows has no terminals for it")


@pytest.fixture
def debug(tiny, tiny_lab):
    """Run the lab in a terminal with a line in `feed`, type commands at the debugger's prompts, and
    return the exit code and all that was shown.
    """

    def session(line, options, commands):
        text = tiny_lab.solution.read_text()
        call = "text = self._held + text"
        assert call in text
        tiny_lab.starter.write_text(text.replace(call, f"{line}\n        {call}"))
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LAB_IMPL": "starter"}
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(tiny_lab.path), *options]
        child = pexpect.spawn(
            sys.executable, command, cwd=str(tiny), env=env, encoding="utf-8", timeout=60
        )
        shown = ""
        for typed in commands:
            child.expect_exact("(Pdb) ")
            shown += child.before
            child.sendline(typed)
        child.expect(pexpect.EOF)
        shown += child.before
        child.close()
        return child.exitstatus, shown

    return session


def test_a_breakpoint_may_take_longer_than_any_limit_and_quitting_ends_the_run(debug):
    # The code swallows what ends the run, and comes by the breakpoint again and again.
    line = "try: breakpoint(); seen = 1\n        except Exception: pass"
    # The watchdog would stop a test after 0.6 seconds; this work alone takes longer.
    commands = ["p text * 2", "p sum(range(3 * 10**7))", "q"]
    code, shown = debug(line, ["--lab-limit", "0.05"], commands)
    assert code == 2
    assert "'abcabc'" in shown
    assert "449999985000000" in shown
    assert "you quit the debugger, which ended the run: nothing is scored" in shown
    assert "score  " not in shown


def test_post_mortem_is_in_the_students_frame_or_in_that_of_the_test(debug):
    line = "oops = text + '!'; text = oops if text == 'abc' else oops[99]"
    code, shown = debug(line, ["--pdb"], ["w", "p oops", "c", "w", "p trace.held", "q"])
    assert code == 2
    first, second = shown.split("PDB post_mortem")[1:]
    assert "starter.py(" in first
    assert "'d!'" in first
    assert "test_lab.py(" in second
    assert "['']" in second
    assert "labkit/" not in first + second


def test_trace_stops_in_test_after_test(debug):
    code, shown = debug("pass", ["--trace", "-k", "held or even"], ["c", "c"])
    assert code == 0
    assert shown.count("PDB runcall") == 2
    assert "2 passed" in shown
