import codecs
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
        # the standard library does it all
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def held(self):
        return self._held

    def feed(self, token_id):
        if token_id in self._skipped:
            return ""
        if token_id < 0 or token_id >= len(self._table):
            return ""
        data = self._table[token_id]
        if not data:
            return ""
        return self._decoder.decode(data)

    def feed_many(self, ids):
        return "".join([self.feed(i) for i in ids])

    def flush(self):
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
