"""Bytes in the ids of any vocabulary: the same text, in the longest tokens that fit."""

from types import SimpleNamespace

import pytest
from vocabularies import byte_fallback, byte_level, ctc

from mini_vllm.engine import Engine, Request
from mini_vllm.engine.model import SlotView, check_burst
from mini_vllm.engine.request import SamplingParams, StructuredOutputsParams
from mini_vllm.models.ngram import load_embedded
from mini_vllm.models.spelled import SpelledModel, Speller
from mini_vllm.tokenizer import ByteTokenizer, HuggingFaceTokenizer, MockTokenizer
from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer.streams.factory import create_decode_stream

EMBEDDED = load_embedded()
BYTE_LEVEL = HuggingFaceTokenizer.from_tokenizer(byte_level())
TEXTS = ["", "the end", "naïve 你好 🚀 <think>", "a\ufffd\n\t\r", " leading", "नमस्ते 🇫🇷 🫨🫨"]


def of(*pieces):
    """A tokenizer of pieces, after the 256 bytes, and EOS."""
    column = [*(bytes([byte]) for byte in range(256)), *pieces, b"</s>"]
    end = len(column) - 1
    table = PieceTable(column, column, frozenset([end]))
    return SimpleNamespace(pieces=table, eos_token_ids=frozenset([end]))


def test_a_prompt_is_as_likely_as_its_bytes():
    ids = BYTE_LEVEL.encode("What is the weather in Paris?").ids
    found = SpelledModel(EMBEDDED.model, BYTE_LEVEL).prompt_logprobs(ids, 3)
    data = BYTE_LEVEL.decode(ids).encode()
    scores = EMBEDDED.model.prompt_logprobs(tuple(data), 0)
    expected, at = [], 0
    for one in ids:
        piece = BYTE_LEVEL.decode([one]).encode()
        each = [scores[at + place] for place in range(len(piece))]
        at += len(piece)
        pairs = zip(each, piece, strict=True)
        expected.append({one: sum(likely[byte] for likely, byte in pairs)} if each[0] else None)
    assert found == expected
    assert found.count(None) == 1
    assert len(ids) < len(data)


def test_it_takes_the_longest_token_and_waits_while_a_longer_one_may_come():
    speller = Speller(of(b"ab", b"abcd", b"\xa0z"))
    for data, more, expected in (
        (b"a", True, None),
        (b"ab", True, None),
        (b"abc", True, None),
        (b"abc", False, 256),
        (b"abx", True, 256),
        (b"abcd", True, None),
        (b"abcdx", True, 257),
        (b"x", True, None),
        (b"xy", True, ord("x")),
        (b"\xa0z!", True, 258),
    ):
        assert speller.first(data, more=more) == expected, data


def says(model, tokenizer, text, *, most=400, **params):
    """Return the ids of an answer, without EOS."""
    prompt = EMBEDDED.chat_template.apply_chat_template([{"role": "user", "content": text}], True)
    view = SlotView("r", 0, tuple(tokenizer.encode(prompt).ids), SamplingParams(**params))
    (burst,) = model.prefill([view])
    while burst.token_ids[0] not in tokenizer.eos_token_ids and view.step < most:
        check_burst(view, burst)
        view.output_token_ids += burst.token_ids
        view.step += 1
        (burst,) = model.decode([view])
    model.release(view)
    return view.output_token_ids


def text_of(tokenizer, ids, *, prompt=(0,)):
    stream = create_decode_stream(tokenizer, prompt)
    return "".join(map(stream.step, ids)) + stream.flush()


@pytest.mark.parametrize(
    "tokenizer",
    [BYTE_LEVEL, HuggingFaceTokenizer.from_tokenizer(byte_fallback(strip=True)), of(b"th", b"he")],
    ids=["byte level", "byte fallback", "made up"],
)
def test_ids_of_a_text_say_that_text(tokenizer):
    if isinstance(tokenizer, SimpleNamespace):
        tokenizer.encode = lambda text: SimpleNamespace(ids=())
    speller, rest = Speller(tokenizer), tokenizer.pieces.rest
    for text in TEXTS:
        assert b"".join(rest[token_id] for token_id in speller.ids(text)) == text.encode()


@pytest.mark.parametrize("seed", range(3))
def test_the_embedded_model_says_the_same_in_any_vocabulary(seed):
    spelled = SpelledModel(EMBEDDED.model, BYTE_LEVEL)
    for text in ("Hello!", "Schreib 你好 und 🚀."):
        expected = bytes(says(EMBEDDED.model, ByteTokenizer(), text, seed=seed)).decode()
        ids = says(spelled, BYTE_LEVEL, text, seed=seed, logprobs=0)
        assert text_of(BYTE_LEVEL, ids) == expected
        assert len(ids) < len(expected.encode())
    assert not spelled._slots


def test_a_text_whose_end_is_ignored_goes_on():
    spelled = SpelledModel(EMBEDDED.model, BYTE_LEVEL)
    view = SlotView("r", 0, (), SamplingParams(seed=1, max_tokens=600))
    (burst,) = spelled.prefill([view])
    found = []
    for view.step in range(1, 600):
        found += burst.token_ids
        (burst,) = spelled.decode([view])
    assert 1 < found.count(min(BYTE_LEVEL.eos_token_ids)) < 600


@pytest.mark.parametrize(
    ("tokenizer", "said"),
    [
        (MockTokenizer(), "rewrites across ids"),
        (HuggingFaceTokenizer.from_tokenizer(ctc()), "rewrites across ids"),
        (SimpleNamespace(pieces=PieceTable([b"a"], [b"a"], frozenset())), "no token for the byte"),
        (SimpleNamespace(pieces=of().pieces, eos_token_ids=frozenset()), "no token that ends a"),
    ],
)
def test_a_vocabulary_that_cannot_spell_is_refused_by_what_it_lacks(tokenizer, said):
    with pytest.raises(ValueError, match=said):
        SpelledModel(EMBEDDED.model, tokenizer)


def test_under_a_grammar_the_bytes_are_those_of_the_model_of_bytes():
    pytest.importorskip("llguidance")
    wanted = StructuredOutputsParams(regex="[a-z ]{4,30}[.]")
    params = SamplingParams(structured_outputs=wanted, n=4, seed=5, max_tokens=40, logprobs=0)
    outputs = []
    for wrap in (lambda model: model, lambda model: SpelledModel(model, ByteTokenizer())):
        engine = Engine(wrap(load_embedded().model), ByteTokenizer())
        outputs.append(engine.handle_request([Request("Tell me of soup", params)]).outputs)
    assert [one.token_ids for one in outputs[0]] == [one.token_ids for one in outputs[1]]
    assert [[step.chosen.logprob for step in one.logprobs] for one in outputs[0]] == [
        [step.chosen.logprob for step in one.logprobs] for one in outputs[1]
    ]
