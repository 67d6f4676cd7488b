"""Which types a request's tools allow, and how the text of a parameter is read."""

import json
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.text.schemas import canonical, parameter_types, typed
from mini_vllm.text.tool_parsers import create_tool_parser


def tool(parameter=None, /, *, name="f", key="k"):
    properties = {} if parameter is None else {key: parameter}
    return {"function": {"name": name, "parameters": {"properties": properties}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, {"integer"}), ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, {"string", "array"}),
        ({"oneOf": [{"type": "number"}, {"anyOf": [{"type": "null"}]}]}, {"number", "null"}),
        ({"type": "object", "anyOf": [{"type": "null"}]}, {"object", "null"}),
        ({"enum": ["a", "b"]}, {"string"}),
        ({"enum": ["a", 1, None]}, {"string", "integer", "number", "null"}),
        ({"enum": [True]}, {"boolean"}), ({"const": 1.5}, {"number"}), ({"const": [1]}, {"array"}),
        ({"type": "string", "enum": [1]}, {"string"}), ({"description": "anything"}, None),
        ({}, None), (True, None), ({"type": "null"}, {"null"}), ({"type": []}, None),
        ({"allOf": [{"type": "array"}]}, {"array"}),
        ({"type": "string", "nullable": True}, {"string", "null"}),
        ({"type": "string", "nullable": False}, {"string"}), ({"nullable": True}, {"null"}),
        ({"properties": {"a": {"type": "string"}}}, {"object"}), ({"items": {}}, {"array"}),
        ({"additionalProperties": False}, {"object"}), ({"prefixItems": []}, {"array"}),
        ({"type": "array", "properties": {}}, {"array"}),
        ({"$ref": "#/$defs/count"}, {"integer"}),
        ({"anyOf": [{"$ref": "#/$defs/count"}, {"type": "null"}]}, {"integer", "null"}),
        ({"$ref": "#/$defs/any~1of~0 100%25"}, {"array", "number"}),
        ({"$ref": "#/$defs/list/anyOf/1"}, {"boolean"}),
        ({"$ref": "#/$defs/list/anyOf/2"}, None), ({"$ref": "#/$defs/list/anyOf/-1"}, None),
        ({"$ref": "#/$defs/loop"}, {"null"}), ({"$ref": "#/$defs/nothing"}, None),
        ({"$ref": "#/$defs/count/type/x"}, None), ({"$ref": "https://example.com/a"}, None),
        ({"$ref": 5}, None), ({"$ref": "#"}, {"object"}), ({"$ref": "#anchor"}, None),
    ],
)  # fmt: skip
def test_allowed_types(schema, expected):
    defs = {
        "count": {"type": "integer"},
        "any/of~ 100%": {"oneOf": [{"type": "array"}, {"allOf": [{"$ref": "#/$defs/float"}]}]},
        "float": {"type": "number"},
        "list": {"anyOf": [{}, {"type": "boolean"}]},
        "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "null"}]},
    }
    parameters = {"properties": {"k": schema}, "$defs": defs}
    types = parameter_types([{"function": {"name": "f", "parameters": parameters}}])
    assert types == {"f": {"k": frozenset(expected)} if expected else {}}


def test_tools_that_were_seen_are_not_read_again():
    """What one caller changes in its tools later is of no interest to the others."""
    tools, again = ([tool({"type": "array", "items": {"type": "integer"}})] for _ in range(2))
    types = parameter_types(tools)
    tools[0]["function"]["parameters"]["properties"]["k"]["items"]["type"] = "string"
    assert parameter_types(again) is types
    assert types["f"]["k"].item() == {"integer"}
    assert parameter_types(iter(tools))["f"]["k"].item() == {"string"}
    unusual = [MappingProxyType(tools[0])]
    assert parameter_types(unusual) == types


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("str text varchar(255) char enum uuid Date TIMESTAMP bytes", "string"),
        ("int int32 uint64 long short unsigned bigint INTEGER", "integer"),
        ("num float float64 double decimal(10,2) Real numeric", "number"),
        ("bool Boolean", "boolean"), ("list list[str] arr tuple set sequence", "array"),
        ("dict dict[str,int] map Object", "object"), ("none Null nil", "null"),
    ],
)  # fmt: skip
def test_type_names_of_other_languages(names, expected):
    for name in names.split():
        assert parameter_types([tool({"type": name})]) == {"f": {"k": {expected}}}
        assert parameter_types([tool({"type": [f" {name}"]})]) == {"f": {"k": {expected}}}


