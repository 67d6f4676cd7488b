import re


def _byte_of():
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(b): b for b in visible}
    n = 0
    for b in range(256):
        if b not in visible:
            table[chr(0x100 + n)] = b
            n += 1
    return table


BYTE_OF = _byte_of()
HEX = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def token_bytes(vocabulary, kind, *, special=frozenset()):
    if kind not in ("byte_level", "byte_fallback"):
        raise ValueError(f"unknown kind {kind!r}")
    table = []
    for i, token in enumerate(vocabulary):
        if token is None:
            table.append(None)
        elif i in special:
            table.append(token.encode("utf-8"))
        elif kind == "byte_level":
            if all(c in BYTE_OF for c in token):
                table.append(bytes(BYTE_OF[c] for c in token))
            else:
                table.append(token.encode("utf-8"))
        else:
            m = HEX.fullmatch(token)
            if m:
                table.append(bytes([int(m[1], 16)]))
            else:
                table.append(token.replace("\u2581", " ").encode("utf-8"))
    return table


def open_end(data):
    """How many bytes at the end of data can still become a character."""
    for n in range(1, min(3, len(data)) + 1):
        tail = data[-n:]
        first = tail[0]
        if 0x80 <= first <= 0xBF:
            continue
        size = (
            2
            if 0xC2 <= first <= 0xDF
            else 3
            if 0xE0 <= first <= 0xEF
            else 4
            if 0xF0 <= first <= 0xF4
            else 1
        )
        if n >= size:
            return 0
        if n > 1:
            low, high = 0x80, 0xBF
            if first == 0xE0:
                low = 0xA0
            if first == 0xED:
                high = 0x9F
            if first == 0xF0:
                low = 0x90
            if first == 0xF4:
                high = 0x8F
            if not low <= tail[1] <= high:
                return 0
        return n
    return 0


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
        # an unfinished character has at most 3 bytes, so the last 3 tokens are enough
        for token_id in prompt_ids[-3:]:
            self.feed(token_id)

    @property
    def held(self):
        return self._held

    def feed(self, token_id):
        if token_id in self._skipped or not 0 <= token_id < len(self._table):
            return ""
        data = self._table[token_id]
        if data is None or data == b"":
            return ""
        data = self._held + data
        n = open_end(data)
        self._held = data[len(data) - n :]
        return data[: len(data) - n].decode("utf-8", "replace")

    def feed_many(self, ids):
        out = []
        for i in ids:
            out.append(self.feed(i))
        return "".join(out)

    def flush(self):
        text = "\ufffd" if self._held else ""
        self._held = b""
        return text
