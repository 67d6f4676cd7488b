"""KVBlockPool: every block has one owner or none, whatever is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.engine.scheduler import KVBlockPool


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (33, 3)])
def test_a_started_block_is_a_whole_one(tokens, blocks):
    assert KVBlockPool(4, 16).blocks_for(tokens) == blocks


def test_all_or_nothing():
    pool = KVBlockPool(3, 2)
    assert len(pool.allocate(4)) == 2
    assert pool.allocate(3) is None
    assert (pool.num_free_blocks, pool.num_used_blocks) == (1, 2)
    assert len(pool.allocate(2)) == 1
    assert pool.allocate(1) is None


@pytest.mark.parametrize(
    ("wrong", "named"),
    [([0, 2], "2"), ([2, 0], "2"), ([0, 1, 0], "0"), ([7], "7"), ([-1], "-1")],
)
def test_what_cannot_be_given_back_raises_and_changes_nothing(wrong, named):
    pool = KVBlockPool(3, 1)
    assert pool.allocate(2) == [0, 1]
    with pytest.raises(ValueError, match=rf"blocks \[{named}\]"):
        pool.free(wrong)
    assert (pool.num_free_blocks, pool.num_used_blocks) == (1, 2)
    pool.free([0, 1])
    assert sorted(pool.allocate(3)) == [0, 1, 2]


@pytest.mark.parametrize(("name", "args"), [("num_blocks", (0, 1)), ("block_size", (1, 0))])
def test_a_pool_without_room_is_refused(name, args):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        KVBlockPool(*args)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=40))
def test_no_block_is_lost_or_had_twice(actions):
    pool, owned = KVBlockPool(9, 3), []
    for take, number in actions:
        if take:
            blocks = pool.allocate(number)
            fits = -(-number // 3) <= 9 - sum(map(len, owned))
            assert (blocks is not None) == fits
            if fits:
                assert len(blocks) == -(-number // 3)
                owned.append(blocks)
        elif owned:
            pool.free(owned.pop(number % len(owned)))
        used = [block for blocks in owned for block in blocks]
        assert len(set(used)) == len(used) == pool.num_used_blocks == 9 - pool.num_free_blocks
        assert set(used) <= set(range(9))
