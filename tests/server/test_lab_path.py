"""The labs' own text path behind the server: the references say what the engine says, and a
student's mistake ends one request and is told to the student."""

import logging
import os
from pathlib import Path

import pytest
from processes import process
from running import DEADLINE, Says, asking, chat, running, running_embedded, tool
from wire_client import read_chat, read_events

from labkit.cli import main
from labkit.course.lab import find_labs
from labkit.running.lab_impl import choose
from labkit.running.under_test import CodeUnderTest
from labkit.serving.lab_path import LabPathFactory, PipelineRaised
from labkit.student.progress import Progress
from mini_vllm.engine import Ending, FinishReason, Request, SamplingParams

ROOT = Path(__file__).resolve().parents[2]
LAB = next(lab for lab in find_labs(ROOT) if lab.serves)
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("LAB_IMPL", "LAB_PARTS"):
        monkeypatch.delenv(name, raising=False)


def factory(wanted):
    implementation = choose(str(wanted), [LAB], Path.cwd())[LAB.path]
    return LabPathFactory(LAB, CodeUnderTest(LAB, implementation, ROOT, Progress(ROOT).passes))


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
        return factory(path)

    return write


@pytest.fixture(scope="module")
def both():
    """The embedded model with the engine's text path, and with that of the references."""
    with running_embedded() as engine, running_embedded(make_text_path=factory("solution")) as labs:
        yield engine, labs
        engine.idle()
        labs.idle()


PROMPTS = [
    "Hello!",
    "What is the weather in Paris?",
    "Count to ten, please.",
    "Schreib mir etwas über 🚀 und 你好.",
    'Tell me a joke with "quotes" and <tags>.',
]


def told(server, body):
    """Return the choices of a stream without what is made anew each time."""
    choices, _ = read_chat(chat(server, {**body, "stream": True}).body)
    found = {}
    for index, choice in choices.items():
        for call in choice["calls"]:
            call.pop("id")
        found[index] = choice
    return found


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 1.3},
        {"stop": ["e", "\n\n"], "temperature": 1.0},
        {"stop": ["the", " t"], "n": 2},
        {"tools": [WEATHER], "temperature": 0},
        {"tools": [WEATHER, tool("f")], "stop": ["ask", "zzz"], "n": 2},
        {"tools": [WEATHER], "tool_choice": "none"},
        {"max_tokens": 7},
    ],
)
def test_the_references_say_what_the_engines_pipeline_says(both, prompt, fields):
    seeds = range(40 if os.environ.get("SOAK") else 2)
    for seed in seeds:
        body = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 120,
            "seed": seed,
            **fields,
        }
        engine, labs = (told(server, body) for server in both)
        assert engine == labs
        for choice in chat(both[1], body).json()["choices"]:
            calls = [call["function"] for call in choice["message"].get("tool_calls", [])]
            assert calls == engine[choice["index"]]["calls"]
            assert (choice["message"]["content"] or "") == engine[choice["index"]]["content"]
            assert choice["finish_reason"] == engine[choice["index"]]["finish_reason"]


def test_some_of_those_are_calls_and_some_end_at_a_stop(both):
    """Otherwise the comparison above would show less than it says."""
    ask = {"messages": [{"role": "user", "content": PROMPTS[1]}], "temperature": 0}
    assert told(both[1], {**ask, "tools": [WEATHER]})[0]["finish_reason"] == "tool_calls"
    assert told(both[1], {**ask, "stop": ["e"]})[0]["stop_reason"] == "e"


@pytest.mark.parametrize("name", ["include_stop_str_in_output", "ignore_eos"])
def test_what_the_labs_do_not_build_is_refused_by_its_name(both, name):
    body = {"messages": [{"role": "user", "content": "Hello!"}], name: True}
    answer = chat(both[1], body)
    assert answer.status == 400
    assert name in answer.error["message"]
    assert chat(both[0], {**body, "max_tokens": 5}).status == 200


