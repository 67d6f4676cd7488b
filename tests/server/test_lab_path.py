"""The labs' own text path behind the server: the references say what the engine says, and a
student's mistake ends one request and is told to the student."""

import json
import logging
import os
import re
import sys
import urllib.request

import pytest
import vocabularies
from processes import process
from running import (
    DEADLINE,
    WEATHER,
    Says,
    asking,
    labs_path,
    running,
    running_embedded,
    tool,
)
from wire_client import read_chat, read_events

from labkit.cli import main
from labkit.course.lab import ROOT
from labkit.serving.composed import find_composed
from labkit.serving.lab_path import PipelineRaised
from labkit.serving.vocabulary import facts_of
from mini_vllm.engine import Ending, FinishReason, Request, SamplingParams
from mini_vllm.text.events import TextDelta
from mini_vllm.tokenizer import HuggingFaceTokenizer
from mini_vllm.tokenizer.backends.huggingface_pieces import byte_fallback, byte_level

LAB = find_composed(ROOT, "solution").lab


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("LAB_IMPL", "LAB_PARTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A function from edits of the solution to the factory of what comes out."""
    monkeypatch.setenv("LAB_PARTS", "reference")

    def write(*edits):
        source = LAB.solution.read_text()
        for find, replace in edits:
            assert source.count(find) >= 1, find
            source = source.replace(find, replace, 1)
        path = tmp_path / "mine.py"
        path.write_text(source)
        return labs_path(path)

    return write


@pytest.fixture(scope="module")
def both():
    """The embedded model with the engine's text path, and with that of the references."""
    with (
        running_embedded() as engine,
        running_embedded(make_text_path=labs_path("solution")) as labs,
    ):
        yield engine, labs


@pytest.fixture(scope="module")
def any_server():
    """A server of the embedded model whose text path is what its `make` is at the time."""
    with running_embedded(make_text_path=lambda *told: server.make(*told)) as server:
        yield server


NAMED = {"type": "function", "function": {"name": "get_weather"}}
PROMPTS = [
    "Hello!",
    "What is the weather in Paris?",
    "Count to ten, please.",
    "Schreib mir etwas über 🚀 und 你好.",
    'Tell me a joke with "quotes" and <tags>.',
]


def saying(text, **fields):
    return {"messages": [{"role": "user", "content": text}], **fields}


def choices_of(server, body):
    """Return the choices of a stream without what is made anew each time."""
    choices, _ = read_chat(server.chat({**body, "stream": True}).body)
    for choice in choices.values():
        for call in choice["calls"]:
            call.pop("id")
    return choices


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 1.3},
        {"stop": ["e", "\n\n"], "temperature": 1.0},
        {"stop": ["the", " t"], "n": 2},
        {"tools": [WEATHER], "temperature": 0, "parallel_tool_calls": False},
        {"tools": [WEATHER, tool("f")], "stop": ["ask", "zzz"], "n": 2, "tool_choice": NAMED},
        {"tools": [WEATHER], "tool_choice": "none"},
        {"max_tokens": 7},
        {"ignore_eos": True, "max_tokens": 200},
        {"stop_token_ids": [ord("e"), 257], "stop": ["ther"]},
        {"stop": ["the", "\n\n"], "include_stop_str_in_output": True},
    ],
)
def test_the_references_say_what_the_engines_pipeline_says(both, prompt, fields):
    seeds = range(40 if os.environ.get("SOAK") else 2)
    for seed in seeds:
        body = saying(prompt, **{"max_tokens": 120, "seed": seed, **fields})
        engine, labs = (choices_of(server, body) for server in both)
        assert engine == labs
        for choice in both[1].chat(body).json()["choices"]:
            expected, message = engine[choice["index"]], choice["message"]
            calls = [call["function"] for call in message.get("tool_calls", [])]
            assert calls == expected["calls"]
            assert (message["content"] or "") == expected["content"]
            assert choice["finish_reason"] == expected["finish_reason"]


