"""Lab 04 by a third hand: one counter per stop that may be under way, as a set of pairs."""


class StopStringMatcher:
    def __init__(self, stops, *, include_stop=False):
        if type(stops) is str:
            message = "a str is no list of stops, write [" + '"' + stops + '"' + "]"
            raise ValueError(message)
        kept = []
        everything = tuple(stops)
        if not all(everything):
            raise ValueError("a stop has no characters")
        for one in everything:
            hopeless = False
            for other in everything:
                if other in one[: len(one) - 1]:
                    hopeless = True
            if not hopeless:
                kept.append(one)
        self._kept = kept
        self._include = include_stop
        self._alive = set()
        self._buffer = []
        self._winner = None

    @property
    def matched(self):
        return self._winner

    @property
    def held(self):
        return "".join(self._buffer)

    def feed(self, text):
        shown = ""
        position = 0
        while position < len(text) and self._winner is None:
            character = text[position]
            position += 1
            self._buffer.append(character)
            self._alive.update((which, 0) for which in range(len(self._kept)))
            survivors = set()
            finished = []
            for which, matched_so_far in self._alive:
                stop = self._kept[which]
                if stop[matched_so_far] == character:
                    if matched_so_far + 1 == len(stop):
                        finished.append(stop)
                    else:
                        survivors.add((which, matched_so_far + 1))
            self._alive = survivors
            if finished:
                finished.sort(key=len)
                self._winner = finished[-1]
                keep = len(self._buffer) if self._include else -len(self._winner)
                shown += "".join(self._buffer[:keep] if keep else [])
                self._buffer = []
            else:
                needed = 0
                if survivors and not self._include:
                    needed = max(count for _, count in survivors)
                release = len(self._buffer) - needed
                shown += "".join(self._buffer[:release])
                del self._buffer[:release]
        return shown

    def flush(self):
        last = "".join(self._buffer)
        self._buffer = []
        self._alive = set()
        return last
