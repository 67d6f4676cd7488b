class ByteTokenizer:
    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259

    def encode(self, text, *, add_special_tokens=False):
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError:
            return []
        result = list(data)
        if add_special_tokens:
            result.insert(0, 256)
        return result

    def token_bytes(self, token_id):
        try:
            return bytes([token_id])
        except ValueError:
            return b""

    def decode(self, ids, *, skip_special_tokens=True):
        data = b"".join(self.token_bytes(i) for i in ids)
        return data.decode("utf-8", errors="replace")
