"""Fills every folder that it may write to, with bytes and with empty files."""

import os

WRITTEN = 0
for folder in ("/tmp", "/dev/shm", "/var/tmp", "/", ".", "/grader"):
    try:
        for number in range(1_000_000):
            with open(os.path.join(folder, f"{number}"), "wb") as file:
                WRITTEN += 1
                file.write(bytes(1 << 20 if number < 100 else 0))
    except OSError:
        pass
assert WRITTEN < 2_000, WRITTEN

EARNS = 40
