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
        try:
            self._held += bytes([token_id])
        except ValueError:
            return ""
        try:
            text = self._held.decode("utf-8")
        except UnicodeDecodeError:
            if len(self._held) < 4:
                return ""
            text = self._held.decode("utf-8", errors="replace")
        self._held = b""
        return text

    def flush(self):
        text, self._held = self._held.decode("utf-8", errors="replace"), b""
        return text
