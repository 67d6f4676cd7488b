class StopStringMatcher:
    def __init__(self, stops, *, include_stop=False):
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched = None
        self._held = ""
        self._tail = ""

    def _winnable(self, stops):
        if isinstance(stops, str):
            raise ValueError(f'{stops!r} is one str; write ["END"]')
        stops = list(stops)
        if "" in stops:
            raise ValueError("an empty stop matches everywhere")
        return [stop for stop in stops if not any(other in stop[:-1] for other in stops)]

    @property
    def matched(self):
        return self._matched

    @property
    def held(self):
        return self._held

    def feed(self, text):
        if self._matched is not None:
            return ""
        seen = self._tail + text
        ends = [(seen.find(s) + len(s), -len(s), s) for s in self._stops if s in seen]
        if ends:
            end, _, self._matched = min(ends)
            start = len(self._tail) - len(self._held)
            self._held = self._tail = ""
            return seen[start : end if self._include_stop else end - len(self._matched)]
        keep = 0
        for stop in self._stops:
            for size in range(1, len(stop)):
                if seen.endswith(stop[:size]):
                    keep = max(keep, size)
        if self._include_stop:
            self._tail = seen[len(seen) - keep :]
            return text
        shown = seen[: len(seen) - keep]
        self._held = self._tail = seen[len(seen) - keep :]
        return shown

    def flush(self):
        text, self._held, self._tail = self._held, "", ""
        return text
