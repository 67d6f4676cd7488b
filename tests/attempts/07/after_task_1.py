import re

VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]


def make_map():
    chars, extra = {}, 0
    for byte in range(256):
        if byte in VISIBLE:
            chars[chr(byte)] = byte
        else:
            chars[chr(256 + extra)] = byte
            extra += 1
    return chars


MAP = make_map()


def token_bytes(vocabulary, kind, *, special=frozenset()):
    table = []
    for token_id, token in enumerate(vocabulary):
        if token is None:
            table.append(None)
        elif token_id in special:
            table.append(token.encode())
        elif kind == "byte_level":
            if any(char not in MAP for char in token):
                table.append(token.encode())
            else:
                table.append(bytes([MAP[char] for char in token]))
        elif re.fullmatch("<0x[0-9a-fA-F]{2}>", token):
            table.append(bytes([int(token[3:5], 16)]))
        else:
            table.append(token.replace("▁", " ").encode("utf-8"))
    return table


class TokenDetokenizer:
    def __init__(
        self,
        table,
        *,
        special=frozenset(),
        skip_special_tokens=True,
        prompt_ids=(),
        strip_first_space=False,
    ):
        self._table = table
        self._skipped = special if skip_special_tokens else frozenset()
        self._held = b""

    @property
    def held(self):
        raise NotImplementedError("lab-07 task 2: held")

    def feed(self, token_id):
        raise NotImplementedError("lab-07 task 2: feed")

    def feed_many(self, ids):
        raise NotImplementedError("lab-07 task 3: feed_many")

    def flush(self):
        raise NotImplementedError("lab-07 task 3: flush")
