"""TextPipeline: the layers together, over bytes and over a real tokenizer, however ids are cut.

`text` below is what the model writes, `see` how it is read: [kind, text] per run of events.
"""

import copy
import os
import pickle
import random

import numpy
import pytest
from chunking import cut_at, norm, sized
from families import STYLES
from renderers import TOOLS, Call
from tokenizers import Tokenizer, decoders, models
from vocabularies import KINDS, byte_level

from mini_vllm.finish_reason import Ending, FinishReason
from mini_vllm.pipeline import TextPipeline
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)
from mini_vllm.text.memory import MEMORY
from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer import ByteTokenizer, HuggingFaceTokenizer, MockTokenizer

CASES = 20_000 if os.environ.get("SOAK") else 600
EOS = ByteTokenizer.eos_token_id
END_ID, LENGTH = FinishReason.END_ID, FinishReason.LENGTH
CANCELLED, ERROR = FinishReason.CANCELLED, FinishReason.ERROR
TOKENIZERS = {
    "bytes": ByteTokenizer(),
    "byte-level": HuggingFaceTokenizer.from_tokenizer(byte_level()),
}
CALL = '<tool_call>\n{"name": "go", "arguments": {"to": "🚀 é\\u00e9", "n": 1}}\n</tool_call>'
ARGUMENTS = '{"to": "🚀 é\\u00e9", "n": 1}'
ENDED = "the text ended inside the call"
OTHER = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'


def make(tokenizer="bytes", *, reasoning=None, tools=None, schemas=None, **options):
    """Return a pipeline; layers are given by the names of their formats."""
    if reasoning is not None:
        name, options_of_it = (reasoning, {}) if isinstance(reasoning, str) else reasoning
        reasoning = create_reasoning_splitter(name, **options_of_it)
    if tools is not None:
        tools = create_tool_parser(tools, tools=schemas)
    if isinstance(tokenizer, str):
        tokenizer = TOKENIZERS[tokenizer]
    return TextPipeline(tokenizer, reasoning=reasoning, tools=tools, **options)


def ids_of(text, tokenizer="bytes"):
    return list(TOKENIZERS[tokenizer].encode(text).ids)


def run(pipeline, bursts, reason=LENGTH):
    """Feed the bursts and finish; return the events, joined."""
    events = [event for burst in bursts for event in pipeline.feed(burst)]
    return norm([*events, *pipeline.finish(reason)])


def outcome(pipeline, bursts, reason=LENGTH):
    events = run(pipeline, bursts, reason)
    return events, pipeline.finish_reason, pipeline.stop_reason, pipeline.tokens


