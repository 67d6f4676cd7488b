"""The adapters in `upstream/`, on the real base classes of vLLM and SGLang.

What a client puts together from the streamed chunks is what the adapter returns for the whole text,
and what our parser says of it. But: no server is run; the adapters are called as those call them.
"""

import functools
import importlib
import itertools
import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace
from typing import Literal

import pytest

from benchmarks.peers.detokenizers import ROOT, SGLANG, VLLM
from benchmarks.peers.text_layers import HAS_SGLANG, HAS_VLLM_PARSERS, _package, _vllm_stubs
from mini_vllm.text.events import ArgsDelta, CallStart, Malformed, TextDelta
from mini_vllm.text.formats import FORMATS
from mini_vllm.text.tool_parsers import create_tool_parser

needs_vllm = pytest.mark.skipif(not HAS_VLLM_PARSERS, reason="vLLM was not fetched: make oracles")
needs_sglang = pytest.mark.skipif(not HAS_SGLANG, reason="SGLang was not fetched: make oracles")
engines = pytest.mark.parametrize(
    "engine", [pytest.param("vllm", marks=needs_vllm), pytest.param("sglang", marks=needs_sglang)]
)

NAMES = {"type": "object", "properties": {"t": {"type": "string"}, "n": {"type": "integer"}}}
TOOLS = [
    {"type": "function", "function": {"name": "f", "parameters": NAMES}},
    {"type": "function", "function": {"name": "g", "parameters": {}}},
]

KIMI = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"


def kimi(name, arguments):
    return (
        f"<|tool_call_begin|>functions.{name}<|tool_call_argument_begin|>"
        f"{arguments}<|tool_call_end|>"
    )


# Prose, two calls, an emoji, and tags inside strings; a broken call; a text that ends in
# what could be a marker, and as much of it as waits.
WHOLE = {
    "hermes": 'So <b>🚀 <tool_call>\n{"name": "f", "arguments": {"t": "</tool_call> 🚀<", "n": 1}}'
    '\n</tool_call> and <tool_call>{"name": "g", "arguments": { }}</tool_call> end.',
    "mistral": 'So [TOOL 🚀 [TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{"t": "[TOOL_CALLS]🚀[", "n": 1}'
    '[TOOL_CALLS]g{"x": [1.0e5]}',
    "qwen3_coder": "So <b>🚀 <tool_call>\n<function=f>\n<parameter=t>\n<b></function> 🚀</\n"
    "</parameter>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>\nand "
    "<tool_call><function=g></function></tool_call> end.",
    "pythonic": "[f(t='🚀 g(1)] \\'<|python_end|>', n=1), g()] end.",
    "kimi_k2": f"So <| 🚀 {KIMI[0]}"
    + kimi("f:0", '{"t": "<|tool_call_end|> 🚀", "n": 1}')
    + kimi("g:1", "{}")
    + f"{KIMI[1]} end.",
}
BROKEN = {
    "hermes": 'So <tool_call>{"name": "f", "arguments": {"n": 1, oops}}</tool_call> end.',
    "mistral": 'So [TOOL_CALLS]f[ARGS]{"n": 1, oops} end.',
    "qwen3_coder": "So <tool_call><function=f><parameter=n>\n1\n</parameter>oops</tool_call> end.",
    "pythonic": "[f(n=1, oops] end.",
    "kimi_k2": f"So {KIMI[0]}" + kimi("f:0", '{"n": 1, oops}') + f"{KIMI[1]} end.",
}
BROKEN_PARTS = {  # arguments, text
    "hermes": ('{"n": 1, ', "So oops}}</tool_call> end."),
    "mistral": ('{"n": 1, ', "So oops} end."),
    "qwen3_coder": ('{"n": 1', "So </parameter>oops</tool_call> end."),
    "pythonic": ('{"n": 1', ", oops] end."),
    "kimi_k2": ('{"n": 1, ', "So oops}<|tool_call_end|> end."),
}
HELD = {
    "hermes": ("So <tool_c", "<tool_c"),
    "mistral": ("So [TOOL_", "[TOOL_"),
    "qwen3_coder": ("So <tool_call>\n<func", "<tool_call>\n<func"),
    "pythonic": ("[f", "[f"),
    "kimi_k2": ("So <|tool_calls_sec", "<|tool_calls_sec"),
}
every_format = pytest.mark.parametrize("format", WHOLE)


