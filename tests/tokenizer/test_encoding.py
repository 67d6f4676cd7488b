"""Encoding: goldens of the hash, chained block hashes, the same object each time."""

import hashlib
import random

import pytest

from mini_vllm.tokenizer import ByteTokenizer, Encoding, EncodingKind, SpecialTokens


@pytest.mark.parametrize(
    ("ids", "golden"),
    [
        ((), 13020603013274838756), ((1,), 9743897172465110599),
        ((1, 2, 3), 11402386789778234582), ((3, 2, 1), 4406103396925646213),
    ],
)  # fmt: skip
def test_hash_goldens(ids, golden):
    for kind in EncodingKind:
        assert Encoding(ids, kind).get_hash() == golden


def test_one_changed_id_changes_the_hash():  # I01
    generator = random.Random(0)
    for _ in range(3_000):
        ids = [generator.randrange(2**32) for _ in range(generator.randint(1, 8))]
        before = Encoding(tuple(ids)).get_hash()
        words = b"".join(token_id.to_bytes(4, "little") for token_id in ids)
        assert before == int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "little")
        ids[generator.randrange(len(ids))] ^= 1 << generator.randrange(32)
        assert Encoding(tuple(ids)).get_hash() != before


def test_block_hashes_are_equal_as_long_as_the_prefix_is():
    one = Encoding(tuple(range(10))).block_hashes(3)
    other = Encoding((*range(6), 99, *range(7, 10))).block_hashes(3)
    assert len(one) == 3
    assert one[:2] == other[:2]
    assert one[2] != other[2]
    again = Encoding((0, 1, 2, 0, 1, 2)).block_hashes(3)
    assert again[0] != again[1]
    assert Encoding((1, 2)).block_hashes(3) == []
    with pytest.raises(ValueError, match="0"):
        Encoding(()).block_hashes(0)


def test_ref_is_the_same_object_and_the_list_is_a_copy():
    encoding = ByteTokenizer().encode("hello")
    assert encoding.token_ids_ref() is encoding.token_ids_ref()
    encoding.token_ids().clear()
    assert len(encoding) == 5


def test_special_tokens_are_listed_once():
    tokens = SpecialTokens(bos="<s>", eos="</s>", pad="</s>", additional=("<a>", "<s>"))
    assert tokens.all() == ("<s>", "</s>", "<a>")
