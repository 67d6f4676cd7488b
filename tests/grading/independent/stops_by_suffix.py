"""Lab 04 by another hand: no automaton, but a look at every suffix of a short tail."""


class StopStringMatcher:
    def __init__(self, stops, *, include_stop=False):
        if isinstance(stops, str):
            raise ValueError(f'one stop is a list of one: ["{stops}"]')
        wanted = set()
        for candidate in stops:
            if len(candidate) == 0:
                raise ValueError("empty stop")
            wanted.add(candidate)
        self.wanted = {w for w in wanted if all(w.find(x, 0, len(w) - 1) < 0 for x in wanted)}
        self.heads = {w[:cut] for w in self.wanted for cut in range(1, len(w))}
        self.longest = max((len(w) for w in self.wanted), default=0)
        self.show_stop = include_stop
        self.tail = ""
        self.waiting = 0
        self.matched = None

    @property
    def held(self):
        return self.tail[len(self.tail) - self.waiting :]

    def feed(self, text):
        out = []
        for ch in text:
            if self.matched is not None:
                break
            out.append(self.step(ch))
        return "".join(out)

    def step(self, ch):
        before = self.held
        self.tail = (self.tail + ch)[-self.longest :] if self.longest else ""
        for size in range(self.longest, 0, -1):
            if len(self.tail) >= size and self.tail[-size:] in self.wanted:
                self.matched = self.tail[-size:]
                self.waiting = 0
                whole = before + ch
                return ch if self.show_stop else whole[: len(whole) - size]
        if self.show_stop or not self.longest:
            return ch
        size = min(self.longest - 1, len(self.tail))
        while size and self.tail[-size:] not in self.heads:
            size -= 1
        self.waiting = size
        whole = before + ch
        return whole[: len(whole) - size]

    def flush(self):
        rest = self.held
        self.tail, self.waiting = "", 0
        return rest
