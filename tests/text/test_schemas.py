"""Which types a request's tools allow, and how the text of a parameter is read."""

import json

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
        ({}, None), (True, None),
    ],
)  # fmt: skip
def test_allowed_types(schema, expected):
    types = parameter_types([tool(schema)])
    assert types == {"f": {"k": frozenset(expected)} if expected else {}}


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
        ([{"function": {"name": "f", "parameters": {"properties": [1]}}}],
            f"{AT}.parameters.properties is [1]"),
    ],
)  # fmt: skip
def test_invalid_tools_name_the_field(tools, field):
    with pytest.raises(ValueError, match=r".+") as error:
        parameter_types(tools)
    assert str(error.value).startswith(field)
    with pytest.raises(ValueError, match=r".+"):
        create_tool_parser("hermes", tools=tools)


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        (5, " is 5"), (None, None), ("string", " is 'string'"),
        ({"type": "text"}, ".type is 'text'; known types: string, integer"),
        ({"type": ["string", "text"]}, ".type is 'text'"),
        ({"type": [["string"]]}, ".type is ['string']"), ({"type": [{}]}, ".type is {}"),
        ({"type": 5}, ".type is 5"), ({"type": None}, ".type is None"),
        ({"type": {"string": 1}}, ".type is {'string': 1}"), ({"anyOf": 5}, ".anyOf is 5"),
        ({"anyOf": None}, ".anyOf is None"),
        ({"oneOf": {"type": "string"}}, ".oneOf is {'type': 'string'}"),
        ({"anyOf": [{"type": "string"}, 5]}, ".anyOf[1] is 5"),
        ({"oneOf": [{"anyOf": [{"type": "x"}]}]}, ".oneOf[0].anyOf[0].type is 'x'"),
        ({"enum": 5}, ".enum is 5"), ({"enum": None}, ".enum is None"),
        ({"enum": "abc", "const": 1}, ".enum is 'abc'"),
    ],
)  # fmt: skip
def test_invalid_schemas_name_the_field(schema, field):
    tools = [{"function": {"name": "f", "parameters": {"properties": {"k": schema}}}}]
    with pytest.raises(ValueError, match=r".+") as error:
        parameter_types(tools)
    assert str(error.value).startswith(f"{AT}.parameters.properties.k{field or ' is None'}")


# (text, types, JSON)
TYPED = [
    ("42", ["integer"], "42"), (" 42\n", ["integer"], "42"), ("42", ["string"], '"42"'),
    ("42", None, '"42"'), ("42", [], '"42"'), ("42", ["number"], "42"),
    ("4.5", ["integer"], '"4.5"'), ("4.50", ["number"], "4.5"), ("042", ["integer"], '"042"'),
    ("+1", ["integer"], '"+1"'), ("1e3", ["number"], "1000.0"), ("1e999", ["number"], '"1e999"'),
    ("[1e999]", ["array"], '"[1e999]"'), ("NaN", ["number"], '"NaN"'),
    ("-Infinity", ["number"], '"-Infinity"'), ("9" * 5000, ["integer"], json.dumps("9" * 5000)),
    ("true", ["boolean"], "true"), ("True", ["boolean"], "true"), ("FALSE", ["boolean"], '"FALSE"'),
    ("False", ["boolean"], "false"), ("true", ["integer"], '"true"'),
    ("true", ["number"], '"true"'), ("1", ["boolean"], '"1"'), ("null", ["null"], "null"),
    ("None", ["null", "integer"], "null"), ("null", ["integer"], '"null"'), ("", ["integer"], '""'),
    (" ", ["integer"], '" "'), ('{"a" :1}', ["object"], '{"a": 1}'),
    ('{"a" :1}', ["array"], '"{\\"a\\" :1}"'), ('["é", "\\u00e9"]', ["array"], '["é", "é"]'),
    ("{'a': 1}", ["object"], "\"{'a': 1}\""), ("[1, 2", ["array"], '"[1, 2"'),
    ('"x"', ["integer"], '"\\"x\\""'), ("x\n y", ["integer"], '"x\\n y"'),
    ("[" * 100_000, ["array"], json.dumps("[" * 100_000)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "allowed", "expected"), TYPED, ids=range(len(TYPED)))
def test_typed(text, allowed, expected):
    assert typed(text, None if allowed is None else frozenset(allowed)) == expected


@given(text=st.text(), allowed=st.frozensets(st.sampled_from(["integer", "array", "null"])))
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
