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
        self._reason = None

    @property
    def held(self):
        raise NotImplementedError("lab-08 task 2: held")

    def process(self, token_id):
        if self._reason is not None:
            return StopOutput("", True, self._reason)
        if token_id in self._stop_token_ids:
            self._reason = token_id
            return StopOutput(self._detokenizer.flush(), True, token_id)
        text = self._detokenizer.feed(token_id)
        if token_id in self._visible_stop_token_ids:
            self._reason = token_id
            text += self._detokenizer.flush()
            return StopOutput(text, True, token_id)
        return StopOutput(text)

    def process_many(self, token_ids):
        raise NotImplementedError("lab-08 task 3: process_many")

    def flush(self):
        raise NotImplementedError("lab-08 task 4: flush")

    def reset(self):
        raise NotImplementedError("lab-08 task 4: reset")
