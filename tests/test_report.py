"""What a report says: of made results, and of small classes driven as a lab's code is."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from labkit.course.hunt import KILLED
from labkit.course.lab import find_labs
from labkit.running.diagnose import Mistake, diagnose
from labkit.running.drive import Driver, perform
from labkit.running.hunting.rules import Hunted
from labkit.running.lab_impl import Implementation
from labkit.running.reporting.as_data import report_data
from labkit.running.reporting.explain import explain, graded_tests
from labkit.running.reporting.failures import print_wrapped
from labkit.running.reporting.next_step import next_step
from labkit.running.reporting.report import drawn, print_tests, render
from labkit.running.result_kind import ResultKind
from labkit.running.score import LabRun, Result, classify
from labkit.running.trace import Call, Failure
from labkit.testing import check, expect, expect_untouched
from mini_vllm.text.events import TextDelta, ToolCall

(LAB,) = find_labs(Path(__file__).parent / "tiny_repo")
NAMES = [test.name for test in LAB.tests]
FIRST = [test.name for test in LAB.tests if test.task == 1]
SECOND = [test.name for test in LAB.tests if test.task == 2]
OK = Result(ResultKind.PASSED)
WRONG = Result(ResultKind.ASSERTION, "expected 1, got 2", Failure("1", "2", "f()"))
ONE = Result(ResultKind.UNWRITTEN, "lab-90 task 1: feed is not written yet")
TWO = Result(ResultKind.UNWRITTEN, "lab-90 task 2: flush is not written yet")
BARE = Result(ResultKind.UNWRITTEN, "feed (line 9) is not written yet")
LOAD = Result(ResultKind.LOAD, "starter.py line 3 is not valid Python: invalid syntax")
LATE = Result(ResultKind.NOT_RUN, "3 tests ran into the time limit; fix those first")
RULE = replace(LAB.tests[1], rule="The rule.")


def run_of(first, second, given=OK, **by_name):
    """A run of the tiny lab with these results for the tests of each task; None: it did not run."""
    results = {"test_two_is_even": given}
    results |= dict.fromkeys(FIRST, first) | dict.fromkeys(SECOND, second) | by_name
    results = {name: result for name, result in results.items() if result is not None}
    return LabRun(LAB, Implementation("starter", LAB.starter), "0", "0", [], results)


def edited(run):
    """The same run of a file that is not the starter as it was handed out."""
    return replace(run, implementation=Implementation("starter", LAB.solution))


def report(run):
    return render(run, colour=False)


def statuses(run):
    """The status of each task and of what is given, as the table has them."""
    rows = report(run).split("\n\n")[0].splitlines()[1:]
    return [re.split(r" {2,}", row.strip())[-1] for row in rows]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (OK, WRONG, ["PASS", "FAIL", "PASS"]),
        (WRONG, WRONG, ["FAIL", "FAIL", "PASS"]),
        (ONE, ONE, ["FAIL", "BLOCKED by task 1", "PASS"]),
        (ONE, TWO, ["FAIL", "FAIL", "PASS"]),
        (BARE, BARE, ["FAIL", "BLOCKED by task 1", "PASS"]),
        (OK, BARE, ["PASS", "FAIL", "PASS"]),
        (LOAD, LOAD, ["FAIL", "FAIL", "PASS"]),
        (WRONG, LATE, ["FAIL", "not run", "PASS"]),
        (LATE, LATE, ["not run", "not run", "PASS"]),
        (None, OK, ["not run", "PASS", "PASS"]),
        (WRONG, None, ["FAIL", "not run", "PASS"]),
    ],
)
def test_a_status_is_true(first, second, said):
    assert statuses(run_of(first, second)) == said


def test_a_task_may_wait_for_the_one_before_the_last():
    chain = (*LAB.tasks, replace(LAB.tasks[1], number=3, blocked_by=(2,)))
    tests = tuple(replace(test, task=3) if test.task == 2 else test for test in LAB.tests)
    lab = replace(LAB, tasks=chain)
    vars(lab)["tests"] = tests
    told = report(replace(run_of(ONE, ONE), lab=lab))
    assert re.search(r"^3 flush .* BLOCKED by task 1$", told, re.M)


def test_of_a_choice_of_tests_there_is_no_score():
    text = report(run_of(None, OK, given=None))
    assert "score       shown for a full run only (4 tests not run)" in text
    assert "demonstrations     0/1        -   not run" in text
    some = report(run_of(OK, None, test_flush=OK))
    assert re.search(r"2 flush +1/1 of 4 ", some)
    assert "next:       the whole lab: make lab N=90" in some


def test_a_given_test_that_did_not_run_has_not_failed():
    assert statuses(run_of(WRONG, LATE, given=LATE)) == ["FAIL", "not run", "not run"]


def test_a_demonstration_that_lacks_a_part_has_not_failed():
    run = replace(run_of(LOAD, LOAD, given=LOAD), waits_for="lab-01")
    assert statuses(run)[-1] == "needs lab-01"
    assert statuses(run_of(LOAD, LOAD, given=LOAD))[-1] == "FAIL"
    assert statuses(replace(run, results={**run.results, "test_two_is_even": WRONG}))[-1] == "FAIL"


def test_a_command_stays_on_one_line_to_be_copied():
    words = "read phase-90-tiny/labs/lab-90/README.md, then work on task 1 of it: make lab N=90 T=1"
    printed = drawn(lambda console: print_wrapped(console, "next:       ", words), colour=False)
    assert printed.splitlines()[1:] == ["            make lab N=90 T=1"]


SECOND_LAB = replace(LAB, path=LAB.path.with_name("lab-91-more"), title="More", place=99)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (run_of(ONE, ONE), "README.md, then work on task 1: make lab N=90 T=1"),
        (run_of(WRONG, WRONG), "README.md, then work on task 1: make lab N=90 T=1"),
        (run_of(LOAD, LOAD), "fix the error shown above, then make lab N=90"),
        (run_of(OK, TWO), "write task 2, then make lab N=90 T=2 (stuck? make hint N=90 T=2)"),
        (run_of(OK, OK, test_flush=WRONG), "fix task 2, then make lab N=90 T=2 (stuck? make hint"),
        (run_of(OK, OK), "lab-91-more/README.md, then make lab N=91"),
        # A choice of tests has few points, and says nothing about how far the lab is.
        (edited(run_of(None, WRONG, given=None)), "fix task 2, then make lab N=90 T=2 (stuck?"),
        (edited(run_of(None, TWO, given=None)), "write task 2, then make lab N=90 T=2 (stuck?"),
        (run_of(None, TWO, given=None), "README.md, then work on task 2: make lab N=90 T=2"),
        # Task 2 waits for task 1, whose tests did not run.
        (run_of(None, ONE, given=None), "work on task 1, which task 2 needs: make lab N=90 T=1"),
        (
            edited(run_of(None, WRONG, given=None, test_flush=ONE)),
            "write task 1, which task 2 needs, then make lab N=90 T=1 (stuck? make hint N=90 T=1)",
        ),
        (run_of(OK, None), "task 2: make lab N=90 T=2"),
        (run_of(None, OK), "the whole lab: make lab N=90"),
    ],
)
def test_the_next_step_is_told_with_its_command(run, said):
    assert said in next_step(run, [LAB, SECOND_LAB])


def test_the_first_survivor_of_a_hunt_is_next_whichever_lab_has_tests():
    labs = find_labs(Path(__file__).parents[1])
    hunt = next(lab for lab in labs if lab.hunt is not None)
    targets = {target.task: target for target in hunt.pool.targets}
    wrong = [code for code in hunt.pool.wrong() if code.target.task <= 2]
    first = next(code for code in wrong if code.target.task == 2)
    kinds = {1: ResultKind.UNWRITTEN, 2: ResultKind.ASSERTION}
    results = {f"{KILLED}[{code.name}]": Result(kinds[code.target.task], "why") for code in wrong}
    unwritten, own = (f"test_{targets[task].label}_a" for task in (1, 2))
    hunted = Hunted((unwritten, own), unwritten={unwritten: "task 1"})
    implementation = Implementation("starter", hunt.solution)
    run = LabRun(hunt, implementation, "0", "0", [], results, hunted=hunted)
    symptom = first.symptom.rstrip(".")
    assert next_step(run, labs) == f'kill "{symptom}" (make hint N={hunt.number} T=2)'
    nothing = Hunted((unwritten,), unwritten={unwritten: "task 1"})
    assert f"task 1, then make lab N={hunt.number} T=1" in next_step(
        replace(run, hunted=nothing), labs
    )


def test_the_end_of_a_track_is_told_as_one_and_how_to_go_on():
    advanced = replace(SECOND_LAB, track="advanced")
    said = next_step(run_of(OK, OK), [LAB, advanced])
    assert said.startswith("the core track is done, a complete course: see it work with make demo")
    assert said.endswith("to continue, lab-91, More: read " + said.split(": read ")[1])
    assert "make lab N=91" in said
    assert "track" not in next_step(run_of(OK, OK), [replace(LAB, track="advanced"), advanced])


def test_a_lab_before_its_turn_goes_on_with_the_first_that_builds_on_it():
    first, other, more = (
        replace(LAB, path=LAB.path.with_name(f"lab-{number}-x"), place=place, prerequisites=needs)
        for number, place, needs in ((81, 0, ""), (82, 2, ""), (83, 3, f"{LAB.label}; C"))
    )
    labs, run = [first, LAB, other, more], run_of(OK, OK)
    step = next_step(run, labs)
    assert step.endswith("then make lab N=83 (in the course's order: make lab N=81)")
    assert next_step(run, [first, LAB, other]).endswith("then make lab N=81")
    both = replace(run, passing=frozenset([LAB.name, first.name]))
    assert next_step(both, labs).endswith("then make lab N=82")


def test_after_the_last_lab_it_is_put_to_work_and_a_reference_has_no_next_step():
    last = "see it work: make demo, then LAB_IMPL=starter make serve"
    assert next_step(run_of(OK, OK), [LAB]) == last
    both = replace(run_of(OK, OK), passing=frozenset([LAB.name, SECOND_LAB.name]))
    assert next_step(both, [LAB, SECOND_LAB]) == last
    assert report(run_of(OK, OK)).splitlines()[-1] == f"next:       {last}"
    solution = replace(run_of(OK, OK), implementation=Implementation("solution", LAB.solution))
    assert "next:" not in report(solution)
    own = replace(run_of(OK, WRONG), implementation=Implementation("path", Path("/x/try.py")))
    assert "the same command with --lab-task 2" in next_step(own, [LAB])


def test_a_page_names_no_command_that_it_does_not_have():
    last = report_data(run_of(OK, OK))["next"]
    assert last == 'see it work under "Your code, live", at the end of the text of lab 05'
    needs = "lab-05 builds on it. Pass it first: make lab N=03. To use it as it is: "
    own = replace(LOAD, message=f"{needs}LAB_PARTS=own make lab N=05")
    (waits,) = report_data(run_of(own, own))["waiting"]
    assert waits.endswith("Pass it first: make lab N=03.")
    assert "make lab N=90 T=1" in report_data(run_of(WRONG, WRONG))["next"]


def test_only_a_run_without_a_failure_says_what_it_showed():
    first, second = (
        [test.rule for test in LAB.tests if test.name in names] for names in (FIRST, SECOND)
    )
    assert report_data(run_of(OK, OK))["shown"] == [*first, *second]
    assert report_data(run_of(OK, None))["shown"] == first
    assert report_data(run_of(OK, WRONG))["shown"] == []


def test_equal_failures_are_told_once_and_later_tasks_in_a_line():
    run = run_of(WRONG, replace(WRONG, message="expected 3, got 4"))
    text = report(run)
    assert text.count("FAIL test_") == 1
    assert "and 2 more for the same reason (30 points): test_held, test_empty" in text
    assert "also failing: 4 of task 2; to see those of task 2: make lab N=90 T=2" in text
    # A grader reads all of them.
    graded = drawn(lambda console: print_tests(console, LAB, graded_tests(run)), colour=False)
    assert graded.count("FAIL test_") == 2
    # One line that raises is one reason, whatever it was given.
    crash = [
        Result(ResultKind.RAISED, f"KeyError: {n}\nline 7: return d[n]", WRONG.failure)
        for n in (1, 2)
    ]
    assert "and 3 more for the same" in report(run_of(crash[0], OK, test_flush=crash[1]))
    # One reason counts across tasks.
    assert "and 6 more for the same reason (85 points)" in report(run_of(WRONG, WRONG))


def test_what_all_wait_for_is_told_once():
    text = report(run_of(ONE, ONE))
    assert text.count("is not written yet") == 1
    assert "7 tests wait for this: lab-90 task 1: feed is not written yet" in text
    assert "7 tests cannot run: starter.py line 3 is not valid" in report(run_of(LOAD, LOAD))


def driver(**classes):
    return Driver(partial(perform, classes.__getitem__), "0")


def failure_of(test, **classes):
    """How a test fails on such a class, in full."""
    with pytest.raises(Failure) as caught:
        test(driver(**classes))
    return explain(RULE, replace(classify(caught.value), printed=""))


class Echo:
    """Gives each id back as text, and holds what it says."""

    def __init__(self, **more):
        self.more = more

    def __getattr__(self, name):
        made = self.__dict__["more"][name]
        return made() if name == "held" else made


def streamed(expected, pieces, what="", read="outputs"):
    def test(lab):
        trace = lab.stream(lab.new("Echo"), pieces, end="")
        expect(getattr(trace, read), expected, trace, what)

    return test


def echo(feed, held=lambda: None):
    return {"Echo": partial(Echo, feed=feed, held=held)}


def raising(error):
    def do(*_):
        raise error

    return do


def refilled(items):
    """Return a function that returns the same list each time, with its argument in it."""

    def do(item):
        items[:] = [item]
        return items

    return do


LONG = "x" * 5_000
EVENTS = [TextDelta("ab"), ToolCall(0, "f", "{}")]


@pytest.mark.parametrize(
    ("test", "classes", "said"),
    [
        # Byte ids as people think of them, and what is held in hex.
        (streamed(["", ""], [0xE2, 65]), echo(lambda i: "" if i > 99 else "A", lambda: b"\xe2\x82"),
         ["    feed(0xE2)   ''       E2 82", "  > feed(65 'A')  'A'      E2 82"]),
        (lambda lab: expect(lab.call(lab.new("Echo"), "feed", [0xF0, 104]), [], "feed([0xF0])"),
         echo(lambda ids: ids), ["actual    [240, 104]"]),
        # What is held by layers, in columns.
        (streamed(["b"], [1]), echo(lambda i: "a", lambda: {"bytes": b"", "text": "E"}),
         ["call        emitted  bytes  text", "feed(0x01)  'a'      b''    'E'"]),
        # A long run around its first wrong step.
        (streamed([*"x" * 40, "y", *"x" * 40], [1] * 81), echo(lambda i: "x"),
         ["… 33 before …", "> feed(0x01)  'x'", "… 37 more …"]),
        (streamed("x" * 40 + "y" + "x" * 40, [1] * 81, read="text"), echo(lambda i: "x"),
         ["… 33 before …", "> feed(0x01)  'x'"]),
        (streamed("xy", [1, 2, 3], "three tokens", "text"), echo(lambda i: "x" * (i != 3)),
         ["> feed(0x02)  'x'"]),
        (streamed([TextDelta("ab"), ToolCall(0, "f", "[]")], [1], read="events"),
         echo(lambda i: EVENTS), ["['ab', 0: f({})]"]),
        # Long values from their first difference.
        (streamed([LONG + "b"], [1]), echo(lambda i: LONG + "a"),
         ["xb'] (5005 characters in all)", "xa'] (5005 characters in all)"]),
        (lambda lab: (t := lab.stream(lab.new("Echo"), [1, 2], end=""))
         and expect(t.outputs[:1], ["b"], t), echo(lambda i: "a"), ["> feed(0x01)"]),
        # The wrong type, in short.
        (streamed(["a"], [1]), echo(lambda i: None), ["feed returned None; expected a str"]),
        (streamed([b"a"], [1], "held", "held"), echo(lambda i: "", lambda: [1]),
         ["`held` is a list; expected bytes"]),
        (streamed("a", [1], read="text"), echo(lambda i: None), ["actual    None"]),
        (streamed([b""], [1], "held", "held"), echo(lambda i: "", lambda: bytearray()),
         ["but       `held` is a bytearray; return bytes"]),
        (streamed([""], [1]), echo(lambda i: (c for c in "a")), ["returned a generator; return"]),
        # What raised, with its input.
        (streamed([""], [97]), echo(raising(KeyError("x"))),
         ["call      feed(97 'a')", "raised    KeyError: 'x'", "at        line "]),
        (streamed([""], [97], "", "held"), echo(lambda i: "", raising(KeyError("x"))),
         ["call      held", "raised    KeyError: 'x'"]),
        (streamed([""], [97]), echo(raising(ValueError("a\ud800\x1b[31m\n" * 999))),
         [r"a\ud800\x1b[31m", "characters in all)"]),
        (lambda lab: lab.call(lab.new("Echo"), "fed"), {"Echo": object},
         ["AttributeError: object has no method 'fed'"]),
        (lambda lab: lab.rejects(lab.new("Echo"), "feed", 1), echo(raising(KeyError("x"))),
         ["raised    KeyError: 'x'", "expected  a ValueError"]),
        # Arguments are copies, and a change of one is told.
        (lambda lab: expect_untouched(lab.script(lab.new("Echo"), [("feed", [240])], "")),
         echo(lambda ids: ids.clear()), ["feed changed its argument: [240] became []"]),
        # A result belongs to the caller.
        (lambda lab: expect_untouched(lab.script(lab.new("Echo"), [("feed", 1), ("feed", 2)], "")),
         echo(refilled([])), ["a list that feed returned changed later: [1] became [2]"]),
        (lambda lab: expect_untouched(lab.script(lab.new("Echo"), [("feed", 1), ("feed", 2)], "")),
         echo(lambda i, empty=[]: empty), ["feed returned the same list object again"]),
        # A shortened input is below the table in full, or 300 characters of it.
        (streamed(["", "b"], ["z" * 90, "c" * 90]), echo(lambda c: ""),
         [f"in full feed('{'z' * 62}", f" {'z' * 22}')", f"in full feed('{'c' * 62}"]),
        (streamed(["b"], [[*range(200, 220)]]), echo(lambda i: "a"),
         ["> feed([0xC8, 0xC9,", "in full feed([200, 201, 202, 203,", "218, 219])"]),
        (streamed(["b"], ["z" * 900]), echo(lambda c: ""), [f"{'z' * 10}…{'z' * 10}"]),
        (streamed([""], ["z" * 90]), echo(raising(KeyError("x"))),
         ["call      feed('zzz", f"in full feed('{'z' * 62}"]),
        (lambda lab: lab.stream(lab.new("Echo", more="z" * 90), [1], end="").text,
         {"Echo": lambda more: Echo(feed=lambda i: None, held=lambda: "")},
         [f"in full Echo(more='{'z' * 58}", "call feed(0x01)"]),
        # A case as small as can be.
        (lambda lab: check(lambda case: streamed("", case, read="text")(lab), ["ab" * 20]),
         echo(lambda c: c.replace("a", "")), ["feed('b')", "(smallest case found)"]),
        # A text whose characters do not matter keeps one of them.
        (lambda lab: check(lambda case: streamed(["x"], [case])(lab), ["ab" * 20]),
         echo(lambda c: ""), ["feed('b')", "(smallest case found)"]),
    ],
)  # fmt: skip
def test_a_failure_in_words(test, classes, said):
    text = failure_of(test, **classes)
    squeezed = re.sub(" +", " ", text)
    assert [words for words in said if re.sub(" +", " ", words) not in squeezed] == [], text
    assert len(text.splitlines()) <= 30
    assert max(map(len, text.splitlines())) <= 86


def test_only_a_shortened_input_is_printed_in_full():
    text = failure_of(streamed(["b"], [0xE2]), **echo(lambda i: "a"))
    assert "in full" not in text


def test_a_truth_is_told_with_its_statement():
    """In one line, "expected True, got False" says nothing."""
    with pytest.raises(Failure) as caught:
        expect(False, True, "the 9 characters up to the stop are emitted")
    said = "the 9 characters up to the stop are emitted: expected True, got False"
    assert classify(caught.value).message == said
    with pytest.raises(Failure) as caught:
        expect(2, 1, "f()")
    assert classify(caught.value).message == "expected 1, got 2"


def test_a_name_that_does_not_exist_comes_with_the_one_that_does():
    class Lab:
        def __init__(self):
            self._detokenizer = 1

        def feed(self, token_id):
            return self.detokenizer

    trace = perform({"Lab": Lab}.__getitem__, [driver().new("Lab")], [Call("feed", (1,))], "")
    assert trace.raised.message.endswith("(did you mean '_detokenizer'?)")


def test_a_bare_not_implemented_names_its_function():
    class Lab:
        def feed(self):
            raise NotImplementedError

    with pytest.raises(Failure) as caught:
        driver(Lab=Lab).call(driver().new("Lab"), "feed")
    result = classify(caught.value)
    assert result.kind == "unwritten"
    assert re.fullmatch(r"feed \(line \d+\) is not written yet", result.message)


def test_what_was_printed_stands_with_its_test_and_is_cut():
    text = explain(RULE, replace(WRONG, printed="seen: 7\n" + "flood\n" * 9_999))
    assert "printed   seen: 7\n          flood" in text
    assert len(text.splitlines()) < 15


def test_a_report_is_short_and_narrow_whatever_fails():
    failures = {
        name: classify(Failure(LONG, f"{number}{LONG}", "f()"))
        for number, name in enumerate(NAMES * 9)
    }
    lab = replace(LAB)
    lab.__dict__["tests"] = tuple(
        replace(LAB.tests[1], name=f"test_{number}") for number in range(60)
    )
    results = {f"test_{n}": [*failures.values()][n % 8] for n in range(60)}
    results |= {
        f"test_{n}": classify(Failure(f"{n}{LONG}", f"{n}\n" * 300, "f()")) for n in range(40)
    }
    run = replace(run_of(OK, OK), lab=lab, results=results)
    lines = report(run).splitlines()
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 88
    assert any("more failures of this task" in line for line in lines)


COST = "test_property_linear"
LOOP = Result(ResultKind.TIMEOUT, "the test did not end")


@pytest.mark.parametrize(
    ("run", "tried"),
    [
        (run_of(OK, OK, **{COST: LOOP}), ["slow", "plain"]),
        (run_of(OK, OK, **{COST: WRONG}), ["plain"]),
        # A loop without an end is overdue everywhere. The report shows the first task alone.
        (run_of(LOOP, OK, **{COST: LOOP}), []),
        (run_of(WRONG, OK, **{COST: WRONG}), []),
        (run_of(WRONG, OK, **{COST: LOOP}), []),
        # It also shows a demonstration, which has no mistakes of its own.
        (run_of(OK, OK, given=WRONG, **{COST: WRONG}), ["plain"]),
        # What is not all written yet is unfinished rather than mistaken.
        (run_of(OK, TWO, test_flush_once=WRONG), []),
    ],
)
def test_which_mistakes_are_looked_for(run, tried):
    asked = []
    task = {test.task for test in LAB.tests if test.name == COST}.pop()
    probes = [
        Mistake(name, task, "", "", lambda lab, name=name: asked.append(name), frozenset(overdue))
        for name, overdue in (("slow", {COST}), ("plain", ()))
    ]
    diagnose(probes, Driver(partial(perform, {}.get), ""), run.failing_tasks, run.overdue)
    assert asked == tried


def test_failures_after_the_first_have_two_lines_from_their_difference_on():
    pieces = [f"{number:02}" for number in range(30)]
    wrong = classify(Failure(f"pieces: {pieces}", f"pieces: {[*pieces[:20], 'no']}", "f()"))
    raised = classify(driver_failure())
    lab = replace(LAB)
    lab.__dict__["tests"] = tuple(
        replace(LAB.tests[1], name=f"test_{number}", points=15 if number < 11 else 1)
        for number in range(12)
    )
    results = {f"test_{n}": classify(Failure(f"{n}", f"{n + 1}", "f()")) for n in range(10)} | {
        "test_10": wrong,
        "test_11": raised,
    }
    lines = report(replace(run_of(OK, OK), lab=lab, results=results)).splitlines()
    at = lines.index("FAIL test_10 (task 1, 15 points)")
    assert lines[at + 1] == "  expected …'19', '20', '21', '22', '23', '2…, got …'19', 'no']"
    assert lines[at + 2] == "FAIL test_11 (task 1, 1 point)"
    assert lines[at + 3].startswith("  KeyError: 'x', at line ")


def driver_failure():
    """The failure of code that raises."""

    class Raises:
        def feed(self, piece):
            raise KeyError("x")

    with pytest.raises(Failure) as caught:
        driver(Raises=Raises).call(driver().new("Raises"), "feed", "a")
    return caught.value


def test_a_case_is_shown_although_an_earlier_task_is_not_begun():
    """A diagnosis never takes the place of a case."""
    text = report(run_of(ONE, WRONG))
    assert "FAIL test_flush (task 2" in text
    assert f"{len(FIRST)} tests wait for this: lab-90 task 1: feed is not written yet" in text
    assert "also failing" not in text
