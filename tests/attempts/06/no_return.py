class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.tokenizer = tokenizer
        self.ids = list(prompt_ids)
        self.text = tokenizer.decode(self.ids)

    def push(self, token_id):  # noqa: RET503
        self.ids.append(token_id)
        text = self.tokenizer.decode(self.ids)
        if not text.endswith("\ufffd"):
            new = text[len(self.text) :]
            self.text = text
            return new

    def flush(self):
        return ""
