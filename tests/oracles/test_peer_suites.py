"""Our tool parsers on every text of vLLM's and llama.cpp's own tests of theirs.

Where they differ, `peer_suites/disagreements.toml` says why; nothing else may differ, and nothing
that is listed may agree.
"""

import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from peer_suites import cases as vllm
from peer_suites import llama_cpp

SIZES = (None, 1, 2, 3, 4, 5, 7, 11)
KINDS = ("choice", "leniency", "quirk")
FILE = Path(vllm.__file__).with_name("disagreements.toml")
LISTED = tomllib.loads(FILE.read_text("utf-8"))["disagreement"]
REASONS = {test: one for one in LISTED for test in one["tests"]}
pytestmark = pytest.mark.skipif(
    not (vllm.SOURCES / "tests" / "tool_parsers").is_dir() or not llama_cpp.LLAMA_CPP.is_dir(),
    reason="the peers' tests were not fetched: make oracles",
)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """All cases, each with the function that runs our parser on it."""
    of_vllm = vllm.run_vllm(tmp_path_factory.mktemp("vllm"))
    of_llama_cpp = llama_cpp.read_cases()
    assert len(of_vllm) > 550
    assert len(of_llama_cpp) > 250
    return [(case, vllm.ours) for case in of_vllm] + [(c, llama_cpp.ours) for c in of_llama_cpp]


def name_of(case):
    return f"{case.format} {case.test}"


def test_no_text_of_a_peers_tests_depends_on_how_it_is_cut(cases):
    for case, ours in cases:
        if case.is_read:
            wanted = ours(case)
            assert all(ours(case, size) == wanted for size in SIZES), (case.test, case.text)


def test_where_we_differ_from_a_peer_a_reason_is_listed(cases, capsys):
    differ = {name_of(case) for case, ours in cases if case.is_read and ours(case) != case.outcome}
    with capsys.disabled():
        print_table([case for case, _ in cases], differ)
    assert sorted(differ - set(REASONS)) == [], "differ, and no reason is listed"
    assert sorted(set(REASONS) - differ) == [], "are listed, and agree"


def print_table(cases, differ):
    rows = defaultdict(Counter)
    for case in cases:
        reason = REASONS.get(name_of(case), {"kind": "?"})["kind"]
        how = reason if name_of(case) in differ else "agree" if case.is_read else "not read"
        rows[case.format][how] += 1
        rows["all"][how] += 1
    columns = ("agree", *KINDS, "?", "not read")
    print(f"\n{'format':42}{''.join(f'{column:>10}' for column in columns)}")
    for format, counts in rows.items():
        numbers = (counts[column] or "" for column in columns)
        print(f"{format:42}{''.join(f'{number:>10}' for number in numbers)}")


@pytest.mark.parametrize("one", LISTED, ids=lambda one: one["why"])
def test_reasons_are_of_a_kind(one):
    assert one["kind"] in KINDS
