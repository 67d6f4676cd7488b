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


SECOND = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}


def fits(held, byte):
    low, high = SECOND.get(held[0], (0x80, 0xBF)) if len(held) == 1 else (0x80, 0xBF)
    return low <= byte <= high


class StreamingDetokenizer:
    def __init__(self):
        self.buffer = b""

    @property
    def held(self):
        return self.buffer

    def feed(self, token_id):
        if not 0 <= token_id <= 255:
            return ""
        out = ""
        if self.buffer and not fits(self.buffer, token_id):
            out = "\ufffd"
            self.buffer = b""
        self.buffer += bytes([token_id])
        if len(self.buffer) >= utf8_expected_len(self.buffer[0]):
            out += self.buffer.decode("utf-8", "replace")
            self.buffer = b""
        return out

    def flush(self):
        raise NotImplementedError("lab-03 task 3: flush")
