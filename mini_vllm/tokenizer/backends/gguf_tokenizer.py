"""The tokenizer inside a GGUF file.

The metadata has the vocabulary of a SentencePiece model (`llama`) or of a byte-level BPE (`gpt2`).
It is handed to the library that reads the original format, so the ids are that library's.

But:
- No other kinds: WordPiece (`bert`), unigram (`t5`) and RWKV are refused.
- A `gpt2` vocabulary must name a way to split text that we know: any other gives wrong ids.
"""

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors

from mini_vllm.tokenizer.backends import split_patterns
from mini_vllm.tokenizer.backends.gguf_file import read_gguf_metadata
from mini_vllm.tokenizer.backends.gguf_vocabulary import GGUFVocabulary
from mini_vllm.tokenizer.backends.huggingface import HuggingFaceTokenizer
from mini_vllm.tokenizer.backends.sentencepiece_model import ModelPiece, PieceType, write_model
from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer.encoding import Encoding
from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer_errors import (
    ChatTemplateError,
    CorruptModelFile,
    UnsupportedFormat,
)


class _Split(NamedTuple):
    """How a kind of vocabulary cuts text: regexes one after the other.

    Attributes:
        patterns: the regexes.
        whole_words: a word that is a token is taken as it is, and BOS is put in front by default.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False


_DIGITS_FIRST = _Split((r"\p{N}", split_patterns.GPT2))
_LLAMA3 = _Split((split_patterns.LLAMA3,), whole_words=True)
_QWEN2 = _Split((split_patterns.QWEN2,))
_O200K = _Split((split_patterns.O200K,))
# By `tokenizer.ggml.pre`. Source: llama.cpp, whose converter writes these names.
_SPLITS = {
    "default": _Split((r"[\p{P}$+<=>^~|]+", split_patterns.GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "gpt-2": _Split((split_patterns.GPT2,)),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "gpt-4o": _O200K,
    "llama4": _O200K,
    "tekken": _Split((split_patterns.TEKKEN,), whole_words=True),
    "smollm": _DIGITS_FIRST,
    "starcoder": _DIGITS_FIRST,
    "refact": _DIGITS_FIRST,
    "command-r": _DIGITS_FIRST,
}


class GGUFTokenizer(VocabularyTokenizer):
    """A GGUF file's vocabulary on top of the tokenizer that knows its kind.

    Make it with `from_file`.

    Args:
        inner: what encodes and decodes.
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
        """Read the tokenizer of a GGUF file; of the rest, nothing.

        Raises:
            TokenizerFileNotFound: there is no such file.
            CorruptModelFile: its metadata is damaged or contradicts itself.
            UnsupportedFormat: it has no tokenizer, or one of another kind.
        """
        path = Path(path)
        metadata = read_gguf_metadata(path)
        kind = metadata.get("tokenizer.ggml.model")
        if kind not in ("llama", "gpt2"):
            what = "no tokenizer" if kind is None else f"a tokenizer of the kind {kind!r}"
            raise UnsupportedFormat(f"{path} has {what}", ("llama", "gpt2"))
        vocabulary = GGUFVocabulary(metadata, path, llama=kind == "llama")
        inner = _llama(vocabulary) if kind == "llama" else _gpt2(vocabulary)
        return cls(inner, vocabulary, vocabulary.text("tokenizer.chat_template"))

    @cached_property
    def pieces(self) -> PieceTable | None:
        """The bytes of each id, or None where the text is no concatenation of pieces."""
        return self.inner.pieces

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Encoding:
        """Return the encoding of `text`, as the inner tokenizer makes it.

        With special tokens, BOS and EOS are added as the file says.

        Raises:
            EncodeError: the text cannot be encoded.
        """
        return self.inner.encode(text, add_special_tokens=add_special_tokens)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of a whole id sequence, as the inner tokenizer makes it.

        Raises:
            UnknownTokenId: an id is not in the vocabulary.
        """
        return self.inner.decode(ids, skip_special_tokens=skip_special_tokens)

    def _take_chat_template(self, template: str) -> None:
        try:
            self.chat_template = self.make_chat_template(template)
        except ChatTemplateError as error:
            # The tokenizer is of use without it, but nobody should get another template unaware.
            refusal = f"{{{{ raise_exception({json.dumps(str(error))}) }}}}"
            self.chat_template = self.make_chat_template(refusal)


def _llama(vocabulary: GGUFVocabulary) -> VocabularyTokenizer:
    from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer

    columns = (vocabulary.tokens, vocabulary.scores, vocabulary.types)
    model = write_model(
        [ModelPiece(*row) for row in zip(*columns, strict=True)],
        add_dummy_prefix=vocabulary.flag("add_space_prefix", default=True),
    )
    prefix, suffix = vocabulary.added_ids(add_bos=True)
    return SentencePieceTokenizer(model, vocabulary.path, prefix=prefix, suffix=suffix)


def _gpt2(vocabulary: GGUFVocabulary) -> VocabularyTokenizer:
    name = vocabulary.text("tokenizer.ggml.pre") or "default"
    split = _SPLITS.get(name)
    if split is None:
        raise UnsupportedFormat(
            f"{vocabulary.path} splits text the way {name!r} (tokenizer.ggml.pre)", tuple(_SPLITS)
        )
    ids = {token: token_id for token_id, token in enumerate(vocabulary.tokens)}
    try:
        inner = tokenizers.Tokenizer(
            models.BPE(ids, vocabulary.merges, ignore_merges=split.whole_words)
        )
    except Exception as error:
        # The library raises bare Exception, for a merge of unknown tokens for example.
        raise CorruptModelFile(vocabulary.path, None, f"tokenizer.ggml.merges: {error}") from None
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in split.patterns]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    inner.decoder = decoders.ByteLevel()
    _add_tokens(inner, vocabulary)
    added = vocabulary.added_ids(add_bos=split.whole_words)
    inner.post_processor = _surrounded(*added, vocabulary.tokens)
    return HuggingFaceTokenizer.from_tokenizer(inner)


def _add_tokens(inner: tokenizers.Tokenizer, vocabulary: GGUFVocabulary) -> None:
    special, plain = [], []
    for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True):
        if kind in (PieceType.CONTROL, PieceType.UNKNOWN):
            special.append(AddedToken(token, special=True, normalized=False))
        elif kind is PieceType.USER_DEFINED:
            plain.append(AddedToken(token, special=False, normalized=False))
    inner.add_special_tokens(special)
    inner.add_tokens(plain)


def _surrounded(prefix: tuple[int, ...], suffix: tuple[int, ...], tokens: list[str]) -> Any:
    # A name of our own for each: the syntax of templates would trip over some tokens' text.
    names = {token_id: f"added{token_id}" for token_id in (*prefix, *suffix)}
    return processors.TemplateProcessing(
        single=[*(names[i] for i in prefix), "$A", *(names[i] for i in suffix)],
        special_tokens=[
            {"id": name, "ids": [token_id], "tokens": [tokens[token_id]]}
            for token_id, name in names.items()
        ],
    )
