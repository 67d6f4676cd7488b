class StopStringMatcher:
    def __init__(self, stops, *, include_stop=False):
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched = None
        self._held = ""
        self._counts = [0] * len(self._stops)

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
        shown = ""
        for char in text:
            if self._matched is not None:
                break
            self._held += char
            for i, stop in enumerate(self._stops):
                if stop[self._counts[i]] == char:
                    self._counts[i] += 1
                else:
                    self._counts[i] = int(stop[0] == char)
            done = [s for s, n in zip(self._stops, self._counts, strict=True) if n == len(s)]
            if done:
                self._matched = max(done, key=len)
                shown += self._held[: len(self._held) - len(self._matched)]
                self._held = ""
                break
            keep = max(self._counts, default=0)
            shown += self._held[: len(self._held) - keep]
            self._held = self._held[len(self._held) - keep :]
        return shown

    def flush(self):
        text, self._held = self._held, ""
        self._counts = [0] * len(self._stops)
        return text
