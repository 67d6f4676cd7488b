"""Special tokens as text, except at chosen places; the `tokenizers` library offers all or none.

In the library special tokens count wherever a text has them or, with its own
`encode_special_tokens`, nowhere. For special tokens at some places this file adds a token, the cut,
whose text is random, so that a client cannot guess it. The cut replaces the special tokens while
the library encodes, so that normalizer, splits and merges see the same borders as with the special
tokens themselves. A model that may produce special tokens by itself, such as a unigram model with a
piece `</s>`, is copied without their texts.

But: the library looks for a cut before it normalizes the text. It looks for special tokens whose
`normalized` is true only afterwards.
"""

import json
import secrets
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import AddedToken, models

from mini_vllm.tokenizer.encoding import SpecialFinder, SpecialPlace

Span = tuple[int, int]


class PlainEncoder:
    """A tokenizer for which special tokens are text, except at the places that the caller names.

    It shares model and rules with the original tokenizer, so that it is made in milliseconds.

    Args:
        tokenizer: the original tokenizer.
        special_tokens: tokens that are special, even if the vocabulary does not say so.

    Attributes:
        finder: finds the special tokens in a text.
        as_written: whether the library also finds special tokens only as they are written. If not,
            it finds some of them in the normalized text, in which `<S>` may become `<s>`.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, special_tokens: Iterable[str]) -> None:
        known = tokenizer.get_added_tokens_decoder()
        named = frozenset(special_tokens)
        special = [t for t in known.values() if t.special or t.content in named]
        self._ids = {token.content: token_id for token_id, token in known.items()}
        self.finder = SpecialFinder(
            [t.content for t in special],
            lstrip=[t.content for t in special if t.lstrip],
            rstrip=[t.content for t in special if t.rstrip],
            single_word=[t.content for t in special if t.single_word],
        )
        self.as_written = tokenizer.normalizer is None or not any(t.normalized for t in special)
        self._cut = f"<|cut {secrets.token_hex(8)}|>"
        model, hidden = _without(tokenizer.model, [t.content for t in special])
        self._inner = _sharing(tokenizer, model)
        # In the order of their ids the library gives the tokens the same ids again. It does not
        # look for special tokens, so hidden tokens need no ids.
        added = [
            _copy(token, special=named)
            for _, token in sorted(known.items())
            if token.content not in hidden
        ]
        self._inner.add_tokens(added)
        self._inner.add_tokens([AddedToken(self._cut, special=False, normalized=False)])
        self._inner.encode_special_tokens = True

    def encode(
        self, text: str, places: Sequence[SpecialPlace], *, add_special_tokens: bool
    ) -> tuple[list[int], list[str], list[Span], list[int]]:
        """Return ids, tokens, offsets and mask of a text with special tokens at these places.

        Raises:
            BaseException: any exception that the library raises.
        """
        encoding = self._inner.encode(
            self._with_cuts(text, places), add_special_tokens=add_special_tokens
        )
        columns = encoding.ids, encoding.tokens, encoding.offsets, encoding.special_tokens_mask
        if places:
            self._put_back(places, *columns[:3])
        return columns

    def _with_cuts(self, text: str, places: Sequence[SpecialPlace]) -> str:
        parts: list[str] = []
        done = 0
        for start, end, _ in places:
            parts += text[done:start], self._cut
            done = end
        return "".join([*parts, text[done:]])

    def _put_back(
        self, places: Sequence[SpecialPlace], ids: list[int], tokens: list[str], spans: list[Span]
    ) -> None:
        """Replace the cuts with the special tokens, and the offsets with those of the text."""
        left, shift = iter(places), 0
        for number, token in enumerate(tokens):
            start, end = spans[number]
            if token == self._cut:
                place = next(left)
                ids[number], tokens[number] = self._ids[place.token], place.token
                spans[number] = place.start, place.end
                shift = place.end - end
            elif (start, end) != (0, 0):
                spans[number] = start + shift, end + shift


def _sharing(tokenizer: tokenizers.Tokenizer, model: models.Model) -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(model)
    for rule in ("normalizer", "pre_tokenizer", "post_processor"):
        if getattr(tokenizer, rule) is not None:
            setattr(made, rule, getattr(tokenizer, rule))
    return made


def _without(model: models.Model, tokens: Sequence[str]) -> tuple[models.Model, set[str]]:
    """Return a model that does not produce these tokens, and those of them that it now lacks.

    In a copy of the model these pieces get random texts, and keep their ids. A unigram model takes
    any piece of its vocabulary, wherever the text has it; WordPiece and WordLevel take a piece that
    is a whole word. A model with merges is not copied: nothing is merged into a special token.
    """
    hidden = set[str]()
    if not isinstance(model, models.Unigram | models.WordPiece | models.WordLevel):
        return model, hidden
    state = json.loads(model.__getstate__())
    # The unknown token is in the place of text anyway, and its model looks it up by its name.
    names = {*tokens} - {state.get("unk_token")}

    def text_of(piece: str) -> str:
        if piece not in names:
            return piece
        hidden.add(piece)
        return secrets.token_hex(16)

    vocab = state["vocab"]
    if isinstance(vocab, dict):
        state["vocab"] = {text_of(piece): token_id for piece, token_id in vocab.items()}
    else:
        state["vocab"] = [(text_of(piece), score) for piece, score in vocab]
    copy = type(model)()
    copy.__setstate__(json.dumps(state).encode())
    return copy, hidden


def _copy(token: AddedToken, *, special: frozenset[str]) -> AddedToken:
    return AddedToken(
        token.content,
        single_word=token.single_word,
        lstrip=token.lstrip,
        rstrip=token.rstrip,
        normalized=token.normalized,
        special=token.special or token.content in special,
    )
