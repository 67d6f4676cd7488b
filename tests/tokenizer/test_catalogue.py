"""Real bugs of detokenizers, one row each: what a stream must show where an engine once did not.

A row is a vocabulary shape, a prompt, the ids one by one, what each of them must show, and the
flush. Ids are written as what they stand for: bytes or token spellings. The catalogue's numbers
B28 (stop tokens), B49 and B50 (HTTP clients) are no detokenizer's; B10 (prompts of any length) is
in `test_decode_stream`; B11, B16, B17, B39, B43, B45 and B51 have tests of their own below.
"""

import functools

import pytest
from tokenizers import decoders
from vocabularies import KINDS, of_tokens

from mini_vllm.tokenizer import HuggingFaceTokenizer, MockTokenizer, create_decode_stream

SPECIAL = ["<s>", "</s>"]
SPM = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
SHAPES = {
    "bytes": decoders.ByteLevel(),
    "sequence": decoders.Sequence([decoders.ByteLevel()]),
    "llama": decoders.Sequence([*SPM, decoders.Strip(" ", 1, 0)]),
    "gemma": decoders.Sequence(SPM),
}


def make(shape, tokens, **options):
    """Return a tokenizer of some tokens, and a function from a list of them to ids."""
    tokenizer, id_of = of_tokens(tokens, SHAPES[shape], special=SPECIAL, **options)
    return tokenizer, lambda tokens: [*map(id_of, tokens)]


def b(text):
    """`b("E4 B8|AD")`: two byte pieces."""
    return [bytes.fromhex(piece) for piece in text.split("|")]


R = "\ufffd"
# fmt: off
ROWS = {
    "detok-B01": ("bytes", [], b("F0|9F|98|80"), ["", "", "", "😀"], ""),
    "detok-B02": ("bytes", [], b("E5|AE A2 E5 8D 95"), ["", "客单"], ""),
    "detok-B03": ("llama", [], ["▁Hello", "▁world"], ["Hello", " world"], ""),
    "detok-B04": ("llama", [], ["▁LLMs", ".", "▁It"], ["LLMs", ".", " It"], ""),
    "detok-B05": ("llama", [], ["▁a", "▁▁▁", "▁b"], ["a", "   ", " b"], ""),
    "detok-B06-bpe": ("bytes", [], [b" hello"], [" hello"], ""),
    "detok-B06-spm": ("llama", [], ["▁", "▁the", "▁the"], ["", " the", " the"], ""),
    "detok-B07": ("llama", [], ["▁logs", "▁and"], ["logs", " and"], ""),
    "detok-B08": ("llama", [],
        ["▁the", "<0x0A>", "<0xE4>", "▁the"], ["the", "\n", "", R + " the"], ""),
    "detok-B09": ("llama", [],
        ["▁the", "<0x0A>", "<0xE4>", "▁a", "▁b"], ["the", "\n", "", R + " a", " b"], ""),
    "detok-B12": ("bytes", b("61|E4"), b("B8 AD"), ["中"], ""),
    "detok-B13": ("bytes", [], b("65|CC 81|78"), ["e", "\u0301", "x"], ""),
    "detok-B14": ("bytes", [], b("20 E4 B8 96 C3|A9 62 F0|9F|98 80"), [" 世", "éb", "", "😀"], ""),
    "detok-B15": ("bytes", [], b("FF|FF|FF"), [R, R, R], ""),
    "detok-B18": ("bytes", b("61|62|E4"), b("B8|AD"), ["", "中"], ""),
    "detok-B18-real": ("bytes", [*b("61|EF BF BD"), "</s>"], b("62"), ["b"], ""),
    "detok-B19": ("bytes", b("61|62|63"), b("F0|9F|98|80|41"), ["", "", "", "😀", "A"], ""),
    "detok-B20": ("bytes", b("61|E4"), b("B8|AD|41"), ["", "中", "A"], ""),
    "detok-B20-two": ("bytes", b("61|E4|B8"), b("AD|41"), ["中", "A"], ""),
    "detok-B21": ("llama", ["▁the"], ["▁hello"], [" hello"], ""),
    "detok-B22": ("bytes", [], b("41|F0|9F"), ["A", "", ""], R),
    "detok-B23": ("bytes", [], b("41|EF BF BD"), ["A", R], ""),
    "detok-B24": ("bytes", [], b("41|61 E4"), ["A", "a"], R),
    "detok-B25": ("gemma", [], ["A", "<0xF0>", "<0x9F>"], ["A", "", ""], R),
    "detok-B26": ("bytes", [], b("E0|41"), ["", R + "A"], ""),
    "detok-B27": ("bytes", [], b("80 41"), [R + "A"], ""),
    "detok-B29": ("bytes", [], b("E4 BD|A0 E5|A5 BD"), ["", "你", "好"], ""),
    "detok-B30": ("bytes", [], b("F0 9F|98 80"), ["", "😀"], ""),
    "detok-B31": ("bytes", [], b("FF FF|FF FF FF|41"), [R * 2, R * 3, "A"], ""),
    "detok-B32": ("bytes", [], b("20 F0 9F|98 80"), [" ", "😀"], ""),
    "detok-B33": ("llama", [],
        ["▁the", "<0xE4>", "<0xB8>", "<0xAD>", "▁the"], ["the", "", "", "中", " the"], ""),
    "detok-B34": ("bytes", [], [b"\xff", b" word"], [R, " word"], ""),
    "detok-B35": ("llama", [],
        ["<0xE6>", "<0x97>", "<0xA5>"] * 2 + ["▁the"], ["", "", "日", "", "", "日", " the"], ""),
    "detok-B36": ("bytes", [], b("61|EF BF BD|62"), ["a", R, "b"], ""),
    "detok-B37": ("bytes", [], [*b("61"), 777, *b("62")], ["a", "", "b"], ""),
    "detok-B38": ("bytes", [], [*b("E4"), -1, 2**32, *b("B8 AD")], ["", "", "", "中"], ""),
    "detok-B40": ("sequence", [], [b" hello", b"\n"], [" hello", "\n"], ""),
    "detok-B41": ("gemma", [], ["<0xE3>", "<0x80>", "<0x80>"], ["", "", "\u3000"], ""),
    "detok-B42": ("bytes", [], b("E8 AE|BF E9|97 AE"), ["", "访", "问"], ""),
    "detok-B44": ("gemma", [], ["▁▁▁▁", "."], ["    ", "."], ""),
    "detok-B46": ("bytes", [], [*b("41|00|42"), 99999], ["A", "\x00", "B", ""], ""),
    "detok-B47": ("gemma", [], ["<0xE2>", "<0x96>", "<0x81>"], ["", "", "▁"], ""),
    "detok-B48": ("bytes", [], b("E2 9C 85|85"), ["✅", R], ""),
    "detok-B52": ("llama", [], ["▁the", "<0x0A>", "▁the"], ["the", "\n", " the"], ""),
}
# fmt: on


