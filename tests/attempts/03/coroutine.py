def utf8_expected_len(first_byte):
    if not 0 <= first_byte <= 255:
        raise ValueError(f"not a byte: {first_byte}")
    if first_byte < 0x80:
        return 1
    if 0xC2 <= first_byte <= 0xDF:
        return 2
    if 0xE0 <= first_byte <= 0xEF:
        return 3
    if 0xF0 <= first_byte <= 0xF4:
        return 4
    return 0


def _ok(buf):
    """can buf still become a char"""
    n = utf8_expected_len(buf[0])
    if n < 2 or len(buf) >= n + 1:
        return False
    if len(buf) > 1:
        lo, hi = {
            0xE0: (0xA0, 0xBF),
            0xED: (0x80, 0x9F),
            0xF0: (0x90, 0xBF),
            0xF4: (0x80, 0x8F),
        }.get(buf[0], (0x80, 0xBF))
        if not lo <= buf[1] <= hi:
            return False
    return all(0x80 <= b <= 0xBF for b in buf[2:])


class StreamingDetokenizer:
    def __init__(self):
        self._start()

    def _start(self):
        self._buf = bytearray()
        self._co = self._run()
        next(self._co)

    def _run(self):
        out = ""
        b = None
        while True:
            if b is None:
                b = yield out
                out = ""
            n = utf8_expected_len(b)
            if n < 2:
                out += chr(b) if n else "\ufffd"
                b = None
                continue
            self._buf += bytes([b])
            while True:
                b = yield out
                out = ""
                if not _ok(self._buf + bytes([b])):
                    out = "\ufffd"
                    self._buf.clear()
                    break
                self._buf.append(b)
                if len(self._buf) == n:
                    out = self._buf.decode()
                    self._buf.clear()
                    b = None
                    break

    @property
    def held(self):
        return bytes(self._buf)

    def feed(self, token_id):
        return self._co.send(token_id) if token_id in range(256) else ""

    def flush(self):
        r = "\ufffd" if self._buf else ""
        self._start()
        return r
