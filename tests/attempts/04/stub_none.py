class StopStringMatcher:
    def __init__(self, stops, *, include_stop=False):
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched = None
        self._held = ""

    def _winnable(self, stops):
        pass

    @property
    def matched(self):
        pass

    @property
    def held(self):
        pass

    def feed(self, text):
        pass

    def flush(self):
        pass