@functools.cache
def of_shape(shape):
    """The vocabulary of all rows of a shape: to try a table of pieces takes a while."""
    rows = [row for row in ROWS.values() if row[0] == shape]
    return make(shape, [token for _, prompt, tokens, *_ in rows for token in (*prompt, *tokens)])


@pytest.mark.parametrize("row", ROWS)
def test_catalogue(row):
    shape, prompt, tokens, shown, rest = ROWS[row]
    tokenizer, ids_of = of_shape(shape)
    stream = create_decode_stream(tokenizer, ids_of(prompt))
    assert [stream.step(i) for i in ids_of(tokens)] == shown
    assert stream.flush() == rest


def test_detok_b11_text_that_gets_shorter():
    """A decoder that takes text back does not panic inside a character."""

    class Shrinks(MockTokenizer):
        def decode(self, ids, *, skip_special_tokens=False):
            texts = {(1, 2): "abcd😀", (1, 3): "abc", (1, 3, 2): "ab🎉"}
            alone = {(1,): "abcde", (2,): "😀", (3,): "c"}
            return (texts | alone).get(tuple(ids), "")

    stream = create_decode_stream(Shrinks())
    assert [stream.step(1), stream.step(2)] == ["abcde", "😀"]
    assert create_decode_stream(Shrinks(), [1, 3]).step(2) == "🎉"


def test_detok_b16_tokens_without_text():
    """A long run of skipped tokens costs nothing and loses nothing."""
    tokenizer, ids_of = make("llama", ["▁a", "▁b"])
    a, b_, end = ids_of(["▁a", "▁b", "</s>"])
    stream = create_decode_stream(tokenizer)
    assert [stream.step(i) for i in (a, *[end] * 50_000, b_)] == ["a", *[""] * 50_000, " b"]
    table = tokenizer.pieces.skipping
    (joins,) = (joins for state, joins in table._joins.items() if state == table.idle)
    assert len([join for join in joins if join]) == 2
    assert sum(map(len, table._joins.values())) - len(joins) < 10


def test_detok_b17_long_output():
    """What a stream holds does not grow with the output."""
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS["byte-level"]())
    ids = tokenizer.encode("naïve 你好 🚀 " * 9000).ids
    assert len(ids) > 32_000
    stream = create_decode_stream(tokenizer)
    assert "".join(map(stream.step, ids)) == "naïve 你好 🚀 " * 9000
    assert stream.held == b""


@pytest.mark.parametrize("mapped", [False, True])
def test_detok_b39_added_tokens_are_raw_text(mapped):
    """An added token is what it looks like, unless Hugging Face's mapping is asked for."""
    tokenizer, ids_of = make("bytes", b("61"), added=["đem", "č"], map_added_tokens=mapped)
    stream = create_decode_stream(tokenizer)
    shown = [stream.step(i) for i in ids_of(["đem", "č"])]
    assert shown == (["\x11em", "\r"] if mapped else ["đem", "č"])


def test_detok_b43_no_spaces_around_added_tokens():
    """Spaces are the model's; none is made up around added tokens."""
    tokenizer, ids_of = make("bytes", [b"ok", b" 1"], added=["<think>", "</think>"])
    stream = create_decode_stream(tokenizer)
    ids = ids_of(["<think>", b"ok", "</think>", b" 1"])
    # detok-B51, logprobs can carry bytes where a token is not text.
    assert [tokenizer.pieces.rest[i] for i in ids] == [b"<think>", b"ok", b"</think>", b" 1"]
    assert "".join(map(stream.step, ids)) == "<think>ok</think> 1"


def test_detok_b45_the_prompt_is_not_decoded():
    """The first step does not depend on how long the prompt is."""
    looked_at = []

    class Prompt(list):
        def __reversed__(self):
            for token_id in super().__reversed__():
                looked_at.append(token_id)
                yield token_id

    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS["byte-level"]())
    ids = tokenizer.encode("hello " * 20_000).ids
    create_decode_stream(tokenizer, Prompt(ids)).step(ids[0])
    assert 0 < len(looked_at) <= 4
