import re


class StopStringMatcher:
    def __init__(self, stops, *, include_stop=False):
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched = None
        self._text = ""
        self._shown = 0
        ends = sorted(self._stops, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ends)) or r"(?!)")

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
        return self._text[self._shown :]

    def feed(self, text):
        if self._matched is not None:
            return ""
        self._text += text
        found = self._pattern.search(self._text)
        if found:
            self._matched = found[0]
            end = found.end() if self._include_stop else found.start()
            shown = self._text[self._shown : end]
            self._text, self._shown = "", 0
            return shown
        end = len(self._text)
        if not self._include_stop:
            end -= max(map(self._begun, self._stops), default=0)
        shown = self._text[self._shown : end]
        self._shown = end
        return shown

    def _begun(self, stop):
        for size in range(min(len(stop) - 1, len(self._text)), 0, -1):
            if self._text.endswith(stop[:size]):
                return size
        return 0

    def flush(self):
        text = self.held
        self._text, self._shown = "", 0
        return text