def test_properties_behind_a_reference_and_in_branches():
    first = {"properties": {"a": {"type": "integer"}, "b": {"type": "null"}}}
    root = {
        "$ref": "#/$defs/one",
        "anyOf": [{"properties": {"b": {"type": "array"}}}, {"allOf": [5]}, 5],
        "$defs": {"one": first},
    }
    types = parameter_types([{"function": {"name": "f", "parameters": root}}])
    assert types == {"f": {"a": {"integer"}, "b": {"null"}}}
    assert parameter_types([{"function": {"name": "f", "parameters": first | root}}]) == types


@pytest.mark.parametrize("tools", [None, [], [tool(), tool(name="g")]])
def test_tools_without_parameters(tools):
    assert parameter_types(tools) == {item["function"]["name"]: {} for item in tools or ()}


def test_parameters_and_properties_may_be_absent_or_null():
    for more in ({}, *({"parameters": value} for value in (None, {}, {"properties": None}))):
        assert parameter_types([{"type": "function", "function": {"name": "f", **more}}]) == {
            "f": {}
        }


AT = "tools[0].function"


@pytest.mark.parametrize(
    ("tools", "field"),
    [
        ([5], "tools[0] is 5"),
        ([None], "tools[0] is None"),
        ([{}], f"{AT} is None"),
        ([{"function": "f"}], f"{AT} is 'f'"),
        ([{"function": {}}], f"{AT}.name is None"),
        ([{"function": {"name": ""}}], f"{AT}.name is ''"),
        ([{"function": {"name": 5}}], f"{AT}.name is 5"),
        ([tool(), {"function": {"name": []}}], "tools[1].function.name is []"),
        ([{"function": {"name": "f", "parameters": [1]}}], f"{AT}.parameters is [1]"),
    ],
)  # fmt: skip
def test_invalid_tools_name_the_field(tools, field):
    with pytest.raises(ValueError, match=r".+") as error:
        parameter_types(tools)
    assert str(error.value).startswith(field)
    with pytest.raises(ValueError, match=r".+"):
        create_tool_parser("hermes", tools=tools)


