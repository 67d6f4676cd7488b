"""The count of an implementation's steps: what counts as one, how many are allowed, and that they
are all that a counting program does more than the program itself."""

import ast
import random
from contextlib import suppress
from types import SimpleNamespace

import pytest

from labkit.course.hunt import Target
from labkit.course.metering import metered
from labkit.running.hunting.here import Make
from labkit.running.hunting.work import (
    MOST_CALLS,
    STEPS_AT_LEAST,
    STEPS_PER_ITEM,
    WORK,
    TooMuchWork,
    size_of,
)
from labkit.running.remote.parts import Parts
from labkit.running.remote.proxies import Make as MakeElsewhere
from labkit.running.remote.proxies import Proxies
from mini_vllm.text.events import ToolCall

SIZE = 64_000
# An expression or statements on a long text, and on the list of its characters.
LOOKS = [
    "text.find('x')", "text.index('z')", "text.count('a')", "text.encode()", "text.upper()",
    "text.split('x')", "text.lstrip('a')", "text.partition('z')", "text.replace('x', 'y')",
    "'x' in text", "'x' not in text",
    "text == text[:-1] + 'z'", "text != text[:-1] + 'z'", "text.encode().decode()",
    "''.join(items)", "list(text)", "str(items)", "sorted(items)", "max(items)",
    "bytearray(text.encode())",
    "'x' in items", "items.index('z')", "items.count('x')", "items.copy()", "items.extend(items)",
    "[it for it in text]", "{it: 1 for it in text}", "any(it == 'x' for it in items)",
    "list(map(lambda it: it, text))", "for it in text:\n    pass",
    "rest = len(text)\nwhile rest:\n    rest -= 1",
    "import re\nre.compile('x').search(text)", "import json\njson.loads(json.dumps(text))",
    "def half(it):\n    return it\nlist(map(half, text))",
]  # fmt: skip
COPIES = [
    "text + 'x'", "'x' + text", "text[1:]", "f'{text}x'", "text * 2", "'%s' % text", "[*items]",
    "(*items, 1)", "items + [1]", "items[1:]", "items * 2", "del items[:1]", "items[0:1] = []",
    "items.pop(0)", "text.lstrip()", "text.rstrip('z')", "text.strip('z')",
    "text.removeprefix('a')",
    "text.removesuffix('z')", "text.partition('a')", "both = {'a': text}\nboth['a'] += 'x'",
]  # fmt: skip
FREE = [
    "text[0]", "text[:3]", "len(text)", "items.append(1)", "items.pop()", "items[0] = 1",
    "text += 'x'", "items += [1]", "text.startswith('aa')", "text.endswith('z')", "text.find('a')",
    "text.find('z', 63_990)", "'a' in text", "text == 'a'", "text is None",
    "import re\nre.compile('x').match(text)",
]  # fmt: skip


def run(code, text):
    """Return the steps of some code, and what the last expression of it gives."""
    tree = ast.parse(code)
    if isinstance(tree.body[-1], ast.Expr):
        tree.body[-1] = ast.Return(tree.body[-1].value)
    body = ast.unparse(tree).replace("\n", "\n    ")
    source = f"def run(text, items):\n    {body}\n    return text, items"
    results = []
    for program in (source, metered(source)):
        names = {}
        exec(program, names)
        with WORK.counted():
            WORK.allowed = SIZE * SIZE
            result = names["run"](text, list(text))
        results.append(result if not hasattr(result, "span") else result.span())
    assert results[0] == results[1], "counting changes the result"
    return WORK.steps


@pytest.mark.parametrize("code", LOOKS)
def test_it_costs_a_step_to_look_at_a_character_or_an_item(code):
    assert SIZE - 10 <= run(code, "a" * (SIZE - 1) + "z") <= 5 * SIZE


@pytest.mark.parametrize("code", COPIES)
def test_it_costs_a_step_to_copy_64(code):
    assert SIZE // 64 - 1 <= run(code, "a" * (SIZE - 1) + "z") <= 3 * SIZE // 64


@pytest.mark.parametrize("code", FREE)
def test_what_does_not_depend_on_the_size_costs_next_to_nothing(code):
    assert run(code, "a" * (SIZE - 1) + "z") <= 20


