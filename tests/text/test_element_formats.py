"""Texts of formats with elements that peers' own suites have, and what is decided about them.

A row is a format, a text, and the calls as pairs of name and arguments, with texts between them.
Arguments are a value, or the text that is passed on as it is.
The texts are written anew after the cases of vLLM 0.33.0 (tests/tool_parsers, tests/parser/engine)
and SGLang 0.5.23.
"""

import json

import pytest
from chunking import same_under_all
from families import STYLES
from renderers import Expected

from mini_vllm.text.events import ArgsDelta, CallEnd, CallStart, Malformed
from mini_vllm.text.states.element import DEEPEST
from mini_vllm.text.tool_parsers import create_tool_parser

MARKERS = {style.format: style.markers for style in STYLES.values()}
TOOL = {
    "function": {
        "name": "f",
        "parameters": {
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "int"},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "place": {"$ref": "#/$defs/place"},
                "list": {"anyOf": [{"type": "array"}, {"type": "string"}]},
                "tree": {"$ref": "#/$defs/tree"},
                "either": {"oneOf": [{"type": "array", "items": {"type": "integer"}}, {}]},
            },
            "$defs": {
                "place": {"properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}},
                "tree": {
                    "properties": {"n": {"type": "integer"}},
                    "additionalProperties": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
            },
        },
    }
}
D = "｜DSML｜"


def dsml(*parameters, end=f"</{D}parameter>"):
    body = "".join(f"<{D}parameter name={one}{end}\n" for one in parameters)
    return f'<{D}invoke name="f">\n{body}</{D}invoke>\n'


def v4(inside):
    return f"<{D}tool_calls>\n{inside}</{D}tool_calls>"


def step(call):
    return f"<｜tool_calls_begin｜>{call}<｜tool_calls_end｜>"


def m3(*calls):
    """MiniMax M3's text, with ⟨ for what each of its tags begins with."""
    written = "\n".join(f'⟨invoke name="f">{call}⟨/invoke>' for call in calls)
    return f"⟨tool_call>\n{written}\n⟨/tool_call>".replace("⟨", "]<]minimax[>[<")


def ifm(*calls):
    written = "".join(f"<ifm|tool_call>{call}</ifm|tool_call>" for call in calls)
    return f"<ifm|tool_calls>{written}</ifm|tool_calls>"


STEP_CALL = (
    '<steptml:invoke name="f"><steptml:parameter name="text">a < b</steptml:parameter>'
    "</steptml:invoke><｜tool_call_end｜>"
)
DOTS = '<dots_function_call><invoke name="f"><parameter name="place">{"city": "北京"}</parameter>'

