"""The file that `make plugin` writes, loaded and called as vLLM and SGLang do.

The engines' classes are stand-ins: see `stand_ins.py`.
"""

import contextlib
import io
import logging

import pytest
from stand_ins import TOOLS, Characters, Sglang, Vllm, load, put_engines
from wrong_starters import MADE, REFUSED, edited

from labkit.course.lab import ROOT, find_labs, pick_lab
from labkit.errors import LoadFailure
from labkit.serving.plugin_file import make_plugin

LABS = find_labs(ROOT)
CALL = '<tool_call>\n{"name": "f", "arguments": {"t": "</tool_call> 🚀<", "n": 1}}\n</tool_call>'
TWO = f'So <b>🚀 {CALL} and <tool_call>{{"name":"g","arguments":{{ }}}}</tool_call> end.'
ARGS = '{"t": "</tool_call> 🚀<", "n": 1}'
# Lab, text, prompt, and what a client gets: reasoning, text, calls.
SPOKEN = ("", "So <b>🚀  and  end.", [("f", ARGS), ("g", "{ }")])
TEXTS = {
    "text": ("01", "Hello 🚀", "", ("", "Hello 🚀", [])),
    "two calls": ("01", TWO, "", SPOKEN),
    "not a call": ("01", "<tool_call>[1]</tool_call>", "", ("", "<tool_call>[1]</tool_call>", [])),
    "half a tag": ("01", "So <tool_c", "", ("", "So <tool_c", [])),
    "two calls in parts": ("09", TWO, "", SPOKEN),
    "half a tag in 09": ("09", "So <tool_c", "", ("", "So <tool_c", [])),
    "malformed": (
        "09", 'So <tool_call>{"name": "f", "arguments": {"n": 1 oops}}</tool_call> end', "",
        ("", "So oops}}</tool_call> end", [("f", '{"n": 1 ')]),
    ),
    "cut off in a call": (
        "09", 'So <tool_call>{"name": "f", "arguments": {"n"', "", ("", "So ", [("f", '{"n"')])
    ),
    "reasoning": ("09", f" <think>Hm <b</think>\n{CALL}", "", ("Hm <b", "\n", [("f", ARGS)])),
    "a call in the reasoning": ("09", f"<think>{CALL}", "", (CALL, "", [])),
    "an open prompt": ("09", f"Hm</think>{CALL}", "U: <think>\n", ("Hm", "", [("f", ARGS)])),
    "a closed prompt": (
        "09", f"<think>{CALL}", "<think>\n\n</think>\n\n", ("", "<think>", [("f", ARGS)])
    ),
    "half a close tag": ("09", "<think>Hm</thi", "", ("Hm</thi", "", [])),
}  # fmt: skip
every_text = pytest.mark.parametrize("name", TEXTS)


@pytest.fixture
def engines(monkeypatch):
    return put_engines(monkeypatch)


@pytest.fixture
def plug(engines, tmp_path, monkeypatch):
    """Make a file of code, load it, and register it in both engines."""

    def make(number, source=None):
        lab = pick_lab(LABS, number)
        source = lab.solution.read_bytes() if source is None else source.encode()
        file = tmp_path / "my_parser.py"
        file.write_text(make_plugin(lab, source, "starter.py", file.stem, ROOT), "utf-8")
        load(file, monkeypatch).register_in_sglang()
        return file.read_text("utf-8")

    return make


def cuts(text):
    yield text
    yield from ([text[:cut], text[cut:]] for cut in range(len(text) + 1))


@every_text
def test_vllm_gets_what_the_text_says_whole_and_under_every_cut(plug, engines, name):
    number, text, prompt, expected = TEXTS[name]
    plug(number)
    assert Vllm(engines, "my_parser", prompt=prompt).whole(text) == expected
    for pieces in cuts(text):
        assert Vllm(engines, "my_parser", prompt=prompt).streamed(pieces) == expected


# After "a closed prompt", SGLang itself passes the answer on without a reasoning parser.
@pytest.mark.parametrize("name", [name for name in TEXTS if name != "a closed prompt"])
def test_sglang_gets_what_the_text_says_whole_and_under_every_cut(plug, engines, name):
    number, text, prompt, expected = TEXTS[name]
    plug(number)
    assert Sglang(engines, "my_parser", prompt=prompt).whole(text) == expected
    for pieces in cuts(text):
        assert Sglang(engines, "my_parser", prompt=prompt).streamed(pieces) == expected


