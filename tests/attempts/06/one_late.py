class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.tokenizer = tokenizer
        self.ids = list(prompt_ids)

    def push(self, token_id):
        before = self.tokenizer.decode(self.ids[:-1])
        text = self.tokenizer.decode(self.ids)
        self.ids.append(token_id)
        return text[len(before) :]

    def flush(self):
        before = self.tokenizer.decode(self.ids[:-1])
        return self.tokenizer.decode(self.ids)[len(before) :]
