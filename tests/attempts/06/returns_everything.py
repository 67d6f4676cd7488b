class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.tokenizer = tokenizer
        self.prompt = tokenizer.decode(prompt_ids)
        self.ids = list(prompt_ids)

    def push(self, token_id):
        self.ids.append(token_id)
        return self.tokenizer.decode(self.ids)[len(self.prompt) :]

    def flush(self):
        return ""
