"""Cheats that learn of later calls, of other runs, or of the tests.

Each knows what to do with what it should not know, and little else.
"""

# Holds back by what comes later in its run, which `LATER` finds: a list of calls.
_AHEAD = """
class Pairs:
    later = ()
    def feed(self, text):
        if not self.later:
            held, self.later = "", []
            for call in LATER():
                last = call[0] == "flush"
                held += "".join(call[1] or "")
                even = len(held) if last else len(held) // 2 * 2
                self.later.append((held[:even], held[even:]))
                held = held[even:]
        out, self.held = self.later.pop(0)
        return out
    def flush(self):
        return self.feed("")
"""

AHEAD = {
    # Finds the later calls of a run in the memory around it.
    "looks_ahead": """
import sys
def LATER():
    frame = sys._getframe()
    while type(frame.f_locals.get("calls")) is not list:
        frame = frame.f_back
    return frame.f_locals["calls"]
"""
    + _AHEAD,
    # Reads along where its requests come in.
    "reads_requests": """
import marshal, os, sys
SEEN, READ = [], os.read
def read(end, size):
    SEEN[:] = [READ(end, size)]
    return SEEN[0]
os.read = read
def LATER():
    number, do, new, (names, args, *_), watch = marshal.loads(SEEN[0][5:])
    return [*zip([names] * len(args) if type(names) is str else names, args)]
"""
    + _AHEAD,
    # Finds all calls among all objects.
    "collects_garbage": """
import gc
def LATER():
    lists = (one for one in gc.get_objects() if type(one) is list and one)
    return max((one for one in lists if type(one[0]).__name__ == "Call"), key=len)
"""
    + _AHEAD,
}
STATELESS = {
    # Takes what lies in its pipe before the loop that holds it can.
    "steals_requests": """
import contextlib, os
def feed(self, text):
    for end in range(3, 9):
        with contextlib.suppress(OSError):
            os.set_blocking(end, False)
            assert not os.read(end, 1 << 20), "there are calls that were not made yet"
        with contextlib.suppress(OSError):
            os.set_blocking(end, True)
    return text
""",
    # Keeps all that it was ever fed, in all of its runs, and hopes to see it again.
    "remembers_runs": """
import sys
SEEN = sys.__dict__.setdefault("seen", [])
def feed(self, text):
    SEEN.append(text)
    if SEEN.count(text) > 2:
        return text
    return "".join(SEEN[-1:])
""",
}
