from collections.abc import Collection


class StopStringMatcher:
    def __init__(self, stops: Collection[str], *, include_stop: bool = False) -> None:
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched = None
        self._held = ""

    def _winnable(self, stops):
        if isinstance(stops, str):
            raise ValueError('a list, as in ["END"]')
        if any(not s for s in stops):
            raise ValueError("empty stop")
        return [s for s in stops if not any(o in s[:-1] for o in stops)]

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
        self._held = ""
        best = None
        for s in self._stops:
            i = text.find(s)
            if i >= 0:
                key = (i + len(s), -len(s))
                if best is None or key < best[0]:
                    best = (key, s, i)
        if best:
            self._matched = best[1]
            end = best[0][0]
            return text[:end] if self._include_stop else text[: best[2]]
        if self._include_stop:
            return text
        for k in range(1, max(map(len, self._stops), default=0)):
            if any(s.startswith(text[-k:]) for s in self._stops):
                self._held = text[-k:]
                return text[:-k]
        return text

    def flush(self):
        out, self._held = self._held, ""
        return out
