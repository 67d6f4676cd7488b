"""Tokenizers in Hugging Face's `tokenizer.json` format, on the `tokenizers` library."""

import codecs
import json
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from mini_vllm.text.whole_json import load_json
from mini_vllm.tokenizer.backends.huggingface_pieces import huggingface_pieces
from mini_vllm.tokenizer.backends.huggingface_specials import PlainEncoder
from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer.encoding import NONE, AllowedSpecial, Encoding, EncodingKind, fixed
from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer.special_tokens import (
    ending_tokens,
    eos_token_ids_of,
    special_tokens_of,
)
from mini_vllm.tokenizer_errors import (
    CorruptModelFile,
    DecodeError,
    EncodeError,
    UnsupportedFormat,
    checked_file,
    is_library_fault,
)

# Rules that depend only on their own piece of text, and add nothing to it.
_SAFE_NORMALIZERS = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Replace"}
_SAFE_PRE_TOKENIZERS = {
    "Split", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits", "BertPreTokenizer",
}  # fmt: skip
# Far beyond any vocabulary; without a limit one damaged id makes a table of billions.
_MOST_IDS = 1 << 22


class HuggingFaceTokenizer(VocabularyTokenizer):
    """A `tokenizers.Tokenizer` with our protocols.

    Make it with `from_file` or `from_tokenizer`.

    Args:
        inner: the library's tokenizer.
        folder: the folder of configuration files that may name special tokens, or None.
        map_added_tokens: run added tokens through the byte map in streams, as Hugging Face's
            `decode` does for byte-level tokenizers (`đem` becomes U+0011 and `em`). By default
            added tokens are their own text.
    """

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        *,
        folder: Path | None = None,
        map_added_tokens: bool = False,
    ) -> None:
        ids = _vocabulary(inner)
        added = inner.get_added_tokens_decoder()
        declared = [token.content for token in added.values() if token.special]
        ends = {ids[end] for end in ending_tokens(token.content for token in added.values())}
        super().__init__(
            ids,
            special_tokens=special_tokens_of(folder, ids, declared),
            eos_token_ids=ends | (eos_token_ids_of(folder) if folder else frozenset()),
        )
        # An added token may have taken the id of another token.
        self._tokens.update((token_id, token.content) for token_id, token in added.items())
        if inner.truncation or inner.padding:
            # A file may ask to cut or pad texts. That is for training; here texts stay whole.
            inner = tokenizers.Tokenizer.from_str(inner.to_str())
            inner.no_truncation()
            inner.no_padding()
        self._inner = inner
        self._map_added_tokens = map_added_tokens

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        chat_template_path: str | Path | None = None,
        map_added_tokens: bool = False,
    ) -> "HuggingFaceTokenizer":
        """Read a `tokenizer.json`, and the configuration files and chat template beside it.

        Raises:
            TokenizerFileNotFound: the file does not exist.
            UnsupportedFormat: the file is far too large, or JSON of another kind.
            CorruptModelFile: the file, or a configuration file, is damaged.
            ChatTemplateError: several files could be the chat template.
        """
        path = checked_file(path)
        tokenizer = cls(_read(path), folder=path.parent, map_added_tokens=map_added_tokens)
        if tokenizer.vocab_size > _MOST_IDS:
            raise CorruptModelFile(path, None, f"a token has the id {tokenizer.vocab_size - 1}")
        tokenizer.load_chat_template(path.parent, chat_template_path)
        return tokenizer

    @classmethod
    def from_vocabulary(cls, vocab: str | Path, merges: str | Path) -> "HuggingFaceTokenizer":
        """Read GPT-2's older pair of files, `vocab.json` and `merges.txt`: a byte-level BPE.

        Raises:
            TokenizerFileNotFound: one of the files is missing.
            CorruptModelFile: one of the files is damaged.
        """
        for path in (vocab, merges):
            checked_file(path)
        try:
            inner = tokenizers.Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
        except Exception as error:
            raise CorruptModelFile(vocab, None, str(error)) from None
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        folder = Path(vocab).parent
        # These files declare no special token; this is GPT-2's own.
        special = special_tokens_of(folder, inner.get_vocab(), ["<|endoftext|>"])
        inner.add_special_tokens([AddedToken(token, special=True) for token in special.all()])
        tokenizer = cls(inner, folder=folder)
        tokenizer.load_chat_template(folder)
        return tokenizer

    @classmethod
    def from_tokenizer(
        cls, inner: tokenizers.Tokenizer, *, map_added_tokens: bool = False
    ) -> "HuggingFaceTokenizer":
        """Wrap a tokenizer object."""
        return cls(inner, map_added_tokens=map_added_tokens)

    @cached_property
    def pieces(self) -> PieceTable | None:
        """The bytes of each id, or None if the text is not a concatenation of pieces."""
        tokens = list(map(self._tokens.get, range(self.vocab_size)))
        for token_id, token in self._inner.get_added_tokens_decoder().items():
            if token.normalized:
                # In a text the library spells such a token as it has normalised it.
                tokens[token_id] = self._inner.id_to_token(token_id)
        return huggingface_pieces(self._inner, tokens, map_added_tokens=self._map_added_tokens)

    @cached_property
    def splits_at_specials(self) -> frozenset[str] | None:
        """The special tokens that always cut a text in two, as `CachedTokenizer` needs for L1."""
        return self.splits_at(self.special_tokens.all())

    def splits_at(self, special_tokens: Iterable[str]) -> frozenset[str] | None:
        """Return the tokens among these that always cut a text in two; None if that is unsure."""
        return huggingface_splits_at_specials(self._inner, special_tokens)

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the encoding of `text`.

        With `allowed_special="all"` it is the library's encoding, except that special tokens count
        only as they are written. By default it is the library's encoding with
        `encode_special_tokens`: `<|im_end|>` in a text is text. Added tokens that are not special,
        such as `<think>` in Qwen3's vocabulary, count in both cases.

        Raises:
            EncodeError: `text` contains a lone surrogate, or the library failed.
        """
        allowed = fixed(allowed_special)
        try:
            if allowed == "all" and self._plain.as_written:
                encoding = self._inner.encode(text, add_special_tokens=add_special_tokens)
                columns = (
                    encoding.ids,
                    encoding.tokens,
                    encoding.offsets,
                    encoding.special_tokens_mask,
                )
            else:
                columns = self._plain.encode(
                    text,
                    self._plain.finder.places(text, allowed),
                    add_special_tokens=add_special_tokens,
                )
        except BaseException as error:
            if not is_library_fault(error):
                raise
            raise EncodeError(f"{text!r:.60} cannot be encoded: {error}") from None
        ids, tokens, offsets, mask = columns
        return Encoding(
            tuple(ids), EncodingKind.HF, tuple(tokens), tuple(offsets), tuple(map(bool, mask))
        )

    @cached_property
    def _plain(self) -> PlainEncoder:
        return PlainEncoder(self._inner, self.special_tokens.all())

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the library's own decoding of a whole sequence.

        Raises:
            UnknownTokenId: an id is not in the vocabulary.
            DecodeError: the library failed, as some of its decoders do on an empty token.
        """
        ids = self.known(ids)
        try:
            return self._inner.decode(ids, skip_special_tokens=skip_special_tokens)
        except BaseException as error:
            if not is_library_fault(error):
                raise
            raise DecodeError(f"{ids[:8]} cannot be decoded: {error}") from None


