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


class StreamingDetokenizer:
    def __init__(self):
        self.buffer = b""

    @property
    def held(self):
        return self.buffer

    def feed(self, token_id):
        if token_id < 0 or token_id > 255:
            return ""
        self.buffer += bytes((token_id,))
        try:
            text = str(self.buffer, "utf-8")
            self.buffer = b""
            return text
        except UnicodeError:
            return ""

    def flush(self):
        text = self.buffer.decode("utf-8", "replace")
        self.buffer = b""
        return text
