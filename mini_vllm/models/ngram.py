"""A language model of bytes that needs no training: it looks up how the text went on before.

A step finds the longest suffix of the text so far that its corpus, or the text itself, has in
another place, counts which bytes follow there, and samples from the counts. That is the unbounded
n-gram model of "infini-gram" (Liu et al. 2024, arXiv 2401.17377) with the cache of Kuhn and De Mori
(1990, doi 10.1109/34.56193): because it reads its own prompt too, it can copy a name from there. It
is not smoothed: a byte that never followed is never chosen, however short the suffix.

`load_embedded` returns the one that comes with the package, so that a server says something before
any download. Its corpus is conversations of our own writing, in the shape of its chat template. The
template shows one call of each tool that it is given, and the model copies one. What it says of the
world was true enough when it was written.
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
from mini_vllm.models.sampling import sample
from mini_vllm.tokenizer.backends.byte import ByteTokenizer

MOST_OCCURRENCES = 1000
_DATA = Path(__file__).with_name("embedded_model")
_SPACES = frozenset(b" \t\r\n")
Ranking = list[tuple[int, int]]


@dataclass(slots=True)
class _Text:
    """What a slot says so far, one character for each id.

    Attributes:
        symbols: EOS, the prompt and the output.
        taken: how many ids of the output are in `symbols`.
        length: of the longest suffix that occurs elsewhere; an upper bound before the first search.
    """

    symbols: str
    taken: int
    length: int


class NgramModel:
    """A model over the ids of `ByteTokenizer` that continues texts as its corpus does.

    A suffix begins with a whole character and reaches back to the last document end at most, so
    well-formed text goes on as well-formed text. Where not even the last character is known, the
    next one begins as characters of the corpus do.

    A step takes time linear in corpus and text, for two to four substring searches, and looks at
    the first 1,000 occurrences in each; the first step takes a search for each halving of the
    prompt. Of the parameters of sampling it takes them all, as `mini_vllm.models.sampling` says; a
    wish for a byte that never followed (`logit_bias` above 0) is granted if it is strong enough.

    Args:
        corpus: what it knows. It ends with a document end, whether that is written or not.
        tokenizer: turns a `str` corpus into ids, and says which id is EOS.
        max_context: longest suffix in ids, at least 3. A short one makes it mix texts, a long one
            quote them.
        document_end: the text that stands for EOS in the corpus and in prompts. Ids from 256 on
            end documents too.

    Raises:
        ValueError: the corpus is empty, `document_end` is, or `max_context` is below 3.
        EncodeError: the corpus holds a lone surrogate.
    """

    # Before an answer it says nothing; a server that lets it choose to reason hears no answer.
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
                f"max_context is {max_context}; it must be at least 3, because so many bytes of a "
                f"character may come before its last one"
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
        # An EOS in front, so that a suffix can tell that it is the beginning of a document.
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
            self._texts[slot.key] = _Text(symbols, 0, len(symbols))
        return self.decode(slots)

    def decode(self, slots: Sequence[SlotView]) -> list[Burst]:
        """Return the next id of each slot."""
        return [self._next(slot) for slot in slots]

    def prompt_logprobs(
        self, token_ids: Sequence[int], most: int
    ) -> list[Mapping[int, float] | None]:
        """Return for each id of a prompt how likely it was behind those before it; any thread.

        Args:
            token_ids: the prompt.
            most: of how many of the likeliest ids to tell the logprobs, beside the id itself.

        Returns:
            Logprobs by id; None for the first id, and minus infinity for what never followed.
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
        """Forget a slot."""
        self._texts.pop(slot.key, None)

    def _documents(self, token_ids: Sequence[int]) -> str:
        return self._symbols(token_ids).replace(self._document_end, self._eos)

    def _symbols(self, token_ids: Sequence[int]) -> str:
        """Return one character for each id: that of its number, and EOS for all but bytes."""
        return "".join(
            chr(token_id) if 0 <= token_id < 256 else self._eos for token_id in token_ids
        )

    def _next(self, slot: SlotView) -> Burst:
        text = self._texts[slot.key]
        new = self._symbols(slot.output_token_ids[text.taken :])
        text.symbols += new
        text.taken += len(new)
        # A match longer than the last one and the new ids together would have been found before.
        text.length = self._longest(text.symbols, text.length + len(new))
        params = slot.params
        ranking = self._ranking(text, slot)
        token_id = sample(ranking, slot, self._chance_of(slot))
        if params.logprobs is None:
            return Burst((token_id,))
        return Burst((token_id,), (_logprobs(ranking, token_id, params.logprobs),))

    def _ranking(self, text: _Text, slot: SlotView) -> Ranking:
        """Return the ids that may come next with their counts, the likeliest first."""
        if slot.mask is not None:
            return self._masked(text, slot.mask)
        # Where all that follows is banned, shorter suffixes are asked.
        symbols, length, banned = text.symbols, text.length, slot.params.banned_token_ids
        ranking = _ranked(self._continuations(symbols, length, symbols))
        while length and all(token_id in banned for token_id, _ in ranking):
            length //= 2
            ranking = _ranked(self._continuations(symbols, length, symbols))
        return ranking

    def _masked(self, text: _Text, mask: TokenMask) -> Ranking:
        """Return ids of a mask with their counts, the likeliest first.

        Where the mask leaves none of them, shorter suffixes are asked; if none knows an allowed id,
        all of those are equal. What keeps a masked text from running on: the model does not read
        its own output, in which it finds what it was forced to say; it puts no white space behind
        white space; and where it would end but may not, it says a quotation mark.
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
        return [(token_id, 1) for token_id in tight or equal]

    def _chance_of(self, slot: SlotView) -> random.Random:
        if slot.params.seed is None:
            return self._chance
        # Each step has its own, so that neither other slots nor restarts change it.
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
        # At its own place nothing follows the suffix.
        return suffix in self._corpus or symbols.find(suffix, 0, len(symbols) - 1) >= 0

    def _continuations(self, symbols: str, length: int, read: str) -> Counter[str]:
        """Count what follows a suffix of that length, or less if it would cut a character.

        Args:
            symbols: the text with the suffix.
            length: of the suffix.
            read: what is searched for it beside the corpus.
        """
        start = len(symbols) - length
        while start < len(symbols) and _continues_character(symbols[start]):
            start += 1
        suffix = symbols[start:]
        if not suffix:
            return self._beginnings
        return Counter(_followers(self._corpus, suffix) + _followers(read, suffix))


class EmbeddedModel(NamedTuple):
    """A model, and what a server needs beside it.

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
        ChatTemplate((_DATA / "chat_template.jinja").read_text(encoding="utf-8")),
    )


def _continues_character(symbol: str) -> bool:
    """Return whether a byte is one of UTF-8's continuation bytes, which never begin a character."""
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
    """Return ids and counts, the likeliest first; equal counts go by the smaller id."""
    return sorted(
        ((ord(symbol), count) for symbol, count in counts.items()),
        key=lambda item: (-item[1], item[0]),
    )


def _logprobs(ranking: Ranking, chosen: int, most: int) -> dict[int, float]:
    """Return the logprobs, before temperature, of the likeliest ids and of the chosen one."""
    total = sum(count for _, count in ranking)
    return {
        token_id: math.log(count / total)
        for place, (token_id, count) in enumerate(ranking)
        if place < most or token_id == chosen
    }
