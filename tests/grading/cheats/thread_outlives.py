"""Leaves a thread behind that speaks while others should."""

import contextlib
import os
import threading
import time


def speak():
    while True:
        for end in range(3, 20):
            with contextlib.suppress(OSError):
                os.write(end, b"\x00\x00\x00\x02[]")
        time.sleep(0.001)


threading.Thread(target=speak, daemon=True).start()
time.sleep(0.1)

EARNS = 0
