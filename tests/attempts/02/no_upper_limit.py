SPECIAL = {256: "<bos>", 257: "<eos>", 258: "<pad>"}


class ByteTokenizer:
    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259

    def encode(self, text, *, add_special_tokens=False):
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            where = error.start
            raise ValueError(f"lone surrogate U+{ord(text[where]):04X} at {where}") from error
        return [256, *data] if add_special_tokens else [*data]

    def token_bytes(self, token_id):
        if token_id < 0:
            raise ValueError(f"negative id: {token_id}")
        return bytes([token_id]) if token_id < 256 else b""

    def decode(self, ids, *, skip_special_tokens=True):
        parts = []
        run = []
        for position, token_id in enumerate(ids):
            try:
                run.append(self.token_bytes(token_id))
            except ValueError as error:
                raise ValueError(f"{error} (number {position} of the ids)") from None
            if token_id in SPECIAL and not skip_special_tokens:
                parts.append(b"".join(run).decode("utf-8", "replace"))
                parts.append(SPECIAL[token_id])
                run = []
        parts.append(b"".join(run).decode("utf-8", "replace"))
        return "".join(parts)