def test_a_starter_is_refused_in_one_line_that_says_what_to_do(monkeypatch, capsys, caplog):
    monkeypatch.setenv("LAB_IMPL", "starter")
    assert main(["serve", "--port", "0"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert "not ready to serve: lab-05 task 1" in line
    assert "still to do" in line
    assert caplog.text == "", "no traceback for what is only not done yet"
    assert f"make lab N={LAB.number}" in line


def test_without_tools_a_call_is_text_in_the_labs_too():
    said = '<tool_call>\n{"name": "f", "arguments": {"a": "🚀"}}\n</tool_call>'
    with running(Says(call=said), make_text_path=factory("solution")) as server:
        choice = told(server, asking("call"))[0]
        assert (choice["content"], choice["calls"]) == (said, [])
        assert choice["finish_reason"] == "stop"
        choice = told(server, asking("call", tools=[tool("f")]))[0]
        assert choice["calls"] == [{"name": "f", "arguments": '{"a": "🚀"}'}]
        assert choice["content"] == ""
        assert choice["finish_reason"] == "tool_calls"


def test_a_call_that_a_stop_cuts_off_is_told_by_the_engine_and_text_in_the_labs(both):
    """The labs' parser tells calls whole or not at all; nothing is lost in either."""
    body = {
        "messages": [{"role": "user", "content": PROMPTS[1]}],
        "tools": [WEATHER],
        "temperature": 0,
        "stop": ["}"],
    }
    engine, labs = (told(server, body)[0] for server in both)
    (call,) = engine["calls"]
    assert labs["calls"] == []
    assert labs["content"].startswith(engine["content"])
    assert labs["content"].endswith(call["arguments"])
    assert engine["finish_reason"] == labs["finish_reason"] == "stop"


@pytest.mark.parametrize("wanted", ["nonsense", "bug:nonsense", "/no/such/file.py"])
def test_a_wrong_word_is_refused_in_one_line(wanted, monkeypatch, capsys):
    monkeypatch.setenv("LAB_IMPL", wanted)
    assert main(["serve", "--port", "0"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert wanted in line


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def f(:\n", "line 1"),
        ("raise ValueError('at import')\n", "at import"),
        ("import sys\nsys.exit(3)\n", "import"),
        ("x = 1\n", "ServingPipeline"),
        ("class ServingPipeline:\n    pass\n", "ServingPipeline"),
    ],
)
def test_a_file_that_cannot_serve_is_refused_in_one_line(body, said, tmp_path, monkeypatch, capsys):
    path = tmp_path / "mine.py"
    path.write_text(body)
    monkeypatch.setenv("LAB_IMPL", str(path))
    assert main(["serve", "--port", "0"]) == 2
    found = capsys.readouterr().err
    assert said in found
    assert "Traceback" not in found


def test_a_lab_serves_as_a_process_and_says_whose_work_it_runs():
    with process(command=("labkit", "serve"), LAB_IMPL="solution") as (child, _):
        assert LAB.name in child.head
        assert child.head.count("the reference") == len(LAB.parts)
        child.terminate()
        assert child.wait(DEADLINE) == 0


FEED = "    def feed(self, token_id: int) -> list[TextDelta | ToolCall]:\n"
DOC = '''        """Take one token; return the events that are now certain.'''
FAULTS = {
    "raises": "        if token_id == 32: raise KeyError('mine')\n",
    "exits": "        if token_id == 32: raise SystemExit(3)\n",
    "returns no list": "        if token_id == 32: return 7\n",
    "returns strings": "        if token_id == 32: return ['text']\n",
    "says no text": "        if token_id == 32: return [TextDelta(None)]\n",
    "says half a character": "        if token_id == 32: return [TextDelta('\\ud800')]\n",
    "calls with no str": "        if token_id == 32: return [ToolCall(0, 'f', {'a': 1})]\n",
    "calls nobody": "        if token_id == 32: return [ToolCall(0, None, '{}')]\n",
    "has a strange end": "        if token_id == 32: self._finish_reason = 7\n",
    "matches strangely": "        if token_id == 32: self._stop_matcher = None\n",
}


def faulty(written, fault):
    source = LAB.solution.read_text()
    start = source.index("    def feed(")
    doc_end = source.index('"""\n', source.index('"""', start) + 3) + 4
    body = source[start:doc_end]
    return written((body, body + fault))


@pytest.mark.parametrize("fault", [pytest.param(text, id=name) for name, text in FAULTS.items()])
def test_a_pipeline_that_goes_wrong_ends_its_own_request_and_tells_its_author(
    written, fault, caplog
):
    make = faulty(written, fault)
    good = factory("solution")

    def make_text_path(request, prompt):
        return (make if b"the bad one" in bytes(prompt[1:]) else good)(request, prompt)

    if "_stop_matcher = None" in fault:
        # Its parts are its own, so it harms itself alone.
        assert "AttributeError" in _log_of(make_text_path, caplog)
        return
    log = _log_of(make_text_path, caplog)
    assert "the pipeline raised" in log
    assert "mine.py" in log or "lab_path.py" in log


def _log_of(make_text_path, caplog):
    body = {
        "messages": [{"role": "user", "content": "Hello!"}],
        "max_tokens": 60,
        "temperature": 0,
        "return_held": True,
    }
    bad = {**body, "messages": [{"role": "user", "content": "Hello, the bad one!"}]}
    with running_embedded(make_text_path=make_text_path) as server:
        expected = told(server, body)
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            events = read_events(chat(server, {**bad, "stream": True}).body)
        assert events[-1]["error"]["type"] == "server_error"
        assert "mine" not in events[-1]["error"]["message"]
        log = caplog.text
        assert log.count("Traceback") >= 1
        assert chat(server, bad).status == 500
        assert server.engine.state.value == "running"
        assert told(server, body) == expected
        with server.connect() as client:
            assert client.fetch("/metrics").status == 200
        server.idle()
    return log


@pytest.mark.parametrize(
    "edit",
    [
        "raise NotImplementedError('held')",
        "return None",
        "return {'detokenizer': None}",
        "return {1: 'x'}",
        "raise SystemExit(3)",
    ],
)
def test_a_pipeline_that_cannot_say_what_it_holds_still_serves(written, edit, caplog):
    source = LAB.solution.read_text()
    start = source.index("    def held(")
    body_at = source.index('"""\n', start) + 4
    make = written((source[start:body_at], source[start:body_at] + f"        {edit}\n"))
    with running_embedded(make_text_path=make) as server:
        body = {
            "messages": [{"role": "user", "content": "Hello!"}],
            "max_tokens": 30,
            "return_held": True,
        }
        choices = told(server, body)
        assert choices[0]["content"]
        assert "what it holds" in caplog.text
        with server.connect() as client:
            assert client.fetch("/metrics").status == 200
        assert server.engine.state.value == "running"
        server.idle()


def test_a_finish_that_sets_no_reason_does_not_run_for_ever(written):
    make = written(
        ('return self._end("length")', "self._end('length'); self._finish_reason = None; return []")
    )
    with running_embedded(make_text_path=make) as server:
        body = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 10}
        events = read_events(chat(server, {**body, "stream": True}).body)
        assert "error" in events[-1]
        server.idle()


def test_a_constructor_that_raises_is_500_not_the_fault_of_the_client(written, caplog):
    source = LAB.solution.read_text()
    at = source.index("        self._detokenizer = detokenizer\n")
    line = source[at : source.index("\n", at) + 1]
    make = written((line, "        raise ValueError('mine')\n"))
    with running_embedded(make_text_path=make) as server:
        body = {"messages": [{"role": "user", "content": "Hello!"}]}
        for stream in (True, False):
            answer = chat(server, {**body, "stream": stream})
            assert answer.status == 500
            assert "mine" not in answer.error["message"]
        assert "the pipeline raised" in caplog.text
        server.idle()


def test_a_broken_pipeline_is_not_asked_again(written):
    path = faulty(written, FAULTS["raises"])(Request((1,), SamplingParams()), (1,))
    assert [event.text for event in path.feed(b"ab")] == ["a", "b"]
    with pytest.raises(PipelineRaised, match="mine"):
        path.feed(b" ")
    assert path.feed(b"more") == []
    assert path.finish(FinishReason.ERROR) == []
    assert path.held == {}


@pytest.mark.parametrize("end", [97, 257])
def test_a_pipeline_that_misses_the_end_among_the_ids_ends_there_all_the_same(written, end):
    """EOS is one that it should know, a stop id one that it cannot."""
    make = written(("if token_id == self._eos_token_id:", "if False:"))
    make.eos_token_ids = frozenset([257])
    path = make(Request((1,), SamplingParams(stop_token_ids=frozenset([97]))), (1,))
    path.feed([98, end, 99])
    assert (path.ending, path.tokens) == (Ending(FinishReason.END_ID), 2)


def test_a_stop_string_of_a_lab_wins_over_the_length():
    for reason, ending in (
        (FinishReason.LENGTH, Ending(FinishReason.STOP_WORDS, "\ufffd")),
        (FinishReason.CANCELLED, Ending(FinishReason.CANCELLED)),
    ):
        path = factory("solution")(Request((1,), SamplingParams(stop=("\ufffd",))), (1,))
        path.feed([97, 0xF0])
        assert path.ending is None
        path.finish(reason)
        assert path.ending == ending