def test_so_much_is_allowed_and_no_more():
    """A step too many, or a call: neither `except Exception` nor a second try goes on."""
    step = {}
    exec(metered("def run(count):\n    for _ in range(count): pass"), step)
    with WORK.counted():
        WORK.take_in(["abc", b"", [1, (2, None)]], {"option": {"a": ToolCall(0, "f", "{}")}})
        WORK.give_out("é" * 10)
        items = 3 + 1 + 3 + (1 + 1 + 1 + 2) + 10
        assert WORK.allowed == STEPS_AT_LEAST + STEPS_PER_ITEM * items
        step["run"](WORK.allowed - 1)
        assert not WORK.is_over
        with pytest.raises(TooMuchWork, match="more than 100 steps for each character"):
            step["run"](1)
        with pytest.raises(TooMuchWork):
            WORK.take_in("a" * 1_000, {})
    with WORK.counted():
        for _ in range(MOST_CALLS):
            WORK.take_in((), {})
        with pytest.raises(TooMuchWork, match="calls the implementation more than 50,000 times"):
            WORK.take_in((), {})
    assert size_of(frozenset()) == size_of(None) == size_of(10**30) == size_of(1.5) == 1


def test_reading_an_attribute_is_counted_for_itself_alone():
    with WORK.counted():
        for _ in range(10):
            with WORK.aside():
                WORK.step(STEPS_AT_LEAST)
        assert (WORK.steps, WORK.is_over) == (0, False)
        with pytest.raises(TooMuchWork), WORK.aside():
            WORK.step(STEPS_AT_LEAST + 1)
        assert WORK.is_over


ODD = '''"""A docstring, which stays one."""
from __future__ import annotations
import dataclasses

@dataclasses.dataclass(frozen=True)
class Base:
    text: str = "a" + "b"

    def join(self, *parts: "list[str]", sep: str = f"{1 + 1:>{2 + 1}}") -> str:
        "The words of a method."
        return sep.join([self.text, *parts])

class Child(Base):
    def join(self, *parts):
        match parts:
            case ["x", *rest] if len(rest) == 1 < 2:
                return super().join("y", *rest)
        return (lambda: 0)() or super().join(*parts)[::-1]

def numbers():
    """A generator."""
    yield from (x for x in range(3) if 0 < x != 2 and x not in [7])
    data = bytearray(b"abc")
    data[1:2] += b"xyz"
    del data[:1]
    yield bytes(data)

RESULT = [Child("q").join("x", "z"), Child().join("c"), list(numbers()), numbers.__doc__, __doc__,
          Base.join.__doc__, Base.join.__annotations__, repr(Child())]
'''


def test_counting_changes_nothing_else():
    plain, counting = {}, {}
    exec(ODD, plain)
    exec(metered(ODD), counting)
    assert plain["RESULT"] == counting["RESULT"]
    assert [type(value) for value in plain["RESULT"]] == [*map(type, counting["RESULT"])]


IMPLEMENTATION = metered("""
class Growing:
    def __init__(self, start=""):
        self.text = start

    @property
    def held(self):
        return [one for one in self.text][-1:]

    @property
    def broken(self):
        return self.text.index("y")

    def feed(self, text):
        self.text = self.text + text
        if text == "x":
            raise ValueError("no x")
        return self.text[-2:]
""")


def drive(make, drawn, breaks):
    """Use two objects as tests do: in turns, with attributes, exceptions, and breaks."""
    objects = [make("Growing", start="a" * drawn.randint(0, 99)) for _ in range(2)]
    for _ in range(6):
        used = drawn.choice(objects)
        pieces = drawn.choices(["b", "cd", ""], k=300)
        if drawn.random() < 0.3:
            pieces[drawn.randint(0, 299)] = "x"
        end = drawn.randint(1, 300) if breaks else 300
        with suppress(ValueError):
            for _ in zip(range(end), make.each(used.feed, pieces), strict=False):
                pass
        for name in drawn.sample(["held", "broken"], k=drawn.randint(0, 2)):
            with suppress(ValueError):
                assert getattr(used, name)


@pytest.mark.parametrize("breaks", [False, True])
def test_the_count_is_the_same_here_and_behind_the_pipe_however_much_is_asked_ahead(breaks):
    """But for the calls that are known ahead and never happen; whatever tests were before."""
    names = {}
    exec(IMPLEMENTATION, names)
    here = Make(Target("lab-90-x", 1, "", ("Growing",)), SimpleNamespace(**names))
    ask = Parts(names.__getitem__, ["Growing"]).answer
    totals = []
    for make in (lambda: here, lambda: MakeElsewhere(Proxies(ask))):
        for seed in (*range(20), *reversed(range(20))):
            with WORK.counted():
                drive(make(), random.Random(seed), breaks)
                totals.append(WORK.totals)
    assert totals[40:60] == totals[60:][::-1]
    for inside, outside in zip(totals[:40], totals[40:], strict=True):
        assert inside == outside or breaks
        assert 0 <= outside[1] - inside[1] < 2 * 256
