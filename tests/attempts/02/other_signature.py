class ByteTokenizer:
    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259

    def encode(self, text, bos=False):
        ids = list(text.encode("utf-8"))
        return [256, *ids] if bos else ids

    def decode(self, ids, skip=True):
        return bytes(i for i in ids if i < 256).decode("utf-8", "replace")
