import re


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
        seen = self._tail + text
        start = len(self._tail) - len(self._held)
        found = re.search("|".join(sorted(self._stops, key=len, reverse=True)) or "(?!)", seen)
        if found:
            self._matched, self._held, self._tail = found[0], "", ""
            return seen[start : found.end() if self._include_stop else found.start()]
        longest = max(map(len, self._stops), default=0)
        self._tail = next(
            seen[cut:]
            for cut in range(max(0, len(seen) - longest), len(seen) + 1)
            if cut == len(seen) or any(stop.startswith(seen[cut:]) for stop in self._stops)
        )
        self._held = "" if self._include_stop else self._tail
        return seen[start : len(seen) - len(self._held)]

    def flush(self):
        text, self._held, self._tail = self._held, "", ""
        return text
