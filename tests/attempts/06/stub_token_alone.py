class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.tokenizer = tokenizer

    def push(self, token_id):
        return self.tokenizer.decode([token_id])

    def flush(self):
        return ""