class Fields(SimpleNamespace):
    """Stands for a pydantic model of a request."""

    def model_dump(self):
        return {
            key: value.model_dump() if isinstance(value, Fields) else value
            for key, value in vars(self).items()
        }


def tool_models():
    return [Fields(type="function", function=Fields(**tool["function"])) for tool in TOOLS]


def vllm_messages():
    """Return vLLM's messages with all the fields of the real ones."""
    from pydantic import Field, create_model

    kind = Literal["function"]
    delta_function = create_model(
        "DeltaFunctionCall", name=(str | None, None), arguments=(str | None, None)
    )
    delta_call = create_model(
        "DeltaToolCall", id=(str | None, None), type=(kind | None, None), index=(int, ...),
        function=(delta_function | None, None),
    )  # fmt: skip
    delta = create_model(
        "DeltaMessage", role=(str | None, None), content=(str | None, None),
        reasoning=(str | None, None), tool_calls=(list[delta_call], Field(default_factory=list)),
    )  # fmt: skip
    function = create_model(
        "FunctionCall", id=(str | None, None), name=(str, ...), arguments=(str, ...)
    )
    call = create_model(
        "ToolCall", id=(str, ...), type=(kind, "function"), function=(function, ...)
    )
    extracted = create_model(
        "ExtractedToolCallInformation", tools_called=(bool, ...), tool_calls=(list[call], ...),
        content=(str | None, None),
    )  # fmt: skip
    models = (delta_function, delta_call, delta, function, call, extracted)
    return {model.__name__: model for model in models}


@functools.cache
def vllm_plugin(old=False):
    """Return vLLM's base module with our plugin registered in it.

    Args:
        old: put the messages where vLLM had them before.
    """
    numbers = itertools.count()
    new, before = (
        "vllm.entrypoints.generate.base.protocol",
        "vllm.entrypoints.openai.engine.protocol",
    )
    given = _vllm_stubs() | {before if old else new: vllm_messages()}
    given["vllm.renderers.chat_utils"] = {
        "make_tool_call_id": lambda: f"chatcmpl-tool-{next(numbers)}"
    }
    with _package(VLLM, "vllm", given):
        base = importlib.import_module("vllm.tool_parsers.abstract_tool_parser")
        if old:
            sys.modules[new] = None
        load("vllm_plugin")
    return base


@functools.cache
def sglang_register():
    """Return SGLang's table of parsers with our detectors, and `register`."""
    parser = type("FunctionCallParser", (), {"ToolCallParserEnum": {"hermes": object}})
    given = {"sglang.srt.function_call.function_call_parser": {"FunctionCallParser": parser}}
    with _package(SGLANG, "sglang", given):
        register = load("sglang_detector").register
        register()
        mini = dict(parser.ToolCallParserEnum)
        register("")
    return mini, parser.ToolCallParserEnum


