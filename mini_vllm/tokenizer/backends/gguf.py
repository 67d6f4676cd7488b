"""The tokenizer inside a GGUF file.

The metadata has the vocabulary of a SentencePiece model (`llama`; `t5`, a unigram), of a byte-level
BPE (`gpt2`), of a BPE with spaces as `▁` (`gemma4`) or of WordPiece (`bert`). Other kinds, such as
RWKV, are refused. A `gpt2` vocabulary that names an unknown way to split text is also refused,
because the ids would be wrong.
"""

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from mini_vllm.tokenizer.backends.gguf_file import read_gguf_metadata
from mini_vllm.tokenizer.backends.gguf_kinds import KINDS
from mini_vllm.tokenizer.backends.gguf_vocabulary import GGUFVocabulary
from mini_vllm.tokenizer.backends.huggingface import HuggingFaceTokenizer
from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer.encoding import NONE, AllowedSpecial, Encoding
from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer_errors import ChatTemplateError, UnsupportedFormat


class GGUFTokenizer(VocabularyTokenizer):
    """A GGUF file's vocabulary, with the tokenizer of its kind.

    Make it with `from_file`.

    Args:
        inner: the tokenizer that encodes and decodes.
        vocabulary: the special tokens by their ids.
        chat_template: the file's template, or None.
    """

    def __init__(
        self,
        inner: VocabularyTokenizer,
        vocabulary: GGUFVocabulary,
        chat_template: str | None = None,
    ) -> None:
        super().__init__(
            {token: token_id for token_id, token in enumerate(vocabulary.tokens)},
            special_tokens=vocabulary.special_tokens,
            eos_token_ids=vocabulary.eos_token_ids,
        )
        self.inner = inner
        if chat_template is not None:
            self._take_chat_template(chat_template)

    @classmethod
    def from_file(cls, path: str | Path) -> "GGUFTokenizer":
        """Read the tokenizer of a GGUF file, and nothing else of the file.

        Raises:
            TokenizerFileNotFound: the file does not exist.
            CorruptModelFile: the file's metadata is damaged or contradicts itself.
            UnsupportedFormat: the file has no tokenizer, or a tokenizer of an unknown kind.
        """
        path = Path(path)
        metadata = read_gguf_metadata(path)
        kind = metadata.get("tokenizer.ggml.model")
        if not isinstance(kind, str) or kind not in KINDS:
            what = "no tokenizer" if kind is None else f"a tokenizer of the kind {kind!r:.40}"
            raise UnsupportedFormat(f"{path} has {what}", tuple(KINDS))
        vocabulary = GGUFVocabulary(metadata, path, kind)
        inner = KINDS[kind](vocabulary)
        return cls(inner, vocabulary, vocabulary.text("tokenizer.chat_template"))

    @cached_property
    def pieces(self) -> PieceTable | None:
        """The bytes of each id, or None if the text is not a concatenation of pieces."""
        return self.inner.pieces

    @cached_property
    def splits_at_specials(self) -> frozenset[str] | None:
        """The special tokens that always cut a text in two; None with SentencePiece's rules."""
        if not isinstance(self.inner, HuggingFaceTokenizer):
            return None
        return self.inner.splits_at(self.special_tokens.all())

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the inner tokenizer's encoding of `text`.

        With `add_special_tokens`, BOS and EOS are added as the file says. Allowing all special
        tokens is llama.cpp's `parse_special`.

        Raises:
            EncodeError: the text cannot be encoded.
        """
        return self.inner.encode(
            text, add_special_tokens=add_special_tokens, allowed_special=allowed_special
        )

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of a whole id sequence, the same as a stream's.

        It is llama.cpp's text: an added token is its own text. Hugging Face also runs the `ö` of an
        added token through the byte map.

        Raises:
            UnknownTokenId: an id is not in the vocabulary.
        """
        if self.pieces is None:
            return self.inner.decode(ids, skip_special_tokens=skip_special_tokens)
        table = self.pieces.skipping if skip_special_tokens else self.pieces.showing
        return table.text(self.known(ids))

    def _take_chat_template(self, template: str) -> None:
        try:
            self.chat_template = self.make_chat_template(template)
        except ChatTemplateError as error:
            # The tokenizer is useful without its template, but must not silently use another.
            refusal = f"{{{{ raise_exception({json.dumps(str(error))}) }}}}"
            self.chat_template = self.make_chat_template(refusal)
