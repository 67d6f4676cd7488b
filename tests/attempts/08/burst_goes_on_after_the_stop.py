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
        self._held = ""
        self._past = ""
        self._count = 0

    @property
    def held(self):
        return self._held

    def _search(self, new):
        """Returns (text to show, stop or None)."""
        start = len(self._past)
        text = self._past + self._held + new
        known = start + len(self._held)
        best = None
        for stop in self._stops + self._visible_stops:
            # it must end in the new text
            at = text.find(stop, max(0, known - len(stop) + 1))
            if stop in self._stops and at >= 0 and at < start:
                at = text.find(stop, start)
            if at >= 0:
                key = (at + len(stop), -len(stop))
                if best is None or key < best[0]:
                    best = (key, stop, at)
        if best is not None:
            (end, _), stop, at = best
            self._held = self._past = ""
            return text[start : (at if stop in self._stops else end)], stop
        rest = text[start:]
        hold = 0
        for stop in self._stops:
            if any(other in stop[:-1] for other in self._stops + self._visible_stops):
                continue
            for n in range(hold + 1, min(len(stop), len(rest) + 1)):
                if rest.endswith(stop[:n]):
                    hold = n
        self._held = rest[len(rest) - hold :]
        out = rest[: len(rest) - hold]
        longest = max([len(s) for s in self._visible_stops + self._stops], default=1)
        self._past = (self._past + out)[-longest:]
        return out, None

    def process(self, token_id):
        if self._reason is not None:
            return StopOutput("", True, self._reason)
        self._count += 1
        text, stop = "", None
        if token_id not in self._stop_token_ids:
            text, stop = self._search(self._detokenizer.feed(token_id))
        if token_id in self._stop_token_ids or token_id in self._visible_stop_token_ids:
            if stop is None:
                more, stop = self._search(self._detokenizer.flush())
                text += more
            if stop is None:
                text += self._held
            self._held = ""
            self._reason = token_id
        elif stop is not None:
            self._reason = stop
        return StopOutput(text, self._reason is not None, self._reason)

    def process_many(self, token_ids):
        if self._reason is not None:
            return [StopOutput("", True, self._reason)], 0
        outputs = []
        for token_id in token_ids:
            outputs.append(self.process(token_id))
        return outputs, len(outputs)

    def flush(self):
        raise NotImplementedError("lab-08 task 4: flush")

    def reset(self):
        raise NotImplementedError("lab-08 task 4: reset")
