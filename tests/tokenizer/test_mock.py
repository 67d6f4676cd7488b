"""The mock tokenizer, by the ids of the acceptance list."""

import pytest

from mini_vllm.tokenizer import MockTokenizer

MOCK = MockTokenizer()


def test_mock_tokenizer_encode():  # U23
    assert MOCK.encode("Hello world").ids == (1, 2)
    assert MOCK.encode("Hello  unknown world").ids == (1, 2)


def test_mock_tokenizer_decode():  # U24
    assert MOCK.decode([1, 2]) == "Hello world"


def test_mock_tokenizer_decode_skip_special():  # U25
    assert MOCK.decode([1000, 1, 2, 999]) == "<bos> Hello world <eos>"
    assert MOCK.decode([1000, 1, 2, 999], skip_special_tokens=True) == "Hello world"


@pytest.mark.parametrize(("ids", "text"), [([5], " "), ([42], ""), ([-1], "")])
def test_single_ids(ids, text):
    assert MOCK.decode(ids) == text


def test_special_tokens():  # U29
    special = MOCK.special_tokens
    assert (special.bos, special.eos, special.unk) == ("<bos>", "<eos>", "<unk>")
    assert special.sep is None
    assert special.pad is None


def test_batch_encode():  # U30
    assert [e.ids for e in MOCK.encode_batch(["Hello", "world", "test"])] == [(1,), (2,), (3,)]


def test_extended_words():
    assert MOCK.token_to_id("<|im_start|>") is None
    assert MockTokenizer(extended=True).encode("user <|im_end|>").ids == (8, 1002)
