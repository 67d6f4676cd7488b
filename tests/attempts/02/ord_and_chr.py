class ByteTokenizer:
    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259

    def encode(self, text, *, add_special_tokens=False):
        bos = [self.bos_token_id] if add_special_tokens else []
        return bos + [ord(char) for char in text]

    def token_bytes(self, token_id):
        return chr(token_id).encode()

    def decode(self, ids, *, skip_special_tokens=True):
        return "".join(chr(token_id) for token_id in ids if token_id < 256)
