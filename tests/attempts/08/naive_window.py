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
            raise ValueError("a str")
        if "" in (*stops, *visible_stops):
            raise ValueError("empty")
        self.d = detokenizer
        self.ids = set(stop_token_ids)
        self.vids = set(visible_stop_token_ids)
        self.stops = list(stops)
        self.vstops = list(visible_stops)
        self.min = min_tokens
        self.longest = max((len(s) for s in self.stops), default=0)
        self.reset_state()

    def reset_state(self):
        self.buf = ""
        self.reason = None
        self.n = 0

    @property
    def held(self):
        return self.buf

    def process(self, token_id):
        if self.reason is not None:
            return StopOutput("", True, self.reason)
        self.n += 1
        ok = self.n > self.min
        if ok and token_id in self.ids:
            out = self.buf + self.d.flush()
            self.buf = ""
            self.reason = token_id
            return StopOutput(out, True, token_id)
        self.buf += self.d.feed(token_id)
        if ok and token_id in self.vids:
            out = self.buf + self.d.flush()
            self.buf = ""
            self.reason = token_id
            return StopOutput(out, True, token_id)
        if ok:
            best = None
            for s in self.stops + self.vstops:
                i = self.buf.find(s)
                if i >= 0 and (best is None or i < best[0]):
                    best = (i, s)
            if best:
                i, s = best
                self.reason = s
                out = self.buf[: i + (len(s) if s in self.vstops and s not in self.stops else 0)]
                self.buf = ""
                return StopOutput(out, True, s)
        keep = max(0, min(len(self.buf), self.longest - 1))
        out = self.buf[: len(self.buf) - keep]
        self.buf = self.buf[len(self.buf) - keep :]
        return StopOutput(out)

    def process_many(self, token_ids):
        if self.reason is not None:
            return [StopOutput("", True, self.reason)], 0
        outs = []
        for t in token_ids:
            o = self.process(t)
            outs.append(o)
            if o.stopped:
                break
        return outs, len(outs)

    def flush(self):
        if self.reason is not None:
            return StopOutput("", True, self.reason)
        out = self.buf + self.d.flush()
        self.reset_state()
        return StopOutput(out)

    def reset(self):
        self.d.flush()
        self.reset_state()
