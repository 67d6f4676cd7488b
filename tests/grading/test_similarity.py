import ast
import builtins
import codecs
import difflib
import itertools
import os
import re
from pathlib import Path

import pytest
from disguise import invented, reformatted, renamed, reordered
from hypothesis import given
from hypothesis import strategies as st

from labkit.course.lab import find_labs
from labkit.grading.reading.source_text import unusual
from labkit.grading.reports.similarity import (
    THRESHOLD,
    alike_sets,
    known_in,
    names_in,
    similar_pairs,
    tokens,
)  # fmt: skip
from labkit.running.lab_impl import Implementation
from labkit.running.source import MOST_SOURCE_BYTES

HERE = Path(__file__).resolve().parent
LABS = {lab.label: lab for lab in find_labs(HERE.parents[1])}
INDEPENDENT = {"lab-03": "bytes_by_*.py", "lab-04": "stops_by_*.py"}


def independent(label):
    """Two solutions of a lab by other hands."""
    found = (HERE / "independent").glob(INDEPENDENT[label])
    return {path.stem: path.read_bytes() for path in sorted(found)}


def kept(lab):
    """The names that a student cannot change: Python's, and those that the tests call."""
    nodes = ast.walk(ast.parse(lab.pristine_starter.read_bytes()))
    public = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return {name for name in public if not name.startswith("_")} | {*dir(builtins)}


def likeness(lab, one, other):
    pairs = similar_pairs({"a": one, "b": other}, lab.pristine_starter.read_bytes(), threshold=1e-6)
    return pairs[0].likeness if pairs else 0.0


def equal_beginning(one, other):
    """How many items two lists begin with alike."""
    return sum(
        1
        for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    )


def rewritten(before, after):
    """The share of the tokens of a source that an edit of it leaves out."""
    shapes, others = ([token.shape for token in tokens(source)] for source in (before, after))
    # An edit is in one place: only what lies between equal ends need be compared.
    start = equal_beginning(shapes, others)
    end = equal_beginning(shapes[start:][::-1], others[start:][::-1])
    middles = shapes[start : len(shapes) - end], others[start : len(others) - end]
    blocks = difflib.SequenceMatcher(None, *middles, autojunk=False).get_matching_blocks()
    return 1 - (start + end + sum(block.size for block in blocks)) / len(shapes)


@pytest.mark.parametrize("label", sorted(name for name, lab in LABS.items() if lab.hunt is None))
def test_a_disguised_copy_is_found(label):
    lab = LABS[label]
    source = lab.solution.read_bytes()
    ways = [lambda copy: renamed(copy, kept(lab)), reordered, reformatted]
    for hide in (*ways, lambda copy: reformatted(reordered(renamed(copy, kept(lab))))):
        assert hide(source) != source
        assert likeness(lab, source, hide(source)) > 0.75
    # One edit each: what a copier does who mends or breaks a line. Who writes more than a tenth
    # anew is less alike, and is found all the same.
    small = 0
    for bug in lab.bugs:
        edited = Implementation("bug", lab.solution, bug).source()
        is_small = rewritten(source, edited) < 0.1
        assert likeness(lab, source, edited) > (0.6 if is_small else THRESHOLD), bug.name
        small += is_small
    assert small >= len(lab.bugs) - 1


@pytest.mark.parametrize("label", INDEPENDENT)
def test_independent_work_is_told_apart(label):
    lab = LABS[label]
    sources = independent(label) | {"solution": lab.solution.read_bytes()}
    starter = lab.pristine_starter.read_bytes()
    assert similar_pairs(sources, starter) == []
    closest = similar_pairs(sources, starter, threshold=1e-6)
    assert all(pair.likeness < THRESHOLD / 5 for pair in closest)


