"""Starts threads until there are no more."""

import threading
import time

threading.stack_size(1 << 16)
try:
    for _ in range(100_000):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
except (RuntimeError, MemoryError):
    pass

EARNS = 40