def test_some_of_those_are_calls_and_some_end_at_a_stop(both):
    """Otherwise the comparison above would show less than it says."""
    ask = saying(PROMPTS[1], temperature=0)
    assert choices_of(both[1], {**ask, "tools": [WEATHER]})[0]["finish_reason"] == "tool_calls"
    assert choices_of(both[1], {**ask, "stop": ["e"]})[0]["stop_reason"] == "e"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_tokens", 1),
        ("skip_special_tokens", False),
    ],
)
def test_what_the_labs_do_not_build_is_refused_by_its_name(both, name, value):
    body = saying("Hello!", **{name: value})
    answer = both[1].chat(body)
    assert answer.status == 400
    assert f"{name} is {value}; the labs have no such option" in answer.error["message"]
    assert both[0].chat({**body, "max_tokens": 5}).status == 200


def test_labs_that_include_only_stop_strings_refuse_to_include_stop_ids(both):
    body = saying("Hello!", include_stop_str_in_output=True, stop_token_ids=[ord("e")])
    answer = both[1].chat(body)
    assert answer.status == 400
    assert "stop_token_ids are [101]" in answer.error["message"]
    assert both[0].chat({**body, "max_tokens": 5}).status == 200


def test_without_tools_a_call_is_text_in_the_labs_too():
    said = '<tool_call>\n{"name": "f", "arguments": {"a": "🚀"}}\n</tool_call>'
    with running(Says(call=said), make_text_path=labs_path("solution")) as server:
        made = [{"name": "f", "arguments": '{"a": "🚀"}'}]
        for fields, expected in (
            ({}, (said, [], "stop")),
            ({"tools": [tool("f")]}, ("", made, "tool_calls")),
        ):
            choice = choices_of(server, asking("call", **fields))[0]
            assert (choice["content"], choice["calls"], choice["finish_reason"]) == expected


def test_a_call_that_a_stop_cuts_off_is_told_by_the_engine_and_text_in_the_labs(both):
    """The labs' parser tells calls whole or not at all; nothing is lost in either."""
    body = saying(PROMPTS[1], tools=[WEATHER], temperature=0, stop=["}"])
    engine, labs = (choices_of(server, body)[0] for server in both)
    (call,) = engine["calls"]
    assert labs["calls"] == []
    assert labs["content"].startswith(engine["content"])
    assert labs["content"].endswith(call["arguments"])
    assert engine["finish_reason"] == labs["finish_reason"] == "stop"