# Schemas that vLLM and SGLang take: nothing that can be read of one makes a request fail.
EVERY = ["string", "integer", "number", "boolean", "array", "object", "null"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (5, []), (None, []), ("string", []), ({"type": "any"}, EVERY), ({"type": ""}, EVERY),
        ({"type": "interval"}, EVERY), ({"type": ["string", "thing"]}, EVERY),
        ({"type": [["string"]]}, EVERY), ({"type": 5}, EVERY), ({"type": None}, []),
        ({"type": {"string": 1}}, EVERY), ({"anyOf": 5}, []), ({"anyOf": None}, []),
        ({"oneOf": {"type": "string"}}, []), ({"anyOf": [{"type": "null"}, 5]}, ["null"]),
        ({"enum": 5}, []), ({"enum": None}, []), ({"enum": "abc", "const": None}, ["null"]),
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_read_allow_anything(schema, expected):
    tools = [{"function": {"name": "f", "parameters": {"properties": {"k": schema}}}}]
    assert parameter_types(tools) == {"f": {"k": frozenset(expected)} if expected else {}}
    create_tool_parser("hermes", tools=tools)


def test_properties_that_cannot_be_read_are_none():
    for parameters in ({"properties": [1]}, {"properties": 5}, {"$ref": "#/x", "anyOf": {}}):
        tools = [{"function": {"name": "f", "parameters": parameters}}]
        assert parameter_types(tools) == {"f": {}}


# (text, types, JSON)
TYPED = [
    ("42", ["integer"], "42"), (" 42\n", ["integer"], "42"), ("42", ["string"], '"42"'),
    ("42", [], '"42"'), ("42", ["number"], "42"), ("42", ["string", "integer"], "42"),
    ("", ["array", "object", "null"], "[]"), (" \n", ["object"], "{}"),
    ("", ["array", "string"], '""'), ("4 2", ["string", "integer"], '"4 2"'),
    ("null", ["string", "null"], "null"),
    ("None", ["string", "null"], '"None"'), ("null", ["string"], '"null"'),
    ("True", ["string", "boolean"], '"True"'), ("true", ["string", "boolean"], "true"),
    ('"x"', ["string", "null"], '"\\"x\\""'), ("[1]", ["string", "array"], "[1]"),
    ("5.0", ["integer"], "5.0"), ("1e3", ["integer", "null"], "1000.0"),
    ("1E999", ["integer"], '"1E999"'), ("5.0", ["string", "integer"], '"5.0"'),
    ("-0.0", ["integer"], "-0.0"),
    ("4.5", ["integer"], '"4.5"'), ("4.50", ["number"], "4.5"), ("042", ["integer"], '"042"'),
    ("+1", ["integer"], '"+1"'), ("1e3", ["number"], "1000.0"), ("1e999", ["number"], '"1e999"'),
    ("[1e999]", ["array"], '"[1e999]"'), ("NaN", ["number"], '"NaN"'),
    ("-Infinity", ["number"], '"-Infinity"'), ("9" * 5000, ["integer"], json.dumps("9" * 5000)),
    ("true", ["boolean"], "true"), ("True", ["boolean"], "true"), ("FALSE", ["boolean"], '"FALSE"'),
    ("False", ["boolean"], "false"), ("true", ["integer"], '"true"'),
    ("true", ["number"], '"true"'), ("1", ["boolean"], '"1"'), ("null", ["null"], "null"),
    ("None", ["null", "integer"], "null"), ("null", ["integer"], "null"), ("", ["integer"], '""'),
    ("None", ["object"], "null"), ("null", ["integer", "string"], '"null"'),
    (" ", ["integer"], '" "'), ('{"a" :1}', ["object"], '{"a": 1}'),
    ('{"a" :1}', ["array"], '"{\\"a\\" :1}"'), ('["é", "\\u00e9"]', ["array"], '["é", "é"]'),
    ("{'a': 1}", ["object"], "\"{'a': 1}\""), ("[1, 2", ["array"], '"[1, 2"'),
    ('"x"', ["integer"], '"\\"x\\""'), ("x\n y", ["integer"], '"x\\n y"'),
    ("[" * 100_000, ["array"], json.dumps("[" * 100_000)),
    ("[" * 256 + "]" * 256, ["array"], "[" * 256 + "]" * 256),
    ("[" * 257 + "]" * 257, ["array"], json.dumps("[" * 257 + "]" * 257)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "allowed", "expected"), TYPED, ids=range(len(TYPED)))
def test_typed(text, allowed, expected):
    assert typed(text, frozenset(allowed)) == expected


@given(
    text=st.text(), allowed=st.frozensets(st.sampled_from(["integer", "array", "null", "string"]))
)
def test_typed_is_total_and_always_json(text, allowed):
    value = json.loads(typed(text, allowed))
    assert value == text or allowed


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {1}, b""])
def test_canonical_refuses_what_json_has_not(value):
    with pytest.raises((ValueError, TypeError)):
        canonical(value)


@given(value=st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=4))
def test_canonical_keeps_characters_as_they_are_but_for_lone_surrogates(value):
    assert canonical(value) == json.dumps(value, ensure_ascii=False)
    assert canonical("é\ud83dé\udc00") == '"é\\ud83dé\\udc00"'
    assert json.loads(canonical("\ud83d")) == "\ud83d"


# How a value streams: (types, characters of it, what is out behind each but the first).
STREAMED = [
    (["string"], "ab", ['"a', '"ab']), (["string", "null"], "nul", ["", "", ""]),
    (["string", "null"], "nut", ["", "", '"nut']), (["string", "null"], "9", ['"9']),
    (["string", "integer"], " 4 2", ["", "", "", '" 4 2']),
    (["string", "integer"], "4x", ["", '"4x']), (["integer"], "x", [""]),
    (["string", "array"], '["a", x', [""] * 6 + ['"[\\"a\\", x']),
    (["string", "object"], '"a', ['"\\"', '"\\"a']), (["string", "boolean"], "Tr", ['"T', '"Tr']),
]  # fmt: skip


@pytest.mark.parametrize(("kinds", "text", "out"), STREAMED, ids=range(len(STREAMED)))
def test_a_value_waits_only_while_it_may_be_something_else_than_a_string(kinds, text, out):
    parser = create_tool_parser("glm45", tools=[tool({"type": kinds})])
    parser.feed("<tool_call>f<arg_key>k</arg_key><arg_value>")
    shown = ""
    for char, expected in zip(text, out, strict=True):
        shown += "".join(event.text for event in parser.feed(char))
        assert shown == expected
    assert parser.held == "" if shown else parser.held.endswith(text)
