class StopStringMatcher:
    def __init__(self, stops, *, include_stop=False, state={}):  # noqa: B006
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._state = state
        self._state.update(matched=None, held="", tail="")

    def _winnable(self, stops):
        if isinstance(stops, str):
            raise ValueError(f'{stops!r} is one str; write ["END"]')
        stops = list(stops)
        if "" in stops:
            raise ValueError("an empty stop matches everywhere")
        return [stop for stop in stops if not any(other in stop[:-1] for other in stops)]

    @property
    def matched(self):
        return self._state["matched"]

    @property
    def held(self):
        return self._state["held"]

    def feed(self, text):
        state = self._state
        if state["matched"] is not None:
            return ""
        unshown = state["held"] + text
        tail = state["tail"]
        for end, char in enumerate(text, start=len(state["held"]) + 1):
            tail += char
            done = [stop for stop in self._stops if tail.endswith(stop)]
            if done:
                state["matched"] = max(done, key=len)
                state["held"] = state["tail"] = ""
                return unshown[: end if self._include_stop else end - len(state["matched"])]
            while tail and not any(stop.startswith(tail) for stop in self._stops):
                tail = tail[1:]
        state["tail"] = tail
        state["held"] = "" if self._include_stop else tail
        return unshown[: len(unshown) - len(state["held"])]

    def flush(self):
        text = self._state["held"]
        self._state["held"] = self._state["tail"] = ""
        return text
