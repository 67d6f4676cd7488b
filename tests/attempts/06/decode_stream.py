class IncrementalDetokenizer:
    """The rule of DecodeStream, with a flush."""

    def __init__(self, tokenizer, prompt_ids):
        self.decode = tokenizer.decode
        self.ids = list(prompt_ids)
        self.prefix = self.decode(self.ids)
        self.prefix_index = len(self.ids)

    def push(self, token_id):
        self.ids.append(token_id)
        text = self.decode(self.ids)
        if len(text) <= len(self.prefix) or text.endswith("\ufffd"):
            return ""
        new = text[len(self.prefix) :]
        new_prefix_index = len(self.ids) - self.prefix_index
        self.ids = self.ids[self.prefix_index :]
        self.prefix = self.decode(self.ids)
        self.prefix_index = new_prefix_index
        return new

    def flush(self):
        text = self.decode(self.ids)[len(self.prefix) :]
        self.prefix = self.decode(self.ids)
        return text
