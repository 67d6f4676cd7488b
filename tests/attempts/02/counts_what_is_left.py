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
        if skip_special_tokens:
            ids = [i for i in ids if i not in (256, 257, 258)]
        out = []
        run = bytearray()
        for pos, t in enumerate(ids):
            if t in (256, 257, 258):
                out.append(run.decode("utf-8", "replace"))
                out.append({256: "<bos>", 257: "<eos>", 258: "<pad>"}[t])
                run.clear()
            elif 0 <= t < 256:
                run.append(t)
            else:
                raise ValueError(f"Unknown id {t} at position {pos}")
        out.append(run.decode("utf-8", "replace"))
        return "".join(out)
