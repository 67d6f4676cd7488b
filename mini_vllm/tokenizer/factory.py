"""Makes any tokenizer: from a file, a folder, a model's name, or a repository of the hub.

Only `ORGANISATION/MODEL` is looked up at the hub; a bare name never downloads anything.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from mini_vllm.tokenizer.backends.byte import ByteTokenizer
from mini_vllm.tokenizer.backends.known_ranks import TiktokenModel
from mini_vllm.tokenizer.backends.mock import MockTokenizer
from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer.loading.files import create_tokenizer_from_file
from mini_vllm.tokenizer.loading.hub import download_tokenizer_from_hf
from mini_vllm.tokenizer.model_map import ModelTokenizerMap
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer_errors import UnknownModel

if TYPE_CHECKING:
    import tokenizers

    from mini_vllm.tokenizer.metrics import TokenizerMetrics

_SUFFIXES = (".json", ".tiktoken", ".model", ".gguf")


def create_tokenizer(
    name_or_path: "str | Path | tokenizers.Tokenizer",
    *,
    model_map: ModelTokenizerMap | None = None,
    chat_template_path: str | Path | None = None,
    metrics: "TokenizerMetrics | None" = None,
) -> Tokenizer:
    """Return the tokenizer of a file, a folder, a model name, or a hub repository.

    The function tries in this order: `byte`, `mock` (or `test`), an existing path, the model map,
    the hub.

    Args:
        name_or_path: the tokenizer to load. An object of the `tokenizers` library is wrapped.
        model_map: the rules for model names; by default the built-in rules and those of the file
            that MINI_VLLM_MODEL_MAP names.
        chat_template_path: a template file to use instead of the model's own.
        metrics: the instruments that count and time the load, and later each use of the tokenizer
            and of its streams.

    Raises:
        TokenizerFileNotFound: the name looks like a path, and the path does not exist.
        UnsupportedFormat: a file is of a kind that we cannot read.
        CorruptModelFile: a file is damaged.
        UnknownModel: the map does not know a bare name.
        HubError: the hub does not have the repository, or cannot be reached.
    """
    if metrics is not None:
        from mini_vllm.tokenizer.metered import metered_load

        return metered_load(
            lambda: create_tokenizer(
                name_or_path, model_map=model_map, chat_template_path=chat_template_path
            ),
            metrics,
        )
    if not isinstance(name_or_path, str | Path):
        return _wrapped(name_or_path, chat_template_path)
    name = str(name_or_path)
    if name == "byte":
        return ByteTokenizer()
    if name in ("mock", "test"):
        return MockTokenizer()
    path = Path(name).expanduser()
    if path.exists() or isinstance(name_or_path, Path) or _looks_like_a_path(name):
        return create_tokenizer_from_file(path, chat_template_path=chat_template_path)
    names = model_map or ModelTokenizerMap.load()
    target = names.resolve(name)
    if target is not None:
        return _from_target(target, chat_template_path)
    if name.count("/") == 1:
        folder = download_tokenizer_from_hf(name)
        return create_tokenizer_from_file(folder, chat_template_path=chat_template_path)
    raise UnknownModel(name, names.near(name))


async def create_tokenizer_async(
    name_or_path: "str | Path | tokenizers.Tokenizer",
    *,
    model_map: ModelTokenizerMap | None = None,
    chat_template_path: str | Path | None = None,
    metrics: "TokenizerMetrics | None" = None,
) -> Tokenizer:
    """Call `create_tokenizer` in a thread, so that the event loop keeps running."""
    return await asyncio.to_thread(
        create_tokenizer,
        name_or_path,
        model_map=model_map,
        chat_template_path=chat_template_path,
        metrics=metrics,
    )


def _wrapped(
    tokenizer: "tokenizers.Tokenizer", chat_template_path: str | Path | None
) -> VocabularyTokenizer:
    from mini_vllm.tokenizer.backends.huggingface import HuggingFaceTokenizer

    wrapped = HuggingFaceTokenizer.from_tokenizer(tokenizer)
    if chat_template_path is not None:
        wrapped.load_chat_template(Path(), chat_template_path)
    return wrapped


def _from_target(target: str, chat_template_path: str | Path | None) -> Tokenizer:
    """Return the tokenizer of a rule's target: an encoding, a path, or a repository."""
    if target in {model.value for model in TiktokenModel}:
        from mini_vllm.tokenizer.backends.tiktoken import TiktokenTokenizer

        return TiktokenTokenizer.from_model(TiktokenModel(target))
    path = Path(target).expanduser()
    if not path.exists() and target.count("/") == 1 and not _looks_like_a_path(target):
        path = download_tokenizer_from_hf(target)
    return create_tokenizer_from_file(path, chat_template_path=chat_template_path)


def _looks_like_a_path(name: str) -> bool:
    return name.startswith(("/", ".", "~")) or name.endswith(_SUFFIXES) or name.count("/") > 1
