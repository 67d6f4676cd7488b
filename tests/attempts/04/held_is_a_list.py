from collections.abc import Collection


class StopStringMatcher:
    def __init__(self, stops: Collection[str], *, include_stop: bool = False) -> None:
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched = None
        self._held = ""

        self._tables = [[s, self._fail_of(s), 0] for s in self._stops]

    def _winnable(self, stops):
        if isinstance(stops, str):
            raise ValueError('a list, as in ["END"]')
        if any(not s for s in stops):
            raise ValueError("empty stop")
        return [s for s in stops if not any(o in s[:-1] for o in stops)]

    @property
    def matched(self):
        return self._matched

    @property
    def held(self):
        return [*self._held]

    def _fail_of(self, s):
        f = [0]
        k = 0
        for c in s[1:]:
            while k and s[k] != c:
                k = f[k - 1]
            if s[k] == c:
                k += 1
            f.append(k)
        return f

    def feed(self, text):
        if self._matched is not None:
            return ""
        if not self._tables:
            return text
        buf = [self._held, text]
        for seen, ch in enumerate(text, 1):
            winner = None
            for t in self._tables:
                s, f, k = t
                while k and s[k] != ch:
                    k = f[k - 1]
                if s[k] == ch:
                    k += 1
                t[2] = k
                if k == len(s):
                    if winner is None or len(s) > len(winner):
                        winner = s
                    t[2] = f[k - 1]
            if winner is not None:
                self._matched = winner
                whole = self._held + text[:seen]
                self._held = ""
                if self._include_stop:
                    return text[:seen]
                return whole[: len(whole) - len(winner)]
        if self._include_stop:
            return text
        n = max(t[2] for t in self._tables)
        whole = "".join(buf)
        self._held = whole[len(whole) - n :]
        return whole[: len(whole) - n]

    def flush(self):
        for t in self._tables:
            t[2] = 0
        out, self._held = self._held, ""
        return out
