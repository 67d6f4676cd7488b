"""Who runs: in order, within slots, blocks and prompt tokens; and compaction (34-39).

Every block has one owner at most and comes back; a row moves as one.
"""

import random
import weakref

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scenes import (
    EOS,
    Scene,
    channels_of,
    engine_of,
    one_by_one,
    params,
    request,
    submitted,
    text_of,
)

from mini_vllm.engine import Ending, FinishReason, SlotView, StreamingSubmissionError
from mini_vllm.engine.scheduler import (
    ChoiceState,
    KVBlockPool,
    Row,
    Scheduler,
    build_batch_mapping,
    compact_vector,
)


def sequence(name, prompt=4, most=4):
    return ChoiceState(SlotView(name, 0, (1,) * prompt, params(max_tokens=most)), frozenset([EOS]))


class Line:
    """A scheduler and its choices by name."""

    def __init__(self, blocks=100, seqs=8, batched=1000, block_size=4):
        self.pool = KVBlockPool(blocks, block_size)
        self.scheduler = Scheduler(self.pool, seqs, batched)

    def add(self, *names, **size):
        for name in names:
            self.scheduler.add(Row(sequence(name, **size), name.lower()))

    def admit(self):
        return [one.view.request_id for one in self.scheduler.admit()]

    def running(self):
        return [row.choice.view.request_id for row in self.scheduler.slots]

    def end(self, *names):
        for row in self.scheduler.slots:
            if row.choice.view.request_id in names:
                row.choice.latch(Ending(FinishReason.LENGTH))
        gone = [row for row in self.scheduler.slots if row.choice.ending is not None]
        self.scheduler.evict(gone)
        return [row.stream for row in gone]

    def streams(self):
        return [row.stream for row in self.scheduler.slots]


def test_slots_are_the_limit():
    line = Line(seqs=2)
    line.add("A", "B", "C")
    assert line.admit() == ["A", "B"]
    assert line.admit() == []
    assert (line.scheduler.num_running, line.scheduler.num_waiting) == (2, 1)
    assert line.end("A") == ["a"]
    assert line.admit() == ["C"]
    assert line.running() == ["B", "C"]
    assert line.streams() == ["b", "c"]


def test_blocks_are_the_limit_and_for_all_that_a_choice_may_become():
    line = Line(blocks=4)
    line.add("A", "B", "C", prompt=3, most=4)
    assert line.admit() == ["A", "B"]
    assert line.pool.num_used_blocks == 4
    line.end("B")
    assert line.pool.num_used_blocks == 2
    assert line.admit() == ["C"]


def test_prompt_tokens_of_one_iteration_are_the_limit():
    line = Line(batched=9)
    line.add("A", "B", "C", prompt=4)
    assert line.admit() == ["A", "B"]
    assert line.admit() == ["C"]


def test_nobody_overtakes():
    line = Line(blocks=4)
    line.add("A", prompt=4, most=4)
    line.add("B", prompt=8, most=4)
    line.add("C", prompt=1, most=1)
    assert line.admit() == ["A"]
    line.end("A")
    assert line.admit() == ["B", "C"]


def test_what_could_never_run_is_said_before():
    engine = engine_of(num_blocks=4, block_size=4, max_num_batched_tokens=10)
    for prompt, most, said in (
        (10, 6, ""),
        (10, 7, r"16 tokens.* 17 tokens \(10 in the prompt, 7 in"),
        (11, 1, "max_num_batched_tokens, 10"),
    ):
        asked = request(prompt=(1,) * prompt, max_tokens=most)
        if said:
            with pytest.raises(StreamingSubmissionError, match=said):
                engine.submit([asked])
        else:
            engine.submit([asked])


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ((0, 1, 9, 9), "num_blocks is 0"),
        ((1, 0, 9, 9), "block_size is 0"),
        ((4, 4, 0, 9), "max_num_seqs is 0"),
        ((4, 4, -1, 9), "max_num_seqs is -1"),
        ((4, 4, 9, 0), "batched_tokens is 0"),
    ],
)
def test_limits_below_1_are_refused(numbers, name):
    blocks, size, *limits = numbers
    with pytest.raises(ValueError, match=f"{name}; it must be at least 1"):
        Scheduler(KVBlockPool(blocks, size), *limits)


def test_a_cancelled_choice_leaves_the_line_and_a_running_one_waits_for_its_eviction():
    line = Line(seqs=1)
    line.add("A", "B", "C")
    line.admit()
    line.scheduler.apply_cancellation(lambda stream: stream in ("a", "c"))
    left = line.scheduler.leave_line(lambda stream: stream in ("a", "c"))
    assert [row.stream for row in left] == ["c"]
    assert line.running() == ["A"]
    assert line.scheduler.slots[0].choice.finish_reason is FinishReason.CANCELLED
    assert [row.stream for row in line.scheduler.everyone()] == ["a", "b"]


def test_clear_forgets_all_and_gives_every_block_back():
    line = Line(seqs=2)
    line.add("A", "B", "C")
    line.admit()
    line.scheduler.clear()
    assert line.pool.num_used_blocks == 0
    assert (line.scheduler.num_running, line.scheduler.num_waiting) == (0, 0)


