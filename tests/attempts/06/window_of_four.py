class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self.tokenizer = tokenizer
        self.window = list(prompt_ids)[-4:]
        self.done = False

    def push(self, token_id):
        if self.done:
            return ""
        before = self.tokenizer.decode(self.window)
        after = self.tokenizer.decode([*self.window, token_id])
        self.window = [*self.window, token_id][-4:]
        if after.endswith("\ufffd"):
            return ""
        return after[len(before.rstrip("\ufffd")) :]

    def flush(self):
        if self.done:
            return ""
        self.done = True
        text = self.tokenizer.decode(self.window)
        return "\ufffd" if text.endswith("\ufffd") else ""
