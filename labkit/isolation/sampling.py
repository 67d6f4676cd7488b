"""The runs of a test that are sent call by call, so that a submission cannot look ahead.

If all calls of a run are sent at once, a submission can find the later calls in its memory, and so
knows when to hold text. So some runs of each test are sent call by call, and a submission does not
know them in advance. All other runs are sent at once, which takes a fraction of the time.
"""

import itertools
import random

# For each test: all of its first runs, then fewer and fewer, up to so many calls sent one by one.
_FIRST_RUNS = 2
_MOST_CALLS = 80


class Sample:
    """The sample of one test.

    Args:
        seed: the seed of the sample; if it is secret, a submission cannot know the sample.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(f"{seed}/call by call")
        self._left = _MOST_CALLS
        self._run = 0
        self._next = 0

    def call_counts(self, calls: int) -> list[int] | None:
        """Return how many calls of the next run to send at a time; None for all at once.

        Args:
            calls: the number of calls in the run.
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
