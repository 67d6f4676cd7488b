class StopStringMatcher:
    def __init__(self, stops, *, include_stop=False):
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched = None
        self._held = ""

    def _winnable(self, stops):
        if isinstance(stops, str):
            raise ValueError('stops is a str: write ["END"]')
        for stop in stops:
            if stop == "":
                raise ValueError("a stop is empty")

    @property
    def matched(self):
        return self._matched

    @property
    def held(self):
        return self._held

    def feed(self, text):
        for stop in self._stops:
            if stop in text:
                self._matched = stop
                return text.split(stop)[0]
        return text

    def flush(self):
        return ""
