"""The words of a failure: values from their first difference, and sentences in place of types."""

import sys
from dataclasses import replace
from functools import partial

import pytest

from labkit.course import manifest
from labkit.running.drive import Driver, perform
from labkit.running.newer_syntax import OLDEST, newer_syntax
from labkit.running.reporting import locate
from labkit.running.reporting.explain import explain
from labkit.running.score import classify
from labkit.running.trace import Failure, pieces_of
from labkit.student import bootstrap
from labkit.testing import expect, expect_in, expect_long, expect_most
from mini_vllm.text.events import ArgsDelta, CallEnd, StopOutput, TextDelta, ToolCall

RULE = manifest.Test("test_it", "The rule.", 1, 10, None, frozenset())


def failure_of(test):
    """How a test fails, in full."""
    with pytest.raises(Failure) as caught:
        test(Driver(partial(perform, {"Odd": Odd}.__getitem__), "0"))
    return explain(RULE, classify(caught.value))


LONG = "ab" * 50_000
CALL = ToolCall(0, "f", LONG)


@pytest.mark.parametrize(
    ("actual", "expected", "said"),
    [
        # A text that is too long is shown around its first difference, with the place.
        (LONG[:-1] + "c", LONG, [
            "expected  'babababababab' from index 99,987 on (100,000 characters in all)",
            "actual    'babababababac' from index 99,987 on (100,000 characters in all)",
        ]),
        ("b" + LONG[1:], LONG, [f"actual    'bb{'ab' * 19}' (100,000 characters in all)"]),
        (LONG[:50], LONG, [
            "actual    'abababababab' from index 38 on (50 characters in all)"]),
        ("", LONG, ["actual    ''"]),
        ("é", LONG, ["actual    'é'   é=U+00E9"]),
        ([1] * 70_000, [1] * 60_000 + [2] * 10_000, [
            "expected  [1, 1,", "from index 59,988 on (70,000 items in all)"]),
        # In lists of events, it is the event that differs, and of that the field.
        ([CALL, TextDelta("b")], [CALL, TextDelta("c")], [
            "expected  TextDelta.text = 'c' at index 1 (2 items in all)",
            "actual    TextDelta.text = 'b' at index 1 (2 items in all)",
        ]),
        ([replace(CALL, arguments=LONG + "!")], [CALL], [
            "expected  ToolCall.arguments = 'abababababab' from index 99,988 on (100,000",
            "actual    ToolCall.arguments = 'abababababab!' from index 99,988 on (100,001"]),
        ([CALL], [CALL, TextDelta("c")], [
            "expected  TextDelta(text='c') at index 1 (2 items in all)",
            "actual    nothing at index 1 (1 item in all)",
        ]),
        ([], [CALL], [
            "expected  ToolCall(index=0, name='f', arguments='abab", "actual    nothing"]),
        (["a"] * 900 + ["c"], ["a"] * 900 + ["b"], [
            "expected  'b' at index 900 (901 items in all)"]),
        # A wrong type is named.
        (b"ab", "ab", ["actual    b'ab'", "in short  decode returned bytes; expected a str"]),
        (None, [1], ["expected  [1]", "actual    None"]),
    ],
)  # fmt: skip
def test_long_values_are_shown_where_they_differ(actual, expected, said):
    with pytest.raises(Failure) as caught:
        expect_long(actual, expected, "decode(ids)")
    text = explain(RULE, classify(caught.value))
    squeezed = " ".join(text.replace("expected  ", "expected ").split())
    assert [words for words in said if " ".join(words.split()) not in squeezed] == [], text
    assert max(map(len, text.splitlines())) <= 86
    expect_long(expected, expected, "decode(ids)")


def test_only_events_from_the_first_difference_on_are_taken_apart(monkeypatch):
    """Half a million characters before it would take seconds of the limit of the student's test."""
    apart = []
    monkeypatch.setattr(locate, "pieces_of", lambda event: apart.append(event) or pieces_of(event))
    same = [ArgsDelta(0, "a"), TextDelta("b")] * 100
    with pytest.raises(Failure) as caught:
        expect_long([*same, CallEnd(0)], [*same, CallEnd(1)], "feed(...)")
    assert (caught.value.item, apart) == (200, [CallEnd(0), CallEnd(1)])


