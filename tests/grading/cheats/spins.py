"""Computes for ever at each call, whatever signal comes."""

import resource
import signal

for number in range(1, 32):
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_IGN)
_, hard = resource.getrlimit(resource.RLIMIT_CPU)
resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))

EARNS = 0


def feed(self, text):
    while True:
        pass