def cuts(ids, seed=0):
    """Ways to cut ids into bursts: all in one, one by one, some sizes, two anywhere, at random."""
    yield [ids]
    for size in (1, 2, 3, 5, 11):
        yield sized(ids, size)
    yield [[], *([token_id] for token_id in ids), []]
    generator = random.Random(seed)
    for count in (1, 2, 2, 5, len(ids) // 2):
        yield cut_at(ids, [generator.randint(0, len(ids)) for _ in range(count)])


def text_of(events):
    return "".join(event.text for event in events if isinstance(event, TextDelta))


SESSIONS = {
    "text": ({}, "naïve 你好 🚀 </s>"),
    "stop": ({"stop": ["</s>", "END"]}, "naïve </ 你好 EN</s> 🚀 END"),
    "stop in the middle of all": ({"stop": ["好 🚀"]}, "naïve 你好 🚀 </s>"),
    "shown stop": ({"stop": ["END"], "include_stop_str_in_output": True}, "a END b END"),
    "call": ({"tools": "hermes"}, f"so {CALL} and {OTHER}{OTHER}, done"),
    "call and stop": ({"tools": "hermes", "stop": ["</tool_call>!"]}, f"{CALL}{OTHER}! x"),
    "reasoning": ({"reasoning": "qwen3"}, "\n<think>hm </thin> 🚀\n</think>\n\nso </think> 🚀"),
    "no reasoning after all": ({"reasoning": "qwen3"}, " \n<thi nk>"),
    "reasoning and calls": (
        {"reasoning": "deepseek_r1", "tools": "hermes", "stop": ["STOP"]},
        f"hm {OTHER} S</think>{CALL} ST {OTHER} STOP",
    ),
    "content only": (
        {"reasoning": "deepseek_r1", "tools": "hermes", "stop": ["\n\n"], "stop_scope": "content"},
        f"hm\n\n so</think>\n{CALL}\nok\n\n{OTHER}",
    ),
    "an early stop": (
        {"stop": [" "], "min_tokens": 6, "tools": "hermes"},
        f"a b c d {OTHER}e f",
    ),
    "an early stop of the content": (
        {"reasoning": "qwen3", "stop": ["\n", "nk"], "min_tokens": 4, "stop_scope": "content"},
        "\n<thi\n<think> nk",
    ),
    "kept values": (
        {"tools": "pythonic", "stop": ["]]"]},
        "[f(a=[1, {'b': 2}], c='x', d=[-1, 23])]",
    ),
    "half a call": ({"tools": "hermes", "stop": ["x"]}, f"{OTHER} <tool_call>{CALL[12:50]}"),
    "half a name": ({"tools": "hermes"}, CALL[:25]),
}


def t(text):
    return [TextDelta(text)]


def r(text):
    return [ReasoningDelta(text)]


def call(arguments="{}", name="f", index=0):
    return [CallStart(index, None, name), ArgsDelta(index, arguments), CallEnd(index)]


def half(arguments, raw="", name="f"):
    """A call that the end of the text cuts."""
    return [CallStart(0, None, name), ArgsDelta(0, arguments), Malformed(0, raw, ENDED)]


QWEN, DEEPSEEK = {"reasoning": "qwen3", "tools": "hermes"}, {"reasoning": "deepseek_r1"}
INSIDE = {**QWEN, "reasoning": ("qwen3", {"in_reasoning": True})}
OPENER = {**QWEN, "reasoning": ("qwen3", {"ends_at": ["<tool_call>"]})}
BOTH = {**INSIDE, "reasoning": ("qwen3", {"in_reasoning": True, "ends_at": ["<tool_call>"]})}
CONTENT = {"stop_scope": "content"}
HARMONY = (
    "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
    'to=functions.f <|constrain|>json<|message|>{"a": 1}'
)
# options, text, how it ends, the events, the reason that is said, what stopped
SCENES = {
    "no parser": ({}, OTHER, END_ID, t(OTHER), "stop", None),
    "emoji in arguments": ({"tools": "hermes"}, f"a{CALL}b", LENGTH,
        t("a") + call(ARGUMENTS, "go") + t("b"), "length", None),
    "a stop cuts a call": ({"tools": "hermes", "stop": ["STOP"]},
        'a<tool_call>{"name": "f", "arguments": {"a": "bSTOPc"}}', END_ID,
        t("a") + half('{"a": "b'), "stop", "STOP"),
    "a shown stop goes to the parser":
        ({"tools": "hermes", "stop": ["</tool_call>"], "include_stop_str_in_output": True},
        OTHER + "x", LENGTH, call(), "tool_calls", "</tool_call>"),
    "a hidden stop does not": ({"tools": "hermes", "stop": ["</tool_call>"]}, OTHER + "x", LENGTH,
        call(), "tool_calls", "</tool_call>"),
    # The last `>` waits as a possible stop; the call ends all the same, and was a call.
    "a call that only the flush completes": ({"tools": "hermes", "stop": ["</tool_call>!"]}, OTHER,
        END_ID, call(), "tool_calls", None),
    "a stop of the content that only the flush completes":
        ({**CONTENT, "reasoning": "qwen3", "stop": ["<thi"]}, " <thi", LENGTH,
        t(" "), "stop", "<thi"),
    "scope all": ({**DEEPSEEK, "stop": ["."]}, "think.</think>answer.more", LENGTH,
        r("think"), "stop", "."),
    "scope content": ({**DEEPSEEK, **CONTENT, "stop": ["."]}, "think.</think>answer.more", LENGTH,
        r("think.") + t("answer"), "stop", "."),
    "scope content, nothing reasons": ({**CONTENT, "stop": ["."]}, "a.b", LENGTH,
        t("a"), "stop", "."),
    "scope content looks into calls": ({**QWEN, **CONTENT, "stop": ['"to"']},
        f'<think>"to"</think>{CALL}', LENGTH, r('"to"') + half("{", name="go"), "stop", '"to"'),
    "a call in the reasoning is prose": ({**DEEPSEEK, "tools": "hermes"},
        f"{OTHER}</think>ok{OTHER}", END_ID, r(OTHER) + t("ok") + call(), "tool_calls", None),
    "a call may end the reasoning": (BOTH, f"hm{OTHER}", END_ID, r("hm") + call(),
        "tool_calls", None),
    "a call without its closing tag, which the model ended": ({"tools": "hermes"}, OTHER[:-12],
        END_ID, call(), "tool_calls", None),
    "a call without its closing tag, which the length cut": ({"tools": "hermes"}, OTHER[:-12],
        LENGTH, half("{}", "}"), "length", None),
    "a stop string that only the flush completes ends a call": (
        {"tools": "hermes", "stop": [" !"]}, OTHER[:-12] + " !", LENGTH,
        call(), "tool_calls", " !"),
    "harmony has both": ({"tools": "harmony"}, HARMONY, END_ID, r("hm") + call('{"a": 1}'),
        "tool_calls", None),
    # P12, the reasoning before a parser: rows of the tool catalogue.
    "tool-T44-call behind the tag": (QWEN, f"<think>a</think>{OTHER}", LENGTH,
        r("a") + call(), "length", None),
    "tool-T44-prose around": (QWEN, f"<think>a</think> xxx{OTHER}yyy", LENGTH,
        r("a") + t(" xxx") + call() + t("yyy"), "length", None),
    "tool-T44-two calls": (QWEN, f"<think>a</think>{OTHER}{OTHER}", LENGTH,
        r("a") + call() + call(index=1), "length", None),
    "tool-T53-line breaks are kept": (INSIDE, f"a</think>\n\n{OTHER}", LENGTH,
        r("a") + t("\n\n") + call(), "length", None),
    "tool-T37-prose by default": (QWEN, f"<think>maybe {OTHER}", LENGTH, r(f"maybe {OTHER}"),
        "length", None),
    "tool-T37-the opener ends the reasoning": (OPENER, f"<think>so {OTHER} done", LENGTH,
        r("so ") + call() + t(" done"), "length", None),
    "tool-T37-half an opener does not": (OPENER, f"<think>so <tool_</think>{OTHER}", LENGTH,
        r("so <tool_") + call(), "length", None),
    "flush cascades": (QWEN, "<think>a</think>b <tool", LENGTH, r("a") + t("b <tool"),
        "length", None),
    "flush cascades from the first": (QWEN, "<thi", LENGTH, t("<thi"), "length", None),
    # The splitter waits for its tag, and the parser for its own, once it gets the text.
    "flush cascades to one that waits": (QWEN, " <t", LENGTH, t(" <t"), "length", None),
    "a call that the stop held": ({"tools": "harmony", "stop": ["}}"]},
        "<|channel|>commentary to=f<|message|>{}", END_ID, call(), "tool_calls", None),
}  # fmt: skip


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("scene", SCENES)
def test_scenes(scene, tokenizer):
    """However ids are cut, at every place too."""
    options, text, reason, *expected = SCENES[scene]
    ids = ids_of(text, tokenizer)
    for bursts in [*cuts(ids), *(cut_at(ids, [place]) for place in range(len(ids)))]:
        assert [*outcome(make(tokenizer, **options), bursts, reason)[:3]] == expected, bursts


def test_bursts_change_nothing_every_two_cuts():
    options = {"tools": "hermes", "stop": ["END"], "reasoning": "deepseek_r1"}
    source = '<tool_call>{"name":"f","arguments":{"a":"🚀"}}</tool_call>'
    ids = ids_of(f"é</think>{source}END!")
    expected = r("é") + call('{"a":"🚀"}'), "tool_calls", "END", len(ids) - 1
    for first in range(len(ids)):
        for second in range(first, len(ids)):
            bursts = cut_at(ids, [first, second])
            assert outcome(make(**options), bursts) == expected, (first, second)


EOS_ENDS, B_ENDS = {"eos_token_ids": [EOS]}, {"stop_token_ids": [98]}
SHOWN, SPECIAL = {"include_stop_str_in_output": True}, {"skip_special_tokens": False}
LINE = {"reasoning": "qwen3", "stop_scope": "content", "stop": ["\n"]}
ROCKET = {"prompt_token_ids": [*b"no", 0xF0, 0x9F]}


def dot(least):
    return {"stop": ["."], "min_tokens": least}


# options, ids, text, the reason that is said, what stopped, how many ids were taken
ENDINGS = [
    (EOS_ENDS, [*b"a", EOS, *b"b"], "a", "stop", None, 2),
    (B_ENDS, b"abc", "a", "stop", 98, 2),
    # An id that is both is EOS.
    ({"stop_token_ids": [EOS], **EOS_ENDS}, [EOS], "", "stop", None, 1),
    ({"stop": ["b", "ab"]}, b"abc", "", "stop", "ab", 2),
    ({"stop": ["bc"], "stop_token_ids": [99]}, b"abcd", "ab", "stop", 99, 3),
    ({"stop": ["d"]}, b"abc", "abc", "length", None, 3),
    ({}, b"", "", "length", None, 0),
    # Half a character before a stop id is said, and what is behind a stop is lost.
    ({**EOS_ENDS, "stop": ["zz"]}, [*b"oz\xf0\x9f", EOS], "oz\ufffd", "stop", None, 5),
    ({"stop": ["a"]}, b"xa\xc3", "x", "stop", "a", 2),
    # A stop id is shown on demand.
    ({**EOS_ENDS, **SHOWN}, [*b"a", EOS], "a", "stop", None, 2),
    ({**EOS_ENDS, **SHOWN, **SPECIAL}, [*b"a", EOS], "a<eos>", "stop", None, 2),
    ({**EOS_ENDS, **SPECIAL}, [*b"a", EOS], "a", "stop", None, 2),
    ({**B_ENDS, **SHOWN}, b"abc", "ab", "stop", 98, 2),
    ({**B_ENDS, **SHOWN, **SPECIAL}, b"abc", "ab", "stop", 98, 2),
    ({**B_ENDS, **SPECIAL}, b"abc", "a", "stop", 98, 2),
    # A special token is text where it is not skipped.
    ({}, [*b"a", EOS], "a", "length", None, 2),
    (SPECIAL, [*b"a", EOS], "a<eos>", "length", None, 2),
    ({**SPECIAL, "stop": ["<eos>"]}, [*b"a", EOS], "a", "stop", "<eos>", 2),
    # A character across the prompt comes out whole.
    (ROCKET, b"\x9a\x80?", "🚀?", "length", None, 3),
    ({**ROCKET, "stop": ["🚀!"]}, b"\x9a\x80?", "🚀?", "length", None, 3),
    # With `min_tokens` a stop counts if its last character came with a later id.
    (dot(0), b"a.b..c.", "a", "stop", ".", 2),
    (dot(1), b"a.b..c.", "a", "stop", ".", 2),
    (dot(2), b"a.b..c.", "a.b", "stop", ".", 4),
    (dot(3), b"a.b..c.", "a.b", "stop", ".", 4),
    (dot(4), b"a.b..c.", "a.b.", "stop", ".", 5),
    (dot(5), b"a.b..c.", "a.b..c", "stop", ".", 7),
    ({**B_ENDS, **EOS_ENDS, "min_tokens": 3}, [*b"ab", EOS, *b"cbd"], "abc", "stop", 98, 5),
    ({"stop": ["END"], "min_tokens": 2}, b"EEND.", "E", "stop", "END", 4),
    ({"stop": ["END"], "min_tokens": 4}, b"EEND.", "EEND.", "length", None, 5),
    ({"stop": ["b"], "min_tokens": 9}, b"abc", "abc", "length", None, 3),
    ({"stop": ["é"], "min_tokens": 1}, b"\xc3\xa9!", "", "stop", "é", 2),
    ({"stop": ["é"], "min_tokens": 2}, b"\xc3\xa9!", "é!", "length", None, 3),
    # `bc` came too early, so the longer one that holds it ends the text.
    *(({"stop": ["abcde", "bc"], "min_tokens": 4, "stop_scope": scope, "reasoning": "qwen3"},
        b"xabcde", "x", "stop", "abcde", 6) for scope in ("all", "content")),
    # The splitter lets go late what came early: by the ids it was early all the same.
    ({**LINE, "min_tokens": 1}, b"\na\nb", "\na", "stop", "\n", 3),
    ({**LINE, "min_tokens": 2}, b"\n\na\nb", "\n\na", "stop", "\n", 4),
    # The second one ends the text, but may be markup until the third id says that it is not.
    ({**LINE, "min_tokens": 1}, b"\n\na", "\n", "stop", "\n", 3),
    ({**LINE, "min_tokens": 3}, b"\n<t\n", "\n<t", "stop", "\n", 4),
    ({**LINE, "min_tokens": 9}, b"\n<think>\n</think>a\n", "a", "stop", "\n", 19),
    ({**LINE, "min_tokens": 1}, b"\n", "\n", "length", None, 1),
    ({**LINE, "min_tokens": 2}, b"\n", "\n", "length", None, 1),
]  # fmt: skip


@pytest.mark.parametrize(("options", "ids", "text", "reason", "what", "tokens"), ENDINGS)
def test_endings(options, ids, text, reason, what, tokens):
    for size in (1, 2, 3, 5, 9, 20):
        events, *ended = outcome(make(**options), sized(ids, size))
        assert (text_of(events), *ended) == (text, reason, what, tokens), size


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("session", SESSIONS)
def test_bursts_change_nothing(session, tokenizer):
    """chunk-invariant: one event list, one reason, one count of ids for all ways to cut them."""
    options, text = SESSIONS[session]
    ids = ids_of(text, tokenizer)
    expected = outcome(make(tokenizer, **options), [ids])
    for bursts in cuts(ids):
        assert outcome(make(tokenizer, **options), bursts) == expected, bursts


def test_bursts_change_nothing_at_random():
    """Any ids, well-formed or not, special or unknown, with every option on or off."""
    generator = random.Random(0)
    parts = [*map(ids_of, ["<think>", "</think>", OTHER, "STOP", "ST", " 🚀", "é", "\n"])]
    parts += [[EOS], [256], [-1], [999], [0xF0], [0x80], ids_of(CALL)[:40]]
    reasons = set()
    for _ in range(CASES):
        ids = [i for part in generator.choices(parts, k=generator.randint(0, 6)) for i in part]
        options = {
            "reasoning": generator.choice([None, "qwen3", "deepseek_r1"]),
            "tools": generator.choice([None, "hermes", "pythonic"]),
            "stop": generator.choice([(), ["STOP"], ["STOP", "T", "\ufffd"], ["call>", "\n"]]),
            "stop_scope": generator.choice(["all", "content"]),
            "stop_token_ids": generator.choice([(), [999]]),
            "eos_token_ids": generator.choice([(), [EOS]]),
            "min_tokens": generator.choice([0, 0, 3, 9]),
            "include_stop_str_in_output": generator.random() < 0.2,
            "skip_special_tokens": generator.random() < 0.7,
        }
        expected = outcome(make(**options), [ids])
        places = [generator.randint(0, len(ids)) for _ in range(generator.randint(1, 6))]
        for bursts in (sized(ids, 1), cut_at(ids, places)):
            assert outcome(make(**options), bursts) == expected, (ids, options)
        reasons.add((expected[1], type(expected[2])))
    assert len(reasons) >= 6


@pytest.mark.parametrize("scope", ["all", "content"])
def test_it_is_the_layers_one_after_the_other(scope):
    """P12, complete: equal to decoding all, cutting it at the stop, and parsing what is left."""
    generator = random.Random(1)
    parts = ["<think>", "</think>", OTHER, "STOP", "S", " 🚀", "\n", "<th", "nk>", CALL[:30]]
    parts = [*map(ids_of, parts), [0xF0], [EOS]]
    for _ in range(CASES // 5):
        ids = [i for part in generator.choices(parts, k=generator.randint(0, 7)) for i in part]
        text = ByteTokenizer().decode(ids, skip_special_tokens=True)
        if scope == "all":
            text = text.partition("STOP")[0]
        reasoning = ("qwen3", {"in_reasoning": generator.random() < 0.3})
        splitter = create_reasoning_splitter("qwen3", **reasoning[1])
        tools = create_tool_parser("hermes")
        parts_of_text = norm([*splitter.feed(text), *splitter.flush()])
        content = text_of(parts_of_text).partition("STOP")[0]
        thoughts = [event for event in parts_of_text if isinstance(event, ReasoningDelta)]
        expected = norm([*thoughts, *tools.feed(content), *tools.flush()])
        pipeline = make(reasoning=reasoning, tools="hermes", stop=["STOP"], stop_scope=scope)
        assert run(pipeline, sized(ids, 3)) == expected, ids


def trace(pipeline, bursts):
    """Return what each burst shows and what the layers hold then, and what the end shows."""
    rows = []
    for burst in bursts:
        shown = pipeline.feed(burst)
        held = {name: text for name, text in pipeline.held.items() if text}
        rows.append((shown, held))
    return rows, pipeline.finish(END_ID)


def test_golden_every_layer_holds_its_own():
    pipeline = make(reasoning="qwen3", tools="hermes", stop=["\nUser:"])
    rows, end = trace(
        pipeline,
        [b"<thi", b"nk>hm", b"\nU", b"</", b"think>", b"a\xf0\x9f", b"\x9a\x80 <to", b"\nUs"],
    )
    assert rows == [
        ([], {"reasoning": "<thi"}),
        ([ReasoningDelta("h"), ReasoningDelta("m")], {}),
        ([], {"stops": "\nU"}),
        ([ReasoningDelta("\nU")], {"reasoning": "</"}),
        ([], {}),
        ([TextDelta("a")], {"tokens": b"\xf0\x9f"}),
        ([TextDelta("🚀"), TextDelta(" ")], {"calls": "<to"}),
        ([], {"stops": "\nUs", "calls": "<to"}),
    ]
    assert norm(end) == [TextDelta("<to\nUs")]
    assert set(pipeline.held) == {"tokens", "stops", "reasoning", "calls"}


def test_golden_call():
    pipeline = make(tools="hermes", eos_token_ids=[EOS])
    rows, _ = trace(
        pipeline,
        [
            b"ok<tool_call>", b'{"name":', b' "f", "argum', b'ents": ', b'{"a": "', b"\xc3",
            b"\xa9", b'"}', b"}", b"</tool_call>", [EOS],
        ],
    )  # fmt: skip
    shown = [norm(events) for events, _ in rows]
    assert shown == [
        [TextDelta("ok")], [], [], [], [CallStart(0, None, "f"), ArgsDelta(0, '{"a": "')], [],
        [ArgsDelta(0, "é")], [ArgsDelta(0, '"}')], [], [CallEnd(0)], [],
    ]  # fmt: skip
    assert (pipeline.finish_reason, pipeline.stop_reason) == ("tool_calls", None)


def test_flush_cascades():
    """What the detokenizer lets go goes through stop, reasoning and tools, and each in its turn."""
    pipeline = make(reasoning="qwen3", tools="hermes", stop=["<tool_call>\ufffd!"])
    assert pipeline.feed([*b"<tool_call>", 0xF0]) == []
    assert pipeline.held == {
        "tokens": b"\xf0", "stops": "<tool_call>", "reasoning": "", "calls": "",
    }  # fmt: skip
    assert norm(pipeline.finish(LENGTH)) == [TextDelta("<tool_call>\ufffd")]
    assert not any(pipeline.held.values())


@pytest.mark.parametrize("reason", [END_ID, LENGTH, CANCELLED, ERROR])
def test_a_stop_that_only_the_flush_completes(reason):
    """It wins over the length and over an id, but not over a cancellation or a failure."""
    pipeline = make(stop=["a\ufffd"])
    assert pipeline.feed([*b"ba\xe4"]) == [TextDelta("b")]
    assert pipeline.finish(reason) == []
    if reason in (END_ID, LENGTH):
        assert pipeline.ending == Ending(FinishReason.STOP_WORDS, "a\ufffd")
        assert (pipeline.finish_reason, pipeline.stop_reason) == ("stop", "a\ufffd")
    else:
        assert pipeline.ending == Ending(reason)


def test_flush_once():
    pipeline = make(stop=["END"], tools="hermes")
    pipeline.feed(b"xEN")
    assert pipeline.finish(CANCELLED) == [TextDelta("EN")]
    assert (pipeline.finish(LENGTH), pipeline.finish(END_ID)) == ([], [])
    assert pipeline.finish_reason == "cancelled"
    assert (pipeline.feed(b"more"), pipeline.tokens) == ([], 3)


def test_finish_of_an_untouched_pipeline():
    for options, _ in SESSIONS.values():
        assert outcome(make(**options), []) == ([], "length", None, 0)


@pytest.mark.parametrize("reason", [END_ID, LENGTH, CANCELLED, ERROR])
@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("plain", False), (OTHER, True), (f"{OTHER} and text", True), (OTHER + CALL[:60], True),
        (CALL[:60], False), (CALL[:25], False), ("<tool_call>{}</tool_call>", False),
        ('<tool_call>{"name": "f", "arguments": {]}</tool_call>', False),
    ],
)  # fmt: skip
def test_tool_calls_is_a_normal_stop_with_a_complete_call(text, called, reason):
    """`length` stays `length` with half a call, and with a whole one: a client must not run it."""
    pipeline = make(tools="hermes")
    run(pipeline, [ids_of(text)], reason)
    said = {END_ID: "stop", LENGTH: "length", CANCELLED: "cancelled", ERROR: "error"}[reason]
    assert pipeline.finish_reason == ("tool_calls" if called and reason is END_ID else said)
    assert pipeline.ending == Ending(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (OTHER, "tool_calls"),
        ('<tool_call>{"name": "f", "arguments": {]}</tool_call>', "stop"),
        ('<tool_call>{"name": "f", "arguments": {]}</tool_call>' + OTHER, "tool_calls"),
    ],
)
def test_a_call_that_is_one_token(text, reason):
    inner = Tokenizer(models.WordLevel({text: 0}))
    inner.decoder = decoders.Fuse()
    pipeline = make(HuggingFaceTokenizer.from_tokenizer(inner), tools="hermes")
    assert CallStart(0, None, "f") in pipeline.feed([0])
    pipeline.finish(END_ID)
    assert pipeline.finish_reason == reason


