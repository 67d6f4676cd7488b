from mini_vllm.text.events import StopOutput


class StopSequenceDecoder:
    """Stops by token and by string."""

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
        self._held = ""

    @property
    def held(self):
        return self._held

    def _search(self, new):
        """Text that may be shown, and the stop that ends it, or None."""
        text = self._held + new
        best = None
        for stop in self._stops + self._visible_stops:
            at = text.find(stop)
            if at >= 0:
                key = (at + len(stop), -len(stop))
                if best is None or key < best[0]:
                    best = (key, stop, at)
        if best:
            self._held = ""
            (end, _), stop, at = best
            return (text[:at] if stop in self._stops else text[:end]), stop
        every = self._stops + self._visible_stops
        hold = 0
        for stop in self._stops:
            if any(other in stop[:-1] for other in every):
                continue
            for n in range(hold + 1, min(len(stop), len(text) + 1)):
                if text[-n:] == stop[:n]:
                    hold = n
        self._held = text[len(text) - hold :]
        return text[: len(text) - hold], None

    def process(self, token_id):
        if self._reason is not None:
            return StopOutput("", True, self._reason)
        if token_id in self._stop_token_ids:
            self._reason = token_id
            self._held = ""
            return StopOutput(self._detokenizer.flush(), True, token_id)
        text, stop = self._search(self._detokenizer.feed(token_id))
        if token_id in self._visible_stop_token_ids:
            self._reason = token_id
            self._held = ""
            return StopOutput(text + self._detokenizer.flush(), True, token_id)
        if stop is not None:
            self._reason = stop
            return StopOutput(text, True, stop)
        return StopOutput(text)

    def process_many(self, token_ids):
        outputs = []
        if self._reason is not None:
            return [StopOutput("", True, self._reason)], 0
        for token_id in token_ids:
            outputs.append(self.process(token_id))
            if self._reason is not None:
                break
        return outputs, len(outputs)

    def flush(self):
        raise NotImplementedError("lab-08 task 4: flush")

    def reset(self):
        raise NotImplementedError("lab-08 task 4: reset")
