"""The tokenizers that encode and decode in the benchmarks: one of each installed backend.

The two byte-level BPEs have the same vocabulary, so they can be compared. SentencePiece has its
own, trained on the same text.
"""

import base64
import functools
import io
from importlib.metadata import version
from pathlib import Path

import tokenizers

from benchmarks.harness import write_whole
from benchmarks.materials import texts
from benchmarks.materials.vocabularies import cached, corpus, trained
from benchmarks.peers.detokenizers import has
from benchmarks.peers.mistral import spelled
from mini_vllm.tokenizer import ByteTokenizer, HuggingFaceTokenizer, Tokenizer

# GPT-2's pattern, as in the ByteLevel pre-tokenizer of `tokenizers`.
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@functools.cache
def backends(*, quick: bool) -> dict[str, Tokenizer]:
    """Return a tokenizer of each backend, by name; with tiny vocabularies if `quick`."""
    size = 1024 if quick else 16_384
    by_backend: dict[str, Tokenizer] = {
        "byte": ByteTokenizer(),
        "HF": HuggingFaceTokenizer.from_tokenizer(trained(size)),
    }
    if has("tiktoken"):
        from mini_vllm.tokenizer.backends.tiktoken import TiktokenTokenizer

        by_backend["tiktoken"] = TiktokenTokenizer.from_file(
            ranks_file(trained(size)), pattern=PATTERN, special_tokens={}
        )
    if has("sentencepiece"):
        from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer

        by_backend["sentencepiece"] = SentencePieceTokenizer.from_file(sentencepiece_model(size))
    return by_backend


@functools.cache
def some_ids(tokenizer: Tokenizer, count: int) -> list[int]:
    """Return `count` ids from text of every kind. All callers share the list."""
    ids = [i for kind in texts.KINDS for i in tokenizer.encode(texts.text(kind, 2000)).ids]
    return (ids * (count // len(ids) + 1))[:count]


def ranks_file(inner: tokenizers.Tokenizer) -> Path:
    """Write the ranks of a byte-level BPE in tiktoken's format; return the path."""
    byte_of = {spelled(bytes([byte])): byte for byte in range(256)}
    special = inner.get_added_tokens_decoder()
    tokens = sorted((i, token) for token, i in inner.get_vocab().items() if i not in special)
    rows = [bytes(map(byte_of.__getitem__, token)) for _, token in tokens]
    lines = [f"{base64.b64encode(row).decode()} {rank}\n" for rank, row in enumerate(rows)]
    path = cached(f"ranks-{len(rows)}.tiktoken")
    write_whole(path, "".join(lines))
    return path


@functools.cache
def sentencepiece_model(size: int) -> Path:
    """Return the path of a model of `size` pieces, trained once, that removes extra spaces."""
    path = cached(f"sentencepiece-{size}-{version('sentencepiece')}.model")
    if not path.is_file():
        import sentencepiece

        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for line in corpus(size) if line),
            model_writer=model,
            vocab_size=size,
            model_type="bpe",
            byte_fallback=True,
            character_coverage=0.98,
            normalization_rule_name="identity",
            minloglevel=2,
        )
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(model.getvalue())
        unfinished.replace(path)
    return path