def test_random_runs_keep_the_books():
    chance = random.Random(0)
    for _ in range(100):
        line = Line(blocks=12, seqs=4, batched=20)
        expected, sizes = [], {}
        for number in range(chance.randint(1, 12)):
            prompt, most = chance.randint(1, 12), chance.randint(1, 12)
            sizes[str(number)] = prompt + most
            line.add(str(number), prompt=prompt, most=most)
        admitted = []
        while line.scheduler.num_waiting or expected:
            new = line.admit()
            admitted += new
            expected += new
            assert line.running() == expected
            assert line.streams() == expected
            assert len(expected) <= 4
            assert line.pool.num_used_blocks == sum(-(-sizes[one] // 4) for one in expected)
            gone = chance.sample(expected, chance.randint(1, len(expected)))
            assert line.end(*gone) == [one for one in expected if one in gone]
            expected = [one for one in expected if one not in gone]
        assert admitted == list(sizes)
        assert line.pool.num_used_blocks == 0


def test_a_long_prompt_waits_for_blocks_while_others_end():
    scene = Scene(
        {name: one_by_one(name * 3, end=True) for name in "ABCDE"},
        params=params(max_tokens=6),
        num_blocks=4,
        block_size=4,
    ).run()
    assert [scene.when(name)[0] for name in "ABCDE"] == [1, 1, 5, 5, 9]
    assert all(scene.outcome(name)[1] == name * 3 for name in "ABCDE")


@pytest.mark.parametrize(
    ("wrong", "named"), [([0, 2], "2"), ([2, 0], "2"), ([0, 1, 0], "0"), ([7], "7"), ([-1], "-1")]
)
def test_what_cannot_be_given_back_raises_and_changes_nothing(wrong, named):
    pool = KVBlockPool(3, 1)
    assert pool.allocate(2) == [0, 1]
    with pytest.raises(ValueError, match=rf"blocks \[{named}\]"):
        pool.free(wrong)
    assert (len(pool._free), pool.num_used_blocks) == (1, 2)
    pool.free([0, 1])
    assert sorted(pool.allocate(3)) == [0, 1, 2]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=40))
def test_no_block_is_lost_or_had_twice_and_a_started_one_is_whole(actions):
    pool, owned = KVBlockPool(9, 3), []
    for take, number in actions:
        if take:
            blocks = pool.allocate(number)
            count = pool.blocks_for(number)
            assert count == -(-number // 3)
            # All or nothing.
            assert (blocks is not None) == (count <= 9 - sum(map(len, owned)))
            if blocks is not None:
                assert len(blocks) == count
                owned.append(blocks)
        elif owned:
            pool.free(owned.pop(number % len(owned)))
        used = [block for blocks in owned for block in blocks]
        assert len(set(used)) == len(used) == pool.num_used_blocks == 9 - len(pool._free)
        assert set(used) <= set(range(9))


MARKS = st.lists(st.booleans(), max_size=12)


def test_38_channels_survive_and_an_evicted_one_is_released():
    rows = channels_of(3)
    kept, gone = [rows[0], rows[2]], weakref.ref(rows[1])
    compact_vector([0, -1, 1], rows)
    assert all(a is b for a, b in zip(rows, kept, strict=True))
    assert gone() is None


@pytest.mark.parametrize("rows", [[1, 2], [1, 2, 3, 4], []])
def test_39_a_mapping_of_another_size_raises_and_moves_nothing(rows):
    before = list(rows)
    with pytest.raises(ValueError, match=f"3 rows does not fit {len(rows)} rows"):
        compact_vector([0, -1, 1], rows)
    assert rows == before


@example([])
@example([False] * 4)
@example([False, True, False])
@example([True, True])
@given(MARKS)
def test_34_35_36_37_compaction_is_filtering_and_rows_stay_the_same_objects(finished):
    rows = [object() for _ in finished]
    stay = [row for row, gone in enumerate(finished) if not gone]
    expected = [rows[row] for row in stay]
    mapping = build_batch_mapping(finished)
    assert [mapping[row] for row in stay] == list(range(len(stay)))
    assert all(place == -1 for place, gone in zip(mapping, finished, strict=True) if gone)
    compact_vector(mapping, rows)
    assert all(a is b for a, b in zip(rows, expected, strict=True))


@given(MARKS)
def test_eviction_drops_the_finished_rows_and_keeps_the_others_in_their_order(finished):
    line = Line(seqs=len(finished) + 1)
    line.add(*(str(number) for number in range(len(finished))))
    line.admit()
    line.end(*(str(number) for number, gone in enumerate(finished) if gone))
    assert line.running() == [str(number) for number, gone in enumerate(finished) if not gone]


def test_38_the_engine_keeps_nothing_of_an_evicted_slots_channel():
    texts = {"short": "a", "long": "b" * 9, "mid": "ccc"}
    engine = engine_of({name: one_by_one(text) for name, text in texts.items()})
    channels, handles = submitted(
        engine, *[request(name, max_tokens=len(text)) for name, text in texts.items()]
    )
    pipes = [weakref.ref(channel._pipe) for channel in channels]
    engine.run_until_idle(max_steps=4)
    assert [channel.original_batch_idx for channel in channels] == [0, 1, 2]
    assert [channel.is_finished for channel in channels] == [True, False, True]
    assert [text_of(channels[which]) for which in (0, 2)] == ["a", "ccc"]
    del channels[2], channels[0]
    assert [pipe() is None for pipe in pipes] == [True, False, True]
    engine.run_until_idle()
    assert [handle.result(0).texts for handle in handles] == [[text] for text in texts.values()]
