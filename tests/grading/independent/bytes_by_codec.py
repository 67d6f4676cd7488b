"""Lab 03 by another hand: CPython's decoder does it all, and waits too long after ED A0."""

import codecs


def utf8_expected_len(first_byte):
    if first_byte not in range(256):
        raise ValueError("not a byte: " + str(first_byte))
    for start, stop, size in ((0, 127, 1), (194, 223, 2), (224, 239, 3), (240, 244, 4)):
        if start <= first_byte <= stop:
            return size
    return 0


class StreamingDetokenizer:
    def __init__(self):
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    @property
    def held(self):
        return self.decoder.getstate()[0]

    def feed(self, token_id):
        return self.decoder.decode(bytes((token_id,))) if token_id in range(256) else ""

    def flush(self):
        rest = self.decoder.decode(b"", final=True)
        self.decoder.reset()
        return rest
