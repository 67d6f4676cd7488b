def utf8_expected_len(first_byte):
    raise ValueError(f"{first_byte} is not a byte")


class StreamingDetokenizer:
    held = b""

    def feed(self, token_id):
        raise ValueError(f"{token_id} is not a byte")

    def flush(self):
        raise ValueError("nothing is held")