def test_ids_after_the_stop_are_not_taken():
    """Not even from a generator, and in no later burst."""
    for options, taken in [({"stop": ["b"]}, 2), ({"stop_token_ids": [98]}, 2)]:
        pipeline, rest = make(**options), iter(b"abcd")
        assert pipeline.feed(rest) == [TextDelta("a")]
        assert pipeline.tokens == taken
        assert bytes(rest) == b"cd"
        assert (pipeline.feed(rest := iter(b"ef")), bytes(rest)) == ([], b"ef")
        assert (pipeline.finish(LENGTH), pipeline.tokens) == ([], taken)


def test_streams_that_run_together_equal_each_alone():
    """Streams of every kind, step by step together; one that stops or gets bad ids harms none."""
    sessions = [(options, ids_of(text)) for options, text in SESSIONS.values()]
    sessions += [({"stop": ["b"]}, [97, -1, 2**70, 98, 99]), ({}, [])]
    together = [make(**options) for options, _ in sessions]
    longest = max(len(ids) for _, ids in sessions)
    events = [[] for _ in sessions]
    for start in range(0, longest, 4):
        for (_, ids), pipeline, so_far in zip(sessions, together, events, strict=True):
            so_far += pipeline.feed(ids[start : start + 4])
    for (options, ids), pipeline, found in zip(sessions, together, events, strict=True):
        rest = pipeline.finish(LENGTH)
        alone = make(**options)
        assert norm([*found, *rest]) == run(alone, [ids])
        assert pipeline.finish_reason == alone.finish_reason


