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
        shown = []
        buffer = self._tail
        while text:
            char, text = text[0], text[1:]
            buffer += char
            shown.append(char if self._include_stop else "")
            done = [stop for stop in self._stops if buffer.endswith(stop)]
            if done:
                self._matched = max(done, key=len)
                self._held = self._tail = ""
                if not self._include_stop:
                    shown.append(buffer[: len(buffer) - len(self._matched)])
                return "".join(shown)
            while buffer and not any(stop.startswith(buffer) for stop in self._stops):
                if not self._include_stop:
                    shown.append(buffer[0])
                buffer = buffer[1:]
        self._tail = buffer
        self._held = "" if self._include_stop else buffer
        return "".join(shown)

    def flush(self):
        text, self._held, self._tail = self._held, "", ""
        return text
