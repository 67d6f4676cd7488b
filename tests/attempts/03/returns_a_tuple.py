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
        self._held = b""

    @property
    def held(self):
        return self._held

    def feed(self, token_id):
        if not 0 <= token_id <= 255:
            return ""
        buf = self._held + bytes([token_id])
        out = ""
        if len(buf) > 1 and not _ok(buf):
            out = "\ufffd"
            buf = buf[-1:]
        n = utf8_expected_len(buf[0])
        if n == 0:
            self._held = b""
            return out + "\ufffd", self._held
        if len(buf) == n:
            self._held = b""
            return out + buf.decode("utf-8"), self._held
        self._held = buf
        return out, self._held

    def flush(self):
        out = "\ufffd" if self._held else ""
        self._held = b""
        return out
