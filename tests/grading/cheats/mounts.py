"""Makes namespaces of its own, where it would be root, and mounts what has no limit."""

import ctypes

LIBC = ctypes.CDLL(None)
for flags in (0x10000000, 0x20000, 0x10020000):
    assert LIBC.unshare(flags) == -1
assert LIBC.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, b"size=8g") == -1
assert LIBC.setuid(0) == -1
assert LIBC.memfd_create(b"room", 0) == -1

EARNS = 40
