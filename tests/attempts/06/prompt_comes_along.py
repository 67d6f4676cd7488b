class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.tokenizer = tokenizer
        self.ids = list(prompt_ids)
        self.out = ""

    def push(self, token_id):
        self.ids.append(token_id)
        text = self.tokenizer.decode(self.ids)
        if text.endswith("\ufffd"):
            return ""
        new = text[len(self.out) :]
        self.out = text
        return new

    def flush(self):
        return self.tokenizer.decode(self.ids)[len(self.out) :]
