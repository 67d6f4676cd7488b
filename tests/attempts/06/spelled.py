class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.tokenizer = tokenizer

    def push(self, token_id):
        return self.tokenizer.id_to_token(token_id) or ""

    def flush(self):
        return ""
