"""`make demo` without a terminal."""

import io
import runpy
import subprocess
import sys

import pytest
from rich.cells import cell_len
from rich.console import Console

from labkit.cli import main
from labkit.course.lab import ROOT, Lab
from labkit.serving.composed import find_composed
from labkit.serving.lab_path import LabPathFactory
from labkit.student.progress import Progress
from mini_vllm.engine import Request, SamplingParams
from mini_vllm.models.spelled import Speller
from mini_vllm.tokenizer import create_tokenizer

LAB = find_composed(ROOT, "solution").lab


@pytest.fixture
def demo(capsys, monkeypatch):
    """Run the show: `demo("--text", "a")` returns its exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setenv("LAB_TRACK", "core")

    def show(*args):
        with pytest.raises(SystemExit) as stopped:
            main(["demo", *args])
        return stopped.value.code, *capsys.readouterr()

    return show


def test_default_show_has_garbage_beside_right_text():
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "demo"], cwd=ROOT, env={"PATH": "", "PYTHONUTF8": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    out = done.stdout
    naive, ours = (line for line in out.splitlines() if line.startswith(("naive ", "ours ")))
    assert "\ufffd" in naive
    assert "\ufffd" not in ours
    assert 'post({"text": "São 🎉"})' in out
    # The text has the stop, the reader's does not, and the reason is another word.
    assert "\n\nstop: END\n\n" in out
    why = "stopped by 'END'; the reason is tool_calls, because a call was emitted"
    assert f"finish  tool_calls\n{why}\n" in out
    assert "\x1b" not in out


def test_file_in_another_script(demo, tmp_path):
    (tmp_path / "text").write_text("नमस्ते दुनिया। 終わり", encoding="utf-8")
    _, out, _ = demo("--file", str(tmp_path / "text"), "--stop", "終")
    assert "ours    'नमस्ते दुनिया। '" in out
    assert "finish  stop\nstopped by '終'\n" in out
    _, out, _ = demo("--text", "a")
    assert out.endswith("finish  stop\n")


def test_it_says_whose_code_runs_and_where_that_goes_wrong(demo, tmp_path):
    broken = tmp_path / "mine.py"
    broken.write_text("class ServingPipeline:\n    def __init__(self, *a, **b): self.held = {}\n")
    for implementation, whose, said in (
        ("bug:eos-no-flush", "the reference  lab-05/solution.py with bug 'eos-no-flush'", ""),
        ("solution", "stops      the reference  lab-04/solution.py", ""),
        (
            str(LAB.pristine_starter),
            "starter.py.orig",
            "lab-05 task 1: feed is not written yet. Go on",
        ),
        (str(broken), "pipeline   yours          lab-05/mine.py", "raised AttributeError"),
        ("nonsense", "", "LAB_IMPL='nonsense' is neither"),
    ):
        code, out, errors = demo("--impl", implementation, "--text", "a")
        assert whose in out.partition("\n\n")[0]
        assert said in errors
        assert code == (2 if said else 0)
        assert "Traceback" not in errors
        assert ("emitted" in out) == (not said)


def test_a_known_bug_of_any_layer_can_be_seen(demo):
    _, out, _ = demo("--impl", "bug:decode-alone", "--text", "🚀 <tool_call>")
    assert "pipeline   the reference  lab-05/solution.py\n" in out
    assert "tokens     the reference  lab-03/solution.py with bug 'decode-alone'" in out
    assert "ours    '\ufffd\ufffd\ufffd\ufffd <tool_call>'" in out
    assert out.count("with bug") == 1


@pytest.fixture
def ones_own(monkeypatch, tmp_path):
    """A function that says which labs pass, by their references, and what others' starters are."""
    for name in ("LAB_IMPL", "LAB_PARTS", "LAB_TRACK"):
        monkeypatch.delenv(name, raising=False)

    def student(passing="", **files):
        for number, text in files.items():
            (tmp_path / number).write_text(text)

        def starter(lab):
            if f"lab{lab.number}" in files:
                return tmp_path / f"lab{lab.number}"
            return lab.solution if lab.number in passing.split() else lab.pristine_starter

        monkeypatch.setattr(Progress, "passes", lambda _, lab: lab.number in passing.split())
        monkeypatch.setattr(Lab, "starter", property(starter))

    return student


