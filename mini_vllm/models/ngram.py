"""A language model of bytes that needs no training: it looks up how the text continued before.

A step finds the longest suffix of the text so far that its corpus, or the text itself, has in
another place, counts which bytes follow there, and samples from the counts. That is the unbounded
n-gram model of "infini-gram" (Liu et al. 2024, arXiv 2401.17377) with the cache of Kuhn and De Mori
(1990, doi 10.1109/34.56193): because it also reads its own prompt, it can copy a name from there.
It is not smoothed: a byte that never followed the suffix is never chosen, however short the suffix.

`load_embedded` returns the model that is part of the package, so that a server can answer before
any download. Its corpus is conversations that we wrote, in the form of its chat template. The
template shows one call of each tool in the request, and the model copies a call from there. Its
statements about the world were roughly true when they were written.
"""

import math
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mini_vllm.chat_template.template import ChatTemplate
from mini_vllm.engine.model import Burst, SlotView
from mini_vllm.engine.structured_output import TokenMask
from mini_vllm.models.json_choice import JsonChoice, pick
from mini_vllm.models.sampling import sample
from mini_vllm.tokenizer.backends.byte import ByteTokenizer

MOST_OCCURRENCES = 1000
_DATA = Path(__file__).with_name("embedded_model")
_SPACES = frozenset(b" \t\r\n")
Ranking = list[tuple[int, int]]


@dataclass(slots=True)
class _Text:
    """The text of a slot so far, one character for each id.

    Attributes:
        symbols: EOS, the prompt and the output.
        taken: how many ids of the output are in `symbols`.
        length: length of the longest suffix that occurs elsewhere; an upper bound at first.
        choice: the place in the JSON that a grammar demands, or None.
    """

    symbols: str
    taken: int
    length: int
    choice: JsonChoice | None = None


