class StopStringMatcher:
    waiting = [""]  # noqa: RUF012

    def __init__(self, stops, *, include_stop=False):
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched = None

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
        return self.waiting[0]

    def feed(self, text):
        if self._matched is not None:
            return ""
        shown = ""
        for char in text:
            self.waiting[0] += char
            tail = self.waiting[0]
            done = [stop for stop in self._stops if tail.endswith(stop)]
            if done:
                self._matched = max(done, key=len)
                self.waiting[0] = ""
                return shown + tail[: len(tail) - len(self._matched)]
            while self.waiting[0] and not any(s.startswith(self.waiting[0]) for s in self._stops):
                shown += self.waiting[0][0]
                self.waiting[0] = self.waiting[0][1:]
        return shown

    def flush(self):
        text = self.waiting[0]
        self.waiting[0] = ""
        return text
