"""Real bugs of stop handling, one row each: what a reader must see where an engine once erred.

A row runs through the whole `TextPipeline`: options, bursts of tokens, the text that each burst
must show, the text of the end, and why it ended. A token is its text or its bytes, a special token
its name, or a bare id; the tokens of one burst arrive in one step.

Not here, because no layer of text sees it: S08 (a deployment that detokenizes elsewhere), the step
limit of S12 and the sampler of S25 (the engine has tests of both), the template's default stops of
S27 (the server's). S26 is about cost: `test_stop`.
"""

import functools

import pytest
from tokenizers import decoders
from vocabularies import of_tokens

from mini_vllm.finish_reason import FinishReason
from mini_vllm.pipeline import TextPipeline
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)
from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.tool_parsers import create_tool_parser

SPECIAL = ["<eos>", "<|im_end|>"]


@functools.cache
def vocabulary():
    """Return a tokenizer of the tokens of all rows, and a function from them to ids."""
    tokens = [token for _, bursts, *_ in ROWS.values() for burst in bursts for token in burst]
    tokenizer, id_of = of_tokens(map(as_bytes, tokens), decoders.ByteLevel(), special=SPECIAL)
    return tokenizer, lambda token: id_of(as_bytes(token))


def as_bytes(token):
    return token.encode() if isinstance(token, str) and token not in SPECIAL else token


def written(event):
    """Return an event as it stands in the table."""
    match event:
        case TextDelta(text):
            return text
        case ReasoningDelta(text):
            return f"think:{text}"
        case CallStart(_, _, name):
            return f"call:{name}"
        case ArgsDelta(_, text):
            return f"args:{text}"
        case CallEnd():
            return "call ends"
        case Malformed(_, raw, _):
            return f"malformed:{raw}"


def each(*tokens):
    """One token a step."""
    return [[token] for token in tokens]


THINKS = {"reasoning": "deepseek_r1"}
CONTENT = {**THINKS, "stop_scope": "content"}
CALL = ["<tool_call>", '{"name": "f", "arguments": {"a": ', "1}}", "</tool_call>"]