class NgramModel:
    """A model over the ids of `ByteTokenizer` that continues texts as its corpus does.

    A suffix begins with a whole character and reaches back to the last document end at most, so
    well-formed text continues as well-formed text. If even the last character occurs nowhere else,
    the next byte begins a character as in the corpus.

    A step takes time linear in corpus and text, for two to four substring searches, and uses the
    first 1,000 occurrences in each; the first step takes a search for each halving of the prompt.
    All sampling parameters apply, as `mini_vllm.models.sampling` describes. A byte that never
    followed the suffix can be chosen only if its `logit_bias` is above 0 and large enough.

    Args:
        corpus: the text to learn from. It ends with a document end, whether written or not.
        tokenizer: turns a `str` corpus into ids, and determines which id is EOS.
        max_context: longest suffix in ids, at least 3. With a short suffix the model mixes texts,
            with a long suffix it quotes them.
        document_end: the text that means EOS in the corpus and in prompts. Ids from 256 on also end
            documents.

    Raises:
        ValueError: the corpus or `document_end` is empty, or `max_context` is below 3.
        EncodeError: the corpus holds a lone surrogate.
    """

    # The model writes no reasoning. With a choice to reason, it would never write an answer.
    reasons = False

    def __init__(
        self,
        corpus: bytes | str,
        *,
        tokenizer: ByteTokenizer | None = None,
        max_context: int = 1000,
        document_end: str = "<|end|>\n",
    ) -> None:
        if max_context < 3:
            raise ValueError(
                f"max_context is {max_context}; it must be at least 3, because a character may "
                f"have 3 bytes before its last byte"
            )
        if not document_end:
            raise ValueError("document_end is empty; it must be a text like '<|end|>'")
        tokenizer = tokenizer or ByteTokenizer()
        self._eos = chr(tokenizer.eos_token_id)
        self._document_end = "".join(map(chr, tokenizer.encode(document_end).ids))
        self._max_context = max_context
        ids = tokenizer.encode(corpus).ids if isinstance(corpus, str) else tuple(corpus)
        symbols = self._documents(ids).strip(self._eos)
        if not symbols:
            raise ValueError("the corpus is empty; give it some text to continue")
        # EOS is prepended, so that a suffix shows whether it begins a document.
        self._corpus = self._eos + symbols + self._eos
        self._beginnings = Counter(
            symbol for symbol in self._corpus[1:] if not _continues_character(symbol)
        )
        self._texts: dict[tuple[str, int], _Text] = {}
        self._chance = random.Random()

    def prefill(self, slots: Sequence[SlotView]) -> list[Burst]:
        """Take in the prompts of new slots; return one id for each."""
        for slot in slots:
            symbols = self._eos + self._documents(slot.prompt_token_ids)
            text = self._texts[slot.key] = _Text(symbols, 0, len(symbols))
            if slot.params.structured_outputs is not None:
                prompt = bytes(id for id in slot.prompt_token_ids if 0 <= id < 256)
                text.choice = JsonChoice(
                    slot.params.structured_outputs,
                    prompt.decode(errors="ignore"),
                    ord(self._eos),
                    slot.params.max_tokens,
                )
        return self.decode(slots)

    def decode(self, slots: Sequence[SlotView]) -> list[Burst]:
        """Return the next id of each slot."""
        return [self._next(slot) for slot in slots]

    def prompt_logprobs(
        self, token_ids: Sequence[int], most: int
    ) -> list[Mapping[int, float] | None]:
        """Return how likely each id of a prompt was after the ids before it; any thread.

        Args:
            token_ids: the prompt.
            most: for how many of the likeliest ids to return logprobs, besides the id itself.

        Returns:
            Logprobs by id; None for the first id, and minus infinity for an id that never followed.
        """
        logprobs: list[Mapping[int, float] | None] = [None] if token_ids else []
        # Before the first id there is one symbol, EOS.
        prompt, length = self._symbols(token_ids), 1
        for place in range(1, len(token_ids)):
            symbols = self._eos + prompt[:place].replace(self._document_end, self._eos)
            length = self._longest(symbols, length + 1)
            ranking = _ranked(self._continuations(symbols, length, symbols))
            likely = _logprobs(ranking, ord(prompt[place]), most)
            logprobs.append({token_ids[place]: -math.inf} | likely)
        return logprobs

    def release(self, slot: SlotView) -> None:
        """Drop all state of a slot."""
        self._texts.pop(slot.key, None)

    def _documents(self, token_ids: Sequence[int]) -> str:
        return self._symbols(token_ids).replace(self._document_end, self._eos)

    def _symbols(self, token_ids: Sequence[int]) -> str:
        """Return a character for each id: the code point of a byte, and EOS for any other id."""
        return "".join(
            chr(token_id) if 0 <= token_id < 256 else self._eos for token_id in token_ids
        )

    def _next(self, slot: SlotView) -> Burst:
        text = self._texts[slot.key]
        new = self._symbols(slot.output_token_ids[text.taken :])
        text.symbols += new
        text.taken += len(new)
        if text.choice is not None:
            for symbol in new:
                text.choice.push(ord(symbol))
        # A match longer than the last match and the new ids together would have been found before.
        text.length = self._longest(text.symbols, text.length + len(new))
        params = slot.params
        ranking = self._ranking(text, slot)
        token_id = sample(ranking, slot, self._chance_of(slot))
        if params.logprobs is None:
            return Burst((token_id,))
        # An id that only `logit_bias` made possible is not in the ranking.
        likely = {token_id: -math.inf} | _logprobs(ranking, token_id, params.logprobs)
        return Burst((token_id,), (likely,))

    def _ranking(self, text: _Text, slot: SlotView) -> Ranking:
        """Return the ids that may follow, with their counts, the likeliest first."""
        preferred = None if text.choice is None else text.choice.ranking(slot.mask)
        if preferred is not None:
            return [(token_id, 1 + (not place)) for place, token_id in enumerate(preferred)]
        if slot.mask is not None:
            return self._masked(text, slot.mask)
        # If every following id is banned, shorter suffixes are tried.
        symbols, length, banned = text.symbols, text.length, slot.params.banned_token_ids
        ranking = _ranked(self._continuations(symbols, length, symbols))
        while length and all(token_id in banned for token_id, _ in ranking):
            length //= 2
            ranking = _ranked(self._continuations(symbols, length, symbols))
        return ranking

    def _masked(self, text: _Text, mask: TokenMask) -> Ranking:
        """Return ids of a mask with their counts, the likeliest first.

        If the mask excludes every following id, shorter suffixes are tried; if no suffix leads to
        an allowed id, letters and digits are preferred. Three rules keep a masked text short:

        - The model does not read its own output, which has the text that it was forced to write.
        - It puts no white space after white space.
        - If it would end but may not, it writes a quotation mark.
        """
        symbols, length = text.symbols, text.length
        tight = [token_id for token_id in mask if token_id not in _SPACES]
        equal = tight if tight and symbols[-1].isspace() else [*mask]
        allowed, read = frozenset(map(chr, equal)), symbols[: len(symbols) - text.taken]
        while length:
            counts = self._continuations(symbols, length, read)
            if self._eos not in allowed:
                counts = counts + Counter({'"': counts[self._eos]})
            if not allowed.isdisjoint(counts):
                return _ranked(
                    Counter({symbol: counts[symbol] for symbol in allowed.intersection(counts)})
                )
            length //= 2
        return [(token_id, 1) for token_id in pick(tight or equal, text.taken)]

    def _chance_of(self, slot: SlotView) -> random.Random:
        if slot.params.seed is None:
            return self._chance
        # Each step has its own generator, so that neither other slots nor restarts change it.
        return random.Random(f"{slot.params.seed} {slot.choice_index} {slot.step}")

    def _longest(self, symbols: str, most: int) -> int:
        """Return the length of the longest suffix that occurs elsewhere and was followed there."""
        document = len(symbols) - symbols.rindex(self._eos)
        most = min(most, document, self._max_context)
        if self._occurs(symbols, most):
            return most
        # If a suffix occurs, so do its own suffixes: the length can be found by halving.
        return bisect_left(
            range(1, most), True, key=lambda length: not self._occurs(symbols, length)
        )

    def _occurs(self, symbols: str, length: int) -> bool:
        suffix = symbols[len(symbols) - length :]
        # At the end of the text nothing follows the suffix.
        return suffix in self._corpus or symbols.find(suffix, 0, len(symbols) - 1) >= 0

    def _continuations(self, symbols: str, length: int, read: str) -> Counter[str]:
        """Count the ids after a suffix of that length, or shorter if it would cut a character.

        Args:
            symbols: the text with the suffix.
            length: of the suffix.
            read: the text to search in addition to the corpus.
        """
        start = len(symbols) - length
        while start < len(symbols) and _continues_character(symbols[start]):
            start += 1
        suffix = symbols[start:]
        if not suffix:
            return self._beginnings
        return Counter(_followers(self._corpus, suffix) + _followers(read, suffix))


