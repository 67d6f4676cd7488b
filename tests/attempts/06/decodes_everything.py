class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.tokenizer = tokenizer
        self.ids = list(prompt_ids)
        self.out = tokenizer.decode(self.ids).rstrip("\ufffd")

    def push(self, token_id):
        self.ids.append(token_id)
        text = self.tokenizer.decode(self.ids).rstrip("\ufffd")
        new = text[len(self.out) :]
        self.out += new
        return new

    def flush(self):
        return self.tokenizer.decode(self.ids)[len(self.out) :]