@pytest.mark.parametrize("number", ["01", "09"])
@pytest.mark.parametrize(("tools", "choice"), [([], "auto"), (None, "none"), (TOOLS, "none")])
def test_vllm_drops_calls_of_these_requests_so_they_are_text(plug, engines, number, tools, choice):
    plug(number)
    options = {"tools": tools, "tool_choice": choice}
    assert Vllm(engines, "my_parser", **options).whole(TWO) == ("", TWO, [])
    for pieces in cuts(TWO):
        assert Vllm(engines, "my_parser", **options).streamed(pieces) == ("", TWO, [])


def test_vllm_keeps_no_text_forces_no_call_and_shows_special_tokens(plug, engines):
    plug("09")
    one = Vllm(engines, "my_parser")
    assert one.tools.engine_based_streaming
    assert one.reasoning.engine_based_streaming
    assert not one.tools.supports_required_and_named
    assert not one.tools.adjust_request(one.request).skip_special_tokens
    one.request.tool_choice, one.request.skip_special_tokens = "none", True
    assert one.tools.adjust_request(one.request).skip_special_tokens
    assert not one.reasoning.adjust_request(one.request).skip_special_tokens


def test_vllm_learns_from_ids_whether_the_reasoning_has_ended(plug, engines):
    plug("09")
    parser = engines.vllm_reasoning["my_parser"](Characters())
    for prompt, ended in (("<think>\n", False), ("<think>\n\n</think>\n\n", True), ("Hi", False)):
        assert parser.is_reasoning_end([*map(ord, prompt)]) is ended
    ids = [*map(ord, "Hm</think> So")]
    assert parser.is_reasoning_end_streaming(ids[:10], ids[8:10])
    assert not parser.is_reasoning_end_streaming(ids[:9], ids[8:9])
    assert not parser.is_reasoning_end_streaming(ids, ids[11:])


def test_answers_at_once_do_not_mix(plug, engines):
    plug("01")
    first, second = Vllm(engines, "my_parser"), Vllm(engines, "my_parser")
    assert first.streamed(["So <tool_"]) == ("", "So <tool_", [])
    assert second.streamed(TWO)[2] == [("f", ARGS), ("g", "{ }")]


@pytest.mark.parametrize("name", REFUSED)
def test_code_that_cannot_be_in_one_file_is_refused_in_words(plug, name):
    edit, said = REFUSED[name]
    with pytest.raises(LoadFailure, match=r"starter\.py line") as refusal:
        plug("01", edited(pick_lab(LABS, "01").solution.read_text("utf-8"), edit))
    assert said in str(refusal.value)


@pytest.mark.parametrize("engine", [Vllm, Sglang])
@pytest.mark.parametrize("name", MADE)
def test_wherever_the_code_goes_wrong_the_text_is_given_back(plug, engines, engine, name, caplog):
    edit, text = MADE[name]
    with contextlib.redirect_stdout(io.StringIO()):
        plug("01", edited(pick_lab(LABS, "01").solution.read_text("utf-8"), edit))
        for size in (len(text), 8, 5) if text else ():
            caplog.clear()
            pieces = [text[at : at + size] for at in range(0, len(text), size)]
            _, content, calls = engine(engines, "my_parser").streamed(pieces)
            said = [record.message for record in caplog.records if record.levelno == logging.ERROR]
            assert len(said) == 1 or size < len(text)
            assert all("The parser raised" in line and "\n" not in line for line in said)
            # A call that was emitted is not text as well.
            call = text[text.find("<tool_call>") : text.find("</tool_call>") + 12] if calls else ""
            assert content == text.replace(call, "", 1)
        good = engine(engines, "my_parser").streamed(TWO)
    assert name == "a second call 0" or good == (
        "",
        "So <b>🚀  and  end.",
        [("f", ARGS), ("g", "{ }")],
    )


def test_the_file_is_as_it_is_told(plug):
    source = pick_lab(LABS, "09").solution.read_text("utf-8")
    text = plug("09")
    assert "import mini_vllm" not in text.replace("# from mini_vllm", "")
    assert source.split("\n# Yields events", 1)[1].strip() in text
    assert "--tool-parser-plugin my_parser.py --tool-call-parser my_parser \\\n" in text
    assert "reasoning" not in plug("01").split('"""')[1].split("Promised")[0]
