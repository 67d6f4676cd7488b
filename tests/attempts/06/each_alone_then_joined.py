class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.tokenizer = tokenizer
        self.held = []

    def push(self, token_id):
        self.held.append(token_id)
        text = self.tokenizer.decode(self.held)
        if text.endswith("\ufffd"):
            return ""
        self.held = []
        return text

    def flush(self):
        text = self.tokenizer.decode(self.held)
        self.held = []
        return text
