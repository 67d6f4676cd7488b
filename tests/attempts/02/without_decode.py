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
        if token_id in SPECIAL:
            return b""
        if token_id < 0 or token_id > 258:
            raise ValueError(f"there is no id {token_id}")
        return bytes([token_id])

    def decode(self, ids, *, skip_special_tokens=True):
        raise NotImplementedError("lab-02 task 3: decode")
