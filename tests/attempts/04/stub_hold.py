class StopStringMatcher:
    def __init__(self, stops, *, include_stop=False):
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched = None
        self._held = ""

    def _winnable(self, stops):
        return list(stops)

    @property
    def matched(self):
        return self._matched

    @property
    def held(self):
        return self._held

    def feed(self, text):
        self._held += text
        return ""

    def flush(self):
        text, self._held = self._held, ""
        return text