def load(name):
    """Import a file as vLLM imports a plugin, on the engine's classes that can be imported now."""
    for module in [module for module in sys.modules if module.startswith("upstream.adapters")]:
        del sys.modules[module]
    spec = spec_from_file_location(name, ROOT / "upstream" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def request(**fields):
    return SimpleNamespace(
        **({"tools": None, "tool_choice": "auto", "skip_special_tokens": True} | fields)
    )


class Vllm:
    """One choice of a request in vLLM: chunks are what is sent to the client."""

    def __init__(self, format, tools=None, old=False):
        parser = vllm_plugin(old).ToolParserManager.get_tool_parser(f"mini_{format}")
        self.request = request()
        self.parser = parser(object(), tool_models() if tools is None else tools)

    def feed(self, piece):
        # Engine-based parsers are given the piece and no more, whatever the arguments are called.
        return self._chunk(
            self.parser.extract_tool_calls_streaming("", piece, piece, (), (), (), self.request)
        )

    def finish(self):
        return self._chunk(self.parser.finish_streaming())

    def whole(self, text):
        found = self.parser.extract_tool_calls(text, self.request)
        assert found.tools_called == bool(found.tool_calls)
        calls = [(one.id, one.function.name, one.function.arguments) for one in found.tool_calls]
        return found.content or "", [(own(id), *rest) for id, *rest in calls]

    def _chunk(self, message):
        # vLLM adds this to the last call of a finished stream.
        assert self.parser.get_remaining_unstreamed_args() == ""
        return message.model_dump(exclude_unset=True) if message else {}


class Sglang:
    """One choice of a request in SGLang: its server makes chunks of items, and ids."""

    def __init__(self, format, tools=None):
        self.detector = sglang_register()[0][f"mini_{format}"]()
        self.tools = tool_models() if tools is None else tools

    def feed(self, piece):
        return self._chunk(self.detector.parse_streaming_increment(piece, self.tools))

    def finish(self):
        return self._chunk(self.detector.finish(self.tools))

    def whole(self, text):
        result = self.detector.detect_and_parse(text, self.tools)
        assert [item.tool_index for item in result.calls] == list(range(len(result.calls)))
        assert self.detector.has_tool_call(text) == (
            bool(result.calls) or result.normal_text != text
        )
        return result.normal_text, [(None, item.name, item.parameters) for item in result.calls]

    @staticmethod
    def _chunk(result):
        calls = []
        for item in result.calls:
            start = {"id": "call_0", "type": "function"} if item.name else {}
            name = {"name": item.name} if item.name else {}
            calls.append(
                {
                    "index": item.tool_index,
                    **start,
                    "function": {**name, "arguments": item.parameters},
                }
            )
        return {
            **({"content": result.normal_text} if result.normal_text else {}),
            **({"tool_calls": calls} if calls else {}),
        }


def choice(engine, format, **options):
    return {"vllm": Vllm, "sglang": Sglang}[engine](format, **options)


def own(id):
    """Return an id that the model wrote, or None for one that the engine made."""
    return None if id.startswith(("chatcmpl-tool-", "call_")) else id


def merged(chunks):
    """Put chunks together as a client does: by index, strings concatenated, a name and id once."""
    text, calls = "", []
    for chunk in chunks:
        assert not chunk or set(chunk) <= {"content", "tool_calls"}
        text += chunk.get("content", "")
        deltas = chunk.get("tool_calls", [])
        assert len({delta["index"] for delta in deltas}) == len(deltas)
        for delta in deltas:
            if delta["index"] == len(calls):
                assert delta["type"] == "function"
                calls.append([own(delta["id"]), delta["function"]["name"], ""])
            else:
                assert set(delta) == {"index", "function"}
                assert set(delta["function"]) == {"arguments"}
                assert delta["function"]["arguments"]
            calls[delta["index"]][2] += delta["function"]["arguments"]
    return text, [tuple(one) for one in calls]


def streamed(one, pieces):
    return merged([*[one.feed(piece) for piece in pieces], one.finish()])


def ours(format, text, engine):
    """Return what our parser says: (text, [(id, name, arguments)])."""
    parser = create_tool_parser(format, tools=TOOLS)
    events = parser.feed(text) + parser.flush()
    calls = [
        [event.id if engine == "vllm" else None, event.name, ""]
        for event in events
        if isinstance(event, CallStart)
    ]
    for event in events:
        if isinstance(event, ArgsDelta):
            calls[event.index][2] += event.text
    text = "".join(
        event.raw if isinstance(event, Malformed) else event.text
        for event in events
        if isinstance(event, Malformed | TextDelta)
    )
    return text, [tuple(one) for one in calls]


@needs_vllm
def test_vllm_knows_every_format():
    names = vllm_plugin().ToolParserManager.list_registered()
    assert names == sorted(f"mini_{name}" for name in FORMATS)


@needs_vllm
def test_vllm_of_another_version_has_its_messages_elsewhere():
    text = WHOLE["hermes"]
    assert Vllm("hermes", old=True).whole(text) == ours("hermes", text, "vllm")


@needs_vllm
@every_format
@pytest.mark.parametrize(("tools", "tool_choice"), [([], "auto"), ([], "none"), (None, "none")])
def test_vllm_drops_calls_of_these_requests_so_they_are_text(format, tools, tool_choice):
    one = Vllm(format, tools=tools)
    one.request.tool_choice = tool_choice
    text = WHOLE[format]
    assert one.whole(text) == (text, [])
    assert streamed(one, text) == (text, [])


@needs_sglang
def test_sglang_knows_every_format():
    mini, replaced = sglang_register()
    assert list(mini) == ["hermes", *(f"mini_{name}" for name in FORMATS)]
    assert mini["hermes"] is object
    assert replaced["hermes"].format == "hermes"


@engines
@every_format
def test_our_sample_says_what_it_should(engine, format):
    """Not to compare nothing with nothing."""
    _, calls = choice(engine, format).whole(WHOLE[format])
    assert [name for _, name, _ in calls] == ["f", "g"]
    first = json.loads(calls[0][2])
    assert (list(first), first["n"]) == (["t", "n"], 1)
    assert "🚀" in first["t"]
    assert len(first["t"]) > 6


@engines
@every_format
@pytest.mark.parametrize("texts", [WHOLE, BROKEN], ids=["whole", "broken"])
def test_split_anywhere_a_client_has_what_the_whole_text_is(engine, format, texts):
    text = texts[format]
    expected = ours(format, text, engine)
    assert choice(engine, format).whole(text) == expected
    assert streamed(choice(engine, format), text) == expected
    for cut in range(len(text) + 1):
        assert streamed(choice(engine, format), [text[:cut], text[cut:]]) == expected


@engines
@every_format
def test_cut_off_anywhere_the_stream_is_the_whole(engine, format):
    for end in range(len(WHOLE[format])):
        text = WHOLE[format][:end]
        expected = ours(format, text, engine)
        assert choice(engine, format).whole(text) == expected
        assert streamed(choice(engine, format), text) == expected


@engines
@every_format
def test_held_text_comes_at_the_end(engine, format):
    text, held = HELD[format]
    one = choice(engine, format)
    before = merged([one.feed(piece) for piece in text])
    assert before == (text.removesuffix(held), [])
    assert merged([one.finish()]) == (held, [])
    assert one.finish() == {}


@engines
@every_format
def test_of_a_malformed_call_nothing_is_lost(engine, format):
    arguments, text = BROKEN_PARTS[format]
    found, calls = streamed(choice(engine, format), BROKEN[format])
    assert [rest for _, *rest in calls] == [["f", arguments]]
    assert found == text


@engines
@every_format
def test_two_requests_at_once_do_not_mix(engine, format):
    texts = WHOLE[format], BROKEN[format]
    ones = [choice(engine, format) for _ in texts]
    chunks = [[], []]
    for pair in itertools.zip_longest(*texts, fillvalue=""):
        for number, piece in enumerate(pair):
            chunks[number].append(ones[number].feed(piece))
    for number, text in enumerate(texts):
        chunks[number].append(ones[number].finish())
        assert merged(chunks[number]) == ours(format, text, engine)


@engines
def test_nothing_fed_is_nothing(engine):
    one = choice(engine, "hermes")
    assert one.finish() == {}
    assert choice(engine, "hermes").feed("") == {}


@needs_vllm
@every_format
def test_the_openai_client_reads_the_chunks(format):
    """Its own merge, for it concatenates every string that comes twice."""
    from openai.lib.streaming._deltas import accumulate_delta

    one, message = Vllm(format), {}
    for chunk in [*[one.feed(piece) for piece in WHOLE[format]], one.finish()]:
        message = accumulate_delta(message, chunk)
    calls = [
        (own(call["id"]), call["function"]["name"], call["function"]["arguments"])
        for call in message["tool_calls"]
    ]
    assert (message.get("content", ""), calls) == ours(format, WHOLE[format], "vllm")


@needs_vllm
def test_vllm_makes_one_id_for_each_call_that_has_none():
    one = Vllm("hermes")
    chunks = [one.feed(piece) for piece in WHOLE["hermes"]]
    ids = [call["id"] for chunk in chunks for call in chunk.get("tool_calls", []) if "id" in call]
    assert len(ids) == len(set(ids)) == 2
    assert all(id.startswith("chatcmpl-tool-") for id in ids)


@needs_vllm
@pytest.mark.parametrize(
    ("format", "ids"),
    [("kimi_k2", ["functions.f:0", "functions.g:1"]), ("mistral", ["abcDEF123", None])],
)
def test_vllm_has_the_ids_that_the_model_wrote(format, ids):
    assert [id for id, *_ in Vllm(format).whole(WHOLE[format])[1]] == ids


@needs_vllm
@pytest.mark.parametrize("flat", [False, True], ids=["chat", "responses"])
def test_vllm_tools_may_come_from_the_request(flat):
    tools = [Fields(type="function", name="f", parameters=NAMES)] if flat else tool_models()
    one = Vllm("qwen3_coder", tools=[])
    one.request.tools = [*tools, Fields(type="web_search")]
    text = WHOLE["qwen3_coder"]
    assert one.whole(text) == streamed(one, [text]) == ours("qwen3_coder", text, "vllm")


@needs_vllm
def test_vllm_keeps_what_its_server_compares():
    one = Vllm("hermes")
    streamed(one, WHOLE["hermes"])
    arguments = ['{"t": "</tool_call> 🚀<", "n": 1}', "{ }"]
    assert one.parser.streamed_args_for_tool == arguments
    assert one.parser.prev_tool_call_arr == [
        {"name": "f", "arguments": arguments[0]},
        {"name": "g", "arguments": arguments[1]},
    ]


@needs_vllm
@pytest.mark.parametrize(
    ("format", "tools", "tool_choice", "skip"),
    [
        ("kimi_k2", TOOLS, "auto", False),
        ("hermes", TOOLS, "required", False),
        ("pythonic", TOOLS, "auto", True),
        ("kimi_k2", TOOLS, "none", True),
        ("kimi_k2", None, "auto", True),
    ],
)
def test_vllm_lets_special_tokens_through(format, tools, tool_choice, skip):
    given = request(tools=tools, tool_choice=tool_choice)
    assert Vllm(format).parser.adjust_request(given) is given
    assert given.skip_special_tokens is skip


@needs_vllm
def test_vllm_is_told_to_flush_and_to_force_no_json():
    parser = Vllm("hermes").parser
    assert parser.engine_based_streaming
    assert not parser.supports_required_and_named


@needs_sglang
def test_sglang_is_told_to_force_no_call_in_these_formats():
    detector = Sglang("hermes").detector
    assert not detector.supports_structural_tag()
    assert not detector.parses_required_natively()


@needs_sglang
def test_sglang_shows_plain_text_as_it_is_and_markup_without_calls_not():
    detector = Sglang("kimi_k2").detector
    assert not detector.has_tool_call(f"So {KIMI[0]} begins a section <|")
    assert detector.has_tool_call(f"So {KIMI[0]}{KIMI[1]} was empty")
