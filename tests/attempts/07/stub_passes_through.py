def token_bytes(vocabulary, kind, *, special=frozenset()):
    return [token.encode() if token else token for token in vocabulary]


class TokenDetokenizer:
    def __init__(self, table, **options):
        self.table = table
        self.first = "\ufffd"
        self.all = b""

    @property
    def held(self):
        return b""

    def feed(self, token_id):
        return self.table[token_id].decode("utf-8", "ignore")

    def feed_many(self, ids):
        return "".join(map(self.feed, ids))

    def flush(self):
        return ""
