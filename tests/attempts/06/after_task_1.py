class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self._decode = tokenizer.decode
        self._context = list(prompt_ids)

    def push(self, token_id):
        if not self._decode([token_id, token_id]):
            return ""
        before = self._decode(self._context)
        text = self._decode([*self._context, token_id])
        self._context = [token_id]
        return text[len(before) :]

    def flush(self):
        raise NotImplementedError("lab-06 task 4: flush")
