def utf8_expected_len(first_byte):
    pass


class StreamingDetokenizer:
    def __init__(self):
        self._held = b""

    @property
    def held(self):
        pass

    def feed(self, token_id):
        pass

    def flush(self):
        pass
