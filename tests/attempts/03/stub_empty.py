def utf8_expected_len(first_byte):
    return 0


class StreamingDetokenizer:
    def __init__(self):
        self.held = b""

    def feed(self, token_id):
        return ""

    def flush(self):
        return ""
