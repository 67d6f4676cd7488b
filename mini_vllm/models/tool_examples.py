"""One call as each tool-call format writes it, and a model that plays it, to watch how it is read.

A request asks for a format by its id, which is what a model sees of a request: `example_id`.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from mini_vllm.engine.model import Model, News, SlotView
from mini_vllm.models.scripted import burst_with_logprobs
from mini_vllm.models.spelled import Speller, end_of
from mini_vllm.text.formats import FORMATS
from mini_vllm.tokenizer.protocols import Tokenizer

_FILE = Path(__file__).with_name("embedded_model") / "tool_calls.toml"
_ID = "tool-example:"


def read_tool_examples() -> dict[str, str]:
    """Return the texts by the names of their formats."""
    texts = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {format: text for format, text in texts.items() if format in FORMATS}


def example_id(format: str) -> str:
    """Return a new id for a request that is to play the example of a format."""
    return f"{_ID}{format}:{uuid4().hex}"


class WithToolExamples:
    """A model that plays an example where a request's id asks for one.

    Args:
        model: gets all other requests.
        tokenizer: of its ids.
        texts: by format.

    Raises:
        ValueError: the tokenizer cannot spell every text.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer, texts: Mapping[str, str]) -> None:
        self._model = model
        self._vocab_size = tokenizer.vocab_size
        speller, end = Speller(tokenizer), end_of(tokenizer)
        self._ids = {format: (*speller.ids(text), end) for format, text in texts.items()}

    def prefill(self, slots: Sequence[SlotView]) -> Sequence[News]:
        """Return the first ids of new slots."""
        return self._news(slots, self._model.prefill)

    def decode(self, slots: Sequence[SlotView]) -> Sequence[News]:
        """Return the next ids: of an example one at a time, and then its last for ever."""
        return self._news(slots, self._model.decode)

    def release(self, slot: SlotView) -> None:
        """Forget a slot."""
        if self._example(slot) is None:
            self._model.release(slot)

    def _news(
        self, slots: Sequence[SlotView], ask: Callable[[Sequence[SlotView]], Sequence[News]]
    ) -> Sequence[News]:
        examples = [self._example(slot) for slot in slots]
        others = [slot for slot, ids in zip(slots, examples, strict=True) if ids is None]
        if len(others) == len(slots):
            return ask(slots)
        news = iter(ask(others) if others else ())
        return [
            next(news)
            if ids is None
            else burst_with_logprobs(
                slot, (ids[min(len(slot.output_token_ids), len(ids) - 1)],), self._vocab_size
            )
            for slot, ids in zip(slots, examples, strict=True)
        ]

    def _example(self, slot: SlotView) -> tuple[int, ...] | None:
        if not slot.request_id.startswith(_ID):
            return None
        return self._ids.get(slot.request_id.removeprefix(_ID).rpartition(":")[0])
