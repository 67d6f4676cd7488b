"""TextPipeline: the layers together, over bytes and over a real tokenizer, however ids are cut.

`text` below is what the model writes, `see` how it is read: [kind, text] per run of events.
"""

import os
import random

import pytest
from chunking import cut_at, norm, sized
from tokenizers import Tokenizer, decoders, models
from vocabularies import KINDS, byte_level

from mini_vllm.finish_reason import Ending, FinishReason
from mini_vllm.pipeline import TextPipeline
from mini_vllm.text import create_reasoning_splitter, create_tool_parser
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)
from mini_vllm.tokenizer import ByteTokenizer, HuggingFaceTokenizer, MockTokenizer

CASES = 20_000 if os.environ.get("SOAK") else 1_500
EOS = ByteTokenizer.eos_token_id
END_ID, LENGTH = FinishReason.END_ID, FinishReason.LENGTH
CANCELLED, ERROR = FinishReason.CANCELLED, FinishReason.ERROR
TOKENIZERS = {
    "bytes": ByteTokenizer(),
    "byte-level": HuggingFaceTokenizer.from_tokenizer(byte_level()),
}
CALL = '<tool_call>\n{"name": "go", "arguments": {"to": "🚀 é\\u00e9", "n": 1}}\n</tool_call>'
ARGUMENTS = '{"to": "🚀 é\\u00e9", "n": 1}'
OTHER = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'


def make(tokenizer="bytes", *, reasoning=None, tools=None, **options):
    """Return a pipeline; layers are given by the names of their formats."""
    if reasoning is not None:
        reasoning = create_reasoning_splitter(reasoning)
    if tools is not None:
        tools = create_tool_parser(tools)
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
    "half a call": ({"tools": "hermes", "stop": ["x"]}, f"{OTHER} <tool_call>{CALL[12:50]}"),
    "half a name": ({"tools": "hermes"}, CALL[:25]),
}


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("session", SESSIONS)
def test_bursts_change_nothing(session, tokenizer):
    """chunk-invariant: one event list, one reason, one count of ids for all ways to cut them."""
    options, text = SESSIONS[session]
    ids = ids_of(text, tokenizer)
    expected = outcome(make(tokenizer, **options), [ids])
    for bursts in cuts(ids):
        assert outcome(make(tokenizer, **options), bursts) == expected, bursts


def test_bursts_change_nothing_every_two_cuts():
    options = {"tools": "hermes", "stop": ["END"], "reasoning": "deepseek_r1"}
    ids = ids_of("é</think>🚀" + OTHER + "END!")
    expected = outcome(make(**options), [ids])
    assert expected[1:] == ("tool_calls", "END", len(ids) - 1)
    for first in range(len(ids)):
        for second in range(first, len(ids)):
            bursts = cut_at(ids, [first, second])
            assert outcome(make(**options), bursts) == expected, (first, second)


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
    """complete: equal to decoding all, cutting it at the stop, and parsing what is left."""
    generator = random.Random(1)
    parts = [*map(ids_of, ["<think>", "</think>", OTHER, "STOP", "S", " 🚀", "\n"]), [0xF0], [EOS]]
    for _ in range(CASES // 5):
        ids = [i for part in generator.choices(parts, k=generator.randint(0, 7)) for i in part]
        text = ByteTokenizer().decode(ids, skip_special_tokens=True)
        if scope == "all":
            text = text.partition("STOP")[0]
        splitter, tools = create_reasoning_splitter("qwen3"), create_tool_parser("hermes")
        parts_of_text = norm([*splitter.feed(text), *splitter.flush()])
        content = text_of(parts_of_text).partition("STOP")[0]
        thoughts = [event for event in parts_of_text if isinstance(event, ReasoningDelta)]
        expected = norm([*thoughts, *tools.feed(content), *tools.flush()])
        pipeline = make(reasoning="qwen3", tools="hermes", stop=["STOP"], stop_scope=scope)
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
        ([], {"stop": "\nU"}),
        ([ReasoningDelta("\nU")], {"reasoning": "</"}),
        ([], {}),
        ([TextDelta("a")], {"detokenizer": b"\xf0\x9f"}),
        ([TextDelta("🚀"), TextDelta(" ")], {"tools": "<to"}),
        ([], {"stop": "\nUs", "tools": "<to"}),
    ]
    assert norm(end) == [TextDelta("<to\nUs")]
    assert set(pipeline.held) == {"detokenizer", "stop", "reasoning", "tools"}


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


