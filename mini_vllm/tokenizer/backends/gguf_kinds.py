"""Makes the tokenizer of a GGUF file's vocabulary, by its kind.

Each vocabulary is passed to the library that reads the original format, so the ids are that
library's.
"""

from collections.abc import Callable
from typing import Any

import tokenizers
from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from mini_vllm.tokenizer.backends.gguf_splits import SPLITS
from mini_vllm.tokenizer.backends.gguf_unigram import UnigramTokenizer
from mini_vllm.tokenizer.backends.gguf_vocabulary import GGUFVocabulary
from mini_vllm.tokenizer.backends.huggingface import HuggingFaceTokenizer
from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer
from mini_vllm.tokenizer.backends.sentencepiece_model import ModelPiece, PieceType, write_model
from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer_errors import CorruptModelFile, UnsupportedFormat

_SPACE = "▁"


def _llama(vocabulary: GGUFVocabulary) -> VocabularyTokenizer:
    model = write_model(
        _pieces(vocabulary), add_dummy_prefix=vocabulary.flag("add_space_prefix", default=True)
    )
    options = _options(vocabulary, vocabulary.added_ids(add_bos=True))
    return SentencePieceTokenizer(model, vocabulary.path, **options)


def _t5(vocabulary: GGUFVocabulary) -> VocabularyTokenizer:
    """Return a unigram model."""
    pieces = _pieces(vocabulary)
    model = write_model(
        pieces,
        add_dummy_prefix=vocabulary.flag("add_space_prefix", default=True),
        remove_extra_whitespaces=vocabulary.flag("remove_extra_whitespaces", default=False),
        unigram=True,
        normalization=vocabulary.bytes_of("precompiled_charsmap"),
    )
    options = _options(vocabulary, vocabulary.added_ids(add_eos=True))
    return UnigramTokenizer(pieces, model, vocabulary.path, **options)


def _options(vocabulary: GGUFVocabulary, added: tuple[tuple[int, ...], ...]) -> dict[str, Any]:
    rows = zip(vocabulary.tokens, vocabulary.types, strict=True)
    return {
        "prefix": added[0],
        "suffix": added[1],
        # In llama.cpp text after a user-defined token gets a space of its own, as after others.
        "cutting": [token for token, kind in rows if kind is PieceType.USER_DEFINED],
        **vocabulary.stripping(),
    }


def _pieces(vocabulary: GGUFVocabulary) -> list[ModelPiece]:
    columns = (vocabulary.tokens, vocabulary.scores, vocabulary.types)
    return [ModelPiece(*row) for row in zip(*columns, strict=True)]


def _gpt2(vocabulary: GGUFVocabulary) -> VocabularyTokenizer:
    """Return a byte-level BPE."""
    name = vocabulary.text("tokenizer.ggml.pre") or "default"
    split = SPLITS.get(name)
    if split is None:
        raise UnsupportedFormat(
            f"{vocabulary.path} splits text the way {name!r} (tokenizer.ggml.pre)", tuple(SPLITS)
        )
    inner = _bpe(vocabulary, ignore_merges=split.whole_words)
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in split.patterns]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    inner.decoder = decoders.ByteLevel()
    return _finished(inner, vocabulary, *vocabulary.added_ids(add_bos=split.add_bos))


def _gemma4(vocabulary: GGUFVocabulary) -> VocabularyTokenizer:
    """Return a BPE of characters, in which a space is `▁` and an unknown character its bytes."""
    unknown = vocabulary.special_tokens.unk
    inner = _bpe(vocabulary, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    inner.normalizer = normalizers.Replace(" ", _SPACE)
    chain = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    inner.decoder = decoders.Sequence(chain)
    return _finished(inner, vocabulary, *vocabulary.added_ids(add_bos=True))


def _bpe(vocabulary: GGUFVocabulary, **options: Any) -> tokenizers.Tokenizer:
    ids = {token: token_id for token_id, token in enumerate(vocabulary.tokens)}
    try:
        return tokenizers.Tokenizer(models.BPE(ids, vocabulary.merges, **options))
    except Exception as error:
        # The library raises bare Exception, for example for a merge of unknown tokens.
        raise CorruptModelFile(vocabulary.path, None, f"tokenizer.ggml.merges: {error}") from None


def _bert(vocabulary: GGUFVocabulary) -> VocabularyTokenizer:
    """Return a WordPiece model; the file marks tokens that start a word, the library all others."""
    vocabulary.tokens = [
        token if kind is not PieceType.NORMAL
        else token.removeprefix(_SPACE) if token.startswith(_SPACE)
        else f"##{token}"
        for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True)
    ]  # fmt: skip
    ids = {token: token_id for token_id, token in enumerate(vocabulary.tokens)}
    unknown = vocabulary.special_tokens.unk or "[UNK]"
    inner = tokenizers.Tokenizer(models.WordPiece(ids, unk_token=unknown))
    lowercase = vocabulary.flag("normalizer.lowercase", default=True)
    strips = vocabulary.flag("normalizer.strip_accents", default=lowercase)
    inner.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strips)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    return _finished(inner, vocabulary, *vocabulary.added_ids(add_bos=True, add_sep=True))


def _finished(
    inner: tokenizers.Tokenizer,
    vocabulary: GGUFVocabulary,
    prefix: tuple[int, ...],
    suffix: tuple[int, ...],
) -> VocabularyTokenizer:
    _add_tokens(inner, vocabulary)
    inner.post_processor = _surrounded(prefix, suffix, vocabulary.tokens)
    return HuggingFaceTokenizer.from_tokenizer(inner)


def _add_tokens(inner: tokenizers.Tokenizer, vocabulary: GGUFVocabulary) -> None:
    special, plain = [], []
    strip = vocabulary.stripping()
    for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True):
        if kind in (PieceType.CONTROL, PieceType.UNKNOWN):
            flags = {flag: token in tokens for flag, tokens in strip.items()}
            special.append(AddedToken(token, special=True, normalized=False, **flags))
        elif kind is PieceType.USER_DEFINED:
            plain.append(AddedToken(token, special=False, normalized=False))
    inner.add_special_tokens(special)
    inner.add_tokens(plain)


def _surrounded(prefix: tuple[int, ...], suffix: tuple[int, ...], tokens: list[str]) -> Any:
    # Each token gets a name of ours, because some tokens' text would break the template syntax.
    names = {token_id: f"added{token_id}" for token_id in (*prefix, *suffix)}
    return processors.TemplateProcessing(
        single=[*(names[i] for i in prefix), "$A", *(names[i] for i in suffix)],
        special_tokens=[
            {"id": name, "ids": [token_id], "tokens": [tokens[token_id]]}
            for token_id, name in names.items()
        ],
    )


# By `tokenizer.ggml.model`.
KINDS: dict[str, Callable[[GGUFVocabulary], VocabularyTokenizer]] = {
    "llama": _llama,
    "gpt2": _gpt2,
    "gemma4": _gemma4,
    "bert": _bert,
    "t5": _t5,
}
