def utf8_expected_len(first_byte):
    return 1


class StreamingDetokenizer:
    held = b""

    def feed(self, token_id):
        return chr(token_id) if 0 <= token_id < 256 else ""

    def flush(self):
        return ""
