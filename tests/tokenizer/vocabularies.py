"""Small Hugging Face tokenizers of every decoder kind, made on the spot."""

import functools

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from mini_vllm.tokenizer import HuggingFaceTokenizer
from mini_vllm.tokenizer.backends.huggingface_pieces import BYTE_OF

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


def _of_words(words, decoder, special=SPECIAL, added=()):
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(["<unk>", *words]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_tokens(list(added))
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in special])
    return tokenizer


_CHAR_OF = {byte: char for char, byte in BYTE_OF.items()}


def spelling(token):
    """A token as byte-level vocabularies spell it, if it is bytes."""
    return "".join(_CHAR_OF[byte] for byte in token) if isinstance(token, bytes) else token


def of_tokens(tokens, decoder, *, special, added=(), **options):
    """A tokenizer of some tokens (ids among them are skipped), and a function from them to ids."""
    words = [spelling(t) for t in tokens if not isinstance(t, int) and t not in special]
    inner = _of_words(words, decoder, special, added)
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner, **options)

    def id_of(token):
        return token if isinstance(token, int) else tokenizer.token_to_id(spelling(token))

    return tokenizer, id_of


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