@pytest.mark.parametrize("implementation", [(), ("--impl", "starter")], ids=["", "starter"])
@pytest.mark.parametrize(
    ("passing", "own", "following"),
    [
        ("", "", "To make tokens yours, pass lab 03: make lab N=03"),
        ("02 03", "tokens", "To make stops yours, pass lab 04: make lab N=04"),
        ("03 01 05", "tokens calls pipeline", "To make stops yours, pass lab 04: make lab N=04"),
        ("03 04 01 05", "tokens stops calls pipeline", ""),
        # An advanced lab brings its track along.
        ("03 09", "tokens reasoning calls", "To make stops yours, pass lab 04: make lab N=04"),
    ],
)
def test_each_layer_is_ones_own_once_its_lab_passes(
    demo, ones_own, implementation, passing, own, following
):
    ones_own(passing)
    _, out, _ = demo(*implementation, "--text", "a 🚀")
    head, *rows = out.partition("\n\n")[0].splitlines()
    owners = {row.split()[0]: row for row in rows if row.startswith("  ")}
    assert head == "Whose code each layer is:"
    assert [role for role, row in owners.items() if " yours " in row] == own.split()
    assert sum("the reference  until lab " in row for row in owners.values()) == (
        len(owners) - len(own.split())
    )
    assert following in rows[-1]
    assert all(len(row) <= 60 for row in rows)
    assert "ours    'a 🚀'" in out


def test_lab_parts_decides_whose_layers_are_composed(demo, ones_own, monkeypatch):
    ones_own("03 05")
    monkeypatch.setenv("LAB_PARTS", "reference")
    _, out, _ = demo("--text", "a")
    assert "tokens     the reference  lab-03/solution.py\n" in out
    assert "pipeline   yours          lab-05/solution.py\n" in out


BEGIN = "class StreamingDetokenizer:\n    held = b''\n    flush = str\n"
ALONE = f"{BEGIN}    feed = lambda _, token_id: bytes([token_id]).decode('utf-8', 'replace')\n"
RAISES = f"{BEGIN}    feed = lambda _, token_id: {{71: 'G'}}[token_id]\n"


def test_a_file_that_cannot_be_imported_is_named_and_another_layer_shown(demo, ones_own):
    ones_own("04", lab03="def f(:\n")
    code, out, errors = demo("--text", "a")
    assert (code, errors) == (0, "")
    assert "lab-03 cannot be imported: lab03 line 1 is not valid Python: invalid syntax\n" in out
    assert "tokens     the reference  until lab 03 passes" in out


def test_whose_layer_raises_in_the_middle_is_said(demo, ones_own):
    ones_own("03 04", lab03=RAISES)
    code, out, errors = demo("--text", "Go")
    assert "tokens     yours          lab-03/lab03" in out
    assert code == 2
    assert "lab-03 is not ready to be shown: it raised KeyError: 111" in errors
    assert "make lab N=03" in errors


@pytest.mark.parametrize(
    ("passing", "files", "said"),
    [
        (
            "",
            {},
            "feed is not written yet\nTo continue: make lab N=03\n\nlab-03, tokens: the reference",
        ),
        ("03", {}, "lab-03, tokens: yours\n"),
        ("", {"lab03": ALONE}, "lab-03, tokens: yours, which does not pass yet\n"),
        ("", {"lab03": "def f(:\n"}, "Yours cannot be shown: lab03 line 1 is not valid Python"),
        ("", {"lab03": RAISES}, "Yours cannot be shown: it raised KeyError: 114\n"),
        ("", {"lab03": "x = 1\n"}, "lab03 has no 'StreamingDetokenizer'\n"),
    ],
)
def test_one_layer_is_ones_own_as_far_as_it_runs(demo, ones_own, passing, files, said):
    ones_own(passing, **files)
    code, out, errors = demo("--lab", "03")
    assert (code, errors) == (0, "")
    assert said in out
    naive, shown = out.splitlines()[-2:]
    assert "'Gr\ufffd\ufffd\ufffd\ufffde " in naive
    assert ("'Grüße 🚀 你!'" in shown) == (ALONE not in files.values())


@pytest.mark.parametrize("width", [60, 80])
def test_one_layer_of_each_lab_that_has_one_beside_the_naive_way(
    demo, ones_own, width, monkeypatch, capsys
):
    ones_own()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    for number, row in (
        ("03", "240 �                                        f0"),
        ("04", "' EN' ' EN' ' ' 'EN'"),
        ("01", "'cal' 'cal' '<tool_cal'"),
        ("05", "'<tool_call'"),
        ("07", "1788 '�e' 'ße'"),
        ("08", "' E' ' ' 'E'"),
        ("09", "' 2<' ' 2<' thinks ' 2' '<'"),
    ):
        code, out, _ = demo("--lab", number)
        assert code == 0
        assert ("\nstop: END\n" in out) == (number in ("04", "05", "08"))
        assert ("tag: <tool_call>" in out) == (number in ("01", "09"))
        table = [
            line
            for line in out.splitlines()
            if not line.startswith(("naive", "the ", "To", "Yours"))
        ]
        assert max(map(cell_len, table)) < width
        assert " ".join(row.split()) in " ".join(out.replace("'�'", "�").split())
    code, _, errors = demo("--lab", "11")
    assert code == 2
    assert "lab-11 builds no layer of the text path; the labs that do are N=03, N=04" in errors


