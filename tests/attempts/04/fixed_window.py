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
        seen = self._held + text
        for end in range(1, len(seen) + 1):
            ending = [stop for stop in self._stops if seen.endswith(stop, 0, end)]
            if ending:
                self._matched = max(ending, key=len)
                self._held = ""
                return seen[: end if self._include_stop else end - len(self._matched)]
        window = max((len(stop) for stop in self._stops), default=1) - 1
        cut = max(0, len(seen) - window)
        self._held = seen[cut:]
        return seen[:cut]

    def flush(self):
        text, self._held = self._held, ""
        return text
