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
        if 0 <= token_id < 256:
            return bytes([token_id])
        if token_id in (256, 257, 258):
            return b""
        raise ValueError(f"unknown id {token_id}")

    def decode(self, ids, *, skip_special_tokens=True):
        import re

        names = {256: "<bos>", 257: "<eos>", 258: "<pad>"}
        chunks = [bytearray()]
        texts = []
        for pos, t in enumerate(ids):
            if t not in names and not (0 <= t < 256):
                raise ValueError(f"id {t} at {pos}")
            if t in names:
                if skip_special_tokens:
                    continue
                texts.append((chunks[-1], names[t]))
                chunks.append(bytearray())
            else:
                chunks[-1].append(t)
        s = "".join(c.decode("utf-8", "replace") + n for c, n in texts) + chunks[-1].decode(
            "utf-8", "replace"
        )
        return re.sub("\ufffd+", "\ufffd", s)
