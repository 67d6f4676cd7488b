"""mini_vllm's own ByteTokenizer."""

from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.tokenizer import ByteTokenizer

TOKENIZER = ByteTokenizer()
IDS = st.lists(st.integers(0, 258))


@given(st.text())
def test_round_trip(text):
    ids = TOKENIZER.encode(text, add_special_tokens=True).ids
    assert TOKENIZER.decode(ids, skip_special_tokens=True) == text


@given(IDS)
def test_skipped_specials_are_transparent(ids):
    data = bytes(token_id for token_id in ids if token_id < 256)
    assert TOKENIZER.decode(ids, skip_special_tokens=True) == data.decode("utf-8", "replace")
    assert b"".join(map(TOKENIZER.token_bytes, ids)) == data


@given(IDS, IDS)
def test_shown_specials_break_the_sequence(first, second):
    whole = TOKENIZER.decode([*first, 256, *second])
    assert whole == TOKENIZER.decode(first) + "<bos>" + TOKENIZER.decode(second)


def test_special_ids():
    assert TOKENIZER.decode([256, 257, 258]) == "<bos><eos><pad>"
    assert TOKENIZER.encode("<eos>").ids == tuple(b"<eos>")
    assert TOKENIZER.token_to_id("<eos>") == TOKENIZER.eos_token_id
    assert TOKENIZER.id_to_token(0xC3) is None


def test_unknown_ids_are_no_text():
    assert TOKENIZER.decode([65, -1, 259, 2**40, 66]) == "AB"
    assert TOKENIZER.token_bytes(-1) == b""
