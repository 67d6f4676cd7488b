class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids):
        self._decode = tokenizer.decode
        self._context = []
        self._waiting = []
        self._shown = 0
        last = []
        for token_id in reversed(prompt_ids[-64:]):
            if self._decode([token_id, token_id]):
                last.insert(0, token_id)
            if len(last) == 9:
                break
        start = min(range(4), key=lambda s: self._damage(last, s)) if len(last) == 9 else 0
        for token_id in last[start:]:
            self.push(token_id)

    def _damage(self, ids, start):
        ends = range(len(ids) - 3, len(ids) + 1)
        return min(self._decode(ids[start:end]).count("\ufffd") for end in ends if end > start)

    def push(self, token_id):
        if not self._decode([token_id, token_id]):
            return ""
        self._waiting.append(token_id)
        text = self._text(len(self._waiting))
        certain = text.rstrip("\ufffd")
        out = certain[self._shown :]
        self._shown = max(self._shown, len(certain))
        if text and text == certain:
            self._move(len(self._waiting))
        elif out:
            self._move(len(self._waiting) - 1)
        elif len(self._waiting) == 4:
            best = min((4, 3, 2, 1), key=lambda n: self._text(n).count("\ufffd"))
            out = self._text(best)[self._shown :]
            self._shown += len(out)
            self._move(best)
        return out

    def _text(self, n):
        return self._decode(self._context + self._waiting[:n])[len(self._decode(self._context)) :]

    def _move(self, n):
        if n:
            self._shown = max(0, self._shown - len(self._text(n)))
            self._context = self._waiting[:n]
            self._waiting = self._waiting[n:]

    def flush(self):
        texts = self._text(len(self._waiting)), self._decode(self._waiting)
        text = min(texts, key=len)[self._shown :]
        self._waiting = []
        self.push = lambda token_id: ""
        return text
