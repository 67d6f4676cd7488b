r"""A model that writes exactly the text in its request, to watch how any text is read.

The text is encoded in the request's id, because a model sees no other free field: see `say_id`.
"""

import re
from collections.abc import Callable, Sequence
from uuid import uuid4

from mini_vllm.engine.model import Model, News, SlotView
from mini_vllm.models.scripted import burst_with_logprobs
from mini_vllm.models.spelled import Speller, end_of
from mini_vllm.tokenizer.protocols import Tokenizer

_ID = "say:"
_BYTE = re.compile(r"\\x([0-9a-fA-F]{2})")


def say_id(text: str) -> str:
    r"""Return a new id for a request whose answer is the text.

    Args:
        text: `\x` and two hexadecimal digits are a byte, so that the answer can be invalid UTF-8:
            `\xf0\x9f` is half an emoji. JSON has no such escape. All other text is used unchanged.
    """
    said = b"".join(
        bytes.fromhex(part) if odd else part.encode(errors="replace")
        for part, odd in zip(_BYTE.split(text), [False, True] * len(text), strict=False)
    )
    return f"{_ID}{said.hex()}:{uuid4().hex}"


class Sayer:
    """A model that writes the text in a request's id, if the id has one.

    Args:
        model: gets all other requests.
        tokenizer: of the model's ids.

    Raises:
        ValueError: the tokenizer cannot spell every text.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer) -> None:
        self._model = model
        self.prompt_logprobs = getattr(model, "prompt_logprobs", None)
        self.takes_logit_bias = getattr(model, "takes_logit_bias", True)
        self.reasons = getattr(model, "reasons", True)
        self._vocab_size = tokenizer.vocab_size
        self._speller, self._end = Speller(tokenizer), end_of(tokenizer)
        self._said: dict[tuple[str, int], tuple[int, ...]] = {}

    def prefill(self, slots: Sequence[SlotView]) -> Sequence[News]:
        """Return the first ids of new slots."""
        for slot in slots:
            if slot.request_id.startswith(_ID):
                data = bytes.fromhex(slot.request_id.removeprefix(_ID).partition(":")[0])
                self._said[slot.key] = (*self._speller.ids(data), self._end)
        return self._news(slots, self._model.prefill)

    def decode(self, slots: Sequence[SlotView]) -> Sequence[News]:
        """Return the next ids: the ids of a text one at a time, then its last id forever."""
        return self._news(slots, self._model.decode)

    def release(self, slot: SlotView) -> None:
        """Drop all state of a slot."""
        if self._said.pop(slot.key, None) is None:
            self._model.release(slot)

    def _news(
        self, slots: Sequence[SlotView], ask: Callable[[Sequence[SlotView]], Sequence[News]]
    ) -> Sequence[News]:
        others = [slot for slot in slots if slot.key not in self._said]
        if len(others) == len(slots):
            return ask(slots)
        news = iter(ask(others) if others else ())
        return [
            next(news) if ids is None else self._next(slot, ids)
            for slot, ids in ((slot, self._said.get(slot.key)) for slot in slots)
        ]

    def _next(self, slot: SlotView, ids: tuple[int, ...]) -> News:
        token_id = ids[min(len(slot.output_token_ids), len(ids) - 1)]
        return burst_with_logprobs(slot, (token_id,), self._vocab_size)
