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
            raise ValueError('stops are a list of str; for one stop write ["END"]')
        if "" in (*stops, *visible_stops):
            raise ValueError("one of the stops is empty: it would match everywhere")
        self._detokenizer = detokenizer
        self._stop_token_ids = frozenset(stop_token_ids)
        self._visible_stop_token_ids = frozenset(visible_stop_token_ids)
        self._stops = [*stops]
        self._visible_stops = [*visible_stops]
        self._min_tokens = min_tokens
        self._reason = None

    @property
    def held(self):
        return ""

    def process(self, token_id):
        if self._reason is not None:
            return StopOutput("", True, self._reason)
        if token_id in self._stop_token_ids:
            self._reason = token_id
            return StopOutput(self._detokenizer.flush(), True, token_id)
        text = self._detokenizer.feed(token_id)
        for stop in self._stops:
            if stop in text:
                self._reason = stop
                return StopOutput(text.split(stop)[0], True, stop)
        for stop in self._visible_stops:
            if stop in text:
                self._reason = stop
                return StopOutput(text.split(stop)[0] + stop, True, stop)
        if token_id in self._visible_stop_token_ids:
            self._reason = token_id
            return StopOutput(text + self._detokenizer.flush(), True, token_id)
        return StopOutput(text)

    def process_many(self, token_ids):
        outputs = []
        for token_id in token_ids:
            output = self.process(token_id)
            outputs.append(output)
            if output.stopped:
                break
        return outputs, len(outputs)

    def flush(self):
        return StopOutput(self._detokenizer.flush())

    def reset(self):
        self._detokenizer.flush()
        self._reason = None
