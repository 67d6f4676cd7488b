def utf8_expected_len(first_byte):
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
        self._held = b""

    @property
    def held(self):
        raise NotImplementedError("lab-03 task 2: held")

    def feed(self, token_id):
        raise NotImplementedError("lab-03 task 2: feed")

    def flush(self):
        raise NotImplementedError("lab-03 task 3: flush")
