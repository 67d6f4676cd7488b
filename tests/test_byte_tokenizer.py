"""mini_vllm's own ByteTokenizer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.tokenizer import ByteTokenizer

TOKENIZER = ByteTokenizer()
IDS = st.lists(st.integers(0, 258))


@given(st.text())
def test_round_trip(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text, add_special_tokens=True)) == text


@given(IDS)
def test_skipped_specials_are_transparent(ids):
    data = bytes(token_id for token_id in ids if token_id < 256)
    assert TOKENIZER.decode(ids) == data.decode("utf-8", "replace")
    assert b"".join(map(TOKENIZER.token_bytes, ids)) == data


@given(IDS, IDS)
def test_shown_specials_break_the_sequence(first, second):
    def shown(ids):
        return TOKENIZER.decode(ids, skip_special_tokens=False)

    assert shown([*first, 256, *second]) == shown(first) + "<bos>" + shown(second)


def test_special_ids():
    assert TOKENIZER.decode([256, 257, 258], skip_special_tokens=False) == "<bos><eos><pad>"
    assert TOKENIZER.encode("<eos>") == list(b"<eos>")
    assert TOKENIZER.vocab_size == 259


@pytest.mark.parametrize("bad", [-1, 259, 2**40])
def test_unknown_ids_are_named(bad):
    with pytest.raises(ValueError, match=f"{bad} is outside 0-258 at position 1"):
        TOKENIZER.decode([65, bad])
    with pytest.raises(ValueError, match=f"{bad} is outside"):
        TOKENIZER.token_bytes(bad)


def test_lone_surrogates_are_named():
    with pytest.raises(ValueError, match=r"U\+D800 at position 1"):
        TOKENIZER.encode("a\ud800")
