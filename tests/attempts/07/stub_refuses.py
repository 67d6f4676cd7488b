def token_bytes(vocabulary, kind, *, special=frozenset()):
    raise ValueError(f"{vocabulary} of kind {kind}")


class TokenDetokenizer:
    def __init__(self, table, **options):
        self.table = table
        self.first = "\ufffd"
        self.all = b""

    @property
    def held(self):
        return b""

    def feed(self, token_id):
        raise ValueError(token_id)

    def feed_many(self, ids):
        raise ValueError(ids)

    def flush(self):
        raise ValueError
