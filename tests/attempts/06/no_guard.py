class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.tokenizer = tokenizer
        self.last = list(prompt_ids)[-6:]

    def push(self, token_id):
        before = self.tokenizer.decode(self.last)
        after = self.tokenizer.decode([*self.last, token_id])
        self.last = [*self.last, token_id][-6:]
        return after[len(before) :]

    def flush(self):
        return ""
