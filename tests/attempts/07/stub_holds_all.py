def token_bytes(vocabulary, kind, *, special=frozenset()):
    return [b"" for _ in vocabulary]


class TokenDetokenizer:
    def __init__(self, table, **options):
        self.table = table
        self.first = "\ufffd"
        self.all = b""

    @property
    def held(self):
        return self.all

    def feed(self, token_id):
        self.all += self.table[token_id] or b""
        return ""

    def feed_many(self, ids):
        for token_id in ids:
            self.feed(token_id)
        return ""

    def flush(self):
        text, self.all = self.all.decode("utf-8", "replace"), b""
        return text
