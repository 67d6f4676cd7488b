class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        pass

    def push(self, token_id):
        return "a"

    def flush(self):
        return ""
