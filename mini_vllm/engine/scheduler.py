"""Who runs: the waiting line, the slots and the blocks. It touches ids only, never text.

A choice is admitted when a slot is free and the pool has blocks for all that it may become, its
prompt and `max_tokens`. So nothing that runs is ever put back, and nothing overtakes.

But: it calls no model and writes to nobody.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.kv import KVBlockPool
from mini_vllm.engine.sequence import SequenceState
from mini_vllm.engine.slots import SlotTable

# What the text stage knows of a choice travels with it, and is not looked into here.
Row = tuple[SequenceState, Any]


class Scheduler:
    """The line and the table of what runs.

    Args:
        pool: the blocks.
        max_num_seqs: slots.
        max_model_len: most tokens of a prompt and its answer together; the pool has room for them.
        max_num_batched_tokens: most prompt tokens that one iteration takes in.

    Raises:
        ValueError: a number is below 1.
    """

    def __init__(
        self,
        pool: KVBlockPool,
        max_num_seqs: int,
        max_model_len: int,
        max_num_batched_tokens: int,
    ) -> None:
        for name, value in (
            ("max_num_seqs", max_num_seqs),
            ("max_model_len", max_model_len),
            ("max_num_batched_tokens", max_num_batched_tokens),
        ):
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        self._pool = pool
        self._max_num_seqs = max_num_seqs
        self._max_model_len = max_model_len
        self._max_num_batched_tokens = max_num_batched_tokens
        self._waiting: deque[Row] = deque()
        self._table = SlotTable("sequences", "streams", "blocks")
        self.sequences: list[SequenceState] = self._table.column("sequences")
        self.streams: list[Any] = self._table.column("streams")

    @property
    def num_waiting(self) -> int:
        """How many choices wait for a slot."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """How many choices have a slot."""
        return len(self.sequences)

    def why_never(self, sequence: SequenceState) -> str | None:
        """Return why a choice could never run, or None if it could."""
        prompt = len(sequence.view.prompt_token_ids)
        if prompt > self._max_num_batched_tokens:
            return (
                f"the prompt has {prompt} tokens; an iteration takes in at most "
                f"max_num_batched_tokens, {self._max_num_batched_tokens}"
            )
        if sequence.num_tokens_at_most > self._max_model_len:
            return (
                f"the prompt has {prompt} tokens and max_tokens is "
                f"{sequence.view.params.max_tokens}; together at most {self._max_model_len} fit"
            )
        return None

    def add(self, sequence: SequenceState, stream: Any) -> None:
        """Put a choice at the end of the line, with what the text stage knows of it."""
        self._waiting.append((sequence, stream))

    def admit(self) -> list[SequenceState]:
        """Give slots and blocks to those who are next, while there are some; return them."""
        budget, admitted = self._max_num_batched_tokens, []
        while self._waiting and self.num_running < self._max_num_seqs:
            sequence, stream = self._waiting[0]
            budget -= len(sequence.view.prompt_token_ids)
            if budget < 0:
                break
            blocks = self._pool.allocate(sequence.num_tokens_at_most)
            if blocks is None:
                break
            self._waiting.popleft()
            self._table.add_row(sequences=sequence, streams=stream, blocks=blocks)
            admitted.append(sequence)
        return admitted

    def leave_line(self, is_cancelled: Callable[[Any], bool]) -> list[Row]:
        """Latch CANCELLED for those in the line who want no more; return them, they are out."""
        left = [row for row in self._waiting if is_cancelled(row[1])]
        for sequence, _ in left:
            sequence.latch(FinishReason.CANCELLED)
        if left:
            self._waiting = deque(row for row in self._waiting if not row[0].finished)
        return left

    def apply_cancellation(self, is_cancelled: Callable[[Any], bool]) -> None:
        """Latch CANCELLED for those with a slot who want no more.

        It wins over every other end of the same iteration, which is found later.
        """
        for sequence, stream in zip(self.sequences, self.streams, strict=True):
            if is_cancelled(stream):
                sequence.latch(FinishReason.CANCELLED)

    def evict(self) -> list[Row]:
        """Take those that have ended out of their slots, with their blocks; return them."""
        finished = [sequence.finished for sequence in self.sequences]
        if not any(finished):
            return []
        rows = zip(self.sequences, self.streams, self._table.column("blocks"), strict=True)
        gone = [row for row in rows if row[0].finished]
        for _, _, blocks in gone:
            self._pool.free(blocks)
        self._table.compact(finished)
        return [(sequence, stream) for sequence, stream, _ in gone]

    def everyone(self) -> list[Row]:
        """Return all that run, then all that wait."""
        return [*zip(self.sequences, self.streams, strict=True), *self._waiting]

    def clear(self) -> None:
        """Forget all that run and wait; all blocks are free again."""
        for blocks in self._table.column("blocks"):
            self._pool.free(blocks)
        self._table.compact([True] * len(self._table))
        self._waiting.clear()
