class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.tokenizer = tokenizer
        self.prompt = list(prompt_ids)
        self.ids = []

    def push(self, token_id):
        self.ids.append(token_id)
        return ""

    def flush(self):
        text = self.tokenizer.decode(self.prompt + self.ids)
        return text[len(self.tokenizer.decode(self.prompt)) :]