ROWS = {
    "Seed-OSS: types and line breaks": ("seed_oss",
        "<seed:tool_call>\n<function=f>\n<parameter=count>\n3\n</parameter>\n<parameter=maybe>null"
        "</parameter>\n<parameter=text>\n a\n\n</parameter>\n</function>\n</seed:tool_call>",
        [("f", {"count": 3, "maybe": None, "text": " a\n"})]),
    "Seed-OSS: no opener": ("seed_oss",
        "<function=f>\n<parameter=maybe>\nnow\n</parameter>\n</function>\n</seed:tool_call>",
        [("f", {"maybe": "now"})]),
    "Seed-OSS: another opener is text": ("seed_oss", "<tool_call>f</tool_call>",
        ["<tool_call>f</tool_call>"]),
    "MiMo: line breaks are the value's": ("mimo",
        "<tool_call>\n<function=f>\n<parameter=text>\na\n</parameter>\n</function>\n</tool_call>",
        [("f", {"text": "\na\n"})]),
    "DSML: types of the markup, not of the schema": ("deepseek_v4",
        v4(dsml('"text" string="true">42', '"count" string="true">42', '"x" string="false">[1]')),
        [("f", {"text": "42", "count": "42", "x": [1]})]),
    "DSML: no attribute": ("deepseek_v4", v4(dsml('"a">Paris', '"b">5', '"c">"x"', '"d">null')),
        [("f", {"a": "Paris", "b": 5, "c": '"x"', "d": None})]),
    "DSML: JSON that is none": ("deepseek_v32",
        f"<{D}function_calls>" + dsml('"a" string="false">{oops', '"b" string="false">True')
        + f"</{D}function_calls>", [("f", {"a": "{oops", "b": "True"})]),
    "DSML: more attributes": ("deepseek_v4",
        v4(dsml('"a" type="x" string="true">42', '"b" string="true" type="x">42',
                '"c" string="false" x="y" z="">42', '"say "it"" string="true">1')
           .replace('name="f"', 'name="f" id="c1"')),
        [("f", {"a": "42", "b": "42", "c": 42, 'say "it"': "1"})]),
    "DSML: a value without its end": ("deepseek_v4",
        v4(dsml('"a" string="true">Tokyo', '"b" string="true">1 < 2', end="")),
        [("f", {"a": "Tokyo\n", "b": "1 < 2\n"})]),
    "DSML: calls without a section": ("deepseek_v4",
        "So: " + dsml('"a" string="true">x') + dsml() + f"</{D}tool_calls>",
        ["So: ", ("f", {"a": "x"}), ("f", {})]),
    "DSML: prose behind a bare call": ("deepseek_v32", dsml() + "so", [("f", {}), "\nso"]),
    "DSML: a section behind a bare call": ("deepseek_v4", dsml() + v4(dsml()),
        [("f", {}), "\n", ("f", {})]),
    "DSML: another section's tag is text": ("deepseek_v4", f"<{D}function_calls>\n{dsml()}",
        [f"<{D}function_calls>\n", ("f", {}), "\n"]),
    "DSML: other spellings": ("deepseek_v4", f"<{D}toolcalls>{dsml()}</{D}tool_calls><{D}tool>"
        f"{dsml()}", [("f", {}), ("f", {}), "\n"]),
    "DSML: an element without content": ("deepseek_v4", v4(f'<{D}invoke name="f"/>'), [("f", {})]),
    "DSML: no end of the call": ("deepseek_v4", v4(dsml().replace(f"</{D}invoke>", "")),
        [("f", {})]),
    "DSML: an end of text in the value": ("deepseek_v4", v4(dsml('"a" string="true">2>&1 </DSML>')),
        [("f", {"a": "2>&1 </DSML>"})]),
    "DSML: an object for parameters": ("deepseek_v32",
        f'<{D}function_calls>\n<{D}invoke name="f">\n{{ "a": [1.0, "}}"]\n}}\n</{D}invoke>'
        f'{dsml()}</{D}function_calls>', [("f", '{ "a": [1.0, "}"]\n}'), ("f", {})]),
    "DSML: an object without the end of its call": ("deepseek_v4",
        v4(f'<{D}invoke name="f">{{"a": 1}}\n{dsml()}'), [("f", {"a": 1}), ("f", {})]),
    "DSML: an object at the end": ("deepseek_v41", f'<{D} invoke name="f">{{"a": 1}}',
        [("f", {"a": 1})]),
    "DSML 4.1: spaces": ("deepseek_v41", v4(dsml('"a" string="true">x')).replace("tool_", "")
        .replace(D, f"{D} "), [("f", {"a": "x"})]),
    "Step 3: with a kind": ("step3",
        step(f"<｜tool_call_begin｜>function<｜tool_sep｜>{STEP_CALL}") + "\n\nok",
        [("f", {"text": "a < b"}), "\n\nok"]),
    "Step 3: with a separator between": ("step3",
        step(f"<｜tool_call_begin｜>{STEP_CALL}<｜tool_sep｜><｜tool_call_begin｜>{STEP_CALL}"),
        [("f", {"text": "a < b"})] * 2),
    "Step 3: a call without a section": ("step3", f"<｜tool_call_begin｜>{STEP_CALL}",
        [f"<｜tool_call_begin｜>{STEP_CALL}"]),
    "Step 3: no end of the section": ("step3", step(STEP_CALL).replace("<｜tool_calls_end｜>", ""),
        [("f", {"text": "a < b"})]),
    "Hunyuan: no parameters": ("hy_v3",
        "<tool_calls>\n<tool_call>f<tool_sep>\n</tool_call>\n</tool_calls>", [("f", {})]),
    "Hunyuan: without a separator": ("hy_v4",
        "<tool_calls><tool_call>f<arg_key>count</arg_key><arg_value>3</arg_value></tool_call>"
        "<tool_call>g</tool_call></tool_calls>", [("f", {"count": 3}), ("g", {})]),
    "Hunyuan: tags with a suffix": ("hy_v3:opensource",
        "So <tool_calls>\n<tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n"
        "<arg_key:opensource>text</arg_key:opensource>\n<arg_value:opensource>a</arg_value>"
        "</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
        ["So <tool_calls>\n", ("f", {"text": "a</arg_value>"})]),
    "K2: types of the schema": ("k2_horizon", ifm("f<ifm|arg_key>count</ifm|arg_key>"
        "<ifm|arg_value> 5 </ifm|arg_value>", "ping"), [("f", {"count": 5}), ("ping", {})]),
    "K2: types of the markup": ("k2_horizon", ifm("f<ifm|arg_key>a</ifm|arg_key><ifm|arg_type>"
        "array[integer]</ifm|arg_type><ifm|arg_value>[1]</ifm|arg_value><ifm|arg_key>b"
        "</ifm|arg_key>\n<ifm|arg_type>string</ifm|arg_type>\n<ifm|arg_value>2</ifm|arg_value>"),
        [("f", {"a": [1], "b": "2"})]),
    "K2: a type that nobody knows": ("k2_horizon", ifm("f<ifm|arg_key>count</ifm|arg_key>"
        "<ifm|arg_type>any</ifm|arg_type><ifm|arg_value>5</ifm|arg_value>"), [("f", {"count": 5})]),
    "dots: references": ("dots", DOTS + "</invoke></dots_function_call>",
        [("f", {"place": {"city": "北京"}})]),
    "dots: no ends": ("dots", DOTS, [("f", {"place": {"city": "北京"}})]),
    "MiniMax M2: calls without a section": ("minimax_m2",
        'So: <invoke name="f"><parameter name="count">3</parameter>\n</invoke>\n'
        '<invoke name="a b">\n</invoke>\n</minimax:tool_call>ok',
        ["So: ", ("f", {"count": 3}), ("a b", {}), "ok"]),
    "MiniMax M2: one more attribute": ("minimax_m2",
        '<minimax:tool_call><invoke name="f" id="1"><parameter name="count" type="integer">3'
        "</parameter></invoke></minimax:tool_call>", [("f", {"count": 3})]),
    "MiniMax M3: one more attribute": ("minimax_m3",
        m3("⟨count>3⟨/count>").replace('name="f"', 'name="f" id="1"'), [("f", {"count": 3})]),
    "MiniMax M2: prose behind a bare call": ("minimax_m2",
        '<invoke name="f"></invoke> so <minimax:tool_call><invoke name="g"/></minimax:tool_call>',
        [("f", {}), " so ", ("g", {})]),
    "MiniMax M2: prose about calls": ("minimax_m2",
        'Write <invoke name="the name">, <invoke name="g"></invoke>, <invoke name="...',
        ['Write <invoke name="the name">, <invoke name="g"></invoke>, <invoke name="...']),
    "MiniCPM 5: CDATA and white space": ("minicpm5",
        '<function name="f"><param name="text"><![CDATA[  a\n]]></param><param name="count"> 3\n'
        "</param></function>", [("f", {"text": "  a\n", "count": 3})]),
    "MiniCPM 5: no space in a tag": ("minicpm5",
        '<functionname="f"><paramname="text">a</param></function>', [("f", {"text": "a"})]),
    "MiniCPM 5: one more attribute": ("minicpm5",
        '<function name="f"><param name="count" type="integer">3</param></function>',
        [("f", {"count": 3})]),
    "MiniCPM 5: two calls": ("minicpm5", '<function name="f"></function>\n<function name="g">',
        [("f", {}), "\n", ("g", {})]),
    "MiniMax M3: types inside": ("minimax_m3",
        "a\n" + m3("⟨place>⟨zip>018⟨/zip>⟨city>1⟨/city>⟨/place>⟨either>⟨item>1⟨/item>"
        "⟨item>x⟨/item>⟨/either>", "⟨x>1⟨/x>") + "b",
        ["a\n", ("f", {"place": {"zip": "018", "city": "1"}, "either": [1, "x"]}),
        ("f", {"x": "1"}), "b"]),
    "MiniMax M3: a schema that refers to itself": ("minimax_m3",
        m3("⟨tree>⟨a>⟨i>⟨n>1⟨/n>⟨a>⟨i>⟨n>2⟨/n>⟨/i>⟨/a>⟨/i>⟨/a>⟨/tree>"),
        [("f", {"tree": {"a": [{"n": 1, "a": [{"n": 2}]}]}})]),
    "MiniMax M3: names twice, and text beside": ("minimax_m3",
        m3("⟨place>hi ⟨t>x⟨/t>⟨t>y⟨/t> there⟨/place>⟨tree>x⟨$text>c⟨/$text>⟨/tree>"),
        [("f", {"place": {"t": ["x", "y"], "$text": "hi  there"},
            "tree": {"$text": "c", "$$text": "x"}})]),
    "MiniMax M3: nothing inside": ("minimax_m3",
        m3("⟨place>⟨/place>⟨list>⟨/list>⟨either> ⟨/either>⟨text>⟨/text>"),
        [("f", {"place": {}, "list": "", "either": [], "text": ""})]),
    "MiniMax M3: text as it is": ("minimax_m3", m3("⟨text>\n a <b> & c\n⟨/text>⟨count> 7 ⟨/count>"),
        [("f", {"text": "\n a <b> & c\n", "count": 7})]),
    "MiniMax M3: names of its own markup": ("minimax_m3",
        m3("⟨a>⟨tool_call>v⟨/tool_call>⟨a>w⟨/a>⟨/a>"),
        [("f", {"a": {"tool_call": "v", "a": "w"}})]),
    "MiniMax M3: a call outside": ("minimax_m3", m3("").split("\n")[1], [m3("").split("\n")[1]]),
    "GLM: names of kin": ("poolside_v1", "<tool_call>f\n<arg_key>list</arg_key><arg_value>[1]"
        "</arg_value></tool_call>", [("f", {"list": [1]})]),
    "GLM: the name on a line of its own": ("glm45", "<tool_call>\nf\n<arg_key>text</arg_key>\n"
        "<arg_value>a</arg_value>\n</tool_call>", [("f", {"text": "a"})]),
    "Step 3: no end of a call, but of its frame": ("step3",
        step(STEP_CALL.replace("</steptml:invoke>", "") * 2), [("f", {"text": "a < b"})] * 2),
    "Qwen: no </function>": ("qwen3_coder", "<tool_call>\n<function=f>\n<parameter=text>\na\n"
        "</parameter>\n</tool_call>\nso", [("f", {"text": "a"}), "\nso"]),
    "Qwen: no </function> at the end": ("qwen3_coder",
        "<tool_call>\n<function=f>\n<parameter=count>\n3\n</parameter>\n", [("f", {"count": 3})]),
    "Qwen: no end before the next call": ("qwen3_coder",
        "<tool_call>\n<function=f>\n<tool_call>\n<function=g>\n<function=h>\n</function>",
        [("f", {}), ("g", {}), ("h", {})]),
    "Qwen: no end of a value before the next call": ("qwen3_coder",
        "<tool_call>\n<function=f>\n<parameter=text>\na\n<tool_call> b\n<tool_call>\n<function=g>\n"
        "<parameter=count>\n3\n<tool_call><function=h></function>\n</tool_call>",
        [("f", {"text": "a\n<tool_call> b"}), ("g", {"count": "3"}), ("h", {})]),
    "Qwen: a parameter twice": ("qwen3_coder",
        "<tool_call>\n<function=f>\n<parameter=text>\na\n</parameter>\n<parameter=text>\nb\n"
        "</parameter>\n</function>\n</tool_call>", [("f", '{"text": "a", "text": "b"}')]),
    "Seed-OSS: no </function>": ("seed_oss", "<seed:tool_call><function=f></seed:tool_call>",
        [("f", {})]),
    "Qwen: names of kin": ("step5", "<tool_call><function=f><parameter=list>\n[1\n</parameter>"
        "</function></tool_call>", [("f", {"list": "[1"})]),
}  # fmt: skip


