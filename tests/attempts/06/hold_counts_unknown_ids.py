from collections.abc import Sequence

UNFINISHED = "\ufffd"
MAX_HELD = 3


class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids: Sequence[int]) -> None:
        self._decode = tokenizer.decode
        self._context: list[int] = []
        self._waiting: list[int] = []
        self._done = 0

    def push(self, token_id: int) -> str:
        # twice, because one space alone is empty at the start
        if not self._waiting and self._decode([token_id, token_id]) == "":
            return ""  # no text
        self._waiting.append(token_id)
        start = len(self._decode(self._context))
        text = self._decode([*self._context, *self._waiting])[start:]
        end = len(text)
        if len(self._waiting) <= MAX_HELD:
            while end > 0 and text[end - 1] == UNFINISHED:
                end -= 1
        out = text[self._done : end]
        if end == len(text):
            self._context = self._waiting
            self._waiting = []
            self._done = 0
        else:
            self._done = end
        return out

    def flush(self) -> str:
        start = len(self._decode(self._context))
        text = self._decode([*self._context, *self._waiting])[start:]
        self._waiting = []
        return text[self._done :]
