"""Which runs of a test are sent call by call, so that a submission cannot look ahead.

What is sent at once can be read at once: a submission that finds the later calls of a run in its
memory knows what it should wait for. So of each test some runs are sent call by call, and no
submission knows which before they come. All others go at once, which takes a fraction of the time.
"""

import itertools
import random

# Of each test: all of its first runs, then fewer and fewer, until so many calls went one by one.
_FIRST_RUNS = 2
_MOST_CALLS = 80


class Sample:
    """The sample of one test.

    Args:
        seed: of what is drawn; where it is secret, nobody can tell the sample.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(f"{seed}/call by call")
        self._left = _MOST_CALLS
        self._run = 0
        self._next = 0

    def call_counts(self, calls: int) -> list[int] | None:
        """Return how many calls of the next run to send at a time; None for all at once.

        Args:
            calls: how many the run has.
        """
        self._run += 1
        if calls < 2 or not self._left or self._run <= self._next:
            return None
        step = 1 + self._random.randrange(1 + self._run)
        self._next = self._run if self._run < _FIRST_RUNS else self._run + step
        if calls <= self._left:
            self._left -= calls
            return [1] * calls
        # A run that is too long for that is cut at the start and at places in between.
        few = (self._left + 1) // 2
        self._left -= few
        cuts = {*range(few // 2), *self._random.sample(range(calls), few - few // 2)} - {0}
        places = [0, *sorted(cuts), calls]
        return [after - before for before, after in itertools.pairwise(places)]
