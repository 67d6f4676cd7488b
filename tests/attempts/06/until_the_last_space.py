"""Works like transformers' TextStreamer: print up to the last space, the rest may still change."""

from collections.abc import Sequence

UNFINISHED = "\ufffd"


class IncrementalDetokenizer:
    def __init__(self, tokenizer, prompt_ids: Sequence[int]) -> None:
        self.tokenizer = tokenizer
        self.token_cache = []
        self.print_len = 0

    def push(self, token_id: int) -> str:
        self.token_cache.append(token_id)
        text = self.tokenizer.decode(self.token_cache)
        # After the symbol for a new line, we flush the cache.
        if text.endswith("\n"):
            printable_text = text[self.print_len :]
            self.token_cache = []
            self.print_len = 0
        # If the last token is a CJK character, we print the characters.
        elif len(text) > 0 and 0x4E00 <= ord(text[-1]) <= 0x9FFF:
            printable_text = text[self.print_len :]
            self.print_len += len(printable_text)
        # Otherwise, prints until the last space char
        else:
            printable_text = text[self.print_len : text.rfind(" ") + 1]
            self.print_len += len(printable_text)
        return printable_text

    def flush(self) -> str:
        text = self.tokenizer.decode(self.token_cache)
        printable_text = text[self.print_len :]
        self.token_cache = []
        self.print_len = 0
        return printable_text
