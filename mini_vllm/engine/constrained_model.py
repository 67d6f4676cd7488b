"""A model that keeps to the grammars of its requests, whatever model is inside.

Before the model is asked, each slot with a grammar gets the mask of the ids that may come next; the
ids that come back are checked before the engine sees them. So a burst of several ids, as
speculative decoding gives, is held to the grammar id by id.
"""

from collections.abc import Callable, Sequence

from mini_vllm.engine.engine_errors import StructuredOutputError
from mini_vllm.engine.model import Burst, Model, News, SlotView

_Key = tuple[str, int]


class ConstrainedModel:
    """A model behind the grammars of its slots.

    A slot whose model gives an id outside the mask ends with a `StructuredOutputError`, after the
    ids that fit. A model that has a script instead of probabilities therefore has to say what the
    grammar allows.

    Args:
        model: chooses among the ids of `SlotView.mask`, where it chooses.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        # The slots with a grammar, and what has ended each of them.
        self._running: dict[_Key, StructuredOutputError | None] = {}

    def prefill(self, slots: Sequence[SlotView]) -> Sequence[News]:
        """Take in the prompts of new slots; return their first ids."""
        self._running.update((slot.key, None) for slot in slots if slot.grammar is not None)
        return self._ask(self._model.prefill, slots)

    def decode(self, slots: Sequence[SlotView]) -> Sequence[News]:
        """Return the next ids."""
        # Without `_ask`, a call less for each iteration.
        if not self._running:
            return self._model.decode(slots)
        return self._ask(self._model.decode, slots)

    def release(self, slot: SlotView) -> None:
        """Forget a slot."""
        self._running.pop(slot.key, None)
        self._model.release(slot)

    def _ask(
        self, method: Callable[[Sequence[SlotView]], Sequence[News]], slots: Sequence[SlotView]
    ) -> Sequence[News]:
        if not self._running:
            return method(slots)
        for slot in slots:
            self._set_mask(slot)
        news = method(slots)
        if len(news) != len(slots):
            # The engine says what is wrong with that.
            return news
        return [self._checked(slot, slot_news) for slot, slot_news in zip(slots, news, strict=True)]

    def _set_mask(self, slot: SlotView) -> None:
        if slot.grammar is None or self._running[slot.key] is not None:
            return
        try:
            slot.mask = slot.grammar.mask()
        except StructuredOutputError as error:
            self._running[slot.key] = error

    def _checked(self, slot: SlotView, news: News) -> News:
        """Return as much of a burst as the grammar allows, or the error."""
        grammar = slot.grammar
        if grammar is None:
            return news
        error = self._running[slot.key]
        if error is not None or not isinstance(news, Burst):
            return error or news
        try:
            fitting = grammar.accept_tokens(news.token_ids)
        except StructuredOutputError as problem:
            return problem
        if fitting == len(news.token_ids):
            return news
        # Behind an EOS nothing fits, and nothing is missed.
        if not fitting or news.token_ids[fitting - 1] not in grammar.eos_token_ids:
            error = self._running[slot.key] = StructuredOutputError(
                f"the model's id {news.token_ids[fitting]} is outside the grammar of the request, "
                f"after {len(slot.output_token_ids) + fitting} ids that fit it"
            )
        if not fitting:
            return error
        return Burst(news.token_ids[:fitting], news.logprobs[:fitting])
