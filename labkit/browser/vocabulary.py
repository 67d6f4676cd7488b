"""A byte-level `tokenizer.json`, read without the library, which browsers lack; it only decodes."""

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from labkit.errors import LabFolderError
from mini_vllm.models.spelled import Speller
from mini_vllm.tokenizer import ByteTokenizer, Tokenizer
from mini_vllm.tokenizer.backends.huggingface_pieces import byte_level
from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer.pieces import Piece, PieceTable
from mini_vllm.tokenizer.special_tokens import special_tokens_of


class FileTokenizer(VocabularyTokenizer):
    """The vocabulary of a `tokenizer.json`. It does not encode; `ids_of` spells texts with it.

    Args:
        path: the file; its decoder is `ByteLevel`.

    Raises:
        LabFolderError: the file is not of this kind.
    """

    def __init__(self, path: Path) -> None:
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            added = {row["content"]: row["id"] for row in data["added_tokens"]}
            ids: dict[str, int] = {**data["model"]["vocab"], **added}
            is_byte_level = data["decoder"]["type"] == "ByteLevel"
            self._special = frozenset(row["id"] for row in data["added_tokens"] if row["special"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LabFolderError(f"{path} is not a valid tokenizer.json: {error!r}") from None
        if not is_byte_level:
            raise LabFolderError(f"{path}: the strip reads byte-level vocabularies only")
        self._added = frozenset(added.values())
        super().__init__(ids, special_tokens=special_tokens_of(None, ids, added))

    @cached_property
    def pieces(self) -> PieceTable:
        """The bytes of each id."""
        column = [self._piece(token_id) for token_id in range(self.vocab_size)]
        return PieceTable(column, column, self._special)

    def _piece(self, token_id: int) -> Piece:
        token = self.id_to_token(token_id)
        if token is None or token_id in self._added:
            return None if token is None else token.encode()
        return byte_level(token)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of a whole id sequence; an unknown id has no text."""
        table = self.pieces.skipping if skip_special_tokens else self.pieces.showing
        return table.text(i for i in ids if 0 <= i < self.vocab_size)


def read_tokenizer(path: Path | None) -> Tokenizer:
    """Return the tokenizer of a file; without a file, ids are bytes.

    Raises:
        LabFolderError: as `FileTokenizer` does.
    """
    return ByteTokenizer() if path is None else FileTokenizer(path)


def ids_of(tokenizer: Tokenizer, data: bytes) -> list[int]:
    """Return ids whose bytes are `data`, valid UTF-8 or not: always the longest token that fits."""
    speller, ids = Speller(tokenizer), []
    while data:
        token_id = speller.first(data, more=False)
        assert token_id is not None
        ids.append(token_id)
        data = data[len(speller.piece(token_id)) :]
    return ids
