def utf8_expected_len(first_byte):
    return 4


class StreamingDetokenizer:
    def __init__(self):
        self.all = bytearray()

    @property
    def held(self):
        return bytes(self.all)

    def feed(self, token_id):
        if 0 <= token_id < 256:
            self.all.append(token_id)
        return ""

    def flush(self):
        text = self.all.decode(errors="replace")
        self.all.clear()
        return text
