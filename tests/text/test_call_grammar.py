"""Calls that are demanded: what a format's grammar allows, the format's parser reads as calls."""

import json

import jsonschema
import pytest

from mini_vllm.engine import Engine, FinishReason, Request, SamplingParams, StructuredOutputsParams
from mini_vllm.models.ngram import load_embedded
from mini_vllm.text.call_grammar import (
    FALLBACK,
    UnwritableFormatError,
    call_grammar,
    format_grammar,
)
from mini_vllm.text.events import ArgsDelta, CallEnd, CallStart
from mini_vllm.text.formats import FORMATS
from mini_vllm.text.tool_parsers import create_tool_parser

pytest.importorskip("llguidance")
CITY = {"type": "object", "properties": {"a": {"type": "integer"}, "c": {"enum": ["x", "yé"]}},
        "required": ["a"], "additionalProperties": False}  # fmt: skip
TREE = {"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"é": {"const": 1}},
        "required": ["é"], "additionalProperties": False}}}  # fmt: skip
SCHEMAS = {"get_weather": CITY, 'böse "f"': TREE, "none": None}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in SCHEMAS.items()
]
# Where the arguments are one JSON object, the table itself says how calls are written.
WRITABLE = [
    "hermes",
    "mistral",
    "llama_json",
    "kimi_k2",
    "deepseek_v3",
    "deepseek_v31",
    "plamo3",
    "jamba",
    "phi4_mini_json",
    "granite",
    "cohere_command3",
    "xlam",
    "apertus",
    "longcat",
    "ernie45",
    "internlm",
    "granite_20b_fc",
    "gigachat3",
    "lfm2",
]


@pytest.fixture(scope="module")
def engine():
    embedded = load_embedded()
    return Engine(embedded.model, embedded.tokenizer, num_blocks=512)


def calls_in(format, output):
    """Return the calls of an output, which has nothing else."""
    parser, calls = create_tool_parser(format, tools=TOOLS), []
    cut = output.finish_reason is FinishReason.LENGTH
    for event in [*parser.feed(output.text), *parser.flush(cut=cut)]:
        if isinstance(event, CallStart):
            calls.append([event.name, ""])
        elif isinstance(event, ArgsDelta):
            calls[event.index][1] += event.text
        elif isinstance(event, CallEnd):
            name, arguments = calls[event.index]
            schema = SCHEMAS[name] or {"type": "object", "maxProperties": 0}
            jsonschema.validate(json.loads(arguments), schema)
            calls[event.index].append("complete")
        else:
            assert cut or not getattr(event, "text", "x").strip(), event
    return calls


@pytest.mark.parametrize("format", [*WRITABLE, "qwen3_coder", None])
def test_a_demanded_call_is_read_as_one_and_its_arguments_fit_the_schema(engine, format):
    # It ends a name at a quotation mark, so it cannot write the second name.
    tools = TOOLS[::2] if format == "apertus" else TOOLS
    assert call_grammar(format, TOOLS)[0] == (format if tools is TOOLS and format in WRITABLE
                                              else FALLBACK)  # fmt: skip
    read, grammar = call_grammar(format, tools, parallel=False)
    assert read == (format if format in WRITABLE else FALLBACK)
    wanted = StructuredOutputsParams(grammar=grammar)
    params = SamplingParams(structured_outputs=wanted, seed=3, n=2, max_tokens=500)
    request = Request("<|user|>\nWeather?<|end|>\n<|assistant|>\n", params)
    for output in engine.handle_request([request]).outputs:
        assert output.finish_reason is FinishReason.END_ID
        assert [len(call) for call in calls_in(read, output)] == [3]


@pytest.mark.parametrize("format", FORMATS)
def test_every_other_format_falls_back_to_a_json_list(format):
    reason = ""
    try:
        format_grammar(FORMATS[format], [tool["function"] for tool in TOOLS[::2]])
    except UnwritableFormatError as error:
        reason = f"its table has a state that call_grammar cannot write: {error}"
    if format in WRITABLE:
        assert not reason
    else:
        assert reason, "its calls can be written as its table says: name it in WRITABLE"
    assert call_grammar(format, TOOLS[::2])[0] == (FALLBACK if reason else format)


F = '{"name": "get_weather", "arguments": {"a": 1}}'
G = '{"name": "none", "arguments": {}}'
KIMI = (
    "<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
    '{"a": 1}<|tool_call_end|>'
)


@pytest.mark.parametrize(
    ("format", "text", "fits", "fits_one"),
    [
        ("hermes", f"<tool_call>\n{F}\n</tool_call>", True, True),
        ("hermes", f"<tool_call>{F}</tool_call>\n<tool_call>{G}</tool_call>", True, False),
        ("hermes", f"I look. <tool_call>{F}</tool_call>", False, False),
        ("hermes", f"<tool_call>{F}</tool_call> So.", False, False),
        ("hermes", "", False, False),
        ("mistral", f"[TOOL_CALLS][{F}]", True, True),
        ("mistral", f"[TOOL_CALLS] [{F}, {G}]", True, False),
        ("mistral", "[TOOL_CALLS][]", False, False),
        ("mistral", f"[TOOL_CALLS][{F}]\n[TOOL_CALLS][{G}]", False, False),
        (None, f"[{G}]", True, True),
        (None, f"[{G}, {F}]", True, False),
        ("kimi_k2", f"<|tool_calls_section_begin|>{KIMI}<|tool_calls_section_end|>", True, True),
        ("kimi_k2", "<|tool_calls_section_begin|><|tool_calls_section_end|>", False, False),
    ],
    ids=str,
)  # fmt: skip
def test_one_call_or_several_and_no_prose(engine, format, text, fits, fits_one):
    for parallel, expected in ((True, fits), (False, fits_one)):
        _, grammar = call_grammar(format, TOOLS, parallel=parallel)
        assert accepts(engine, grammar, text) is expected


def accepts(engine, grammar, text):
    read = engine.structured_outputs.compile(StructuredOutputsParams(grammar=grammar))
    data = text.encode()
    return read.accept_tokens(list(data)) == len(data) and read.may_end


def test_a_call_or_an_answer(engine):
    _, grammar = call_grammar("hermes", TOOLS, answer='"no"', parallel=False)
    assert accepts(engine, grammar, "no")
    assert accepts(engine, grammar, f"<tool_call>{F}</tool_call>")
    assert not accepts(engine, grammar, "yes")


@pytest.mark.parametrize("schema", [{}, {"anyOf": [TREE["$defs"]["t"], {"type": "null"}]}, TREE])
@pytest.mark.parametrize("arguments", ["null", "[]", '{"é": 1}'])
def test_arguments_are_an_object_whatever_else_a_schema_allows(engine, schema, arguments):
    function = {"name": "none", "parameters": {"title": "any", **schema}}
    _, grammar = call_grammar(None, [{"type": "function", "function": function}])
    text = G.replace("{}", arguments)
    assert accepts(engine, grammar, f"[{text}]") is arguments.startswith("{")
