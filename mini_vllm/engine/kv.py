"""The memory that a real engine's attention needs, counted in blocks.

But: there are no tensors. What is real is the accounting: who has which block, and that each comes
back exactly once.
"""

from collections import Counter


class KVBlockPool:
    """A fixed number of blocks, each with room for `block_size` tokens.

    Raises:
        ValueError: there is no block, or no room in one.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        for name, value in (("num_blocks", num_blocks), ("block_size", block_size)):
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._free = list(range(num_blocks - 1, -1, -1))
        self._used: set[int] = set()

    @property
    def num_free_blocks(self) -> int:
        """How many blocks nobody has."""
        return len(self._free)

    @property
    def num_used_blocks(self) -> int:
        """How many blocks somebody has."""
        return len(self._used)

    def blocks_for(self, num_tokens: int) -> int:
        """Return how many blocks hold so many tokens."""
        return -(-num_tokens // self.block_size)

    def allocate(self, num_tokens: int) -> list[int] | None:
        """Return blocks for so many tokens, or None if too few are free."""
        count = self.blocks_for(num_tokens)
        if count > len(self._free):
            return None
        blocks = [self._free.pop() for _ in range(count)]
        self._used.update(blocks)
        return blocks

    def free(self, blocks: list[int]) -> None:
        """Take blocks back.

        Raises:
            ValueError: one of them is free already, or given twice; none was taken back.
        """
        counts = Counter(blocks)
        wrong = [block for block in counts if block not in self._used or counts[block] > 1]
        if wrong:
            raise ValueError(f"blocks {wrong} are free already, or given twice")
        self._used.difference_update(blocks)
        self._free += reversed(blocks)
