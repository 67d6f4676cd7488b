from collections.abc import Sequence

UNFINISHED = "\ufffd"


class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids: Sequence[int]) -> None:
        self._decode = tokenizer.decode
        self._context: list[int] = []
        self._waiting: list[int] = []
        self._sent = 0
        self._prompt = list(prompt_ids)
        if self._prompt:
            text = self._decode(self._prompt)
            if text.endswith(UNFINISHED):
                # the prompt stops inside a character, find the token where it begins
                cut = len(self._prompt)
                while cut > 0 and self._decode(self._prompt[:cut]).endswith(UNFINISHED):
                    cut -= 1
                self._context = self._prompt[:cut]
                self._waiting = self._prompt[cut:]
                self._sent = len(text.rstrip(UNFINISHED)) - len(self._decode(self._context))
            else:
                self._context = self._prompt

    def push(self, token_id: int) -> str:
        if (
            not self._decode([token_id])
            and not self._decode([*self._context, token_id])[len(self._decode(self._context)) :]
        ):
            return ""
        self._waiting.append(token_id)
        before = self._decode(self._context)
        text = self._decode(self._context + self._waiting)[len(before) :]
        certain = text.rstrip(UNFINISHED)
        if len(self._waiting) > 3:
            certain = text
        new = certain[self._sent :]
        if certain == text:
            self._context = self._waiting
            self._waiting = []
            self._sent = 0
        else:
            self._sent = max(self._sent, len(certain))
        return new

    def flush(self) -> str:
        raise NotImplementedError("lab-06 task 4: flush")
