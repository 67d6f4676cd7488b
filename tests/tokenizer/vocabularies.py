"""Small Hugging Face tokenizers of every decoder kind, made on the spot."""

import functools

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = ["naïve café — 你好 🚀 the end", "Hello world, hello again!", "नमस्ते 世界 🇫🇷 🫨"]
SPECIAL = ["<s>", "</s>", "<|im_end|>"]


@functools.cache
def byte_level():
    """A byte-level BPE, trained on a few texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=alphabet, special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    tokenizer.add_tokens(["<think>", "a b"])
    return tokenizer


def _of_words(words, decoder):
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(["<unk>", *words]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL])
    return tokenizer


_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_MARKED = ["▁", "▁▁", "▁the", "the", "▁a▁b", "é", "▁你好", "🚀", "a", "."]


@functools.cache
def byte_fallback(*, strip):
    """SentencePiece's shape: bytes as a last resort; with `strip` one leading space is dropped."""
    chain = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if strip:
        chain.append(decoders.Strip(" ", 1, 0))
    return _of_words([*_BYTES, *_MARKED], decoders.Sequence(chain))


@functools.cache
def metaspace(scheme):
    """Metaspace with a prepend scheme."""
    return _of_words(_MARKED, decoders.Metaspace(prepend_scheme=scheme))


@functools.cache
def word_piece(*, cleanup):
    """BERT's shape."""
    words = ["un", "##believ", "##able", "do", "not", ".", "'", "s", "n't", "##n't", "你", "a b"]
    return _of_words(words, decoders.WordPiece(cleanup=cleanup))


@functools.cache
def plain():
    """No decoder: tokens are joined with spaces."""
    return _of_words(["a", "b", "é", "你好", " "], None)


@functools.cache
def byte_fallback_metaspace():
    """Byte fallback, then Metaspace."""
    chain = [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")]
    return _of_words([*_BYTES, *_MARKED], decoders.Sequence(chain))


@functools.cache
def ctc():
    """Speech models: repeats are dropped, `|` is a space."""
    return _of_words(["<pad>", "|", "h", "e", "l", "o", "n't", " n't", "你"], decoders.CTC())


@functools.cache
def bpe_suffix():
    """BPE with `</w>` at the end of words."""
    words = ["a", "b</w>", "c</w>d", "é</w>", "</w>", "你好", "e</w></w>f"]
    return _of_words(words, decoders.BPEDecoder(suffix="</w>"))


KINDS = {
    "byte-level": byte_level,
    "llama": functools.partial(byte_fallback, strip=True),
    "gemma": functools.partial(byte_fallback, strip=False),
    "metaspace-always": functools.partial(metaspace, "always"),
    "metaspace-first": functools.partial(metaspace, "first"),
    "metaspace-never": functools.partial(metaspace, "never"),
    "wordpiece-cleanup": functools.partial(word_piece, cleanup=True),
    "wordpiece": functools.partial(word_piece, cleanup=False),
    "byte-fallback-metaspace": byte_fallback_metaspace,
    "ctc": ctc,
    "bpe-suffix": bpe_suffix,
    "none": plain,
}
