"""Every benchmark runs, in its quick form, and leaves the results that the page is made of.

Only what is counted is judged, for that is equal on every machine; a figure need only be a number.
"""

import ast
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import benchmarks.__main__ as main
from benchmarks import aims, capacity, harness, report
from benchmarks.__main__ import GROUPS

ROOT = Path(__file__).resolve().parent.parent
KEYS = {"name", "about", "quick", "machine", "tables", "targets", "counts"}
TABLES = {
    "detokenize": 6, "growth": 5, "encode": 5, "decode": 5, "shape": 3,
    "stops": 5, "tool_parsers": 2, "formats": 1, "pipeline": 2, "engine": 8, "server": 2,
    "front": 1, "grading": 4 if shutil.which("otter") else 3,
}  # fmt: skip


def run(*args, code=0):
    done = subprocess.run([sys.executable, "-m", *args], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module", params=TABLES)
def result(request):
    # One by the command that runs any of them, the others as that would run them.
    is_one = request.param == "shape"
    run(*["benchmarks", "shape"] if is_one else [f"benchmarks.{request.param}"], "--quick")
    path = ROOT / "benchmarks" / "out" / f"{request.param}-quick.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_there_is_a_row_for_every_group():
    assert [*TABLES] == [*GROUPS]


def test_a_number_of_a_benchmark_is_in_one_module():
    owners = {}
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for number in re.findall(r"\bB\d\d\b", about):
            owners.setdefault(number, []).append(path.name)
    assert len(owners) > 10
    assert {number: names for number, names in owners.items() if len(names) > 1} == {}


def test_quick_run_leaves_whole_results(result):
    assert set(result) == KEYS
    assert result["quick"] is True
    assert {"processor", "cores", "Python", "tokenizers"} <= set(result["machine"])
    assert len(result["tables"]) == TABLES[result["name"]]
    for table in result["tables"]:
        assert table["rows"]
        assert all(len(row) == len(table["header"]) for row in table["rows"])
        numbers = [cell for row in table["rows"] for cell in row if isinstance(cell, float)]
        assert all(map(math.isfinite, numbers))
    for target in result["targets"]:
        assert set(target) == {"what", "peer", "case", "value", "limit", "met"}
    assert all({"p50", "p90", "p95", "p99"} <= {*table["header"]} for table in result["tables"]
               if "p50" in table["header"])  # fmt: skip
    _COUNTS.get(result["name"], lambda counts: None)(result["counts"])


def growth(counts):
    """Endless first bytes: each ends the one before it, and one waits."""
    ids = counts["bytes that end no character"]["ids"]
    assert counts["bytes that end no character"]["characters"] == ids - 1
    assert counts["bytes that end no character"]["most bytes held"] == 1
    assert counts["skipped special tokens"]["characters"] == 0
    assert counts["skipped special tokens"]["most bytes held"] == 0
    assert 0 < counts["text"]["most bytes held"] <= 3


def decode(counts):
    """Every way gives the text that `decode` gives."""
    for ways in counts["B04"].values():
        assert all(ways.values())
        assert {"A", "B", "Sequence"} < set(ways)


def shape(counts):
    """A stream keeps nothing that grows; an encoding lends its ids without a copy."""
    for kept in counts["B11"].values():
        assert kept["stream A"] < 1000 < kept["Sequence"]
        assert kept["ids are shared"]


def server(counts):
    """An event for each token, one for the end and `[DONE]`; a chat has one for the role too."""
    for shape, found in counts.items():
        tokens = int(shape.split(" x ")[1])
        assert found.pop("ours, chat") == tokens + 3
        assert set(found.values()) == {tokens + 2}


_COUNTS = {"growth": growth, "decode": decode, "shape": shape, "server": server}


FASTER = aims.at_least("alone, peer / ours", "HF", 4)
SMALL = aims.at_most("bytes", "", 1_000)


def write_result(folder, name, *targets):
    table = {"title": "interleaved", "header": ["text", "ours", "HF x"],
             "rows": [["ascii", 100.0, 9.5]]}  # fmt: skip
    content = {"name": name, "about": "What it is.", "quick": False, "counts": {},
               "machine": {"cores": "2"}, "tables": [table], "targets": targets}  # fmt: skip
    (folder / f"{name}.json").write_text(json.dumps(content))


def test_a_run_ends_with_the_worst_case_of_each_aim_of_its_groups(tmp_path, monkeypatch, capsys):
    targets = [FASTER.judge(value, kind) for kind, value in (("a", 4.0), ("b", 3.5), ("c", 9.0))]
    for name in GROUPS:
        write_result(tmp_path, name, FASTER.judge(1.25))

    def run_group(command, **_):
        name = command[-1].removeprefix("benchmarks.")
        if name == "stops":
            write_result(tmp_path, name, *targets, SMALL.judge(1001), FASTER.judge(4.0))
        return subprocess.CompletedProcess(command, name == "shape")

    monkeypatch.setattr(harness, "OUT", tmp_path)
    monkeypatch.setattr(main, "subprocess", SimpleNamespace(run=run_group))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "shape", "stops"])
    assert main.main() == 1
    *_, header, faster, small = re.findall(r"(?m)^[│┃](.*)[│┃]$", capsys.readouterr().out)
    cells = [[cell.strip() for cell in re.split("[│┃]", row)] for row in (header, faster, small)]
    assert cells == [
        ["group", "what", "peer", "ratio", "aim", "met"],
        ["stops", "alone, peer / ours", "HF", "3.5", ">= 4", "3 of 4"],
        ["stops", "bytes", "", "1,001", "<= 1,000", "no"],
    ]