def refused(wanted, monkeypatch, capsys):
    """Return what `labkit serve` says, on stderr alone, of an implementation that cannot serve."""
    monkeypatch.setenv("LAB_IMPL", str(wanted))
    assert main(["serve", "--port", "0"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_an_unwritten_file_is_refused_in_one_line_that_says_what_to_do(monkeypatch, capsys, caplog):
    (line,) = refused(LAB.pristine_starter, monkeypatch, capsys).splitlines()
    assert "not ready to serve: lab-05 task 1" in line
    assert "is not written yet" in line
    assert f"make lab N={LAB.number}" in line
    assert caplog.text == "", "no traceback for what is only not done yet"


@pytest.mark.parametrize(
    ("wanted", "body", "said"),
    [
        ("nonsense", None, "nonsense"),
        ("bug:nonsense", None, "bug:nonsense"),
        ("/no/such/file.py", None, "/no/such/file.py"),
        ("mine.py", "def f(:\n", "line 1"),
        ("mine.py", "raise ValueError('at import')\n", "at import"),
        ("mine.py", "import sys\nsys.exit(3)\n", "import"),
        ("mine.py", "x = 1\n", "ServingPipeline"),
        ("mine.py", "class ServingPipeline:\n    pass\n", "ServingPipeline"),
    ],
)
def test_what_cannot_serve_is_refused_in_one_line_or_with_the_line_of_the_file(
    wanted, body, said, tmp_path, monkeypatch, capsys
):
    if body is not None:
        wanted = tmp_path / wanted
        wanted.write_text(body)
    found = refused(wanted, monkeypatch, capsys)
    assert said in found
    assert "Traceback" not in found
    assert said == "line 1" or len(found.splitlines()) == 1


def test_a_lab_serves_as_a_process_and_says_whose_work_it_runs():
    serve = ("labkit", "serve")
    with process(command=serve, LAB_IMPL="solution", LAB_TRACK="core") as (child, port):
        rows = re.findall(r"^  \w+ +the reference +lab-\d\d/solution.py$", child.head, re.M)
        assert len(rows) == 1 + len(LAB.parts)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/say", timeout=DEADLINE) as answer:
            assert child.head.startswith(json.load(answer)["note"] + "\n\n")
        child.terminate()
        assert child.wait(DEADLINE) == 0


FAULTS = {
    "raises": ("raise KeyError('mine')", "KeyError"),
    "exits": ("raise SystemExit(3)", "SystemExit"),
    "returns no list": ("return 7", "TypeError"),
    "returns strings": ("return ['text']", "TypeError"),
    "says no text": ("return [TextDelta(None)]", "TypeError"),
    "says half a character": ("return [TextDelta('\\ud800')]", "UnicodeEncodeError"),
    "calls with no str": ("return [ToolCall(0, 'f', {'a': 1})]", "TypeError"),
    "calls nobody": ("return [ToolCall(0, None, '{}')]", "TypeError"),
    "has a strange end": ("self._finish_reason = 7", "TypeError"),
    # Its parts are its own, so it harms itself alone.
    "matches strangely": ("self._stop_matcher = None", "AttributeError"),
}
TAKES = "if token_id == self._eos_token_id:"


def faulty(written, fault):
    """Return a pipeline that goes wrong at a space."""
    return written((TAKES, f"if token_id == 32: {fault}\n        {TAKES}"))


@pytest.mark.parametrize(("fault", "error"), FAULTS.values(), ids=FAULTS)
def test_a_pipeline_that_goes_wrong_ends_its_own_request_and_tells_its_author(
    any_server, written, fault, error, caplog
):
    make, good, server = faulty(written, fault), labs_path("solution"), any_server

    def make_text_path(request, prompt):
        return (make if b"the bad one" in bytes(prompt[1:]) else good)(request, prompt)

    server.make = make_text_path
    body = saying("Hello!", max_tokens=60, temperature=0, return_held=True)
    bad = {**body, **saying("Hello, the bad one!")}
    expected = choices_of(server, body)
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        events = read_events(server.chat({**bad, "stream": True}).body)
    assert events[-1]["error"]["type"] == "server_error"
    assert "mine" not in events[-1]["error"]["message"]
    assert "the pipeline raised" in caplog.text
    assert "Traceback" in caplog.text
    assert error in caplog.text
    assert "mine.py" in caplog.text or "lab_path.py" in caplog.text
    assert f"the pipeline raised {error}" in caplog.text
    assert server.chat(bad).status == 500
    assert choices_of(server, body) == expected
    serves_on(server)


def serves_on(server):
    assert server.engine.state.value == "running"
    assert server.fetch("/metrics").status == 200


class Layer:
    """A layer whose `held` is what the function returns, or raises."""

    def __init__(self, held):
        self._held = held

    @property
    def held(self):
        return self._held()


@pytest.mark.parametrize(
    "held",
    [lambda: None, lambda: 7, lambda: sys.exit(3), lambda: {}["mine"]],
    ids=["none", "a number", "an exit", "an exception"],
)
def test_a_layer_that_cannot_say_what_it_holds_still_serves(held, caplog):
    path = labs_path("solution").build(Request((1,), SamplingParams()))
    assert path.held == {"tokens": b"", "stops": "", "pipeline": ""}
    path._layers = {**path._layers, "tokens": Layer(held)}
    assert path.held == {}
    assert "reading `held` of a layer raised" in caplog.text
    assert path.feed(b"ab") == [TextDelta("a"), TextDelta("b")]


def test_a_finish_that_sets_no_reason_does_not_run_for_ever(any_server, written):
    make = written(
        ('return self._end("length")', "self._end('length'); self._finish_reason = None; return []")
    )
    any_server.make = make
    body = saying("Hello!", max_tokens=10, stream=True)
    assert "error" in read_events(any_server.chat(body).body)[-1]


def test_a_constructor_that_raises_is_500_not_the_fault_of_the_client(any_server, written, caplog):
    make = written(("self._detokenizer = detokenizer", "raise ValueError('mine')"))
    any_server.make = make
    for stream in (True, False):
        answer = any_server.chat(saying("Hello!", stream=stream))
        assert answer.status == 500
        assert "mine" not in answer.error["message"]
    assert "the pipeline raised" in caplog.text


def test_a_broken_pipeline_is_not_asked_again(written):
    path = faulty(written, "raise KeyError('mine')")(Request((1,), SamplingParams()), (1,))
    assert [event.text for event in path.feed(b"ab")] == ["a", "b"]
    with pytest.raises(PipelineRaised, match="mine"):
        path.feed(b" ")
    assert path.feed(b"more") == []
    assert path.finish(FinishReason.ERROR) == []
    assert path.held == {}


@pytest.mark.parametrize("end", [97, 257])
def test_a_pipeline_that_misses_the_end_among_the_ids_ends_there_all_the_same(written, end):
    """EOS is one that it should know, a stop id one that it cannot."""
    make = written((TAKES, "if False:"))
    make.eos_token_ids = frozenset([257])
    path = make(Request((1,), SamplingParams(stop_token_ids=frozenset([97]))), (1,))
    assert path.feed([98, end, 99]) == [TextDelta("b")]
    stop_id = None if end == 257 else end
    assert (path.ending, path.tokens) == (Ending(FinishReason.END_ID, stop_id), 2)


@pytest.mark.parametrize("end", [101, 102])
def test_an_end_of_another_tokenizer_has_no_text_though_the_labs_know_it_as_a_byte(end):
    make = labs_path("solution")
    make.eos_token_ids = frozenset([101, 102])
    path = make(Request((1,), SamplingParams()), (1,))
    assert path.feed([0xF0, end, 99]) == [TextDelta("\ufffd")]
    assert (path.ending, path.tokens) == (Ending(FinishReason.END_ID), 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tool-call-parser", "hermes"], "--tool-call-parser hermes is for mini_vllm's own"),
        (["--reasoning-parser", "qwen3"], "--reasoning-parser qwen3 is for mini_vllm's own"),
        (["--stop-scope", "content"], "--stop-scope content is for mini_vllm's own"),
        (
            ["--remote", "http://127.0.0.1:1", "--tokenizer", "mock"],
            "reads only ids that are bytes",
        ),
    ],
)
def test_options_of_the_engines_own_path_are_refused_where_the_labs_serve(
    options, said, monkeypatch, capsys
):
    monkeypatch.setenv("LAB_IMPL", "solution")
    monkeypatch.setenv("LAB_TRACK", "core")
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--port", "0", *options])
    assert said in capsys.readouterr().err


KINDS = {
    "byte_level": vocabularies.byte_level(),
    "byte_fallback": vocabularies.byte_fallback(strip=True),
    # Told byte for byte, in the first of the two ways.
    "neither": vocabularies.word_piece(cleanup=False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_labs_are_told_how_a_tokenizer_spells_its_tokens(kind):
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS[kind])
    facts = facts_of(tokenizer)
    rule = byte_fallback if kind == "byte_fallback" else byte_level
    assert facts["kind"] == rule.__name__
    assert facts["strip_first_space"] == (kind != "byte_level")
    pieces = tokenizer.pieces
    for token_id, token in enumerate(facts["vocabulary"]):
        read = str.encode if token_id in facts["special"] else rule
        assert (None if token is None else read(token)) == pieces.rest[token_id]
    if kind != "neither":
        ids = range(tokenizer.vocab_size)
        assert facts["vocabulary"] == [tokenizer.id_to_token(one) for one in ids]


@pytest.mark.parametrize("name", ["ctc", "bpe_suffix"])
def test_a_tokenizer_whose_text_is_not_its_tokens_bytes_is_refused(name):
    tokenizer = HuggingFaceTokenizer.from_tokenizer(getattr(vocabularies, name)())
    with pytest.raises(ValueError, match="rewrites across ids"):
        facts_of(tokenizer)


def test_a_stop_string_of_a_lab_wins_over_the_length():
    for reason, ending in (
        (FinishReason.LENGTH, Ending(FinishReason.STOP_WORDS, "\ufffd")),
        (FinishReason.CANCELLED, Ending(FinishReason.CANCELLED)),
    ):
        path = labs_path("solution")(Request((1,), SamplingParams(stop=("\ufffd",))), (1,))
        path.feed([97, 0xF0])
        assert path.ending is None
        path.finish(reason)
        assert path.ending == ending
