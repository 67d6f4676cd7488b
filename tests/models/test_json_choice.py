"""The embedded model under a JSON grammar: it ends, and says words of the prompt and the schema."""

import json
import random

import jsonschema
import pytest
from tool_schemas import TOOLS
from vocabularies import byte_level

from mini_vllm.engine import Engine, FinishReason, Request
from mini_vllm.engine.request import SamplingParams, StructuredOutputsParams
from mini_vllm.models.ngram import load_embedded
from mini_vllm.models.spelled import SpelledModel
from mini_vllm.text.call_grammar import call_grammar
from mini_vllm.text.events import ArgsDelta, CallStart
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer import HuggingFaceTokenizer

pytest.importorskip("llguidance")
EMBEDDED = load_embedded()
BYTE_LEVEL = HuggingFaceTokenizer.from_tokenizer(byte_level())
ENGINES = {
    "bytes": Engine(EMBEDDED.model, EMBEDDED.tokenizer),
    "tokens": Engine(SpelledModel(EMBEDDED.model, BYTE_LEVEL), BYTE_LEVEL),
}
FORMATS = ["date", "date-time", "time", "email", "uuid", "ipv4", "ipv6", "uri", "duration"]
PATTERNS = [
    r"^[a-z]+$",
    r"^\d{3}-\d{4}$",
    r"^#[0-9a-f]{6}$",
    r"^(x|yy)*z$",
    r"[0-9]$",
    r"^\S+ \S+$",
]
VALUES = ["a", "two words", 'q"uote', "ü", 1, 2.5, None, True]
NAMES = ["name", "id", "query", "tags", "when", "größe", "a b"]


def answer(
    engine, wanted, *, text="What is the weather in Paris?", temperature=0.0, max_tokens=1000
):
    """Return the text of an answer, which ended by itself."""
    prompt = EMBEDDED.chat_template.apply_chat_template([{"role": "user", "content": text}], True)
    params = SamplingParams(
        structured_outputs=wanted, max_tokens=max_tokens, temperature=temperature, seed=1
    )
    [output] = ENGINES[engine].handle_request([Request(prompt, params)]).outputs
    assert output.finish_reason is FinishReason.END_ID, output.text
    return output.text


def as_schema(schema):
    return StructuredOutputsParams(json=json.dumps(schema))


def drawn(chance, depth=0):
    """Return a schema at random."""
    kinds = ["string"] * 4 + ["integer", "number", "boolean", "enum", "nullable"]
    kinds += ["object", "object", "array", "anyOf", "map"] if depth < 3 else []
    low = chance.randint(-50, 50)
    match chance.choice(kinds):
        case "string":
            more = {"format": chance.choice(FORMATS)}, {"pattern": chance.choice(PATTERNS)}
            bounds = {"minLength": chance.randint(0, 90)}, {"maxLength": chance.randint(1, 20)}
            return {"type": "string", **chance.choice([{}, *more, *bounds])}
        case "integer":
            step = {"multipleOf": chance.randint(2, 9)}
            return {"type": "integer", **chance.choice([{"minimum": low}, {"maximum": low}, step])}
        case "number":
            return {"type": "number", "minimum": low, "exclusiveMaximum": low + 0.5}
        case "boolean":
            return {"type": "boolean"}
        case "enum":
            return {"enum": chance.sample(VALUES, 3)}
        case "nullable":
            return {"type": ["null", "string"]}
        case "array":
            return {"type": "array", "items": drawn(chance, depth + 1), "minItems": low % 4}
        case "anyOf":
            return {"anyOf": [drawn(chance, depth + 1) for _ in range(2)]}
        case "map":
            return {"type": "object", "additionalProperties": drawn(chance, depth + 1)}
    names = chance.sample(NAMES, chance.randint(1, 5))
    return {
        "type": "object",
        "properties": {name: drawn(chance, depth + 1) for name in names},
        "required": [name for name in names if chance.random() < 0.5],
        "additionalProperties": chance.random() < 0.5,
    }


DRAWN = {f"drawn {seed}": drawn(random.Random(seed)) for seed in range(50)}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", [*TOOLS, *DRAWN])
def test_json_ends_fits_its_schema_and_has_no_replacement_character(name, engine):
    schema = TOOLS.get(name) or DRAWN[name]
    for temperature in (0, 1):
        text = answer(engine, as_schema(schema), temperature=temperature)
        value = json.loads(text)
        assert "\ufffd" not in json.dumps(value, ensure_ascii=False)
        jsonschema.validate(value, schema)