def test_the_page_is_made_of_results(tmp_path):
    for name in TABLES:
        write_result(tmp_path, name, FASTER.judge(3.0))
    page = tmp_path / "page.md"
    run("benchmarks.report", "--date", "2026-01-31", "--from", str(tmp_path), "--to", str(page))
    assert page.read_text().count("*Measured on 2026-01-31: cores 2.*") == len(TABLES)
    assert "| ascii | 100 | 9.5 |" in page.read_text()
    assert "- missed: alone, peer / ours, HF: 3.00, aim >= 4" in page.read_text()
    row = "| {} | alone, peer / ours | HF | {} | >= 4 | {} |\n"
    assert "".join(row.format(name, 3, "no") for name in GROUPS) in page.read_text()
    assert "<rect" in (tmp_path / "detokenize.svg").read_text()
    # Groups that were not run again keep their sections, in the same order.
    before = page.read_text()
    for name in TABLES:
        if name != "grading":
            (tmp_path / f"{name}.json").unlink()
    write_result(tmp_path, "grading", FASTER.judge(4.0))
    run("benchmarks.report", "--date", "2026-02-01", "--from", str(tmp_path), "--to", str(page))
    head, tail = before.split("## grading\n")
    head = head.replace(row.format("grading", 3, "no"), row.format("grading", 4, "yes"))
    tail = tail.replace("2026-01-31", "2026-02-01").replace("0 of 1", "1 of 1")
    tail = tail.replace("\n\n- missed: alone, peer / ours, HF: 3.00, aim >= 4", "")
    assert page.read_text() == f"{head}## grading\n{tail}"


def test_the_page_on_fronts_has_the_figures_of_the_results():
    text = capacity.PAGE.read_text("utf-8")
    assert text == capacity.page(text, report.PAGE.read_text("utf-8"))


def test_the_figures_of_the_page_on_fronts_are_those_of_their_rows():
    """One cost at a time is ten times as high: what it limits holds a tenth, and nothing else."""
    tables = {
        "Streams x tokens: events a second": "| 256 x 100 | ours, chat | {chat:,} |\n"
        "| 256 x 100 | ours, completions | {plain} |",
        "16k, trained here: 256 replies of 546 ids": "| ours | {path:,} |",
        "From the request to the first byte of the body (ms)": "| 256 | ours, chat | 278 | 552 |",
        "Memory of a server (bytes)": "| a stream | {memory:,} |",
    }
    results = "".join(f"**{title}**\n\n{row}\n\n" for title, row in tables.items())
    costs = {"chat": 30_000, "plain": 50_000, "path": 1_000, "memory": 40_000}

    def limits(**changes):
        said = capacity.part(results.format(**{**costs, **changes}))
        return [
            int(n.replace(",", "")) for n in re.findall(r"(?m)^\| [a-z1].*\| ([\d,]+) \|$", said)
        ]

    assert limits() == [600, 1_000, 20_000, 26_844]
    assert limits(chat=3_000) == [60, 1_000, 20_000, 26_844]
    assert limits(plain=5_000) == [600, 100, 20_000, 26_844]
    assert limits(path=10_000) == [600, 1_000, 2_000, 26_844]
    assert limits(memory=400_000) == [600, 1_000, 20_000, 2_684]
    said = capacity.part(results.format(**costs))
    assert "30,000 x 0.5 / 50 = 300 streams" in said
    assert "| 16 | 4,096 | 204,800 | 14 | 164 MB |" in said
    with pytest.raises(ValueError, match=r"no table 'Memory.* with a row a stream"):
        capacity.part(results.format(**costs).replace("| a stream", "| a reader"))


