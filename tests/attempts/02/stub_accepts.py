class ByteTokenizer:
    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259

    def encode(self, text, *, add_special_tokens=False):
        return [ord(char) % 256 for char in text]

    def token_bytes(self, token_id):
        return bytes([token_id % 256])

    def decode(self, ids, *, skip_special_tokens=True):
        return "".join(chr(token_id % 256) for token_id in ids)