@pytest.mark.parametrize(
    ("wanted", "text", "expected"),
    [
        (StructuredOutputsParams(json_object=True), "Paris", {"answer": "Paris"}),
        (
            StructuredOutputsParams(json_object=True),
            'JSON with "city" and "sky" for Oslo',
            {"city": "Oslo", "sky": "with"},
        ),
        (as_schema({"type": "object", "properties": {"city": {"type": "string"}}}), "In Paris",
         {"city": "Paris"}),
        (as_schema({"properties": {"n": {"type": "integer", "minimum": 7}}}), "x", {"n": 7}),
        (as_schema({"examples": [["a"]]}), "x", ["a"]),
        (as_schema({"type": "array", "items": {"enum": ["p", "q"]}, "minItems": 3}), "x",
         ["p", "q", "p"]),
        (as_schema({"type": "string", "format": "date"}), "x", "2026-01-31"),
        (as_schema({"type": "string", "maxLength": 3}), "The Netherlands", "Net"),
        (as_schema({"type": "string", "pattern": r"^\\[a-c]\\$"}), "x", "\\a\\"),
    ],
    ids=["no schema", "names in the message", "open object", "minimum", "example", "items",
         "format", "longest", "escapes"],
)  # fmt: skip
@pytest.mark.parametrize("engine", ENGINES)
def test_words_are_those_of_the_prompt_and_of_the_schema(engine, wanted, text, expected):
    assert json.loads(answer(engine, wanted, text=text)) == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"regex": r"\w+@\w+\.com\n"}, "Paris@Paris.com\n"),
        ({"regex": r"SELECT .* FROM [a-z]+;"}, "SELECT Paris FROM paris;"),
        ({"regex": "(foo|bar)*baz"}, "foobaz"),
        ({"regex": r"[a||b]\n+"}, "a\n"),
        ({"regex": r"[^\x00-\x7F]{2}"}, "éé"),
        ({"regex": r"\p{Lu}{2,}"}, None),
        ({"grammar": 'start: "x" /[0-9]/+'}, None),
    ],
)
@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_text_for_a_regular_expression_ends(engine, wanted, expected, temperature):
    wanted = StructuredOutputsParams(**wanted)
    text = answer(engine, wanted, temperature=temperature, max_tokens=200)
    assert text == (expected or text)


@pytest.mark.parametrize("text", ["x" * 3000, "请用中文写一个关于北京的对象" * 20, "Paris"])
@pytest.mark.parametrize("engine", ENGINES)
def test_an_answer_is_short_if_it_may_have_few_tokens(engine, text):
    group = {"type": "object", "properties": {f"name {n}": {"type": "string"} for n in range(9)}}
    schema = {"type": "object", "properties": {f"group {n}": group for n in range(9)}}
    for wanted in (as_schema(schema), StructuredOutputsParams(json_object=True)):
        json.loads(answer(engine, wanted, text=text, max_tokens=300))
    fields = {f"f{n}": {"type": ["string", "null"] if n % 2 else "string"} for n in range(16)}
    required = {"type": "object", "properties": fields, "required": [*fields]}
    value = json.loads(answer(engine, as_schema(required), text=text, max_tokens=512))
    jsonschema.validate(value, required)


@pytest.mark.parametrize(
    "format", ["hermes", "mistral", "llama_json", "deepseek_v3", "kimi_k2", None]
)
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_demanded_call_ends_and_fits_in_any_format(format, temperature):
    chance = random.Random(7)
    for name in ("create_event", "calculate", "book_flight", "search_files", "read_file"):
        tools = [
            {"type": "function", "function": {"name": one, "parameters": TOOLS[one]}}
            for one in (name, *chance.sample(["bash", "list_tables", "run_sql", "edit_file"], 2))
        ]
        read, grammar = call_grammar(format, tools)
        wanted = StructuredOutputsParams(grammar=grammar)
        text = answer("bytes", wanted, temperature=temperature)
        parser = create_tool_parser(read, tools=tools)
        calls = {}
        for event in [*parser.feed(text), *parser.flush()]:
            if isinstance(event, CallStart):
                calls[event.index] = [event.name, ""]
            elif isinstance(event, ArgsDelta):
                calls[event.index][1] += event.text
        assert calls, text
        for called, arguments in calls.values():
            jsonschema.validate(json.loads(arguments), TOOLS[called])
            assert {*json.loads(arguments)} <= {*TOOLS[called]["properties"]}


@pytest.mark.parametrize("format", ["hermes", "kimi_k2", None])
def test_the_last_word_of_the_prompt_is_an_argument_and_no_name(format):
    tool = {"type": "function", "function": {"name": "f", "parameters": TOOLS["get_weather"]}}
    wanted = StructuredOutputsParams(grammar=call_grammar(format, [tool])[1])
    assert '{"location": "Paris"' in answer("bytes", wanted, text="The weather in Paris?")