def test_golden_a_stop_cuts_a_call():
    pipeline = make(tools="hermes", stop=["STOP"])
    events = run(pipeline, [ids_of('a<tool_call>{"name": "f", "arguments": {"a": "bSTOPc"}}')])
    assert events == [
        TextDelta("a"), CallStart(0, None, "f"), ArgsDelta(0, '{"a": "b'),
        Malformed(0, "", "the text ended inside the call"),
    ]  # fmt: skip
    assert (pipeline.finish_reason, pipeline.stop_reason) == ("stop", "STOP")


def test_flush_cascades():
    """What the detokenizer lets go goes through stop, reasoning and tools, and each in its turn."""
    pipeline = make(reasoning="qwen3", tools="hermes", stop=["<tool_call>\ufffd!"])
    assert pipeline.feed([*b"<tool_call>", 0xF0]) == []
    assert pipeline.held == {
        "detokenizer": b"\xf0", "stop": "<tool_call>", "reasoning": "", "tools": "",
    }  # fmt: skip
    assert norm(pipeline.finish(LENGTH)) == [TextDelta("<tool_call>\ufffd")]
    assert not any(pipeline.held.values())


def test_what_one_flush_lets_go_the_next_layer_takes():
    """The splitter waits for its tag, and the parser for its own, once it gets the text."""
    pipeline = make(reasoning="qwen3", tools="hermes")
    assert pipeline.feed(b" <t") == []
    assert pipeline.held["reasoning"] == " <t"
    assert norm(pipeline.finish(LENGTH)) == [TextDelta(" <t")]
    pipeline = make(tools="harmony", eos_token_ids=[EOS], stop=["}}"])
    text = b"<|channel|>commentary to=f<|message|>{}"
    assert norm(pipeline.feed([*text, EOS]))[-1] == CallEnd(0)
    assert pipeline.finish_reason == "tool_calls"


def test_a_call_that_only_the_flush_completes():
    """The last `>` waits as a possible stop; the call ends all the same, and was a call."""
    pipeline = make(tools="hermes", stop=["</tool_call>!"], eos_token_ids=[EOS])
    events = [*pipeline.feed(ids_of(OTHER)), *pipeline.feed([EOS])]
    assert norm(events) == [CallStart(0, None, "f"), ArgsDelta(0, "{}"), CallEnd(0)]
    assert pipeline.finish_reason == "tool_calls"


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


def test_a_stop_of_the_content_that_only_the_flush_completes():
    options = {"reasoning": "qwen3", "stop": ["<thi"], "stop_scope": "content"}
    pipeline = make(**options)
    assert pipeline.feed(b" <thi") == []
    assert pipeline.finish(LENGTH) == [TextDelta(" ")]
    assert (pipeline.finish_reason, pipeline.stop_reason) == ("stop", "<thi")


def test_flush_once():
    pipeline = make(stop=["END"], tools="hermes")
    pipeline.feed(b"xEN")
    assert pipeline.finish(CANCELLED) == [TextDelta("EN")]
    assert (pipeline.finish(LENGTH), pipeline.finish(END_ID)) == ([], [])
    assert pipeline.finish_reason == "cancelled"
    assert (pipeline.feed(b"more"), pipeline.tokens) == ([], 3)


def test_finish_of_an_untouched_pipeline():
    for options, _ in SESSIONS.values():
        pipeline = make(**options)
        assert (pipeline.finish(LENGTH), pipeline.finish_reason) == ([], "length")
        assert (pipeline.stop_reason, pipeline.tokens) == (None, 0)


