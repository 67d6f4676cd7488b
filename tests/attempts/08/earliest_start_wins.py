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
        self._buffer = ""
        self._shown = ""  # the end of the shown text, for visible stops

    @property
    def held(self):
        return self._buffer

    def _search(self, new):
        """Returns the text that is safe, and the stop if there is one."""
        start = len(self._shown)
        text = self._shown + self._buffer + new
        best = None
        for stop in self._stops + self._visible_stops:
            pos = text.find(stop, start if stop in self._stops else 0)
            if pos == -1:
                continue
            # the first stop in the text, the longest if there are several
            if best is None or (pos, -len(stop)) < (best[0], -len(best[1])):
                best = (pos, stop)
        if best is not None:
            pos, stop = best
            self._buffer = ""
            if stop in self._stops:
                return text[start:pos], stop
            return text[start : pos + len(stop)], stop
        hold = 0
        for stop in self._stops:
            for n in range(hold + 1, min(len(stop), len(text) - start + 1)):
                if text.endswith(stop[:n]):
                    hold = n
        end = len(text) - hold
        self._buffer = text[end:]
        longest = max((len(s) for s in self._visible_stops), default=1)
        self._shown = text[:end][-longest + 1 :] if longest > 1 else ""
        return text[start:end], None

    def process(self, token_id):
        if self._reason is not None:
            return StopOutput("", True, self._reason)
        if token_id in self._stop_token_ids:
            return self._end(token_id, "")
        text, stop = self._search(self._detokenizer.feed(token_id))
        if token_id in self._visible_stop_token_ids:
            if stop is not None:
                self._reason = token_id
                return StopOutput(text, True, token_id)
            return self._end(token_id, text)
        if stop is not None:
            self._reason = stop
            return StopOutput(text, True, stop)
        return StopOutput(text)

    def _end(self, reason, text):
        more, stop = self._search(self._detokenizer.flush())
        text += more
        if stop is None:
            text += self._buffer
        self._buffer = ""
        self._reason = reason
        return StopOutput(text, True, reason)

    def process_many(self, token_ids):
        raise NotImplementedError("lab-08 task 3: process_many")

    def flush(self):
        raise NotImplementedError("lab-08 task 4: flush")

    def reset(self):
        raise NotImplementedError("lab-08 task 4: reset")
