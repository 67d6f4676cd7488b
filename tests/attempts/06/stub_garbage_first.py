class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.garbage = "\ufffd"

    def push(self, token_id):
        text, self.garbage = self.garbage, ""
        return text

    def flush(self):
        return self.garbage
