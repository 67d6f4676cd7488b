def token_bytes(vocabulary, kind, *, special=frozenset()):
    return [b"?" for _ in vocabulary]


class TokenDetokenizer:
    def __init__(self, table, **options):
        self.table = table
        self.first = "\ufffd"
        self.all = b""

    @property
    def held(self):
        return b""

    def feed(self, token_id):
        text, self.first = self.first, ""
        return text + (self.table[token_id] or b"").decode("utf-8", "ignore")

    def feed_many(self, ids):
        return "".join(map(self.feed, ids))

    def flush(self):
        return "\ufffd"
