"""Lab 07"""

from collections.abc import Iterable


def bytes_to_unicode():
    # from GPT-2
    bs = (
        list(range(ord("!"), ord("~") + 1))
        + list(range(ord("¡"), ord("¬") + 1))
        + list(range(ord("®"), ord("ÿ") + 1))
    )
    cs = bs[:]
    n = 0
    for b in range(2**8):
        if b not in bs:
            bs.append(b)
            cs.append(2**8 + n)
            n += 1
    return dict(zip(bs, [chr(n) for n in cs], strict=False))


byte_decoder = {v: k for k, v in bytes_to_unicode().items()}


def token_bytes(vocabulary, kind, *, special=frozenset()):
    table = []
    for id, token in enumerate(vocabulary):
        if token is None:
            table.append(None)
        elif id in special:
            table.append(token.encode())
        elif kind == "byte_level":
            try:
                table.append(bytes([byte_decoder[c] for c in token]))
            except KeyError:
                table.append(token.encode())
        else:
            if token.startswith("<0x") and token.endswith(">") and len(token) == 6:
                table.append(bytes([int(token[3:5], 16)]))
            else:
                if token.startswith("▁"):
                    token = " " + token[1:]
                table.append(token.encode())
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
    def held(self) -> bytes:
        return self._held

    def feed(self, token_id: int) -> str:
        if token_id in self._skipped or not 0 <= token_id < len(self._table):
            return ""
        data = self._held + (self._table[token_id] or b"")
        for n in range(min(4, len(data) + 1)):
            head, tail = data[: len(data) - n], data[len(data) - n :]
            try:
                text = head.decode()
            except UnicodeDecodeError:
                continue
            self._held = tail
            return text
        self._held = b""
        return data.decode("utf-8", "replace")

    def feed_many(self, ids: Iterable[int]) -> str:
        return "".join(self.feed(i) for i in ids)

    def flush(self) -> str:
        out = self._held.decode("utf-8", "replace")
        self._held = b""
        return out