@lru_cache(maxsize=8)
def wrapped(tokenizer: tokenizers.Tokenizer) -> HuggingFaceTokenizer:
    """Return a tokenizer object with our protocols: the same result for the same object."""
    return HuggingFaceTokenizer.from_tokenizer(tokenizer)


def _vocabulary(inner: tokenizers.Tokenizer) -> dict[str, int]:
    """Return the id of each token, in the order of ids if none is missing."""
    size = inner.get_vocab_size(with_added_tokens=True)
    tokens = [token for token in map(inner.id_to_token, range(size)) if token is not None]
    if len(tokens) < size:
        return inner.get_vocab(with_added_tokens=True)
    for token_id, token in inner.get_added_tokens_decoder().items():
        # The library names it in its normalised form, such as `▁<|im_end|>`, if it has one.
        tokens[token_id] = token.content
    # From ids in order, later tables are made in half the time.
    return dict(zip(tokens, range(size), strict=True))


def _read(path: Path) -> tokenizers.Tokenizer:
    with path.open("rb") as file:
        marked = file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8
    try:
        if marked:
            return tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8-sig"))
        # A third faster than passing the text.
        return tokenizers.Tokenizer.from_file(str(path))
    except BaseException as error:
        if not is_library_fault(error):
            raise
        fault, place = str(error), None
    try:
        _refuse_other_json(path, path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        fault, place = "not UTF-8", error.start
    raise CorruptModelFile(path, place, fault)


def _refuse_other_json(path: Path, text: str) -> None:
    try:
        content = load_json(text)
    except ValueError:
        return
    if not isinstance(content, dict) or "model" in content:
        return
    if "vocab" in content and "config" in content:
        raise UnsupportedFormat(
            f"{path} is Mistral's Tekken, which is not read; give the tokenizer.json of the model"
        )
    if path.name != "tokenizer.json":
        raise UnsupportedFormat(
            f"{path} is JSON without a tokenizer, such as a configuration; give the folder "
            f"{path.parent} or the tokenizer.json in it"
        )


def huggingface_splits_at_specials(
    tokenizer: tokenizers.Tokenizer, special_tokens: Iterable[str]
) -> frozenset[str] | None:
    """Return the special tokens at which a tokenizer encodes a text piece by piece.

    The encoding of a prompt consists of the encodings of the segments between these tokens, which
    `CachedTokenizer` may keep. In doubt return None: an unknown rule counts as unsafe.

    Args:
        tokenizer: the tokenizer.
        special_tokens: texts at which the cache could cut: `SpecialTokens.all()`. Ordinary words of
            the vocabulary and normalised tokens among these texts never cut.
    """
    content = json.loads(tokenizer.to_str())
    first = {token["content"] for token in content["added_tokens"] if not token["normalized"]}
    cuts = first.intersection(special_tokens)
    safe = (
        not tokenizer.encode_special_tokens
        and not (content["truncation"] or content["padding"] or content["model"].get("dropout"))
        and not any(t["lstrip"] or t["rstrip"] or t["single_word"] for t in content["added_tokens"])
        and not any(_takes_start(other, token) for other in first - cuts for token in cuts)
        and all(rule["type"] in _SAFE_NORMALIZERS for rule in _flat(content["normalizer"]))
        and all(map(_safe_pre_tokenizer, _flat(content["pre_tokenizer"])))
        and all(map(_safe_post_processor, _flat(content["post_processor"])))
    )
    return frozenset(cuts) if safe else None


def _flat(rule: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Return the members of nested sequences of rules; a single rule is a sequence of one."""
    if rule is None:
        return []
    if rule["type"] != "Sequence":
        return [rule]
    members = next(value for value in rule.values() if isinstance(value, list))
    return [flat for member in members for flat in _flat(member)]


def _takes_start(other: str, token: str) -> bool:
    """Return whether an occurrence of `other` may contain the start of one of `token`."""
    return token in other or any(other.endswith(token[:size]) for size in range(1, len(token)))


def _safe_pre_tokenizer(rule: Mapping[str, Any]) -> bool:
    if rule["type"] == "ByteLevel":
        return not rule["add_prefix_space"]
    if rule["type"] == "Metaspace":
        return bool(rule["prepend_scheme"] == "never")
    return rule["type"] in _SAFE_PRE_TOKENIZERS


def _safe_post_processor(rule: Mapping[str, Any]) -> bool:
    if rule["type"] == "ByteLevel":
        # With both flags, the first token of a text has offsets by a rule of its own.
        return not (rule["trim_offsets"] and rule["add_prefix_space"])
    if rule["type"] == "TemplateProcessing":
        sequences = [number for number, item in enumerate(rule["single"]) if "Sequence" in item]
        return sequences == [len(rule["single"]) - 1]
    return False
