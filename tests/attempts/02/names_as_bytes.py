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
        data = bytearray()
        for position, token_id in enumerate(ids):
            if token_id in SPECIAL:
                data += b"" if skip_special_tokens else SPECIAL[token_id].encode()
            elif 0 <= token_id <= 255:
                data.append(token_id)
            else:
                raise ValueError(f"{token_id} at {position}")
        return data.decode("utf-8", "replace")
