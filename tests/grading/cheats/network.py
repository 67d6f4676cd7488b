"""Asks somebody else."""

import socket


def ask():
    for family, address in [
        (socket.AF_INET, ("127.0.0.1", 80)),
        (socket.AF_INET, ("192.0.2.1", 53)),
        (socket.AF_UNIX, "\0labkit-slot-0"),
    ]:
        try:
            with socket.socket(family) as end:
                end.settimeout(1)
                end.bind(("", 0) if family == socket.AF_INET else "\0stolen")
                end.connect(address)
        except PermissionError:
            continue
        except OSError:
            pass
        raise SystemError("there is a network")


ask()

EARNS = 40
