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
        buf = self._held + text
        hits = [(buf.find(s), -len(s), s) for s in self._stops if s in buf]
        if hits:
            i, _, s = min(hits)
            self._matched, self._held = s, ""
            return buf[: i + len(s)] if self._include_stop else buf[:i]
        n = 0
        for s in self._stops:
            for k in range(1, len(s)):
                if buf.endswith(s[:k]):
                    n = max(n, k)
        self._held = buf[len(buf) - n :]
        return buf[: len(buf) - n]

    def flush(self):
        out, self._held = self._held, ""
        return out
