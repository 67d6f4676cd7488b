from collections.abc import Sequence

UNFINISHED = "\ufffd"


class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids: Sequence[int]) -> None:
        self._decode = tokenizer.decode
        self._context: list[int] = list(prompt_ids[-1:])
        self._waiting: list[int] = []
        self._sent = 0  # characters of the waiting tokens that are out

    def push(self, token_id: int) -> str:
        self._waiting.append(token_id)
        before = self._decode(self._context)
        both = self._decode(self._context + self._waiting)
        text = both[len(before) :]
        certain = text.rstrip(UNFINISHED)
        new = certain[self._sent :]
        if certain == text:
            # all of it is out: these tokens are the next context
            self._context = self._waiting
            self._waiting = []
            self._sent = 0
        else:
            self._sent = len(certain)
        return new

    def flush(self) -> str:
        raise NotImplementedError("lab-06 task 4: flush")