@pytest.mark.parametrize("reason", [END_ID, LENGTH, CANCELLED, ERROR])
@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("plain", False),
        (OTHER, True),
        (f"{OTHER} and text", True),
        (OTHER + CALL[:60], True),
        (CALL[:60], False),
        (CALL[:25], False),
        ("<tool_call>{}</tool_call>", False),
        ('<tool_call>{"name": "f", "arguments": {]}</tool_call>', False),
    ],
)
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


def test_without_a_tool_parser_a_call_is_text():
    pipeline = make()
    assert run(pipeline, [ids_of(OTHER)], END_ID) == [TextDelta(OTHER)]
    assert pipeline.finish_reason == "stop"


@pytest.mark.parametrize(
    ("options", "bursts", "reason", "what", "tokens"),
    [
        ({"eos_token_ids": [EOS]}, [[*b"a", EOS, *b"b"]], "stop", None, 2),
        ({"stop_token_ids": [98]}, [b"abc"], "stop", 98, 2),
        # An id that is both is EOS.
        ({"stop_token_ids": [EOS], "eos_token_ids": [EOS]}, [[EOS]], "stop", None, 1),
        ({"stop": ["b", "ab"]}, [b"a", b"bc"], "stop", "ab", 2),
        ({"stop": ["bc"], "stop_token_ids": [99]}, [b"abcd"], "stop", 99, 3),
        ({"stop": ["d"]}, [b"abc"], "length", None, 3),
        ({}, [], "length", None, 0),
    ],
)
def test_what_stopped(options, bursts, reason, what, tokens):
    assert outcome(make(**options), bursts)[1:] == (reason, what, tokens)


def test_ids_after_the_stop_are_not_taken():
    """Not even from a generator, and in no later burst."""
    for options, taken in [({"stop": ["b"]}, 2), ({"stop_token_ids": [98]}, 2)]:
        pipeline, rest = make(**options), iter(b"abcd")
        assert pipeline.feed(rest) == [TextDelta("a")]
        assert pipeline.tokens == taken
        assert bytes(rest) == b"cd"
        assert (pipeline.feed(rest := iter(b"ef")), bytes(rest)) == ([], b"ef")
        assert (pipeline.finish(LENGTH), pipeline.tokens) == ([], taken)


def test_text_after_a_stop_is_lost_half_a_character_too():
    tokenizer = TOKENIZERS["byte-level"]
    pipeline = make("byte-level", stop=["a"])
    ids = [*ids_of("xa", "byte-level"), tokenizer.token_to_id("ä")]
    assert run(pipeline, [ids]) == [TextDelta("x")]


def test_half_a_character_before_a_stop_id_is_said():
    pipeline = make(eos_token_ids=[EOS], stop=["zz"])
    assert norm(pipeline.feed([*b"oz\xf0\x9f", EOS])) == [TextDelta("oz\ufffd")]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "a"),
        ({"include_stop_str_in_output": True}, "a"),
        ({"include_stop_str_in_output": True, "skip_special_tokens": False}, "a<eos>"),
        ({"skip_special_tokens": False}, "a"),
    ],
)
def test_a_stop_id_is_shown_on_demand(options, text):
    pipeline = make(eos_token_ids=[EOS], **options)
    assert text_of(pipeline.feed([*b"a", EOS])) == text
    assert (pipeline.finish_reason, pipeline.stop_reason) == ("stop", None)
    pipeline = make(stop_token_ids=[98], **options)
    shown = "ab" if options.get("include_stop_str_in_output") else "a"
    assert text_of(pipeline.feed(b"abc")) == shown


def test_a_shown_stop_string_goes_to_the_parsers():
    pipeline = make(tools="hermes", stop=["</tool_call>"], include_stop_str_in_output=True)
    events = pipeline.feed(ids_of(OTHER + "x"))
    assert norm(events) == [CallStart(0, None, "f"), ArgsDelta(0, "{}"), CallEnd(0)]
    assert (pipeline.finish_reason, pipeline.stop_reason) == ("tool_calls", "</tool_call>")
    hidden = make(tools="hermes", stop=["</tool_call>"])
    events = hidden.feed(ids_of(OTHER + "x"))
    assert isinstance(events[-1], Malformed)
    assert hidden.finish_reason == "stop"


