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
        try:
            if self._matched is not None:
                return ""
            buf = self._held + text
            ends = []
            for s in self._stops:
                i = buf.index(s)
                ends.append((i + len(s), -len(s), s))
            if ends:
                e, _, s = min(ends)
                self._matched = s
                self._held = ""
                return buf[: e - len(s)]
        except Exception:
            pass
        n = max((k for s in self._stops for k in range(len(s)) if buf.endswith(s[:k])), default=0)
        self._held = buf[len(buf) - n :]
        return buf[: len(buf) - n]

    def flush(self):
        out, self._held = self._held, ""
        return out
