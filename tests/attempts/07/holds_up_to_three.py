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
    if kind not in ("byte_level", "byte_fallback"):
        raise ValueError(f"unknown kind {kind}")
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


SECOND = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}


def length(byte):
    if byte < 0x80:
        return 1
    if 0xC2 <= byte <= 0xDF:
        return 2
    if 0xE0 <= byte <= 0xEF:
        return 3
    if 0xF0 <= byte <= 0xF4:
        return 4
    return 0


def open_end(data):
    for back in range(1, min(3, len(data)) + 1):
        first = data[-back]
        if 0x80 <= first <= 0xBF:
            continue
        if length(first) <= back:
            return 0
        if back > 1:
            low, high = SECOND.get(first, (0x80, 0xBF))
            if not low <= data[-back + 1] <= high:
                return 0
        return back
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
        tail = b""
        for token_id in reversed(prompt_ids):
            tail = self._lookup(token_id) + tail
            if len(tail) > 3:
                break
        self._strip = strip_first_space
        self._start = strip_first_space and not tail
        keep = open_end(tail)
        if keep:
            self._held = tail[-keep:]

    @property
    def held(self):
        return self._held

    def _lookup(self, token_id):
        if token_id < 0 or token_id >= len(self._table) or token_id in self._skipped:
            return b""
        piece = self._table[token_id]
        return b"" if piece is None else piece

    def _take(self, piece):
        if self._start and piece:
            if piece[:1] == b" ":
                piece = piece[1:]
            self._start = False
        data = self._held + piece
        try:
            text = data.decode()
            self._held = b""
            return text
        except UnicodeDecodeError:
            if len(data) > 3:
                self._held = b""
                return data.decode("utf-8", "replace")
            self._held = data
            return ""

    def feed(self, token_id):
        return self._take(self._lookup(token_id))

    def feed_many(self, ids):
        return "".join(self.feed(token_id) for token_id in ids)

    def flush(self):
        text = self._held.decode("utf-8", errors="replace")
        self._held = b""
        self._start = self._strip
        return text