class Odd:
    """Code that accepts anything, and returns values of the wrong type."""

    def accepts(self, ids):
        return [b"a"]

    def feed(self, piece):
        yield piece

    def fed(self, piece):
        return [ToolCall(0, 1, "{}")]

    def asks(self, piece):
        return input("which token? ")

    def process(self, piece):
        return [StopOutput("a")], 1

    @property
    def held(self):
        return {1: object()}


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (lambda lab: lab.rejects(lab.new("Odd"), "accepts", [9]),
         ["expected  a ValueError", "actual    no error: it returned [b'a']"]),
        (lambda lab: lab.rejects(lab.new("Odd")), ["actual    no error: the object was made"]),
        (lambda lab: (trace := lab.stream(lab.new("Odd"), ["a"], end=""))
         and expect(1, 2, trace), ["> feed('a')  (a generator)  (a dict with an object)"]),
        (lambda lab: (trace := lab.stream(lab.new("Odd"), ["a"], end="", feed="fed", watch=""))
         and expect(trace.outputs, [[]], trace),
         ["a ToolCall whose name is an int; a ToolCall has index: int, name: str, arguments: str"]),
        (lambda lab: (trace := lab.stream(lab.new("Odd"), ["a"], end="", feed="process", watch=""))
         and expect(trace.outputs, [([StopOutput("b")], 1)], trace),
         ["> process('a')  ([StopOutput('a')], 1)"]),
        (lambda lab: expect_in("300", "no such id", "decode([300])"),
         ["expected  a message that contains '300'", "actual    'no such id'"]),
        (lambda lab: expect_most(243_750, 2_000, "5,000 bytes of text", "bytes more"),
         ["expected  at most 2,000 bytes more", "actual    243,750"]),
        (lambda lab: expect_most(10**5_000, 2_000, "5,000 bytes of text", "bytes more"),
         ["actual    an int of 16610 bits"]),
    ],
)  # fmt: skip
def test_a_wrong_value_in_words(test, said):
    text = failure_of(test)
    squeezed = " ".join(text.split())
    assert [words for words in said if " ".join(words.split()) not in squeezed] == [], text


@pytest.mark.parametrize(
    "reads",
    [
        EOFError("EOF when reading a line"),
        OSError("pytest: reading from stdin while output is captured! Consider using `-s`."),
    ],
)
def test_a_read_of_input_has_one_sentence_everywhere(reads, monkeypatch):
    def read(prompt):
        raise reads

    monkeypatch.setattr("builtins.input", read)
    text = failure_of(lambda lab: lab.call(lab.new("Odd"), "asks", "a"))
    said = "Error: there is no input while tests run: use the arguments in place of `input()`"
    assert said in " ".join(text.split())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs Python 3.12: `make pythons` runs it")
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        # Python's own sentence names the version.
        ("x = 1\ntype X = int", "line 2: Type statement is only supported in Python 3.12"),
        ("def f[T](x): ...", "line 1: Type parameter lists are only supported"),
        # PEP 701 made f-strings like other code.
        ('f"{d["a"]}"', "hold the quotes of the f-string."),
        ("f'''{d['''a''']}'''", "hold the quotes"),
        ("f'{\"\\n\".join(d)}'", "hold a backslash."),
        ("f'{f\"{d}\\n\"}'", "hold a backslash."),
        ("f'''{d # d\n}'''", "hold a comment."),
        ("f'{d\n}'", "hold a line break."),
        # An older Python reads these, and none reads the last.
        ("f'{d[\"a\"]}\\n{d!r:>{w}}' '{{'", ""),
        ("f'''{d[\"#\"]\n}'''", ""),
        ("match d:\n    case 1: pass", ""),
        ("def f(:", ""),
        ("\0", ""),
    ],
)
def test_syntax_that_an_older_python_cannot_read_is_said_with_its_line(source, reason):
    note = newer_syntax(source.encode()) or ""
    assert reason in note
    assert bool(note) == bool(reason)


def test_the_oldest_python_of_the_notes_is_that_of_the_set_up():
    assert bootstrap.OLDEST == OLDEST
