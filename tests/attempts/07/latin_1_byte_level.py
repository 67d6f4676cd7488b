import re


def token_bytes(vocabulary, kind, *, special=frozenset()):
    result = []
    for i, token in enumerate(vocabulary):
        if token is None:
            result.append(None)
            continue
        if i in special:
            result.append(token.encode())
            continue
        if kind == "byte_level":
            # Ġ is the space and Ċ the newline, all others are the byte of that number
            token = token.replace("Ġ", " ").replace("Ċ", "\n").replace("ĉ", "\t")
            try:
                result.append(token.encode("latin-1"))
            except UnicodeEncodeError:
                result.append(token.encode("utf-8"))
        elif kind == "byte_fallback":
            match = re.fullmatch("<0x([0-9a-fA-F]{2})>", token)
            if match:
                result.append(bytes([int(match.group(1), 16)]))
            else:
                result.append(token.replace("▁", " ").encode())
        else:
            raise ValueError(kind)
    return result


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
        return self._held

    def feed(self, token_id):
        raise NotImplementedError("lab-07 task 2: feed")

    def feed_many(self, ids):
        raise NotImplementedError("lab-07 task 3: feed_many")

    def flush(self):
        raise NotImplementedError("lab-07 task 3: flush")