class EmbeddedModel(NamedTuple):
    """A model with the tokenizer, chat template and tool format that a server needs.

    Attributes:
        model: makes the ids.
        tokenizer: turns them into text.
        chat_template: turns conversations into prompts.
        tool_format: the name of the tool-call format that the model writes.
    """

    model: NgramModel
    tokenizer: ByteTokenizer
    chat_template: ChatTemplate
    tool_format: str = "hermes"


def load_embedded() -> EmbeddedModel:
    """Return the embedded model, a new one each time, in some milliseconds."""
    tokenizer = ByteTokenizer()
    return EmbeddedModel(
        NgramModel((_DATA / "corpus.txt").read_text(encoding="utf-8"), tokenizer=tokenizer),
        tokenizer,
        ChatTemplate((_DATA / "chat_template.jinja").read_text(encoding="utf-8"), trusted=True),
    )


def _continues_character(symbol: str) -> bool:
    """Return whether a byte is a UTF-8 continuation byte, which never begins a character."""
    return "\x80" <= symbol <= "\xbf"


def _followers(symbols: str, suffix: str) -> list[str]:
    followers: list[str] = []
    last = len(symbols) - 1
    place = symbols.find(suffix, 0, last)
    while place >= 0 and len(followers) < MOST_OCCURRENCES:
        followers.append(symbols[place + len(suffix)])
        place = symbols.find(suffix, place + 1, last)
    return followers


def _ranked(counts: Counter[str]) -> Ranking:
    """Return ids and counts, the likeliest first; equal counts are ordered by id."""
    return sorted(
        ((ord(symbol), count) for symbol, count in counts.items()),
        key=lambda item: (-item[1], item[0]),
    )


def _logprobs(ranking: Ranking, chosen: int, most: int) -> dict[int, float]:
    """Return the logprobs, before temperature, of the likeliest ids and of the chosen id."""
    total = sum(count for _, count in ranking)
    return {
        token_id: math.log(count / total)
        for place, (token_id, count) in enumerate(ranking)
        if place < most or token_id == chosen
    }
