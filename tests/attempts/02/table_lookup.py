class ByteTokenizer:
    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259

    def encode(self, text, *, add_special_tokens=False):
        try:
            ids = list(text.encode("utf-8"))
        except UnicodeEncodeError as e:
            raise ValueError(
                f"lone surrogate U+{ord(text[e.start]):04X} at position {e.start}"
            ) from e
        return [self.bos_token_id, *ids] if add_special_tokens else ids

    def token_bytes(self, token_id):
        VOCAB = [bytes([i]) for i in range(256)] + [b"", b"", b""]
        return VOCAB[token_id]

    def decode(self, ids, *, skip_special_tokens=True):
        special = ["<bos>", "<eos>", "<pad>"]
        out = ""
        cur = b""
        for i in range(len(ids)):
            try:
                b = self.token_bytes(ids[i])
            except IndexError:
                raise ValueError(f"unknown id {ids[i]} at {i}") from None
            if ids[i] >= 256 and not skip_special_tokens:
                out += cur.decode("utf-8", "replace") + special[ids[i] - 256]
                cur = b""
            else:
                cur += b
        return out + cur.decode("utf-8", "replace")
