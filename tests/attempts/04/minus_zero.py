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
        text = self._held + text
        ends = [(text.find(s) + len(s), -len(s), s) for s in self._stops if s in text]
        if ends:
            end, _, self._matched = min(ends)
            self._held = ""
            return text[: end - len(self._matched)]
        n = 0
        for s in self._stops:
            k = min(len(s) - 1, len(text))
            while not text.endswith(s[:k]):
                k -= 1
            n = max(n, k)
        self._held = text[-n:]
        return text[:-n]

    def flush(self):
        text, self._held = self._held, ""
        return text
