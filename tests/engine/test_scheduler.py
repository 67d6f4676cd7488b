"""Who runs: in order, within slots, blocks and prompt tokens, and every block comes back."""

import random

import pytest
from scenes import EOS, Scene, one_by_one, params

from mini_vllm.engine import Ending, FinishReason, SlotView
from mini_vllm.engine.choice import ChoiceState
from mini_vllm.engine.scheduler import KVBlockPool, Scheduler


def sequence(name, prompt=4, most=4):
    return ChoiceState(SlotView(name, 0, (1,) * prompt, params(max_tokens=most)), frozenset([EOS]))


class Line:
    """A scheduler and its choices by name."""

    def __init__(self, blocks=100, seqs=8, batched=1000, block_size=4):
        self.pool = KVBlockPool(blocks, block_size)
        self.scheduler = Scheduler(self.pool, seqs, blocks * block_size, batched)

    def add(self, *names, **size):
        for name in names:
            self.scheduler.add(sequence(name, **size), name.lower())

    def admit(self):
        return [one.view.request_id for one in self.scheduler.admit()]

    def running(self):
        return [one.view.request_id for one in self.scheduler.choices]

    def end(self, *names):
        for one in self.scheduler.choices:
            if one.view.request_id in names:
                one.latch(Ending(FinishReason.LENGTH))
        return [stream for _, stream in self.scheduler.evict()]


def test_slots_are_the_limit():
    line = Line(seqs=2)
    line.add("A", "B", "C")
    assert line.admit() == ["A", "B"]
    assert line.admit() == []
    assert (line.scheduler.num_running, line.scheduler.num_waiting) == (2, 1)
    assert line.end("A") == ["a"]
    assert line.admit() == ["C"]
    assert line.running() == ["B", "C"]
    assert line.scheduler.streams == ["b", "c"]


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
    line = Line(blocks=4, batched=10)
    assert line.scheduler.why_never(sequence("A", prompt=10, most=6)) is None
    assert "max_tokens is 7" in line.scheduler.why_never(sequence("A", prompt=10, most=7))
    assert "max_num_batched_tokens, 10" in line.scheduler.why_never(sequence("A", prompt=11))


@pytest.mark.parametrize("numbers", [(0, 9, 9), (9, 0, 9), (9, 9, 0), (-1, 9, 9)])
def test_limits_below_1_are_refused(numbers):
    with pytest.raises(ValueError, match="at least 1"):
        Scheduler(KVBlockPool(4, 4), *numbers)


def test_a_cancelled_choice_leaves_the_line_and_a_running_one_waits_for_its_eviction():
    line = Line(seqs=1)
    line.add("A", "B", "C")
    line.admit()
    line.scheduler.apply_cancellation(lambda stream: stream in ("a", "c"))
    left = line.scheduler.leave_line(lambda stream: stream in ("a", "c"))
    assert [stream for _, stream in left] == ["c"]
    assert line.running() == ["A"]
    assert line.scheduler.choices[0].finish_reason is FinishReason.CANCELLED
    assert [stream for _, stream in line.scheduler.everyone()] == ["a", "b"]


def test_clear_gives_every_block_back():
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
            assert line.scheduler.streams == expected
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
