"""The two tokenizers without a file: bytes, and a mock of a few words; and the wrapper."""

from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.tokenizer import ByteTokenizer, MockTokenizer, TokenizerWrapper

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


# The mock tokenizer, by the ids of the acceptance list.

MOCK = MockTokenizer()


def test_mock_encodes_words():  # U23, U30
    assert MOCK.encode("Hello world").ids == MOCK.encode("Hello  unknown world").ids == (1, 2)
    assert [e.ids for e in MOCK.encode_batch(["Hello", "world", "test"])] == [(1,), (2,), (3,)]
    assert MOCK.token_to_id("<|im_start|>") is None
    assert MockTokenizer(extended=True).encode("user <|im_end|>").ids == (8, 1002)


def test_mock_decodes_with_and_without_special_tokens():  # U24, U25
    assert MOCK.decode([1000, 1, 2, 999]) == "<bos> Hello world <eos>"
    assert MOCK.decode([1000, 1, 2, 999], skip_special_tokens=True) == "Hello world"
    assert [MOCK.decode(ids) for ids in ([1, 2], [5], [42], [-1])] == ["Hello world", " ", "", ""]


def test_mock_special_tokens():  # U29
    special = MOCK.special_tokens
    assert (special.bos, special.eos, special.unk) == ("<bos>", "<eos>", "<unk>")
    assert special.sep is special.pad is None


def test_tokenizer_wrapper():  # U26
    wrapper = TokenizerWrapper(MockTokenizer())
    assert wrapper.encode("Hello world").ids == (1, 2)
    assert wrapper.decode([1, 2]) == "Hello world"
    assert wrapper.vocab_size == MockTokenizer.vocab_size
    assert (wrapper.token_to_id("Hello"), wrapper.id_to_token(2)) == (1, "world")
    assert (wrapper.token_to_id("unknown"), wrapper.id_to_token(4242)) == (None, None)
    assert wrapper.special_tokens is wrapper.inner.special_tokens
    assert wrapper.decode_stream([1]).step(2) == " world"