@pytest.mark.parametrize(("format", "text", "parts"), ROWS.values(), ids=ROWS)
def test_calls_as_models_write_them(format, text, parts):
    expected = Expected()
    for part in parts:
        if isinstance(part, str):
            expected.text(part)
        else:
            name, value = part
            raw = isinstance(value, str)
            expected.call(name, value if raw else json.dumps(value, ensure_ascii=False))
    markers = MARKERS[create_tool_parser(format).format.name.partition(":")[0]]
    events = same_under_all(
        lambda: create_tool_parser(format, tools=[TOOL]), text, markers, every_cut=False
    )
    assert events == expected.events


# What comes first of a call, and what is left of it.
BROKEN = {
    "another element's end": ("⟨a>1⟨/a>⟨b>x⟨/c>", '{"a": "1", "b": "x'),
    "another element's end inside": ("⟨a>⟨b>x⟨/a>⟨/b>⟨/a>", '{"a": '),
    "another element's end deep inside": ("⟨a>⟨b>⟨c>x⟨/b>⟨/c>⟨/a>", '{"a": '),
    "the end of nothing": ("⟨/a>", ""),
    "elements behind text that has streamed": ("⟨text>so ⟨b>x⟨/b>⟨/text>", '{"text": "so '),
    "a long tag": (f"⟨a>⟨{'b' * 256}>x", '{"a": '),
    "too deep": ("⟨a>" * 130, '{"a": '),
}


@pytest.mark.parametrize(("inside", "arguments"), BROKEN.values(), ids=BROKEN)
def test_elements_that_are_none(inside, arguments):
    text = m3(inside) + m3("")
    events = same_under_all(
        lambda: create_tool_parser("minimax_m3", tools=[TOOL]),
        text,
        MARKERS["minimax_m3"],
        every_cut=False,
    )
    assert (
        "".join(event.text for event in events[1:-4] if isinstance(event, ArgsDelta)) == arguments
    )
    assert isinstance(events[-4], Malformed)
    assert events[-3:] == [CallStart(1, None, "f"), ArgsDelta(1, "{}"), CallEnd(1)]


def test_the_deepest_elements():
    names = ["a"] * DEEPEST
    text = "".join(f"⟨{name}>" for name in ["x", *names]) + "1"
    text += "".join(f"⟨/{name}>" for name in [*names, "x"])
    events = same_under_all(
        lambda: create_tool_parser("minimax_m3"), m3(text), (), every_cut=False, seeds=1
    )
    assert events[1].text == '{"x": ' + '{"a": ' * DEEPEST + '"1"' + "}" * (DEEPEST + 1)