@pytest.mark.parametrize("cut", [1, 2, 3, 9])
@pytest.mark.parametrize(
    ("least", "text", "tokens"),
    [(0, "a", 2), (1, "a", 2), (2, "a.b", 4), (3, "a.b", 4), (4, "a.b.", 5), (5, "a.b..c", 7)],
)
def test_min_tokens_counts_tokens(least, text, tokens, cut):
    """A stop counts if its last character came with a later id."""
    pipeline = make(stop=["."], min_tokens=least)
    assert text_of(run(pipeline, sized(ids_of("a.b..c."), cut))) == text
    assert (pipeline.finish_reason, pipeline.tokens) == ("stop", tokens)


def test_min_tokens_and_ids():
    pipeline = make(stop_token_ids=[98], eos_token_ids=[EOS], min_tokens=3)
    assert text_of(pipeline.feed([*b"ab", EOS, *b"cbd"])) == "abc"
    assert (pipeline.stop_reason, pipeline.tokens) == (98, 5)


def test_min_tokens_a_stop_that_straddles_counts():
    for cut in (1, 2, 5):
        pipeline = make(stop=["END"], min_tokens=2)
        assert text_of(run(pipeline, sized(ids_of("EEND."), cut))) == "E"
        assert pipeline.stop_reason == "END"
        pipeline = make(stop=["END"], min_tokens=4)
        assert text_of(run(pipeline, sized(ids_of("EEND."), cut))) == "EEND."


@pytest.mark.parametrize("scope", ["all", "content"])
def test_min_tokens_an_early_stop_inside_another(scope):
    """`bc` came too early, so the longer one that holds it ends the text."""
    for size in (1, 2, 4):
        pipeline = make(stop=["abcde", "bc"], min_tokens=4, stop_scope=scope, reasoning="qwen3")
        assert text_of(run(pipeline, sized(ids_of("xabcde"), size))) == "x"
        assert (pipeline.finish_reason, pipeline.stop_reason) == ("stop", "abcde")


def test_min_tokens_that_never_come():
    pipeline = make(stop=["b"], min_tokens=9)
    assert text_of(run(pipeline, [b"abc"])) == "abc"
    assert pipeline.finish_reason == "length"


def test_min_tokens_a_character_belongs_to_the_id_that_completes_it():
    for least, stopped in [(1, True), (2, False)]:
        pipeline = make(stop=["é"], min_tokens=least)
        run(pipeline, [ids_of("é!")])
        assert (pipeline.finish_reason == "stop") == stopped


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_min_tokens_of_content_that_the_reasoning_held(cut):
    """The splitter lets go late what came early: by the ids it was early all the same."""
    options = {"reasoning": "qwen3", "stop_scope": "content", "stop": ["\n"]}
    for least, data, text, tokens in [
        (1, "\na\nb", "\na", 3),
        (2, "\n\na\nb", "\n\na", 4),
        # The second one ends the text, but may be markup until the third id says that it is not.
        (1, "\n\na", "\n", 3),
        (3, "\n<t\n", "\n<t", 4),
        (9, "\n<think>\n</think>a\n", "a", 19),
    ]:
        pipeline = make(min_tokens=least, **options)
        assert text_of(run(pipeline, sized(ids_of(data), cut))) == text, (least, data)
        assert (pipeline.finish_reason, pipeline.tokens) == ("stop", tokens), (least, data)
    for least in (1, 2):
        pipeline = make(min_tokens=least, **options)
        assert text_of(run(pipeline, [b"\n"])) == "\n"
        assert pipeline.finish_reason == "length"


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_stop_scope(tokenizer):
    text = "think.</think>answer.more"
    options = {"reasoning": "deepseek_r1", "stop": ["."]}
    for bursts in cuts(ids_of(text, tokenizer)):
        pipeline = make(tokenizer, **options)
        assert run(pipeline, bursts) == [ReasoningDelta("think")]
        pipeline = make(tokenizer, stop_scope="content", **options)
        assert run(pipeline, bursts) == [ReasoningDelta("think."), TextDelta("answer")]
        assert (pipeline.finish_reason, pipeline.stop_reason) == ("stop", ".")


