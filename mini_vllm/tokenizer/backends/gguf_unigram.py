"""Unigram models of GGUF files, which take the same segmentation as llama.cpp and Hugging Face.

The `sentencepiece` library adds scores in single precision, so among equally good segmentations it
may take another than these engines, which add in double precision. It still normalizes the text.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models

from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer, Span
from mini_vllm.tokenizer.backends.sentencepiece_model import ModelPiece, PieceType
from mini_vllm.tokenizer.encoding import Encoding, EncodingKind


class UnigramTokenizer(SentencePieceTokenizer):
    """A unigram model whose scores are added in double precision.

    Args:
        pieces: the vocabulary, with exactly one piece of the type UNKNOWN.
        model: the serialised model, with the same vocabulary.
        path: the path of the model, for errors.
        options: those of `SentencePieceTokenizer`.
    """

    def __init__(
        self, pieces: Sequence[ModelPiece], model: bytes, path: str | Path, **options: Any
    ) -> None:
        super().__init__(model, path, **options)
        self._unknown = next(i for i, p in enumerate(pieces) if p.type is PieceType.UNKNOWN)
        in_bytes = [i for i, piece in enumerate(pieces) if piece.type is PieceType.BYTE]
        self._byte_ids = {int(pieces[i].text[3:5], 16): i for i in in_bytes}
        # The library makes the score of an unknown character from the lowest score.
        highest = max((p.score for p in pieces if p.type is PieceType.NORMAL), default=0.0)
        vocabulary = []
        for piece in pieces:
            if piece.type is PieceType.NORMAL:
                vocabulary.append((piece.text, piece.score))
            elif piece.type is PieceType.USER_DEFINED:
                # In llama.cpp these pieces have the score of certainty.
                vocabulary.append((piece.text, 0.0))
            else:
                # A text cannot contain the other pieces, whatever is written in it.
                vocabulary.append((secrets.token_hex(16), highest))
        self._unigram = Tokenizer(models.Unigram(vocabulary, self._unknown, byte_fallback=False))

    def _pieces_of(self, inner: Any, text: str) -> Encoding:
        normal, places = inner.normalize(text, with_offsets=True)
        encoding = self._unigram.encode(normal, add_special_tokens=False)
        ids: list[int] = []
        spans: list[Span] = []
        for token_id, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if token_id != self._unknown or not self._byte_ids:
                ids.append(token_id)
                spans.append((places[start], places[end]))
                continue
            for place in range(start, end):
                data = normal[place].encode()
                ids += [self._byte_ids[byte] for byte in data]
                spans += [(places[place], places[place + 1])] * len(data)
        tokens = tuple(self._tokens[token_id] for token_id in ids)
        mask = (False,) * len(ids)
        return Encoding(tuple(ids), EncodingKind.SP, tokens, tuple(spans), mask)
