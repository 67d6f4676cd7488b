"""The tokenizer of a file, by its content, or of a model's folder."""

from collections.abc import Callable
from pathlib import Path

from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer.loading.detect import (
    TokenizerType,
    find_tokenizer_file,
    get_tokenizer_info,
)
from mini_vllm.tokenizer.protocols import Tokenizer


def create_tokenizer_with_chat_template(
    path: str | Path, chat_template_path: str | Path | None = None
) -> Tokenizer:
    """Return the tokenizer of a path with the chat template of another file."""
    return create_tokenizer_from_file(path, chat_template_path=chat_template_path)


def create_tokenizer_from_file(
    path: str | Path, *, chat_template_path: str | Path | None = None
) -> VocabularyTokenizer:
    """Return the tokenizer of a file, by its content, or of a model's folder.

    Raises:
        TokenizerFileNotFound: the file or folder does not exist.
        UnsupportedFormat: the file is of a kind that we cannot read, or the folder has several
            candidates.
        CorruptModelFile: the file, or a file beside it, is damaged.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        path = find_tokenizer_file(path)
    kind = get_tokenizer_info(path)
    tokenizer = _loader(kind, path.name)(path)
    if chat_template_path is not None or tokenizer.chat_template is None:
        tokenizer.load_chat_template(path.parent, chat_template_path)
    # Make and check the table now, so that the first stream does not have to wait for it.
    _ = tokenizer.pieces
    return tokenizer


def _loader(kind: TokenizerType, name: str) -> Callable[[Path], VocabularyTokenizer]:
    """Return the function that reads a kind of file.

    Imports are here, because each backend needs a library of its own. For the older pair of files,
    `name` is `vocab.json`.
    """
    if kind is TokenizerType.TIKTOKEN:
        from mini_vllm.tokenizer.backends.tiktoken import TiktokenTokenizer

        return TiktokenTokenizer.from_file
    if kind is TokenizerType.SENTENCEPIECE:
        from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer

        return SentencePieceTokenizer.from_file
    if kind is TokenizerType.GGUF:
        from mini_vllm.tokenizer.backends.gguf import GGUFTokenizer

        return GGUFTokenizer.from_file
    from mini_vllm.tokenizer.backends.huggingface import HuggingFaceTokenizer

    if name == "vocab.json":
        return lambda path: HuggingFaceTokenizer.from_vocabulary(path, path.with_name("merges.txt"))
    return HuggingFaceTokenizer.from_file
