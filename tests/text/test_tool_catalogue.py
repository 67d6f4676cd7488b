"""Real bugs of tool-call parsers, one row each: what must come out where an engine once failed.

A row is a format, the pieces as in the report (or the text, where it is not about pieces) and the
events. Each runs as reported, and under every way to cut its text. A mistake in a format that we
have not is made in the nearest one that we have.

Rows of the catalogue that are elsewhere, because they are about other layers:

- T36, T46, T47, T52 are the server's and its clients' (finish reasons, chunks, indices, null):
  tests of the server and of the pipeline.
- T37, T44 and T53 are about reasoning and calls together: `test_reasoning`.
- T48 (arguments are out with their piece) is a test of its own below.
- T49 (re-reading what has accumulated) is P10 in `test_tool_parsers`; here its smallest case.
- T30 is about tools of a request: parsers forward unknown names, so a row shows that.
- T45 is two layers: a character that straddles a step is the detokenizer's; here the text after it.
"""

import json
import re

import pytest
from chunking import norm, run, same_under_all
from families import STYLES

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)
from mini_vllm.text.formats import find_format
from mini_vllm.text.tool_parsers import create_tool_parser

MARKERS = {style.format: style.markers for style in STYLES.values()}
BEGIN, END = "<tool_call>\n", "\n</tool_call>"
KIMI_BEGIN, KIMI_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
KIMI_CALL, KIMI_ARGS, KIMI_STOP = (
    "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
)  # fmt: skip
DS_BEGIN, DS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
DS_CALL, DS_SEP, DS_STOP = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"


def call(arguments, name="f", *, index=0, id=None):
    return [CallStart(index, id, name), ArgsDelta(index, arguments), CallEnd(index)]


def calls(*pairs):
    return [event for i, (name, args) in enumerate(pairs) for event in call(args, name, index=i)]


def text(text):
    return [TextDelta(text)]


def broken(arguments, raw, name="f", *, index=0, id=None):
    """A call that is announced and then none; the reason is for people and not compared."""
    events = [CallStart(index, id, name)]
    events += [ArgsDelta(index, arguments)] if arguments else []
    return [*events, Malformed(index, raw, "")]


def ds(*bodies):
    return DS_BEGIN + "".join(DS_CALL + body + DS_STOP for body in bodies) + DS_END


def one(name, arguments):
    return f'{{"name": "{name}", "arguments": {arguments}}}'


def hermes(*pairs):
    return "".join(BEGIN + one(*pair) + END for pair in pairs)


def kimi(*pairs):
    written = (KIMI_CALL + id + KIMI_ARGS + arguments + KIMI_STOP for id, arguments in pairs)
    return KIMI_BEGIN + "".join(written) + KIMI_END


OLD = "    if x:\n        y"
LARGE = '{"code": "' + "x = 1\\n" * 1500 + '"}'
NUMBER_NAME = f'<tool_call>{{"name": {"9" * 5000}, "arguments": {{}}}}</tool_call>'
WEATHER = '{"city": "Paris"}'

