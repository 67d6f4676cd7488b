"""Our tool parsers on every text of vLLM's own tests of its parsers.

Where the two differ, `peer_suites/disagreements.toml` says why; nothing else may differ, and
nothing that is listed may agree.
"""

import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from peer_suites.cases import HERE, SOURCES, is_known, ours, run_vllm

SIZES = (None, 1, 2, 3, 4, 5, 7, 11)
# A peer that loses text or depends on cuts; a peer that takes what the family's template never
# writes; a choice of ours, which `mini_vllm/text/README.md` explains.
KINDS = ("quirk", "leniency", "choice")
README = Path(__file__).parents[2] / "mini_vllm" / "text" / "README.md"
LISTED = tomllib.loads((HERE / "disagreements.toml").read_text("utf-8"))["disagreement"]
pytestmark = pytest.mark.skipif(
    not (SOURCES / "tests" / "tool_parsers").is_dir(), reason="vLLM was not fetched: make oracles"
)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    found = run_vllm(tmp_path_factory.mktemp("vllm"))
    assert len(found) > 500
    return found


def test_no_text_of_vllms_tests_depends_on_how_it_is_cut(cases):
    for case in cases:
        if is_known(case.format):
            wanted = ours(case)
            assert all(ours(case, size) == wanted for size in SIZES), (case.test, case.text)


def test_where_we_differ_from_vllm_a_reason_is_listed(cases, capsys):
    known = [case for case in cases if is_known(case.format)]
    differ = {(case.format, case.test) for case in known if ours(case) != case.outcome}
    listed = {(one["format"], test) for one in LISTED for test in one["tests"]}
    with capsys.disabled():
        print_table(cases, differ)
    assert sorted(differ - listed) == [], "differ, and no reason is listed"
    assert sorted(listed - differ) == [], "are listed, and agree"


def print_table(cases, differ):
    kinds = {(one["format"], test): one["kind"] for one in LISTED for test in one["tests"]}
    rows = defaultdict(Counter)
    for case in cases:
        key = case.format, case.test
        how = "differ" if key in differ else "agree" if is_known(case.format) else "not read"
        rows[case.format][kinds.get(key, how) if how == "differ" else how] += 1
    columns = ("agree", *KINDS, "differ", "not read")
    print(f"\n{'format':18}{''.join(f'{column:>10}' for column in columns)}")
    for format, counts in sorted(rows.items()):
        numbers = (counts[column] or "" for column in columns)
        print(f"{format:18}{''.join(f'{number:>10}' for number in numbers)}")


@pytest.mark.parametrize("one", LISTED, ids=lambda one: f"{one['format']}-{one['kind']}")
def test_reasons_are_of_a_kind_and_choices_are_explained(one):
    assert one["kind"] in KINDS
    assert one["why"]
    assert one["kind"] != "choice" or one["line"] in README.read_text("utf-8")