def test_one_layer_with_a_known_bug_or_another_text(demo):
    _, out, _ = demo("--lab", "03", "--impl", "bug:decode-alone", "--text", "é")
    assert "lab-03, tokens: the reference, solution.py with bug 'decode-alone'\n" in out
    assert out.endswith("naive          '\ufffd\ufffd'\nthe reference  '\ufffd\ufffd'\n")
    code, _, errors = demo("--lab", "03", "--impl", str(LAB.pristine_starter))
    assert (code, "starter.py.orig cannot be shown: starter.py.orig line 8" in errors) == (2, True)


@pytest.mark.parametrize("track", ["core", "advanced"])
@pytest.mark.parametrize("width", [60, 80])
def test_a_small_terminal_shows_every_frame_whole(track, width):
    demo = runpy.run_path(str(LAB.path.parents[1] / "demo.py"), run_name="demo")
    composed = find_composed(ROOT, "solution", track)
    tokenizer = create_tokenizer(composed.vocabulary or "byte")
    text = demo["REASONING"] + demo["TEXT"]
    request = Request((), SamplingParams(stop=("END",)), tools=())
    path = LabPathFactory(composed, tokenizer).build(request)
    console = Console(width=width, height=24, file=io.StringIO(), force_terminal=True)
    shown = demo["Shown"]()
    for frame in demo["Show"](path, [*Speller(tokenizer).ids(text)], tokenizer).frames():
        shown.add(frame)
        lines = console.render_lines(demo["picture"](console, shown, frame, None), pad=False)
        texts = ["".join(segment.text for segment in line) for line in lines]
        assert len(lines) < 24
        assert texts[-1].startswith("finish")
        # Of a long text the end is seen.
        letters = "".join("".join(texts).replace("│", "").split())
        assert "".join(shown.naive.split())[-6:] in letters
        assert [line.split()[0] for line in texts[-1 - len(frame.held) : -1]] == [*frame.held]


def test_the_advanced_show_is_on_a_real_vocabulary(demo):
    text = '<think>hm</think>ok 🚀 <tool_call>{"name": "f", "arguments": {}}</tool_call> END'
    _, out, _ = demo("--impl", "solution", "--track", "advanced", "--text", text)
    assert "tokens     the reference  lab-07/solution.py" in out
    head, *rows = out.split("\n\n")[2].splitlines()
    assert head.split("  ")[0] == "token"
    assert "bytes" in head
    assert "reasoning held" in head
    assert len(rows) < len(text.encode()) / 2
    assert "f0 9f 9a 80" in " ".join(" ".join(row.split()) for row in rows)
    assert "thinks  'hm'\nours    'ok 🚀  '\ncall    f({})\nfinish  tool_calls\n" in out
    _, bytewise, _ = demo(
        "--impl", "solution", "--track", "advanced", "--text", text, "--tokenizer", "byte"
    )
    assert bytewise.partition("\nthinks")[2] == out.partition("\nthinks")[2]


def test_without_a_word_a_lab_that_reads_any_vocabulary_changes_the_show(demo, ones_own):
    for passing, last in (("03", "lab-03/solution.py"), ("03 06", "lab-06/solution.py")):
        ones_own(passing)
        _, out, _ = demo("--text", "a")
        assert f"tokens     yours          {last}\n" in out
        assert ("  bytes  " in out) == (passing != "03")
        # A track that was asked for, and has no real vocabulary yet, says why.
        _, out, _ = demo("--text", "a", "--track", "advanced")
        assert ("because lab-03 reads no other ids" in out) == (passing == "03")
        assert ("pass\nlab 06 or 07." in out) == (passing == "03")


def test_mistakes_get_one_line(demo, tmp_path):
    for args, said in (
        (["--file", str(tmp_path / "missing")], "No such file"),
        (["--speed", "0"], "more than 0"),
        (["--stop", ""], "empty"),
        (["--track", "other"], "invalid choice: 'other'"),
        (["--tokenizer", "no.json"], "no.json"),
        (["--tokenizer", "mock"], "reads only ids that are bytes"),
        (["--tokenizer", "mock", "--track", "advanced"], "rewrites across ids"),
    ):
        code, _, errors = demo(*args)
        assert code == 2
        assert said in errors
        assert "Traceback" not in errors
        assert "not ready" not in errors, "it is not the lab that is wrong"
