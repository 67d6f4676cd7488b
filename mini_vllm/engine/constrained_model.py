"""A model that keeps to the grammars of its requests, whatever model is inside.

Before each call of the inner model, every slot with a grammar gets the mask of the ids that may
follow. The returned ids are checked before the engine sees them. So a burst of several ids, as in
speculative decoding, is checked against the grammar id by id.
"""

from collections.abc import Callable, Sequence

from mini_vllm.engine.engine_errors import StructuredOutputError
from mini_vllm.engine.model import Burst, Model, News, SlotView

_Key = tuple[str, int]


class ConstrainedModel:
    """A wrapper that enforces the grammars of a model's slots.

    If the model returns an id outside the mask, the slot ends with a `StructuredOutputError` after
    the ids that fit. A scripted model, which has no probabilities, must therefore have a script
    that the grammar allows.

    Args:
        model: chooses among the ids of `SlotView.mask`, if it samples.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        # The slots with a grammar, and the error that has ended each of them.
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
        """Drop all state of a slot."""
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
            # The engine reports this fault.
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
        """Return the part of a burst that the grammar allows, or the error."""
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
        # No id fits after an EOS, and dropping those ids loses no text.
        if not fitting or news.token_ids[fitting - 1] not in grammar.eos_token_ids:
            error = self._running[slot.key] = StructuredOutputError(
                f"the model's id {news.token_ids[fitting]} is outside the grammar of the request, "
                f"after {len(slot.output_token_ids) + fitting} ids that fit it"
            )
        if not fitting:
            return error
        return Burst(news.token_ids[:fitting], news.logprobs[:fitting])
