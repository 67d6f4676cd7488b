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
        if not isinstance(stops, list):
            stops = list(stops)
        stops.sort()
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
        unshown = self._held + text
        tail = self._tail
        for end, char in enumerate(text, start=len(self._held) + 1):
            tail += char
            done = [stop for stop in self._stops if tail.endswith(stop)]
            if done:
                self._matched = max(done, key=len)
                self._held = self._tail = ""
                return unshown[: end if self._include_stop else end - len(self._matched)]
            while tail and not any(stop.startswith(tail) for stop in self._stops):
                tail = tail[1:]
        self._tail = tail
        self._held = "" if self._include_stop else tail
        return unshown[: len(unshown) - len(self._held)]

    def flush(self):
        text, self._held, self._tail = self._held, "", ""
        return text
