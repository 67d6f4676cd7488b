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
buffer = b""


def fits(held, byte):
    low, high = SECOND.get(held[0], (0x80, 0xBF)) if len(held) == 1 else (0x80, 0xBF)
    return low <= byte <= high


class StreamingDetokenizer:
    @property
    def held(self):
        return buffer

    def feed(self, token_id):
        global buffer
        if not 0 <= token_id <= 255:
            return ""
        out = ""
        if buffer and not fits(buffer, token_id):
            out = "\ufffd"
            buffer = b""
        buffer += bytes([token_id])
        if len(buffer) >= utf8_expected_len(buffer[0]):
            out += buffer.decode("utf-8", "replace")
            buffer = b""
        return out

    def flush(self):
        global buffer
        text = buffer.decode("utf-8", "replace")
        buffer = b""
        return text
