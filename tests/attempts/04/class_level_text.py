class StopStringMatcher:
    waiting = []  # noqa: RUF012

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
        return "".join(self.waiting)

    def feed(self, text):
        if self._matched is not None:
            return ""
        shown = ""
        for char in text:
            self.waiting.append(char)
            tail = "".join(self.waiting)
            done = [stop for stop in self._stops if tail.endswith(stop)]
            if done:
                self._matched = max(done, key=len)
                self.waiting.clear()
                return shown + tail[: len(tail) - len(self._matched)]
            while self.waiting and not any(
                s.startswith("".join(self.waiting)) for s in self._stops
            ):
                shown += self.waiting.pop(0)
        return shown

    def flush(self):
        text = "".join(self.waiting)
        self.waiting.clear()
        return text