ROWS = {
    "tool-T01": ("hermes",
        [BEGIN, '{"name": "f", "arguments": {"a', '": {"b": [1', ", 2]}", "}}", END],
        call('{"a": {"b": [1, 2]}}')),
    "tool-T01-open": ("hermes", [BEGIN, '{"name": "f", "arguments": {"a": {"b": [1'],
        broken('{"a": {"b": [1', "")),
    "tool-T02": ("hermes", [BEGIN + '{"name": "f", "arguments": {"id": 42', "}\n}\n</tool_call>"],
        call('{"id": 42}')),
    "tool-T03": ("deepseek_v31",
        [DS_BEGIN + DS_CALL + "f" + DS_SEP + '{"code": 1', "23}" + DS_STOP + DS_END],
        call('{"code": 123}')),
    "tool-T03-nested": ("deepseek_v31",
        [DS_BEGIN, DS_CALL, "f", DS_SEP, '{"a": {"b": "c', '"}}' + DS_STOP, DS_END],
        call('{"a": {"b": "c"}}')),
    "tool-T04-T27-two": ("deepseek_v31",
        ["Ok. " + ds("f" + DS_SEP + '{"a": 1}', "g" + DS_SEP + "{}")],
        text("Ok. ") + calls(("f", '{"a": 1}'), ("g", "{}"))),
    "tool-T05": ("llama_json", ['{"name": "f", "parameters": {"city": "Paris"}}'], call(WEATHER)),
    "tool-T05-blocks": ("hermes", [hermes(("f", "{}")) + "\n" + hermes(("g", "{}"))],
        [*call("{}"), TextDelta("\n"), *call("{}", "g", index=1)]),
    "tool-T06": ("minimax_m2",
        ['<minimax:tool_call><invoke name="f"><parameter name="city">Par',
        "is</parameter></invoke>", "</minimax:tool_call>"], call(WEATHER)),
    "tool-T07": ("kimi_k2",
        ["<|tool_calls_sec", "tion_begin|>", "<|tool_call_be", "gin|>functions.f:0", KIMI_ARGS +
        "{}", KIMI_STOP + KIMI_END], call("{}", id="functions.f:0")),
    "tool-T08": ("hermes", ["<tool_call>\n", hermes(("f", WEATHER))],
        text("<tool_call>\n") + call(WEATHER)),
    "tool-T08-coder": ("qwen3_coder",
        "<tool_call>\n<tool_call>\n<function=f>\n</function>\n</tool_call>",
        text("<tool_call>\n") + call("{}")),
    "tool-T08-mistral": ("mistral", "[TOOL_CALLS][TOOL_CALLS]f[ARGS]{}",
        text("[TOOL_CALLS]") + call("{}")),
    "tool-T09": ("hermes",
        [BEGIN + '{"name": "f", "arguments": {"cmd": "mkdir test/{test1,', 'test2"}}' + END],
        call('{"cmd": "mkdir test/{test1,test2"}')),
    "tool-T10": ("hermes", hermes(("f", '{"doc": "</tool_call> ends it"}')),
        call('{"doc": "</tool_call> ends it"}')),
    "tool-T10-both": ("hermes", hermes(("f", '{"doc": "<tool_call></tool_call>"}'), ("g", "{}")),
        calls(("f", '{"doc": "<tool_call></tool_call>"}'), ("g", "{}"))),
    "tool-T11": ("hermes", [BEGIN, '{"name":"f","arguments":{}}', END], call("{}")),
    "tool-T11-llama": ("llama_json", ['{"name":"f",', '"parameters":{}}'], call("{}")),
    "tool-T11-pythonic": ("pythonic", ["[f(", ")]"], call("{}")),
    "tool-T12": ("glm45", "<tool_call>get_current_time</tool_call>",
        call("{}", "get_current_time")),
    "tool-T12-line": ("glm45", ["<tool_call>get_current_time\n", "</tool_call>"],
        call("{}", "get_current_time")),
    "tool-T12-coder": ("qwen3_coder", "<tool_call>\n<function=f>\n</function>\n</tool_call>",
        call("{}")),
    "tool-T12-minimax": ("minimax_m2",
        '<minimax:tool_call>\n<invoke name="f">\n</invoke>\n</minimax:tool_call>', call("{}")),
    "tool-T13": ("qwen3_coder",
        f"<tool_call>\n<function=f>\n<parameter=old>\n{OLD}\n</parameter>\n</function>\n</tool_call>",
        call(json.dumps({"old": OLD}))),
    "tool-T13-lines": ("qwen3_coder",
        "<tool_call><function=f><parameter=old>\n\n\n x\r\n\n</parameter></function></tool_call>",
        call(r'{"old": "\n\n x\r\n"}')),
    "tool-T13-glm": ("glm45",
        "<tool_call>f\n<arg_key>old</arg_key>\n<arg_value>\n  x\n</arg_value>\n</tool_call>",
        call(r'{"old": "\n  x\n"}')),
    "tool-T13-minimax": ("minimax_m2",
        '<minimax:tool_call><invoke name="f"><parameter name="old">\n  x </parameter>'
        "</invoke></minimax:tool_call>", call(r'{"old": "\n  x "}')),
    "tool-T14-T45": ("hermes", hermes(("f", '{"city":"北京é😀"}')), call('{"city":"北京é😀"}')),
    "tool-T14-escaped": ("hermes", hermes(("f", r'{"city":"\u5317京"}')),
        call(r'{"city":"\u5317京"}')),
    "tool-T14-coder": ("qwen3_coder",
        "<tool_call><function=f><parameter=city>北京</parameter></function></tool_call>",
        call('{"city": "北京"}')),
    "tool-T14-pythonic": ("pythonic", "[f(city='北京')]", call('{"city": "北京"}')),
    "tool-T15": ("llama_json",
        ['{"name":"f","parameters":{"a":1,', '"b" : [1,2],"c":\n{"d":1.0}', "}}"],
        call('{"a":1,"b" : [1,2],"c":\n{"d":1.0}}')),
    "tool-T16": ("mistral",
        ['[TOOL_CALLS]f[CALL_ID]abc123XYZ[ARGS]{"a": 1}',
        '[TOOL_CALLS]g[CALL_ID]def456UVW[ARGS]{"b": 2}'],
        call('{"a": 1}', id="abc123XYZ") + call('{"b": 2}', "g", index=1, id="def456UVW")),
    "tool-T17": ("mistral", ["[TOOL_CALLS]", "f", '{"city": "Paris"}'], call(WEATHER)),
    "tool-T18": ("mistral", '[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{"b": 2}',
        calls(("f", '{"a": 1}'), ("g", '{"b": 2}'))),
    "tool-T18-T50-prose": ("mistral", "[TOOL_CALLS]f[ARGS]{} and so on",
        call("{}") + text(" and so on")),
    "tool-T19": ("hermes", 'A 5" screen.\n' + hermes(("f", "{}")),
        text('A 5" screen.\n') + call("{}")),
    "tool-T20": ("llama_json", '{"name": "f", "parameters": {"a": {"b": {"c": {}}}, "d": [{}]}}',
        call('{"a": {"b": {"c": {}}}, "d": [{}]}')),
    "tool-T21": ("pythonic", '[f(x=-3, y=-1.5, s="a]b", l=[-1, "]"])]',
        call('{"x": -3, "y": -1.5, "s": "a]b", "l": [-1, "]"]}')),
    "tool-T22-T27-kimi": ("kimi_k2", [kimi(("functions.f:0", '{"a": 1}'), ("functions.g:1", "{}"))],
        call('{"a": 1}', id="functions.f:0") + call("{}", "g", index=1, id="functions.g:1")),
    "tool-T22-last": ("llama_json",
        ['{"name": "f", "parameters": {"a": 1}}', '; {"name": "g", "parameters": {"b": 2}}'],
        calls(("f", '{"a": 1}'), ("g", '{"b": 2}'))),
    "tool-T22-T23": ("hermes", hermes(("f", '{"a": 1}'), ("f", '{"a": 2}')),
        calls(("f", '{"a": 1}'), ("f", '{"a": 2}'))),
    "tool-T24": ("mistral",
        ['[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}',
        ', {"name": "g", "arguments": {"b": 2}}]'], calls(("f", '{"a": 1}'), ("g", '{"b": 2}'))),
    "tool-T25": ("minimax_m2",
        ["Ok <mini", 'max:tool_call><invoke name="f"></inv', "oke></minimax:tool", "_call>"],
        text("Ok ") + call("{}")),
    "tool-T25-not": ("minimax_m2", ["Ok <mini", "mum>"], text("Ok <minimum>")),
    "tool-T26": ("minimax_m2",
        '<minimax:tool_call><invoke name="f"><parameter name="a">1</parameter></invoke>'
        '<invoke name="g"><parameter name="b">2</parameter></invoke></minimax:tool_call>',
        calls(("f", '{"a": "1"}'), ("g", '{"b": "2"}'))),
    "tool-T28": ("pythonic", '[search(query="hello]world"), g()]',
        calls(("search", '{"query": "hello]world"}'), ("g", "{}"))),
    "tool-T29": ("mistral", "a[0] or [TOOL]", text("a[0] or [TOOL]")),
    "tool-T29-behind": ("mistral", '[TOOL_CALLS][{"name": "f", "arguments": {}}] a[0] ]',
        call("{}") + text(" a[0] ]")),
    "tool-T30": ("hermes", hermes(("nobody_knows_it", "{}"), ("f", "{}")),
        calls(("nobody_knows_it", "{}"), ("f", "{}"))),
    "tool-T31": ("kimi_k2", kimi(("\nfunctions.f:12\n", " {}\n")), call("{}", id="functions.f:12")),
    "tool-T31-large": ("kimi_k2", kimi(("functions.f:0", LARGE)), call(LARGE, id="functions.f:0")),
    "tool-T32": ("minimax_m2",
        ['<minimax:tool_call><invoke name="f"><parameter name="a">x</para',
        "meter></invoke></minimax:tool_call>"], call('{"a": "x"}')),
    "tool-T32-not": ("minimax_m2",
        ['<minimax:tool_call><invoke name="f"><parameter name="a">x</para',
        "graph></parameter></invoke></minimax:tool_call>"], call('{"a": "x</paragraph>"}')),
    "tool-T33": ("hermes", hermes(("f", "{}")) + " That is all.",
        call("{}") + text(" That is all.")),
    "tool-T34": ("hermes", ["a <"], text("a <")),
    "tool-T34-opener": ("mistral", ["a ", "[TOOL_CAL"], text("a [TOOL_CAL")),
    "tool-T34-object": ("hermes", BEGIN + '{"name": "f", "argum',
        text(BEGIN + '{"name": "f", "argum')),
    "tool-T35": ("hermes", [BEGIN, '{"name": "f", "arguments": {"city": "Par'],
        broken('{"city": "Par', "")),
    "tool-T35-coder": ("qwen3_coder", ["<tool_call>\n<function=f>\n<parameter=city>\nPar"],
        broken('{"city": "Par', "")),
    "tool-T38": ("llama_json", '{"answer": 42}', text('{"answer": 42}')),
    "tool-T38-named": ("llama_json", '{"name": "Ada", "age": 36}',
        text('{"name": "Ada", "age": 36}')),
    "tool-T38-array": ("llama_json", '[{"name": "f", "parameters": {}}]',
        text('[{"name": "f", "parameters": {}}]')),
    "tool-T39": ("pythonic", "[1, 2, 3] is a list", text("[1, 2, 3] is a list")),
    "tool-T39-link": ("pythonic", "[see](https://example.com)", text("[see](https://example.com)")),
    "tool-T39-strings": ("pythonic", "['a', 'b']", text("['a', 'b']")),
    "tool-T40": ("hermes", BEGIN + '{"arguments":{"name":"Ada"},"name":"f"}' + END,
        call('{"name":"Ada"}')),
    "tool-T40-inside": ("hermes",
        BEGIN + '{"name":"f","arguments":{"arguments":{"name":"g"}}}' + END,
        call('{"arguments":{"name":"g"}}')),
    "tool-T41": ("hermes", hermes(("f", '{"x": "a ] } b"}')), call('{"x": "a ] } b"}')),
    "tool-T41-mistral": ("mistral", '[TOOL_CALLS] [{"name": "f", "arguments": {"x": "a ] } b"}}]',
        call('{"x": "a ] } b"}')),
    "tool-T42": ("mistral", '[TOOL_CALLS] [{"name": "f", "arguments": {"x": [1,2], "y": [[]]}}]',
        call('{"x": [1,2], "y": [[]]}')),
    "tool-T43": ("hermes",
        [BEGIN + '{"name": "f", "arguments": {"a": "x', "\\", 'n", "b": tr', "ue, ", '"c": -', "1}}"
        + END], call('{"a": "x\\n", "b": true, "c": -1}')),
    "tool-T49": ("llama_json", ['{"name": "f", "parameters": {"a": "', *["long "] * 200, '"}}'],
        call('{"a": "' + "long " * 200 + '"}')),
    "tool-T50-open": ("mistral", '[TOOL_CALLS]f[ARGS]{"cmd": "rm -r /tmp/',
        broken('{"cmd": "rm -r /tmp/', "")),
    "tool-T50-unclosed": ("hermes", BEGIN + one("f", "{}"), call("{}")),
    "tool-T51": ("harmony",
        "<|channel|>final<|message|>a<|end|> 364 "
        "<|start|>assistant<|channel|>final<|message|>b<|return|>", text("a 364 b")),
    "tool-T51-doubled": ("harmony", "<|start|><|start|>assistant<|channel|>final<|message|>hi",
        text("hi")),
    "tool-T51-name": ("harmony",
        "<|start|>assistant to=functions.query_dataset<|channel|>commentary<|message|>{}<|call|>",
        call("{}", "query_dataset")),
    "tool-T51-reasoning": ("harmony",
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary "
        "to=functions.f <|constrain|>json<|message|>{}<|call|>",
        [ReasoningDelta("Hm"), *call("{}")]),
    # What models write, in the words of other engines' own tests; each id names the engine, its
    # version, the file and the test.
    "vllm-0.33.0 test_qwen3coder: missing_closing_parameter_tag": ("qwen3_coder",
        "Let me check:\n<tool_call>\n<function=f>\n<parameter=city>\nDallas\n<parameter=state>\n"
        "TX\n</parameter>\n</function>\n</tool_call>",
        text("Let me check:\n") + call('{"city": "Dallas", "state": "TX"}')),
    "vllm-0.33.0 test_qwen3coder: streaming_missing_opening_tag": ("qwen3_coder",
        "Let me check:\n<function=f>\n<parameter=city>\nDallas\n</parameter>\n</function>\n"
        "</tool_call>", text("Let me check:\n") + call('{"city": "Dallas"}')),
    "vllm-0.33.0 parser/qwen3: a second call before </tool_call>": ("qwen3_coder",
        "<tool_call><function=f></function>\n<tool_call><function=g></function></tool_call>",
        [*call("{}"), TextDelta("\n"), *call("{}", "g", index=1)]),
    "vllm-0.33.0 parser/kimi_k2: the section ends in a call": ("kimi_k2",
        f"{KIMI_BEGIN}{KIMI_CALL}functions.f:0{KIMI_ARGS}{{}}{KIMI_END}",
        call("{}", id="functions.f:0")),
    "ollama fb30760 qwen3coder_test: names with spaces": ("qwen3_coder",
        "<tool_call><function=get current temperature>\n<parameter=location with spaces>\nx\n"
        "</parameter>\n</function></tool_call>",
        call('{"location with spaces": "x"}', "get current temperature")),
    "ollama fb30760 qwen3coder_test: names with quotes": ("qwen3_coder",
        '<tool_call><function="a b"><parameter="c d">\n"x"\n</parameter></function></tool_call>',
        call(r'{"\"c d\"": "\"x\""}', '"a b"')),
    "vllm-0.33.0 llama4_pythonic: tags behind prose": ("pythonic",
        "Let me check. <|python_start|>[f()]<|python_end|> and <|python_start|>[g()]<|python_end|>",
        [*text("Let me check. "), *call("{}"), TextDelta(" and "), *call("{}", "g", index=1)]),
    "sglang-0.5.23 llama32_detector: a tag behind prose": ("llama_json",
        'Let me check. <|python_tag|>{"name": "f", "parameters": {}}; '
        '{"name": "g", "parameters": {}}\nSo.',
        text("Let me check. ") + calls(("f", "{}"), ("g", "{}")) + text("\nSo.")),
    "ollama fb30760 harmonyparser_test: a header from its middle": ("harmony",
        'to=functions.f<|channel|>analysis<|message|>{"a": 1}', call('{"a": 1}')),
    "vllm-0.33.0 parser/test_harmony: the prompt has the role": ("harmony",
        " to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>", call("{}")),
    "vllm-0.33.0 parser/test_harmony: assistant_recipient_not_tool": ("harmony",
        "<|channel|>commentary to=assistant<|message|>Some response<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Here",
        [ReasoningDelta("Some response"), TextDelta("Here")]),
    "vllm-0.33.0 parser/test_harmony: builtin_recipient_skipped": ("harmony",
        "<|channel|>analysis to=python code<|message|>print(1 < 2)<|call|>",
        [ReasoningDelta("print(1 < 2)")]),
    "vllm-0.33.0 test_harmony_utils: builtin_dotted_variants_rejected": ("harmony",
        '<|channel|>commentary to=browser.search<|message|>{"query": "x"}<|call|>',
        [ReasoningDelta('{"query": "x"}')]),
    "vllm-0.33.0 parser/test_harmony: tool_call_dotted_name": ("harmony",
        "<|channel|>commentary to=math.sum<|message|>{}<|call|>", call("{}", "math.sum")),
    "vllm-0.33.0 test_kimi_k3: extract_tool_calls_unescapes_attributes": ("kimi_k3",
        '<|open|>tools<|sep|><|open|>call tool="a&amp;b" index="1"<|sep|><|open|>argument '
        'key="&quot;k&amp;quot;" type="object"<|sep|>{"a":1}<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>tools<|sep|>",
        call(r'{"\"k&quot;": {"a": 1}}', "a&b")),
    "attributes in another order, and one more": ("kimi_k3",
        '<|open|>tools<|sep|><|open|>call index="1" id="c1"  tool="f"<|sep|><|open|>argument '
        'type="number" key="k" x=""<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>',
        call('{"k": 1}')),
    "a tag without the attribute that names": ("kimi_k3",
        '<|open|>tools<|sep|><|open|>call id="c1"<|sep|><|close|>call<|sep|>',
        text('<|open|>tools<|sep|><|open|>call id="c1"<|sep|><|close|>call<|sep|>')),
    "a tag that is not attributes": ("kimi_k3",
        '<|open|>tools<|sep|><|open|>call tool="f" and so on<|sep|>',
        text('<|open|>tools<|sep|><|open|>call tool="f" and so on<|sep|>')),
    # More than the catalogue has: found while these tests were written.
    "no tools' end, and a type that JSON has not": ("kimi_k3",
        '<|open|>tools<|sep|><|open|>call tool="f"<|sep|><|open|>argument key="k" type="foo"<|sep|>'
        "1<|close|>argument<|sep|>", call('{"k": "1"}')),
    "a function that is called like a built-in tool": ("harmony",
        "<|channel|>commentary to=functions.python<|message|>{}<|call|>", call("{}", "python")),
    "a next call, and the end of all, in place of a call's end": ("kimi_k3",
        '<|open|>tools<|sep|><|open|>call tool="f"<|sep|><|open|>call tool="g"<|sep|>'
        "<|close|>tools<|sep|>!", calls(("f", "{}"), ("g", "{}")) + text("!")),
    "calls that break, one in a name": ("kimi_k3",
        '<|open|>tools<|sep|><|open|>call tool="f"<|sep|>!<|close|>call<|sep|><|open|>call tool="g'
        '"<|sep|><|open|>argument key="k<|close|>argument<|sep|><|close|>tools<|sep|>!',
        [*broken("", "<|sep|>!<|close|>call<|sep|>"), *broken("", '<|sep|><|open|>argument key="k'
        "<|close|>argument<|sep|><|close|>tools<|sep|>", "g", index=1), TextDelta("!")]),
    **{f"values of the type {kind}": ("kimi_k3",
        '<|open|>tools<|sep|><|open|>call tool="f"<|sep|><|open|>argument key="k" '
        f'type="{kind}"<|sep|>{value}<|close|>argument<|sep|><|close|>call<|sep|>!',
        [*call(f'{{"k": {value}}}'), TextDelta("!")])
        for kind, value in (("array", "[1]"), ("null", "null"), ("boolean", "true"))},
    **{f"a header with {end}": ("harmony",
        f"<|channel|>final{end}<|start|>assistant<|channel|>final<|message|>So",
        text(f"<|channel|>final{end}So")) for end in ("<|end|>", "<|return|>", "<|call|>")},
    "messages that have no end": ("harmony",
        "<|channel|>analysis<|message|>Hm<|start|>assistant<|channel|>final<|message|>So"
        "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|return|>",
        [ReasoningDelta("Hm"), TextDelta("So"), *call("{}")]),
    "an answer that ends like a call": ("harmony",
        "<|channel|>final<|message|>So<|call|><|channel|>analysis<|message|>Hm<|call|>",
        [TextDelta("So"), ReasoningDelta("Hm")]),
    **{f"a broken call, then {end}": ("harmony",
        f"<|channel|>commentary to=functions.f<|message|>{{!{end}assistant<|channel|>final"
        "<|message|>So",
        [*broken("{", raw), TextDelta(shown)])
        for end, raw, shown in (
            ("<|end|>", "!<|end|>", "assistantSo"), ("<|call|>", "!<|call|>", "assistantSo"),
            ("<|start|>", "!", "So"),
        )},
    "a call behind a broken one, Mistral": ("mistral", "[TOOL_CALLS]f{!}[TOOL_CALLS]g{}",
        broken("{", "!}") + call("{}", "g", index=1)),
    "a call behind a broken one, Python": ("pythonic",
        "[f(a=!)]<|python_end|> x <|python_start|>[g()]",
        [*broken('{"a": ', "!)]<|python_end|>"), TextDelta(" x "), *call("{}", "g", index=1)]),
    "a tag behind a broken call, Python": ("pythonic", '[f(a="\n<|python_start|>[g()]',
        broken('{"a": "', "\n") + call("{}", "g", index=1)),
    "white space before the first tag": ("pythonic", " <|python_start|>[f()]", call("{}")),
    "no function at all": ("harmony", "<|channel|>commentary to=functions.<|message|>x",
        [ReasoningDelta("x")]),
    "an answer that begins like a header": ("harmony", " to=be or not to=be",
        text(" to=be or not to=be")),
    "code behind a tag that is no call": ("llama_json", "<|python_tag|>print({})",
        text("<|python_tag|>print({})")),
    "a bare object behind prose": ("llama_json", 'So: {"name": "f", "parameters": {}}',
        text('So: {"name": "f", "parameters": {}}')),
    "a bare list behind prose": ("pythonic", "So: [f()]", text("So: [f()]")),
    "a tagged list behind a bare one": ("pythonic", "[f()] and <|python_start|>[g()]",
        [*call("{}"), TextDelta(" and "), *call("{}", "g", index=1)]),
    "a tagged call behind a broken one": ("llama_json",
        '{"name": "f", "parameters": {!<|python_tag|>{"name": "g", "parameters": {}}',
        broken("{", "!") + call("{}", "g", index=1)),
    "a name with brackets, GLM": ("glm45",
        "<tool_call>f\n<arg_key>a[0].b</arg_key><arg_value>x</arg_value></tool_call>",
        call('{"a[0].b": "x"}')),
    "names with quotes, MiniMax": ("minimax_m2",
        '<minimax:tool_call><invoke name="a "b""><parameter name="c "d"">x</parameter></invoke>'
        "</minimax:tool_call>", call(r'{"c \"d\"": "x"}', 'a "b"')),
    "an opener without its wrapper, in prose": ("qwen3_coder", "Use <function=a name> here.",
        text("Use <function=a name> here.")),
    "the next parameter in a line": ("qwen3_coder",
        "<tool_call><function=f><parameter=a>x<parameter=b>y</parameter></function></tool_call>",
        call('{"a": "x<parameter=b>y"}')),
    "a value without its closing tag at the end of the call": ("qwen3_coder",
        "<tool_call><function=f><parameter=a>\nx\n</function></tool_call>", call('{"a": "x"}')),
    "a next call in place of a closing tag": ("hermes",
        BEGIN + one("f", "{}") + "\n" + hermes(("g", "{}")), calls(("f", "{}"), ("g", "{}"))),
    "a next call in place of a closing tag, GLM": ("glm45",
        "<tool_call>f\n<tool_call>g</tool_call>", calls(("f", "{}"), ("g", "{}"))),
    "a next call in place of a closing tag, MiniMax": ("minimax_m2",
        '<minimax:tool_call><invoke name="f"><invoke name="g"></invoke></minimax:tool_call>',
        calls(("f", "{}"), ("g", "{}"))),
    "a next call in place of a closing tag, DeepSeek": ("deepseek_v31",
        f"{DS_BEGIN}{DS_CALL}f{DS_SEP}{{}}{DS_CALL}g{DS_SEP}{{}}{DS_END}",
        calls(("f", "{}"), ("g", "{}"))),
    "a section's end in place of a closing tag": ("deepseek_v31",
        f"{DS_BEGIN}{DS_CALL}f{DS_SEP}{{}}{DS_END}!", call("{}") + text("!")),
    "no closing tag at the end, GLM": ("glm45",
        "<tool_call>f\n<arg_key>a</arg_key><arg_value>b</arg_value>\n", call('{"a": "b"}')),
    "no closing tag at the end, MiniMax": ("minimax_m2",
        '<minimax:tool_call><invoke name="f">\n', call("{}")),
    "a closing tag behind a bad name": ("qwen3_coder",
        "<tool_call><function=f><parameter=a b</tool_call>x",
        [*broken("", "><parameter=a b</tool_call>"), TextDelta("x")]),
    "a closing tag in a name": ("qwen3_coder", "<tool_call><function=f><parameter=a</tool_call>x",
        [*broken("", "><parameter=a</tool_call>"), TextDelta("x")]),
    "a line break in a string": ("pythonic", '[f(a="x\ny")]', broken('{"a": "x', '\ny")]')),
    "an escape too large": ("pythonic", r'[f(a="xy\UFFFFFFFF")]',
        broken('{"a": "xy', r'\UFFFFFFFF")]')),
    "a name of no character": ("pythonic", r'[f(a="xy\N{no such}")]',
        broken('{"a": "xy', r'\N{no such}")]')),
    "a long name of no character": ("pythonic", '[f(a="\\N{' + "x" * 120 + '}")]',
        broken('{"a": "', "\\N{" + "x" * 120 + '}")]')),
    "a large escape in a list": ("pythonic", r'[f(a=["\UFFFFFFFF"])]',
        broken('{"a": ', r'["\UFFFFFFFF"])]')),
    "half an escape in a list": ("pythonic", r'[f(a=["\xZ"])]', broken('{"a": ', r'["\xZ"])]')),
    "strings with a prefix": ("pythonic",
        r"""[f(a=r'\d+\.\'', b=[R"\n", u'\u00e9'], c={r'k': U"x"})]""",
        call(r"""{"a": "\\d+\\.\\'", "b": ["\\n", "é"], "c": {"k": "x"}}""")),
    "a line break in a string with a prefix": ("pythonic", "[f(a=r'x\ny')]",
        broken('{"a": ', "r'x\ny')]")),
    "a prefix that makes no text": ("pythonic", "[f(a=b'x', c=f'{d}')]",
        broken('{"a": ', "b'x', c=f'{d}')]")),
    "two backslashes in a list": ("pythonic", r'[f(a=["\\", "]"])]', call(r'{"a": ["\\", "]"]}')),
    "a lone surrogate": ("pythonic", r'[f(a="é\ud83dé")]', call(r'{"a": "é\ud83dé"}')),
    "a lone surrogate in a list": ("pythonic", r'[f(a=["é\ud83dé"])]',
        call(r'{"a": ["é\ud83dé"]}')),
    "brackets around one value": ("pythonic", "[f(a=(1), b=(1,), c=())]",
        call('{"a": 1, "b": [1], "c": []}')),
    "a comma and nothing else": ("pythonic", "[f(a=[,])]", broken('{"a": ', "[,])]")),
    "arguments twice": ("llama_json", '{"name":"f","parameters":{},"arguments":{}}',
        broken("{}", ',"arguments":{}}')),
    "arguments twice before the name": ("llama_json", '{"parameters":{},"arguments":{},"name":"f"}',
        text('{"parameters":{},"arguments":{},"name":"f"}')),
    "arguments that are an array": ("kimi_k2",
        f"{KIMI_BEGIN}{KIMI_CALL}functions.f:0{KIMI_ARGS} [1]{KIMI_STOP}",
        broken("", f"{KIMI_ARGS} [1]{KIMI_STOP}", id="functions.f:0")),
    "arguments that are a string": ("harmony",
        '<|channel|>commentary to=functions.f<|message|>"{}"<|call|>', broken("", '"{}"<|call|>')),
    "arguments that are null": ("hermes", hermes(("f", "null")), text(hermes(("f", "null")))),
    "a name that is too long": ("deepseek_v31", DS_BEGIN + DS_CALL + "x" * 257 + DS_SEP + "{}",
        text(DS_BEGIN + DS_CALL + "x" * 257 + DS_SEP + "{}")),
    "a name that is not too long": ("deepseek_v31", ds("x" * 256 + DS_SEP + "{}"),
        call("{}", "x" * 256)),
    "a name that is not too long, Python": ("pythonic", f"[{'x' * 256}()]", call("{}", "x" * 256)),
    "a name that is empty": ("hermes", hermes(("", "{}")), text(hermes(("", "{}")))),
    "a name that is a number": ("llama_json", '{"name": 5, "parameters": {}}',
        text('{"name": 5, "parameters": {}}')),
    "an answer with a name and parameters": ("llama_json",
        '{"name": "Ada", "age": 36, "parameters": {}}',
        text('{"name": "Ada", "age": 36, "parameters": {}}')),
    "a call whose end token the server cut off": ("harmony",
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{} ", call("{}")),
    "no <|call|> before the next message": ("harmony",
        "<|channel|>commentary to=functions.f<|message|>{}<|start|>assistant<|channel|>commentary "
        "to=functions.g<|message|>{}\n<|channel|>final<|message|>ok",
        calls(("f", "{}"), ("g", "{}")) + text("ok")),
    "a fence on the line of the name": ("deepseek_v3",
        ds(f"function{DS_SEP}f```json\n{{}}\n```"), call("{}")),
    "two bare objects, and an example": ("llama_json",
        '{"name": "f", "parameters": {}}\n{"name": "g", "parameters": {}}, '
        '{"name": "h", "parameters": {}} as {"name": "i", "parameters": {}}',
        calls(("f", "{}"), ("g", "{}"), ("h", "{}"))
        + text(' as {"name": "i", "parameters": {}}')),
    "text behind a bare object": ("llama_json", '{"name": "f", "parameters": {}}, so {x}\n{"a": 1}',
        call("{}") + text(', so {x}\n{"a": 1}')),
    "three quotes": ("pythonic",
        '[f(a=QQQsay "it"\nor ""it\\"QQQ, b="", c=QQQ\n\tQQQ)]'.replace("Q", '"'),
        call(r'{"a": "say \"it\"\nor \"\"it\"", "b": "", "c": "\n\t"}')),
    "three quotes, and the end": ("pythonic", "[f(a='''b''", broken('{"a": "b', "''")),
    "numbers that Python has and JSON has not": ("pythonic",
        "[f(a=0x1F, b=1_000, c=2., d=.5, e=+3, g=[-0b11, 1e3])]",
        call('{"a": 31, "b": 1000, "c": 2.0, "d": 0.5, "e": 3, "g": [-3, 1000.0]}')),
    "two channels in a header": ("harmony", "<|channel|>analysis<|channel|>final<|message|>hi",
        text("hi")),
    "the end inside a marker, before a call": ("hermes", "<tool_call>{} </tool_",
        text("<tool_call>{} </tool_")),
    "the end inside a marker of a header": ("kimi_k2",
        f"{KIMI_BEGIN}{KIMI_CALL}functions.f:0<|tool_call_arg",
        text(f"{KIMI_BEGIN}{KIMI_CALL}functions.f:0<|tool_call_arg")),
    "the end inside a marker, in a call": ("hermes", BEGIN + one("f", "{}") + "</tool_",
        call("{}") + text("</tool_")),
    "a marker behind a long header": ("harmony",
        "<|start|>" + "x" * 300 + "<|channel|>final<|message|>hi",
        text("<|start|>" + "x" * 300 + "hi")),
    "vllm-0.33.0 test_xlam: single_tool_with_tool_calls_tag": ("xlam",
        f"[TOOL_CALLS][{one('f', '{}')}]", call("{}")),
    "vllm-0.33.0 test_xlam: single_tool_with_tool_call_xml_tags": ("xlam",
        f"I help.<tool_call>[{one('f', '{}')}]</tool_call>", text("I help.") + call("{}")),
    "a fence behind a bare array": ("xlam", f"[{one('f', '{}')}]\n```\nx",
        call("{}") + text("\n```\nx")),
    "a fence with other JSON": ("xlam", '```json\n[{"name": "Ada"}]\n```',
        text('```json\n[{"name": "Ada"}]\n```')),
    "vllm-0.33.0 test_granite: streaming_parallel_calls_batched_deltas": ("granite",
        ['<|tool_call|> [{"arguments": {"city": "Paris"}, ', '"name": "f"}, {"argum',
        'ents": {}, "name": "g"}]'], calls(("f", WEATHER), ("g", "{}"))),
    "vllm-0.33.0 test_granite: surrounding_text": ("granite",
        f"So:\n<tool_call> [{one('f', '{}')}]\nOk.", text("So:\n") + call("{}") + text("\nOk.")),
    "vllm-0.33.0 test_granite: malformed_input": ("granite", f"<|tool_call|> {one('f', '{}')}",
        text(f"<|tool_call|> {one('f', '{}')}")),
    "vllm-0.33.0 test_phi4mini: malformed_input": ("phi4_mini_json",
        'functools[{"name": "f"}] functools[] x', text('functools[{"name": "f"}] functools[] x')),
    "vllm-0.33.0 test_hunyuan_a13b: three levels": ("hunyuan_a13b",
        f"""<tool_calls>[{one("f", '{"a": {"b": {"c": {}}}}')}]</tool_calls>\n</answer>""",
        call('{"a": {"b": {"c": {}}}}') + text("\n</answer>")),
    "no closing tag at the end, Jamba": ("jamba", f"<tool_calls>[{one('f', '{}')}]\n",
        call("{}") + text("\n")),
    "no closing bracket at the end, Jamba": ("jamba", f"<tool_calls>[{one('f', '{}')}", call("{}")),
    "sglang-0.5.23 internlm_detector": ("interns1",
        f"Hm<|action_start|> <|plugin|>\n{one('f', WEATHER)}<|action_end|>",
        text("Hm") + call(WEATHER)),
    "vllm-0.33.0 test_internlm2: malformed_input": ("internlm",
        f"<|action_start|>{one('f', '{}')}", text(f"<|action_start|>{one('f', '{}')}")),
    "vllm-0.33.0 test_gigachat3: mixed_content": ("gigachat3",
        f"Hm.<|message_sep|>\n\nfunction call<|role_sep|>\n{one('f', '{}')}",
        text("Hm.") + call("{}")),
    "vllm-0.33.0 test_apertus: no suffix": ("apertus",
        'I check. <|tools_prefix|>[{"f": {"city": "Paris"}}] ok',
        text("I check. ") + call(WEATHER) + text(" ok")),
    "vllm-0.33.0 cohere/test_tool_calls: multiple_tool_calls": ("cohere_command4",
        '<|START_ACTION|>\n[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": {}},\n'
        '    {"tool_call_id": "1", "tool_name": "g", "parameters": {"x": 42}}\n]\n<|END_ACTION|>'
        "<|START_TEXT|>ok<|END_TEXT|>",
        call("{}", id="0") + call('{"x": 42}', "g", index=1, id="1") + text("ok")),
    "vllm-0.33.0 ernie45: a response": ("ernie45", "<response>\nHi\n</response>\n",
        text("\nHi\n")),
    "tags of a frame in an answer": ("ernie45",
        "<response>The tags <response> and </response> end it.</response> </response>",
        text("The tags <response> and </response> end it.</response> ")),
    "a frame, then a call": ("ernie45", f"\n<response>Hi</response>\n{hermes(('f', '{}'))}",
        text("Hi") + call("{}")),
    "the end of a frame that the prompt begins": ("ernie45", "Hi</response>", text("Hi")),
    "tags of a frame behind a call": ("ernie45",
        hermes(("f", "{}")) + "<response>a</response>b</respons",
        call("{}") + text("<response>a</response>b</respons")),
    "vllm-0.33.0 test_lfm2: multiline_string_arg": ("lfm2",
        "<|tool_call_start|>[f(c='cat << EOF\nx\nEOF', l=['a\nb'])]<|tool_call_end|>",
        call(r'{"c": "cat << EOF\nx\nEOF", "l": ["a\nb"]}')),
    "vllm-0.33.0 test_lfm2: set_arg, leading_zero_int": ("lfm2",
        "<|tool_call_start|>[f(tags={'b', 'a'}, month=07, n=[-010, 0, {}])]<|tool_call_end|>",
        call('{"tags": ["b", "a"], "month": 7, "n": [-10, 0, {}]}')),
    "vllm-0.33.0 test_lfm2: nul_byte_string_arg": ("lfm2",
        "<|tool_call_start|>[f(c='a\x00b')]<|tool_call_end|>", call(r'{"c": "a\u0000b"}')),
    "vllm-0.33.0 test_lfm2: whitespace_after_start_token": ("lfm2",
        "<|tool_call_start|> [f()]<|tool_call_end|>\nDone.", call("{}") + text("\nDone.")),
    "vllm-0.33.0 test_lfm2: empty_tool_call_block": ("lfm2",
        "<|tool_call_start|>[ ]<|tool_call_end|>", text("<|tool_call_start|>[ ]<|tool_call_end|>")),
    "sglang-0.5.23 lfm2_detector: JSON": ("lfm2",
        f"<|tool_call_start|>{one('f', WEATHER)}<|tool_call_end|>", call(WEATHER)),
    "no closing tag at the end, LFM2": ("lfm2", "<|tool_call_start|>[f(), g()]",
        calls(("f", "{}"), ("g", "{}"))),
    "a dictionary is no set": ("lfm2", "<|tool_call_start|>[f(a={'k': 1, 'm'})]<|tool_call_end|>",
        broken('{"a": ', "{'k': 1, 'm'})]<|tool_call_end|>")),
    "vllm-0.33.0 test_olmo3: more_types, parallel_calls": ("olmo3",
        "<function_calls>f(a=null, b=true, c=False)\ng(steps=[])</function_calls>",
        calls(("f", '{"a": null, "b": true, "c": false}'), ("g", '{"steps": []}'))),
    "no closing tag at the end, Olmo": ("olmo3", "<function_calls>f()\ng()\n",
        calls(("f", "{}"), ("g", "{}")) + text("\n")),
    "vllm-0.33.0 test_gemma4: malformed_then_well_formed": ("gemma4",
        '<|tool_call>call:bad no brace<tool_call|><|tool_call>:f{city:<|"|>Paris<|"|>}<tool_call|>',
        text("<|tool_call>call:bad no brace<tool_call|>") + call(WEATHER)),
    "vllm-0.33.0 test_gemma4: delimited_keys_stripped": ("gemma4",
        '<|tool_call>call:f{<|"|>a b<|"|>:{<|"|>c<|"|>:<|"|>}]<|"|>}, l : [ 1 ,[true],<|"|>x<|"|>]}'
        "<tool_call|>", call('{"a b": {"c": "}]"}, "l": [1, [true], "x"]}')),
    "vllm-0.33.0 test_gemma4: boolean_split_across_chunks": ("gemma4",
        ["<|tool_call>call:f{input:{all:tru", "e,n:-1.", "5e3,w:Paris Nord},x:null}<tool_call|>"],
        call('{"input": {"all": true, "n": -1500.0, "w": "Paris Nord"}, "x": null}')),
    "vllm-0.33.0 test_gemma4: split_delimiter_no_invalid_json": ("gemma4",
        ["<|tool_call>call:f{a:<|", '"|><div>\n"<|"', '|><', '|"|>}', "<tool_call|><", "div>"],
        broken('{"a": "<div>\\n\\""', '<|"|><|"|>}<tool_call|>') + text("<div>")),
    "vllm-0.33.0 test_gemma4: hyphenated and dotted names": ("gemma4",
        "<|tool_call>call:get-weather{}<tool_call|><|tool_call>call:weather.get{}<tool_call|>",
        calls(("get-weather", "{}"), ("weather.get", "{}"))),
    "a comma at the end of an object": ("gemma4", '<|tool_call>call:f{a:[1,],}<tool_call|>',
        call('{"a": [1]}')),
    "a key without a value": ("gemma4", "<|tool_call>call:f{a:}<tool_call|>",
        broken('{"a": ', "}<tool_call|>")),
    "a value without a key": ("gemma4", "<|tool_call>call:f{a:1,b}<tool_call|>",
        broken('{"a": 1', ",b}<tool_call|>")),
    "brackets that do not match": ("gemma4", "<|tool_call>call:f{a:{b:1]}<tool_call|>",
        broken('{"a": {"b": 1', "]}<tool_call|>")),
    "too many brackets": ("gemma4", "<|tool_call>call:f{a:" + "[" * 64 + "<tool_call|>",
        broken('{"a": ' + "[" * 62, "[" * 2 + "<tool_call|>")),
    "a literal that is too long": ("gemma4", "<|tool_call>call:f{a:" + "x" * 257 + "}<tool_call|>",
        broken('{"a": ', "x" * 257 + "}<tool_call|>")),
    "no closing tag at the end, Gemma": ("gemma4", "<|tool_call>call:f{}<|tool_call>call:g{}",
        calls(("f", "{}"), ("g", "{}"))),
    "vllm-0.33.0 test_functiongemma: multiple_arguments": ("functiongemma",
        "<start_function_call>call:f{a:<escape>San Francisco<escape>,n:<escape>42<escape>}"
        "<end_function_call>", call('{"a": "San Francisco", "n": "42"}')),
    "a next call in place of a closing tag, LongCat": ("longcat",
        f"<longcat_tool_call>{one('f', '{}')}\n<longcat_tool_call>{one('g', '{}')}",
        calls(("f", "{}"), ("g", "{}"))),
    "a next call in place of a closing tag, ERNIE": ("ernie45",
        BEGIN + one("f", "{}") + hermes(("g", "{}")), calls(("f", "{}"), ("g", "{}"))),
    "a next call in place of a closing tag, InternLM": ("internlm",
        f"<|action_start|><|plugin|>{one('f', '{}')}<|action_start|><|plugin|>{one('g', '{}')}",
        calls(("f", "{}"), ("g", "{}"))),
    "a next call in place of a closing tag, FunctionGemma": ("functiongemma",
        "<start_function_call>call:f{}<start_function_call>call:g{}",
        calls(("f", "{}"), ("g", "{}"))),
    "the next call behind a malformed one, Granite": ("granite",
        f"<tool_call>[{one('f', '{!')}<tool_call>[{one('g', '{}')}]",
        broken("{", "!}") + call("{}", "g", index=1)),
    "the next call behind a malformed one, GigaChat": ("gigachat3",
        f"<|function_call|>{one('f', '{!')}<|message_sep|><|function_call|>{one('g', '{!')}"
        f"function call<|role_sep|>{one('h', '{!')}<|function_call|>{one('i', '{}')}",
        broken("{", "!}") + broken("{", "!}", "g", index=1) + broken("{", "!}", "h", index=2)
        + call("{}", "i", index=3)),
    "the next call behind a malformed one, Pythonic": ("pythonic",
        "[f(a=!)]<|python_start|>[g(b=!)<|python_end|>x<|python_start|>[h()]",
        [*broken('{"a": ', "!)]"), *broken('{"b": ', "!)<|python_end|>", "g", index=1),
         TextDelta("x"), *call("{}", "h", index=2)]),
    "a name that is a number too long for Python": ("hermes", NUMBER_NAME, text(NUMBER_NAME)),
    "an opener and no call, GigaChat": ("gigachat3",
        "x function call<|role_sep|> y <|function_call|>",
        text("x function call<|role_sep|> y <|function_call|>")),
    "an opener and no call, xLAM": ("xlam", "[TOOL_CALLS] x", text("[TOOL_CALLS] x")),
    "an opener and no call, LFM2": ("lfm2", '<|tool_call_start|>{"a": 1}',
        text('<|tool_call_start|>{"a": 1}')),
    "an opener and no call, Pythonic": ("pythonic", "<|python_start|>[1]",
        text("<|python_start|>[1]")),
    "an answer that does not end": ("cohere_command4", "<|START_TEXT|>ok", text("ok")),
}  # fmt: skip


def plain(events):
    """Without the reasons."""
    return [
        Malformed(event.index, event.raw, "") if isinstance(event, Malformed) else event
        for event in events
    ]


@pytest.mark.parametrize(
    ("format", "pieces", "expected"), [pytest.param(*row, id=id) for id, row in ROWS.items()]
)
def test_the_mistake_is_not_made(format, pieces, expected):
    pieces = [pieces] if isinstance(pieces, str) else pieces
    whole = "".join(pieces)

    def make():
        return create_tool_parser(format)

    every_cut = len(whole) < 400
    events = same_under_all(make, whole, MARKERS[find_format(format).name], every_cut=every_cut)
    assert plain(events) == plain(expected)
    assert run(make(), pieces) == events


def test_every_row_of_a_parser_is_there():
    elsewhere = {36, 37, 44, 46, 47, 48, 52, 53}
    numbers = {int(number) for id in ROWS for number in re.findall(r"-T(\d\d)", id)}
    assert numbers == set(range(1, 54)) - elsewhere


def test_t48_arguments_are_out_with_their_piece():
    for format, before, after in (
        ("hermes", BEGIN + '{"name": "f", "arguments": {"a": "', '"}}' + END),
        ("qwen3_coder", "<tool_call><function=f><parameter=a>> ", "</parameter></function>"),
        ("pythonic", "[f(a='", "')]"),
        ("kimi_k2", KIMI_BEGIN + KIMI_CALL + "functions.f:0" + KIMI_ARGS + '{"a": "', '"}'),
    ):
        parser = create_tool_parser(format)
        parser.feed(before)
        for piece in ("one ", "two ", "é😀"):
            assert norm(parser.feed(piece)) == [ArgsDelta(0, piece)]
            assert parser.held == ""
        parser.feed(after)
        parser.flush()


def test_t38_an_answer_is_out_with_the_key_that_no_call_has():
    parser = create_tool_parser("llama_json")
    assert parser.feed('{"answer') == []
    assert norm(parser.feed('"')) == text('{"answer"')
    assert parser.held == ""


def test_t13_types_come_from_the_schema_and_never_from_the_text():
    value = "<parameter=n>\n42\n</parameter>"
    source = f"<tool_call><function=f>{value}</function></tool_call>"
    schema = {"n": {"type": "integer"}}
    tool = {"function": {"name": "f", "parameters": {"properties": schema}}}
    assert run(create_tool_parser("qwen3_coder"), [source]) == call('{"n": "42"}')
    assert run(create_tool_parser("qwen3_coder", tools=[tool]), [source]) == call('{"n": 42}')
