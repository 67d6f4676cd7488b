from collections.abc import Sequence

UNFINISHED = "\ufffd"
WINDOW = 8


class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids: Sequence[int]) -> None:
        self._decode = tokenizer.decode
        self._context: list[int] = []
        self._waiting: list[int] = []
        self._sent = 0
        tail = list(prompt_ids[-WINDOW:])
        # a prompt may end inside a character: at most the last 3 tokens belong to it
        cut = len(tail)
        while cut > 0 and len(tail) - cut < 3 and self._decode(tail[:cut]).endswith(UNFINISHED):
            cut -= 1
        self._context, self._waiting = tail[:cut], tail[cut:]
        if self._waiting:
            self._sent = len(self._new_text().rstrip(UNFINISHED))

    def _new_text(self) -> str:
        before = self._decode(self._context)
        return self._decode(self._context + self._waiting)[len(before) :]

    def push(self, token_id: int) -> str:
        if self._decode([token_id, token_id]) == "":  # (one space alone would be empty)
            return ""
        self._waiting.append(token_id)
        text = self._new_text()
        certain = text.rstrip(UNFINISHED)
        if len(self._waiting) > 3:
            certain = text
        out = certain[self._sent :]
        if certain == text:
            self._context, self._waiting, self._sent = self._waiting, [], 0
        else:
            self._sent = len(certain)
        return out

    def flush(self) -> str:
        out = self._decode(self._waiting)
        self._waiting = []
        return out
