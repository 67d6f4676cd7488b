def refuse(given):
    first = f"U+{ord(given[0]):04X} at 0" if isinstance(given, str) and given else ""
    raise ValueError(f"{given!r} is not known: {first}")


class ByteTokenizer:
    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259

    def encode(self, text, *, add_special_tokens=False):
        refuse(text)

    def token_bytes(self, token_id):
        refuse(token_id)

    def decode(self, ids, *, skip_special_tokens=True):
        refuse(ids)
