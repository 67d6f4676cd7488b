def utf8_expected_len(first_byte):
    if first_byte < 0 or first_byte > 255:
        raise ValueError(f"{first_byte} is not a byte")
    if first_byte <= 0x7F:
        return 1
    if 0xC2 <= first_byte <= 0xDF:
        return 2
    if 0xE0 <= first_byte <= 0xEF:
        return 3
    if 0xF0 <= first_byte <= 0xF4:
        return 4
    return 0


LOWEST = {0xE0: 0xA0, 0xF0: 0x90}
HIGHEST = {0xED: 0x9F, 0xF4: 0x8F}


class StreamingDetokenizer:
    def __init__(self):
        self.pending = []
        self.missing = 0

    @property
    def held(self):
        return bytes(self.pending)

    def feed(self, token_id):
        if token_id < 0 or token_id > 255:
            return ""
        before = ""
        if self.missing:
            low, high = 0x80, 0xBF
            if len(self.pending) == 1:
                low = LOWEST.get(self.pending[0], low)
                high = HIGHEST.get(self.pending[0], high)
            if low <= token_id <= high:
                self.pending.append(token_id)
                self.missing -= 1
                return self.finish() if self.missing == 0 else ""
            before = self.flush()
        length = utf8_expected_len(token_id)
        if length == 0:
            return before + "\ufffd"
        if length == 1:
            return before + chr(token_id)
        self.pending = [token_id]
        self.missing = length - 1
        return before

    def finish(self):
        first, *rest = self.pending
        point = first & (0x7F >> (len(rest) + 1))
        for byte in rest:
            point = point << 6 | byte & 0x3F
        self.pending = []
        return chr(point)

    def flush(self):
        was_open = bool(self.pending)
        self.pending = []
        self.missing = 0
        return "\ufffd" if was_open else ""
