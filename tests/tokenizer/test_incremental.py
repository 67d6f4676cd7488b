"""IncrementalDetokenizer: its acceptance criteria, and what decoding a window twice would lose."""

import pytest
from vocabularies import byte_level

from mini_vllm.tokenizer import ByteTokenizer, HuggingFaceTokenizer, IncrementalDetokenizer

TOKENIZER = HuggingFaceTokenizer.from_tokenizer(byte_level())


def run(tokenizer, prompt, output):
    detokenizer = IncrementalDetokenizer(tokenizer, prompt)
    return [detokenizer.push(token_id) for token_id in output], detokenizer.flush()


def test_a_character_of_several_tokens_comes_with_the_last_of_them():
    ids = TOKENIZER.encode("🫣").ids
    assert len(ids) > 2
    pieces, rest = run(TOKENIZER, TOKENIZER.encode("a").ids, ids)
    assert (pieces, rest) == ([*[""] * (len(ids) - 1), "🫣"], "")


@pytest.mark.parametrize("text", ["Hello world", "naïve café — 你好 🚀 the end", "नमस्ते 世界 🫨"])
def test_text_is_the_rest_of_the_whole_decoding(text):
    ids = TOKENIZER.encode(text).ids
    for cut in range(len(ids) + 1):
        before = TOKENIZER.decode(ids[:cut])
        if before.endswith("\ufffd"):
            continue
        pieces, rest = run(TOKENIZER, ids[:cut], ids[cut:])
        assert "".join(pieces) + rest == TOKENIZER.decode(ids)[len(before) :]
        assert "\ufffd" not in "".join(pieces)


def test_special_tokens_are_shown():
    end = TOKENIZER.token_to_id("</s>")
    assert run(TOKENIZER, [], [end])[0] == ["</s>"]


def test_prompt_inside_a_character_gives_the_character_whole():
    assert run(ByteTokenizer(), b"p\xe4\xbd", b"\xa0A") == (["你", "A"], "")


def test_output_cut_inside_a_character_is_honest_once():
    detokenizer = IncrementalDetokenizer(ByteTokenizer(), b"p")
    assert [detokenizer.push(0xF0), detokenizer.flush(), detokenizer.flush()] == ["", "\ufffd", ""]