@pytest.mark.parametrize("tokenizer", [*TOKENIZERS, "mock"])
def test_bad_ids_never_raise(tokenizer):
    inner = MockTokenizer() if tokenizer == "mock" else TOKENIZERS[tokenizer]
    good = list(inner.encode("Hello world").ids)
    expected = text_of(run(make(inner), [good]))
    assert expected == "Hello world"
    for bad in (-1, -(2**31), 2**31, 2**63, 2**64, 2**200, inner.vocab_size):
        mixed = [i for token_id in good for i in (bad, token_id)] + [bad]
        pipeline = make(inner, stop=["never"], tools="hermes", reasoning="qwen3")
        assert text_of(run(pipeline, [mixed])) == expected
        assert pipeline.tokens == len(mixed)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tokenizer(kind):
    """With or without a table of pieces; a prompt is context and no text."""
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS[kind]())
    generator = random.Random(kind)
    for _ in range(100):
        ids = [generator.randrange(tokenizer.vocab_size) for _ in range(8)]
        whole = text_of(run(make(tokenizer, prompt_token_ids=ids[:3]), [ids[3:]]))
        stop = whole[len(whole) // 2 :][:3] or "never"
        expected = whole.partition(stop)[0]
        for size in (1, 2, 5):
            pipeline = make(tokenizer, prompt_token_ids=ids[:3], stop=[stop])
            assert text_of(run(pipeline, sized(ids[3:], size))) == expected


class Id:
    """An id out of an array of torch: an integer that is equal to no other."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


class Array:
    """The part of an array of torch, or of another library, that counts."""

    def __init__(self, rows):
        self.rows = rows

    def tolist(self):
        return self.rows


@pytest.mark.parametrize("session", SESSIONS)
def test_ids_of_any_kind_are_ids_like_others(session):
    options, text = SESSIONS[session]
    options, ids = {**options, "eos_token_ids": [EOS]}, [*ids_of(text), EOS, 65]
    expected = outcome(make(**options), [ids])
    array = numpy.array(ids)
    for bursts in (
        [Array(ids)], [array], [array.astype("uint32")[:5], array[5:]], [(one,) for one in array],
        [map(Id, ids)], [(Id(one),) for one in ids],
    ):  # fmt: skip
        assert outcome(make(**options), bursts) == expected
    for wrong in (Array([ids]), Array(65), numpy.array([ids]), numpy.array(65)):
        with pytest.raises(ValueError, match="give one row of it"):
            make(**options).feed(wrong)


def calls_of(style):
    call = Call("f", {"path": "a\", 'b'", "maybe": "null ~~", "items": [1, "x"]})
    text, _ = style.render([call], ["", ""], random.Random(0))
    return {"tools": style.format, "schemas": TOOLS}, text


# Its layers keep all themselves, as nothing is remembered for it.
WITHOUT_TABLE = ByteTokenizer()
WITHOUT_TABLE.pieces = None
COPIED = {
    **SESSIONS,
    **{name: calls_of(style) for name, style in STYLES.items()},
    "without a table": (
        {"tools": "qwen3_coder", "schemas": TOOLS, "tokenizer": WITHOUT_TABLE},
        "<tool_call><function=f><parameter=maybe>null no</parameter></function></tool_call>",
    ),
}


@pytest.mark.parametrize("name", COPIED)
def test_property_isolated_copies(name):
    """A copy goes on as the first would, and the first as if there were none."""
    options, text = COPIED[name]
    ids = ids_of(text)
    expected = outcome(make(**options), [ids])
    pipeline, events = make(**options), []
    step = 2 if name in SESSIONS else 5
    for place in range(0, len(ids), step):
        other = (copy.copy, copy.deepcopy)[place % 2](pipeline)
        assert other.held == pipeline.held
        rest = outcome(other, [ids[place:]])
        assert (norm([*events, *rest[0]]), *rest[1:]) == expected
        events += pipeline.feed(ids[place : place + step])
    assert norm([*events, *pipeline.finish(LENGTH)]) == expected[0]


def test_copies_share_what_was_learned_and_are_not_pickled():
    pipeline = make(reasoning="qwen3", tools="hermes", stop=["never"])
    pipeline.feed(b"naive nave")
    learned = MEMORY.learned
    other = copy.copy(pipeline)
    other.feed(b"naive nave")
    assert MEMORY.learned == learned
    assert other._tools.state is pipeline._tools.state
    assert other._stop._scanner is pipeline._stop._scanner
    with pytest.raises(TypeError, match="keep the ids, and feed them to a new pipeline"):
        pickle.dumps(pipeline)


def test_what_is_kept_does_not_grow():
    pipeline = make(tools="hermes", stop=["never</s>"], reasoning="deepseek_r1")
    for _ in range(2000):
        pipeline.feed(ids_of("naïve never</ 🚀 "))
        assert sum(map(len, pipeline.held.values())) == 0
    pipeline.feed(ids_of('</think><tool_call>{"name": "f", "arguments": {"a": "'))
    for _ in range(2000):
        pipeline.feed(ids_of("naïve never</ 🚀 </tool_call>"))
        assert sum(map(len, pipeline.held.values())) == 0


@pytest.mark.parametrize("stop", ["END", ["END", ""]])
def test_bad_stops_are_refused(stop):
    with pytest.raises(ValueError, match="stops"):
        make(stop=stop)
