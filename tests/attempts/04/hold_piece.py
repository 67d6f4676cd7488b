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
        buffer = self._held + text
        for end in range(len(buffer) + 1):
            hits = [s for s in self._stops if buffer.endswith(s, 0, end)]
            if hits:
                self._matched, self._held = max(hits, key=len), ""
                return buffer[: end - (0 if self._include_stop else len(self._matched))]
        if any(buffer.endswith(s[:n]) for s in self._stops for n in range(len(s) - 1, 0, -1)):
            self._held = buffer
            return ""
        self._held = ""
        return buffer

    def flush(self):
        text, self._held = self._held, ""
        return text