def test_stop_scope_content_is_all_where_nothing_reasons():
    assert text_of(run(make(stop=["."], stop_scope="content"), [b"a.b"])) == "a"


def test_stop_scope_content_looks_into_calls():
    pipeline = make(reasoning="qwen3", tools="hermes", stop=['"to"'], stop_scope="content")
    events = run(pipeline, [ids_of(f'<think>"to"</think>{CALL}')])
    assert events == [
        ReasoningDelta('"to"'), CallStart(0, None, "go"), ArgsDelta(0, "{"),
        Malformed(0, "", "the text ended inside the call"),
    ]  # fmt: skip


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_an_emoji_in_arguments_survives_every_cut(tokenizer):
    ids = ids_of(f"a{CALL}b", tokenizer)
    expected = [
        TextDelta("a"), CallStart(0, None, "go"), ArgsDelta(0, ARGUMENTS), CallEnd(0),
        TextDelta("b"),
    ]  # fmt: skip
    for place in range(len(ids) + 1):
        assert run(make(tokenizer, tools="hermes"), cut_at(ids, [place])) == expected
    for size in (1, 2, 3, 4):
        assert run(make(tokenizer, tools="hermes"), sized(ids, size)) == expected


def test_reasoning_and_calls():
    """A call inside the reasoning is prose; after it, it is a call."""
    pipeline = make(reasoning="deepseek_r1", tools="hermes", eos_token_ids=[EOS])
    assert run(pipeline, [[*ids_of(f"{OTHER}</think>ok{OTHER}"), EOS]]) == [
        ReasoningDelta(OTHER), TextDelta("ok"),
        CallStart(0, None, "f"), ArgsDelta(0, "{}"), CallEnd(0),
    ]  # fmt: skip
    assert pipeline.finish_reason == "tool_calls"


def test_a_call_may_end_the_reasoning():
    splitter = create_reasoning_splitter("qwen3", in_reasoning=True, ends_at=["<tool_call>"])
    tools = create_tool_parser("hermes")
    pipeline = TextPipeline(ByteTokenizer(), reasoning=splitter, tools=tools)
    assert run(pipeline, sized(ids_of(f"hm{OTHER}"), 3), END_ID) == [
        ReasoningDelta("hm"), CallStart(0, None, "f"), ArgsDelta(0, "{}"), CallEnd(0),
    ]  # fmt: skip
    assert pipeline.finish_reason == "tool_calls"


def test_harmony_has_reasoning_and_calls_in_one():
    text = (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.f <|constrain|>json<|message|>{"a": 1}'
    )
    for bursts in cuts([*ids_of(text), EOS]):
        pipeline = make(tools="harmony", eos_token_ids=[EOS])
        assert run(pipeline, bursts) == [
            ReasoningDelta("hm"), CallStart(0, None, "f"), ArgsDelta(0, '{"a": 1}'), CallEnd(0),
        ]  # fmt: skip
        assert pipeline.finish_reason == "tool_calls"


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


def test_a_character_across_the_prompt_comes_out_whole():
    for options in ({}, {"stop": ["🚀!"]}):
        pipeline = make(prompt_token_ids=[*b"no", 0xF0, 0x9F], **options)
        assert text_of(run(pipeline, [[0x9A, 0x80], b"?"])) == "🚀?"


def test_special_markers_are_text_where_they_are_not_skipped():
    tokenizer = TOKENIZERS["byte-level"]
    ids = [*ids_of("a", "byte-level"), tokenizer.token_to_id("<|im_end|>")]
    for skip, expected in [(False, "a<|im_end|>"), (True, "a")]:
        assert text_of(run(make("byte-level", skip_special_tokens=skip), [ids])) == expected
    pipeline = make("byte-level", skip_special_tokens=False, stop=["<|im_end|>"])
    assert text_of(run(pipeline, [ids])) == "a"


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
