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
        return StopOutput("", True, token_id)

    def process_many(self, token_ids):
        outputs = [self.process(token_id) for token_id in token_ids]
        return outputs, len(outputs)

    def flush(self):
        return StopOutput("")

    def reset(self):
        pass