# id: (options, bursts, what each shows, the end, why, what stopped, how many tokens were taken)
# fmt: off
ROWS = {
    "stop-S01": ({"stop": ["DE"]}, each("DEF"), [[]], [], "stop", "DE", 1),
    "stop-S02": ({"stop": ["DEFGHIJ"]}, each("DEF", "G", "HI", "J"),
        [[], [], [], []], [], "stop", "DEFGHIJ", 4),
    "stop-S02-not": ({"stop": ["DEFGHIJ"]}, each("DEF", "G", "HI", "K"),
        [[], [], [], ["DEFGHIK"]], [], "length", None, 4),
    "stop-S03": ({"stop_token_ids": ["<|im_end|>"]}, each("one", " two", "<|im_end|>"),
        [["one"], [" two"], []], [], "stop", "<|im_end|>", 3),
    "stop-S03-eos": ({"eos_token_ids": ["<eos>"], "stop": ["end"]}, each("one", " e", "<eos>"),
        [["on"], ["e "], ["e"]], [], "stop", None, 3),
    "stop-S04": ({"stop": ["a", "is", ","]}, each(" The user is a"),
        [[" The user "]], [], "stop", "is", 1),
    "stop-S04-ends-first": ({"stop": ["a", "ser is", ","]}, each(" The user is a"),
        [[" The u"]], [], "stop", "ser is", 1),
    "stop-S05": ({"stop": ["END"]}, [["x", "EN"], ["D!", "y", "z"]],
        [["x"], []], [], "stop", "END", 3),
    "stop-S06": ({**THINKS, "stop": ["</x"]}, each("hm", "</think>", "so"),
        [["think:hm"], [], ["so"]], [], "length", None, 3),
    "stop-S07-all": ({**THINKS, "stop": ["\n\n"]}, each("hm\n\n", "so</think>", "ok"),
        [["think:hm"], [], []], [], "stop", "\n\n", 1),
    "stop-S07-content": ({**CONTENT, "stop": ["\n\n"]},
        each("hm\n\n", "so</think>", "ok\n", "\nno"),
        [["think:hm\n\n"], ["think:so"], ["ok"], []], [], "stop", "\n\n", 4),
    "stop-S09": ({"stop": ["\n"], "min_tokens": 3}, each("a\n", "b\n", "c\n", "d\n"),
        [["a\n"], ["b\n"], ["c\n"], ["d"]], [], "stop", "\n", 4),
    "stop-S09-burst": ({"stop": ["\n"], "min_tokens": 3}, [["a\n", "b\n", "c", "\n", "d"]],
        [["a\n", "b\n", "c"]], [], "stop", "\n", 4),
    "stop-S09-straddles": ({"stop": ["END"], "min_tokens": 2}, each("a", "EN", "D", "b"),
        [["a"], [], [], []], [], "stop", "END", 3),
    "stop-S10": ({"stop": ["<|end|>"]}, each("a<", "|en", "d|", ">b"),
        [["a"], [], [], []], [], "stop", "<|end|>", 4),
    "stop-S11": ({"stop": ["STOP"]}, [["a", "STOP", " and much", " more", " text", " behind it"]],
        [["a"]], [], "stop", "STOP", 2),
    "stop-S12": ({"stop_token_ids": [912]}, [[910, 911, 912, 920, 921]], [[]], [], "stop", 912, 3),
    "stop-S13": ({**CONTENT, "stop": ["User:"]}, each("User: hi", "</think>", "yes ", "User:", "?"),
        [["think:User: hi"], [], ["yes "], [], []], [], "stop", "User:", 4),
    "stop-S14-space": ({"stop": [" ×"]}, each("2 ", "× 3"), [["2"], []], [], "stop", " ×", 2),
    "stop-S14-two-bytes": ({"stop": ["éx"]}, each("é", "é", "xy"),
        [[], ["é"], []], [], "stop", "éx", 3),
    "stop-S14-bytes": ({"stop": ["🚀中"]}, each(b"a\xf0\x9f", b"\x9a\x80\xe4", b"\xb8\xad"),
        [["a"], [], []], [], "stop", "🚀中", 3),
    "stop-S15": ({"stop": ["</tool_call>\n\n"], "tools": "hermes"}, each(*CALL),
        [[], ["call:f", 'args:{"a": '], ["args:1}"], []], ["call ends"], "length", None, 4),
    "stop-S16": ({"stop": ["O P Q"]}, each("N", " O", " P", " Q", " R"),
        [["N"], [" "], [], [], []], [], "stop", "O P Q", 4),
    "stop-S17": ({"stop": ["STOP"]}, each("abc", "deSTOPf"),
        [["abc"], ["de"]], [], "stop", "STOP", 2),
    "stop-S18": ({"stop": ["TRE\nAAAAAAAA"]}, each("TRE", "\n", "AAA"),
        [[], [], []], ["TRE\nAAA"], "length", None, 3),
    "stop-S18-eos": ({"stop": ["TRE\nAAAAAAAA"], "eos_token_ids": ["<eos>"]},
        each("TRE", "\n", "AAA", "<eos>"), [[], [], [], ["TRE\nAAA"]], [], "stop", None, 4),
    "stop-S19": ({"stop": ["STOP"]}, each(b"aSTOP\xf0\x9f", b"\x9a\x80"),
        [["a"], []], [], "stop", "STOP", 1),
    "stop-S19-one": ({"stop": ["abc", "b"]}, each("abc"), [["a"]], [], "stop", "b", 1),
    "stop-S19-three": ({"stop": ["abc", "b"]}, each("a", "b", "c"),
        [["a"], [], []], [], "stop", "b", 2),
    "stop-S20": ({"stop": ["Pari"]}, each("in", " Paris", "."),
        [["in"], [" "], []], [], "stop", "Pari", 2),
    "stop-S21": ({"stop": ["haha"]}, each("ha", "!"), [[], ["ha!"]], [], "length", None, 2),
    "stop-S21-end": ({"stop": ["<|"], "eos_token_ids": ["<eos>"]}, each("x <", "<eos>"),
        [["x "], ["<"]], [], "stop", None, 2),
    "stop-S21-repeated": ({"stop": ["aab"]}, each(*"aaaaa"),
        [[], [], ["a"], ["a"], ["a"]], ["aa"], "length", None, 5),
    "stop-S22": ({"stop": ["\nUser"]}, each("\n", "\n", "x", "\n", "\n"),
        [[], ["\n"], ["\nx"], [], ["\n"]], ["\n"], "length", None, 5),
    "stop-S22-alone": ({"stop": ["</s>"]}, each("\n", "\n"),
        [["\n"], ["\n"]], [], "length", None, 2),
    "stop-S23": ({"stop": [">>>>>>> UPDATED"]}, each("x\n>>", ">>>>>", " UPD", "ATED", "\n"),
        [["x\n"], [], [], [], []], [], "stop", ">>>>>>> UPDATED", 4),
    "stop-S24": ({"stop": ["END"]}, [["a", "b"], ["E", "ND", "c", "d"]],
        [["a", "b"], []], [], "stop", "END", 4),
    "stop-S24-id": ({"stop_token_ids": ["<|im_end|>"]}, [["a", "<|im_end|>", "b", "c"]],
        [["a"]], [], "stop", "<|im_end|>", 2),
    "stop-S25": ({"stop_token_ids": [10**9, -1], "min_tokens": 2},
        each("a", 10**9, "b", 10**9, "c"),
        [["a"], [], ["b"], [], []], [], "stop", 10**9, 4),
    "stop-S27": ({"stop": ["ot"]}, each("do", " not"), [["d"], ["o n"]], [], "stop", "ot", 2),
}
# fmt: on


@pytest.mark.parametrize("row", ROWS)
def test_catalogue(row):
    options, bursts, shown, rest, why, what, taken = ROWS[row]
    tokenizer, id_of = vocabulary()
    options = dict(options)
    for name in {"stop_token_ids", "eos_token_ids"} & set(options):
        options[name] = [*map(id_of, options[name])]
    if "reasoning" in options:
        options["reasoning"] = create_reasoning_splitter(options["reasoning"])
    if "tools" in options:
        options["tools"] = create_tool_parser(options["tools"])
    pipeline = TextPipeline(tokenizer, **options)
    steps = [[*map(written, pipeline.feed([*map(id_of, burst)]))] for burst in bursts]
    end = [*map(written, pipeline.finish(FinishReason.LENGTH))]
    assert (steps, end) == (shown, rest)
    assert pipeline.finish_reason == why
    assert pipeline.stop_reason == (id_of(what) if what in SPECIAL else what)
    assert pipeline.tokens == taken


def test_every_row_of_the_catalogue_is_somewhere():
    elsewhere = {"S08", "S26"}
    numbers = {row.split("-")[1] for row in ROWS} | elsewhere
    assert numbers == {f"S{number:02}" for number in range(1, 28)}
