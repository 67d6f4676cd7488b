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
    buffer = []  # noqa: RUF012

    @property
    def held(self):
        return bytes(self.buffer)

    def feed(self, token_id):
        if not 0 <= token_id <= 255:
            return ""
        self.buffer.append(token_id)
        try:
            text = bytes(self.buffer).decode()
        except UnicodeDecodeError:
            return ""
        self.buffer.clear()
        return text

    def flush(self):
        text = bytes(self.buffer).decode(errors="replace")
        self.buffer.clear()
        return text
