"""Lab 03 by a third hand: a count of bytes to come and the range for the next one."""


def utf8_expected_len(first_byte):
    if first_byte < 0 or first_byte > 0xFF:
        raise ValueError(format(first_byte, "d"))
    if first_byte <= 0x7F:
        return 1
    if first_byte < 0xC2 or first_byte > 0xF4:
        return 0
    return 2 + (first_byte >= 0xE0) + (first_byte >= 0xF0)


LOW = {0xE0: 0xA0, 0xF0: 0x90}
HIGH = {0xED: 0x9F, 0xF4: 0x8F}


class StreamingDetokenizer:
    def __init__(self):
        self.start_over()

    def start_over(self):
        self.pending, self.missing, self.low, self.high = [], 0, 0x80, 0xBF

    @property
    def held(self):
        return bytes(self.pending)

    def feed(self, token_id):
        answer = ""
        if token_id < 0 or token_id > 255:
            return answer
        if self.missing:
            if self.low <= token_id <= self.high:
                self.pending.append(token_id)
                self.missing, self.low, self.high = self.missing - 1, 0x80, 0xBF
                if self.missing == 0:
                    answer = self.held.decode()
                    self.start_over()
                return answer
            answer = "\N{REPLACEMENT CHARACTER}"
            self.start_over()
        size = utf8_expected_len(token_id)
        if size == 0:
            return answer + "\N{REPLACEMENT CHARACTER}"
        if size == 1:
            return answer + chr(token_id)
        self.pending, self.missing = [token_id], size - 1
        self.low = LOW.get(token_id, 0x80)
        self.high = HIGH.get(token_id, 0xBF)
        return answer

    def flush(self):
        answer = "\N{REPLACEMENT CHARACTER}" if self.missing else ""
        self.start_over()
        return answer
