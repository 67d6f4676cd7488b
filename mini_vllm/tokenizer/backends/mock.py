"""A tokenizer of a few words, for tests and examples.

Words are joined with spaces, so the text of a token depends on the previous token. The tokenizer
has no table of pieces, which makes it the smallest case for streams by window.
"""

import re
from collections.abc import Iterable

from mini_vllm.tokenizer.encoding import NONE, AllowedSpecial, Encoding, SpecialFinder
from mini_vllm.tokenizer.ids import plain_ids
from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer.protocols import Encoder, SpecialTokens

_WORDS = {
    "Hello": 1, "world": 2, "test": 3, "token": 4, " ": 5, ".": 6, "<eos>": 999, "<bos>": 1000,
}  # fmt: skip
_SPECIAL = ("<bos>", "<eos>")
_FINDER = SpecialFinder(_SPECIAL)
_EXTENDED = {
    "system": 7, "user": 8, "assistant": 9,
    "<|im_start|>": 1001, "<|im_end|>": 1002, "<|eot_id|>": 1003,
}  # fmt: skip


class MockTokenizer(Encoder):
    """Words separated by white space; unknown words and unknown ids are dropped.

    Args:
        extended: add the words and special tokens of chat templates.
    """

    vocab_size = 1004
    special_tokens = SpecialTokens(bos="<bos>", eos="<eos>", unk="<unk>")
    eos_token_ids = frozenset([999])
    pieces: PieceTable | None = None

    def __init__(self, *, extended: bool = False) -> None:
        self._ids = {**_WORDS, **_EXTENDED} if extended else dict(_WORDS)
        self._tokens = {token_id: token for token, token_id in self._ids.items()}

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the ids of the known words of `text`, with BOS in front if requested.

        `<bos>` and `<eos>` are unknown words, unless they are allowed.
        """
        starts = {place.start for place in _FINDER.places(text, allowed_special)}
        ids = [
            self._ids[word[0]]
            for word in re.finditer(r"\S+", text)
            if word[0] in self._ids and (word[0] not in _SPECIAL or word.start() in starts)
        ]
        return Encoding((1000, *ids) if add_special_tokens else tuple(ids))

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the known words joined with a space; `<bos>` and `<eos>` can be left out."""
        skipped = (999, 1000) if skip_special_tokens else ()
        known = (i for i in plain_ids(ids) if i in self._tokens and i not in skipped)
        return " ".join(self._tokens[token_id] for token_id in known)

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a word, or None."""
        return self._ids.get(token)

    def id_to_token(self, token_id: int) -> str | None:
        """Return the word of an id, or None."""
        return self._tokens.get(token_id)
