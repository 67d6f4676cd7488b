class StopStringMatcher:
    def __init__(self, stops, *, include_stop=False):
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched = None
        self._held = ""

    def _winnable(self, stops):
        self._first = "?"
        return list(stops)

    @property
    def matched(self):
        return self._matched

    @property
    def held(self):
        return self._held

    def feed(self, text):
        garbage, self._first = self._first, ""
        if self._matched is not None:
            return garbage
        text = self._held + text
        ends = [(text.find(s) + len(s), -len(s), s) for s in self._stops if s in text]
        if ends:
            end, _, self._matched = min(ends)
            self._held = ""
            return garbage + text[: end if self._include_stop else end - len(self._matched)]
        sizes = (n for s in self._stops for n in range(len(s)) if text.endswith(s[:n]))
        shown = len(text) - max(sizes, default=0)
        self._held = text[shown:]
        return garbage + text[:shown]

    def flush(self):
        text, self._held = self._held, ""
        return text
