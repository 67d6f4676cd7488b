class ByteTokenizer:
    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259

    import codecs

    _dec = codecs.getincrementaldecoder("utf-8")("replace")

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
        names = {256: "<bos>", 257: "<eos>", 258: "<pad>"}
        s = []
        for pos, t in enumerate(ids):
            try:
                b = self.token_bytes(t)
            except ValueError as e:
                raise ValueError(f"{e} at position {pos}") from None
            if t >= 256 and not skip_special_tokens:
                s.append(self._dec.decode(b"", True))
                s.append(names[t])
            else:
                s.append(self._dec.decode(b))
        return "".join(s)
