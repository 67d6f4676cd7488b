"""The scheduler: choices, their waiting line, slots and blocks. It handles ids, never text.

A choice is admitted when a slot is free and the pool has blocks for its prompt and `max_tokens`.
So a running choice is never preempted, and no choice overtakes another.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mini_vllm.engine.model import Burst, SlotView
from mini_vllm.finish_reason import Ending, FinishReason

T = TypeVar("T")
S = TypeVar("S")


@dataclass(slots=True, eq=False)
class ChoiceState:
    """A choice that waits or runs.

    Attributes:
        view: the model's view of the choice, including the generated ids.
        end_ids: EOS and stop ids.
        burst: the model's burst of this iteration, until the text stage takes it.
        ending: why the choice ended; written once, by `latch`.
    """

    view: SlotView
    end_ids: frozenset[int]
    burst: Burst | None = None
    ending: Ending | None = None

    @property
    def finish_reason(self) -> FinishReason:
        """Why the choice ended; NOT_FINISHED while it runs."""
        return FinishReason.NOT_FINISHED if self.ending is None else self.ending.reason

    def latch(self, ending: Ending) -> bool:
        """Write why the choice ended, unless that is already written; return whether it was not."""
        if self.ending is not None:
            return False
        self.ending = ending
        return True


@dataclass(slots=True, eq=False)
class Row(Generic[S]):
    """A choice with its text stage and blocks, in the waiting line and then in a slot.

    A row is one object, so all its parts move together when other rows end.

    Attributes:
        choice: the ids and the end of the choice.
        stream: the text stage of the choice; the scheduler does not look into it.
        blocks: the blocks of the choice, while it has a slot.
    """

    choice: ChoiceState
    stream: S
    blocks: list[int] = field(default_factory=list)


class KVBlockPool:
    """The memory that a real engine's attention needs: blocks with room for `block_size` tokens.

    The blocks hold no tensors, but the accounting is real: each block has one owner, and is freed
    exactly once.

    Raises:
        ValueError: a number is below 1.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        check_at_least_1(num_blocks=num_blocks, block_size=block_size)
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._free = list(range(num_blocks - 1, -1, -1))
        self._used: set[int] = set()

    @property
    def num_used_blocks(self) -> int:
        """How many blocks are in use."""
        return len(self._used)

    def blocks_for(self, num_tokens: int) -> int:
        """Return how many blocks `num_tokens` tokens take."""
        return -(-num_tokens // self.block_size)

    def allocate(self, num_tokens: int) -> list[int] | None:
        """Return blocks for `num_tokens` tokens, or None if too few are free."""
        count = self.blocks_for(num_tokens)
        if count > len(self._free):
            return None
        blocks = [self._free.pop() for _ in range(count)]
        self._used.update(blocks)
        return blocks

    def free(self, blocks: list[int]) -> None:
        """Free blocks.

        Raises:
            ValueError: a block is already free, or is given twice; no block was freed.
        """
        counts = Counter(blocks)
        wrong = [block for block in counts if block not in self._used or counts[block] > 1]
        if wrong:
            raise ValueError(f"blocks {wrong} are already free, or given twice")
        self._used.difference_update(blocks)
        self._free += reversed(blocks)


def build_batch_mapping(finished: Sequence[bool]) -> list[int]:
    """Return the new place of each row among the remaining rows; -1 for a finished row."""
    mapping, place = [], 0
    for is_finished in finished:
        mapping.append(-1 if is_finished else place)
        place += not is_finished
    return mapping


def compact_vector(mapping: Sequence[int], rows: list[T]) -> None:
    """Move rows to their places in the mapping, in the same list; drop the rows mapped to -1.

    Raises:
        ValueError: the mapping has more or fewer rows; no row was moved.
    """
    if len(mapping) != len(rows):
        raise ValueError(f"a mapping of {len(mapping)} rows does not fit {len(rows)} rows")
    for row, place in zip(rows, mapping, strict=True):
        if place >= 0:
            rows[place] = row
    del rows[sum(place >= 0 for place in mapping) :]


class Scheduler(Generic[S]):
    """The waiting line and the table of running rows.

    Args:
        pool: the blocks.
        max_num_seqs: the number of slots.
        max_num_batched_tokens: most prompt tokens that one iteration takes in.

    Attributes:
        slots: the running rows, in the order of their admission.

    Raises:
        ValueError: a number is below 1.
    """

    def __init__(
        self,
        pool: KVBlockPool,
        max_num_seqs: int,
        max_num_batched_tokens: int,
    ) -> None:
        check_at_least_1(max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens)
        self._pool = pool
        self._max_num_seqs = max_num_seqs
        self._max_num_batched_tokens = max_num_batched_tokens
        self._waiting: deque[Row[S]] = deque()
        self.slots: list[Row[S]] = []

    @property
    def num_waiting(self) -> int:
        """How many choices wait for a slot."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """How many choices have a slot."""
        return len(self.slots)

    def add(self, row: Row[S]) -> None:
        """Put a row at the end of the line."""
        self._waiting.append(row)

    def admit(self) -> list[ChoiceState]:
        """Give slots and blocks to the next rows, as many as fit; return their choices."""
        budget, admitted = self._max_num_batched_tokens, []
        while self._waiting and self.num_running < self._max_num_seqs:
            row = self._waiting[0]
            view = row.choice.view
            budget -= len(view.prompt_token_ids)
            if budget < 0:
                break
            blocks = self._pool.allocate(len(view.prompt_token_ids) + view.params.max_tokens)
            if blocks is None:
                break
            row.blocks = blocks
            self.slots.append(self._waiting.popleft())
            admitted.append(row.choice)
        return admitted

    def leave_line(self, is_cancelled: Callable[[S], bool]) -> list[Row[S]]:
        """Take cancelled rows out of the waiting line, and latch CANCELLED; return these rows."""
        left = [row for row in self._waiting if is_cancelled(row.stream)]
        for row in left:
            row.choice.latch(Ending(FinishReason.CANCELLED))
        if left:
            self._waiting = deque(row for row in self._waiting if row.choice.ending is None)
        return left

    def apply_cancellation(self, is_cancelled: Callable[[S], bool]) -> None:
        """Latch CANCELLED for the running rows that are cancelled.

        It wins over every other end of the same iteration, because those are latched later.
        """
        for row in self.slots:
            if is_cancelled(row.stream):
                row.choice.latch(Ending(FinishReason.CANCELLED))

    def evict(self, gone: Sequence[Row[S]]) -> None:
        """Take rows out of their slots, and free their blocks."""
        for row in gone:
            self._pool.free(row.blocks)
        leaving = frozenset(gone)
        compact_vector(build_batch_mapping([row in leaving for row in self.slots]), self.slots)

    def everyone(self) -> list[Row[S]]:
        """Return all running rows, then all waiting rows."""
        return [*self.slots, *self._waiting]

    def clear(self) -> None:
        """Drop all running and waiting rows, and free their blocks."""
        for row in self.slots:
            self._pool.free(row.blocks)
        self.slots.clear()
        self._waiting.clear()


def check_at_least_1(**numbers: int) -> None:
    """Check limits, by name.

    Raises:
        ValueError: a number is below 1.
    """
    for name, value in numbers.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
