class StopStringMatcher:
    def __init__(self, stops, *, include_stop=False):
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched = None
        self._held = ""

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
        self._held += text
        for stop in self._stops:
            before, found, _ = self._held.partition(stop)
            if found:
                self._matched, self._held = stop, ""
                return before + stop if self._include_stop else before
        keep = 0 if self._include_stop else max(map(self._begun, self._stops), default=0)
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        return shown

    def _begun(self, stop):
        for size in range(min(len(self._held), len(stop) - 1), 0, -1):
            if self._held.endswith(stop[:size]):
                return size
        return 0

    def flush(self):
        text, self._held = self._held, ""
        return text
