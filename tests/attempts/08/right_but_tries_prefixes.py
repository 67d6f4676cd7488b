from mini_vllm.text.events import StopOutput


class StopSequenceDecoder:
    def __init__(
        self,
        detokenizer,
        *,
        stop_token_ids=(),
        visible_stop_token_ids=(),
        stops=(),
        visible_stops=(),
        min_tokens=0,
    ):
        if isinstance(stops, str) or isinstance(visible_stops, str):
            raise ValueError("stops are a list of str")
        if "" in (*stops, *visible_stops):
            raise ValueError("one of the stops is empty")
        self._detokenizer = detokenizer
        self._stop_token_ids = frozenset(stop_token_ids)
        self._visible_stop_token_ids = frozenset(visible_stop_token_ids)
        self._stops = [*stops]
        self._visible_stops = [*visible_stops]
        self._min_tokens = min_tokens
        self._all = self._stops + [stop for stop in visible_stops if stop not in self._stops]
        self._longest = max(map(len, self._all), default=1)
        self._start()

    def _start(self):
        self._reason = None
        self._tokens = 0
        self._held = ""
        self._tail = ""

    @property
    def held(self):
        return self._held

    def _out(self, text):
        return StopOutput(text, self._reason is not None, self._reason)

    def _hold(self, text):
        for length in range(min(len(text), self._longest - 1), 0, -1):
            for stop in self._stops:
                hopeless = any(other in stop[:-1] for other in self._all)
                if hopeless and not self._min_tokens:
                    continue
                if length < len(stop) and text.endswith(stop[:length]):
                    return text[-length:]
        return ""

    def _scan(self, text):
        window = self._tail + text
        found = None
        if self._tokens > self._min_tokens:
            for stop in self._all:
                place = window.find(stop, max(0, len(self._tail) - len(stop) + 1))
                if place >= 0:
                    key = (place + len(stop), -len(stop))
                    if found is None or key < found[0]:
                        found = key, stop
        begin = len(self._tail) - len(self._held)
        if found:
            (end, _), self._reason = found
            self._held = ""
            if self._reason in self._stops:
                end -= len(self._reason)
            return window[begin:end]
        self._held = self._hold(window)
        self._tail = window[max(0, len(window) - self._longest + 1) :]
        return window[begin : len(window) - len(self._held)]

    def _finish(self, text):
        text = self._scan(text + self._detokenizer.flush()) + self._held
        self._held = ""
        return text

    def process(self, token_id):
        if self._reason is not None:
            return self._out("")
        self._tokens += 1
        counts = self._tokens > self._min_tokens
        if counts and token_id in self._stop_token_ids:
            text = self._finish("")
            self._reason = token_id
            return self._out(text)
        text = self._detokenizer.feed(token_id)
        if counts and token_id in self._visible_stop_token_ids:
            text = self._finish(text)
            self._reason = token_id
            return self._out(text)
        return self._out(self._scan(text))

    def process_many(self, token_ids):
        if self._reason is not None:
            return [self._out("")], 0
        outputs = []
        for taken, token_id in enumerate(token_ids, 1):
            outputs.append(self.process(token_id))
            if self._reason is not None:
                return outputs, taken
        return outputs, len(outputs)

    def flush(self):
        if self._reason is not None:
            return self._out("")
        text = self._finish("")
        output = self._out(text)
        if self._reason is None:
            self._start()
        return output

    def reset(self):
        self._detokenizer.flush()
        self._start()