def test_a_wrong_contender_is_not_timed():
    from benchmarks.peers import contenders

    class Wrong:
        def stream(self, ids, emit):
            emit("other text")

    with pytest.raises(AssertionError, match="streams"):
        contenders.check(Wrong(), [1], "text")


EVENT = b'data: {"choices": [{"text": "%s"}]}\n\n'


@pytest.mark.parametrize(
    "body",
    [
        EVENT % b"a" + b"data: [DONE]\n\n",
        EVENT % b"b" + EVENT % b"a" + b"data: [DONE]\n\n",
        EVENT % b"a" + EVENT % b"b" + b'data: {"error": {}}\n\n',
        EVENT % b"a" + b'data: {"error": {}}\n\n' + b"data: [DONE]\n\n",
        EVENT % b"a" + EVENT % b"b" + b"data: [DONE]\n\ndata: [DONE]\n\n",
    ],
)
def test_a_stream_that_says_something_else_is_not_timed(body):
    from benchmarks import server

    assert server.check(EVENT % b"a" + EVENT % b"b" + b"data: [DONE]\n\n", "ab") == 3
    with pytest.raises(AssertionError, match="the stream"):
        server.check(body, "ab")


def test_the_client_times_the_piece_that_completes_what_it_looks_for():
    from benchmarks.servers.client import Answer

    answer = Answer(1.0)
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    for piece in (head, b"3\r\n", b"a", b"bc\r", b"\n2\r\nde\r\n0\r\n", b"\r\n"):
        answer.pieces.append(piece)
        answer.times.append(1.0 + len(answer.times))
    assert answer.body() == b"abcde"
    assert answer.first_byte == 2.0
    assert answer.first(b"abc") == 3.0
    with pytest.raises(ValueError, match="not found"):
        answer.first(b"abcde")
    answer.pieces[0] = b"HTTP/1.1 429 \r\ntransfer-encoding: chunked\r\n\r\n"
    with pytest.raises(ValueError, match="429"):
        answer.body()


@pytest.mark.parametrize("name", ["benchmarks", "benchmarks.report", "benchmarks.peers.fetch_vllm"])
def test_help_says_what_it_does(name):
    assert "usage" in run(name, "--help")


def test_an_unknown_group_is_named():
    said = f"no such group: decod; there are lab_start, {', '.join(GROUPS)}, site\n"
    assert run("benchmarks", "decod", code=2) == said


def names_in(path):
    """Return the names that a module may bind, or None if it makes up names when asked."""
    tree, names = ast.parse(path.read_text(encoding="utf-8")), set()
    if any(getattr(node, "name", None) == "__getattr__" for node in tree.body):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


@pytest.mark.parametrize(
    "path",
    [*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tests/oracles").rglob("*.py")],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_what_is_imported_of_the_repository_is_there(path):
    """Without the peers most of these modules cannot be imported, so a lost name would not show."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.level:
            continue
        place = ROOT.joinpath(*node.module.split("."))
        module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if not module.exists():
            # A namespace package, or a module that is not of the repository.
            assert node.module.partition(".")[0] not in ("labkit", "mini_vllm"), node.module
            continue
        names = names_in(module)
        for alias in node.names:
            submodule = place / alias.name
            is_there = names is None or alias.name in names
            is_module = submodule.is_dir() or submodule.with_suffix(".py").exists()
            assert is_there or is_module, f"{node.module} has no {alias.name}"