def test_a_known_source_is_found_behind_whatever_hides_it():
    lab = LABS["lab-04"]
    engine = {
        f"{path}": path.read_bytes() for path in (HERE.parents[1] / "mini_vllm").rglob("*.py")
    }
    known = {**engine, "solution": lab.solution.read_bytes()}
    stop = next(source for name, source in engine.items() if name.endswith("text/stop.py"))
    adapter = b"\n\nclass StopStringMatcher(Stops):\n    pass\n"
    room = MOST_SOURCE_BYTES - 2 * len(stop)
    hidden = {
        "pasted": stop + adapter,
        "behind comments": b"#" * room + b"\n" + stop,
        "behind texts": b"x = " + b"'-'," * (room // 5) + b"\n" + stop,
        "behind code": invented(7) + stop + invented(8),
        "disguised": reformatted(renamed(stop, kept(lab))),
        "of the reference": b"#" * room + b"\n" + lab.solution.read_bytes(),
    }
    honest = independent("lab-04")
    for path in (HERE.parent / "attempts/04").glob("*.py"):
        honest[path.name] = path.read_bytes()
    found = known_in({**hidden, **honest}, known, lab.pristine_starter.read_bytes())
    assert {pair.left for pair in found} - {"after_task_1.py"} == {*hidden}
    assert all(Path(pair.right).name in ("stop.py", "solution") for pair in found)
    assert all(pair.regions for pair in found)


CODINGS = {
    "unicode_escape": lambda text: text.encode("unicode_escape"),
    "utf7": lambda text: text.encode("utf-7"),
    "utf-16-le": lambda text: text.encode("utf-16-le"),
    "punycode": lambda text: text.encode("punycode"),
}


@pytest.mark.parametrize("coding", CODINGS)
def test_a_source_is_compared_as_python_reads_it_and_an_odd_coding_line_is_listed(coding):
    lab = LABS["lab-03"]
    source = lab.solution.read_text()
    hidden = f"# coding: {coding}\n".encode() + CODINGS[coding](source)
    (odd,) = unusual(hidden, ())
    assert odd == f"its coding line makes Python read another text: {codecs.lookup(coding).name}"
    if coding != "punycode":
        assert likeness(lab, source.encode(), hidden) > 0.9
    assert list(unusual(f"\n# coding: utf-8\n{source}".encode(), ())) == []
    assert list(unusual(f"x = 1\n# coding: {coding}\n".encode(), ())) == []


def test_code_in_a_text_that_runs_is_compared_and_listed():
    lab = LABS["lab-03"]
    source = lab.solution.read_text()
    for hidden in (f"exec({source!r})", f"x = r'''{source}'''\n\n\nexec(x)\n"):
        data = hidden.encode()
        assert likeness(lab, source.encode(), data) > 0.9
        assert [*unusual(data, names_in(data))] == ["runs text as code: exec"]
    # Text for people is no code.
    assert likeness(lab, source.encode(), f"x = r'''{source}'''".encode()) == 0


def test_no_solution_has_anything_unusual_and_a_spy_has():
    for lab in LABS.values():
        source = lab.solution.read_bytes()
        assert [*unusual(source, names_in(source))] == []
    spy = b"import os, gc, re\nre.compile('x')\n# subprocess\nopen(sys._getframe().f_back)"
    assert [*unusual(spy, names_in(spy))] == [
        "looks into the process: _getframe, f_back, gc",
        "uses files, processes or the network: open, os",
    ]


def test_what_the_starter_gives_makes_nobody_alike():
    lab = LABS["lab-01"]
    starter = lab.pristine_starter.read_bytes()
    few = starter.replace(b"raise NotImplementedError", b"return 0  # ")
    assert similar_pairs({"a": starter, "b": few, "c": starter}, starter) == []
    assert similar_pairs({"a": starter, "b": starter}, b"") != []


def naive_prints(lab, source):
    """The fingerprints by definition: 8 tokens in a row, in one function."""
    public = frozenset(kept(lab) - {*dir(builtins)})
    shapes = " ".join(token.shape for token in tokens(source, public))
    parts = re.split(r"(?=\b(?:def|class) )", shapes)
    rows = [part.split() for part in parts]
    return {tuple(row[i : i + 8]) for row in rows for i in range(len(row) - 7)}


@pytest.mark.parametrize("threshold", [0.1, 0.4, 0.7, 0.9])
def test_no_pair_above_the_threshold_is_missed(threshold):
    lab = LABS["lab-03"]
    starter = lab.pristine_starter.read_bytes()
    sources = {bug.name: Implementation("bug", lab.solution, bug).source() for bug in lab.bugs}
    for name, source in independent("lab-03").items():
        sources |= {name: source, f"{name}-and-more": source + sources["shared"]}
    given = naive_prints(lab, starter)
    prints = {}
    for name, source in sorted(sources.items()):
        own = naive_prints(lab, source) - given
        if own not in prints.values():
            prints[name] = own
    wanted = {
        (a, b): round(likely, 3)
        for a, b in itertools.combinations(prints, 2)
        if (likely := len(prints[a] & prints[b]) / len(prints[a] | prints[b])) >= threshold
    }
    assert len(prints) > 10
    found = similar_pairs({name: sources[name] for name in prints}, starter, threshold=threshold)
    assert {(pair.left, pair.right): pair.likeness for pair in found} == wanted


SETS = st.lists(st.frozensets(st.integers(0, 9), min_size=1), unique=True, max_size=8)


@given(SETS, st.sampled_from([0.1, 0.25, 1 / 3, 0.4, 0.5, 0.6, 2 / 3, 0.75, 0.9, 1.0]))
def test_no_pair_of_sets_at_the_threshold_is_missed(sets, threshold):
    prints = dict(zip("abcdefgh", sets, strict=False))
    wanted = {
        (one, other)
        for one, other in itertools.combinations(prints, 2)
        if len(prints[one] & prints[other]) / len(prints[one] | prints[other]) >= threshold
    }
    assert {pair[1:] for pair in alike_sets(prints, threshold)} == wanted


def test_equal_submissions_are_paired_with_the_first_of_them():
    source = invented(1)
    copy = renamed(source, {*dir(builtins)})
    copies = {"d": source, "b": copy, "c": source + b"\n# mine", "a": invented(2)}
    pairs = similar_pairs(copies, b"")
    assert [(p.left, p.right, p.likeness) for p in pairs] == [("b", "c", 1.0), ("b", "d", 1.0)]


def test_regions_name_the_lines_of_both():
    block = b"\n".join(b"    x = [a for a in range(%d) if a + x > 7]" % n for n in range(9))
    left = b"def f(x):\n" + block + b"\n    return x\n"
    right = b"import re\n\n\n" + left.replace(b"x", b"y")
    (pair,) = similar_pairs({"l": left, "r": right}, b"")
    (region,) = pair.regions
    assert (region.left, region.right) == ((1, 11), (4, 14))


def test_the_order_of_submissions_changes_nothing():
    lab = LABS["lab-04"]
    sources = {bug.name: Implementation("bug", lab.solution, bug).source() for bug in lab.bugs[:6]}
    starter = lab.pristine_starter.read_bytes()
    turned = dict(reversed(sources.items()))
    assert similar_pairs(sources, starter) == similar_pairs(turned, starter)
    assert len(similar_pairs(sources, starter, most=5)) == 5


def test_copies_among_many_are_found_and_nobody_else():
    many, copies = (960, 40) if os.environ.get("SOAK") else (200, 20)
    sources = {f"s{n:04}": invented(n) for n in range(many)}
    for n in range(copies):
        source = reordered(renamed(sources[f"s{n:04}"], {*dir(builtins)}), n)
        sources[f"copy{n:04}"] = reformatted(source)
    found = {(pair.left, pair.right) for pair in similar_pairs(sources, b"")}
    assert found == {(f"copy{n:04}", f"s{n:04}") for n in range(copies)}


HOSTILE = {
    "quotes": b"'" * 1_000_000,
    "escaped quotes": b'\\"' * 500_000,
    "brackets": b"(" * 1_000_000,
    "open text": b'"""' + b"\\" * 999_997,
    "one name": b"a" * 1_000_000,
    "one number": b"1e+" * 300_000,
    "prefixes": b"rb" * 500_000,
    "lines": b"\n" * 1_000_000,
    "all bytes": bytes(range(256)) * 4_000,
    "utf-16": "class Größe: pass\n".encode("utf-16") * 20_000,
    "the same, over and over": b"x = f(x)\n" * 100_000,
    "a text that runs": b'exec("' + b"def " * 250_000 + b'")',
    "texts that run": b"exec('" + b"def f():" * 10 + b"')\n" * 20_000,
    "a coding line": b"# coding: utf7\n" + b"+" * 500_000,
    "an escape": b"# coding: unicode_escape\n" + b"\\N{" * 200_000,
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_source_crashes_or_hangs_it(name):
    hostile = HOSTILE[name]
    assert len(tokens(hostile)) <= MOST_SOURCE_BYTES
    sources = {f"h{n}": hostile + b"\n" + invented(n) for n in range(2)} | {"ada": invented(0)}
    assert len(similar_pairs(sources, b"")) <= 3


@given(st.binary(max_size=300) | st.text("'\"\\\n#({[]}),.e1rbf x", max_size=60).map(str.encode))
def test_tokens_of_anything_are_in_order(data):
    found = tokens(data)
    lines = [token.line for token in found]
    assert lines == sorted(lines)
    assert not found or 1 <= lines[-1] <= data.count(b"\n") + 1


@pytest.mark.parametrize(
    "source",
    [
        b"def f(x):\n    y = x + 1\n    return g(y, 'a')",
        b'def f(x):\n    """Text."""\n    y = x + 1\n    return g(y, "b")  # why\n',
        b"def f(\n    x,\n):\n    z = x \\\n + 0xFF_FF\n\n    return h(z, r'''c\n''',)\n",
    ],
)
def test_layout_names_and_values_do_not_count(source):
    shapes = [token.shape for token in tokens(source, frozenset({"f"}))]
    assert " ".join(shapes) == 'def f n : n = n + 0 return n n , ""'
