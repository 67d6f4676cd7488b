"""vLLM's two incremental detokenizers, run from vLLM's own files without torch.

`fetch_vllm.py` puts a few modules of the wheel into `.oracles/`; what they import from the rest of
vLLM is stubbed here. vLLM's parsers are in `text_peers.py`.

But: no server runs. The figures are of these two classes only, called as vLLM's engine calls them:
`update`, then `get_next_output_text`.
"""

import functools
import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import tokenizers

ROOT = Path(__file__).resolve().parents[2]
ORACLES = ROOT / ".oracles"
VLLM_VERSION = "0.33.0"
VLLM = ORACLES / f"vllm-{VLLM_VERSION}"
VLLM_FILES = (
    "vllm/tokenizers/detokenizer_utils.py",
    "vllm/tokenizers/hf.py",
    "vllm/v1/engine/detokenizer.py",
    "vllm/parser/engine/events.py",
    "vllm/parser/engine/incremental_lexer.py",
    "vllm/parser/engine/parser_engine_config.py",
    "vllm/parser/engine/streaming_parser_engine.py",
    "vllm/parser/engine/token_id_scanner.py",
    "vllm/tool_parsers/abstract_tool_parser.py",
    "vllm/tool_parsers/hermes_tool_parser.py",
    "vllm/tool_parsers/utils.py",
)
SGLANG_VERSION = "0.5.23"
SGLANG = ORACLES / f"sglang-{SGLANG_VERSION}"
SGLANG_FILES = (
    "sglang/srt/function_call/base_format_detector.py",
    "sglang/srt/function_call/core_types.py",
    "sglang/srt/function_call/hermes_detector.py",
    "sglang/srt/function_call/utils.py",
)
HAS_VLLM = all((VLLM / name).is_file() for name in VLLM_FILES)

# Other modules of vLLM, and the names that the fetched ones import from them.
_STUBS: dict[str, dict[str, Any]] = {
    "vllm": {},
    "vllm.logger": {"init_logger": __import__("logging").getLogger},
    "vllm.tokenizers": {"TokenizerLike": object},
    "vllm.tokenizers.protocol": {"TokenizerLike": object},
    "vllm.transformers_utils": {},
    "vllm.transformers_utils.config": {"get_sentence_transformer_tokenizer_config": None},
    "vllm.utils": {"length_from_prompt_token_ids_or_embeds": lambda ids, embeds: len(ids)},
    "vllm.v1": {},
    "vllm.v1.engine": {"EngineCoreRequest": object},
}


def has(package: str) -> bool:
    """Return whether a package is installed."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


@functools.cache
def _vllm(module: str) -> ModuleType:
    """Return a module of vLLM, leaving no stub behind.

    Raises:
        FileNotFoundError: it was not fetched.
    """
    if not HAS_VLLM:
        raise FileNotFoundError(f"vLLM {VLLM_VERSION} is not in .oracles/: run make oracles")
    quiet_transformers()
    with _stubbed():
        return importlib.import_module(f"vllm.{module}")


def quiet_transformers() -> None:
    """Keep transformers from warning that torch is missing; call this before importing it."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


@contextmanager
def _stubbed() -> Iterator[None]:
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_vllm(name)}
    for name, attributes in _STUBS.items():
        module = ModuleType(name)
        module.__path__ = [str(VLLM.joinpath(*name.split(".")))]
        module.__dict__.update(attributes)
        sys.modules[name] = module
    try:
        yield
    finally:
        for name in [name for name in sys.modules if _is_vllm(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def _is_vllm(name: str) -> bool:
    return name.split(".")[0] == "vllm"


def transformers_tokenizer(inner: tokenizers.Tokenizer, **options: Any) -> Any:
    """Return transformers' wrapper around a `tokenizers.Tokenizer`."""
    quiet_transformers()
    from transformers import TokenizersBackend

    return TokenizersBackend(tokenizer_object=inner, **options)


def vllm_tokenizer(inner: tokenizers.Tokenizer) -> Any:
    """Return transformers' wrapper with vLLM's caches, without which `Slow` is far slower."""
    return _vllm("tokenizers.hf").get_cached_tokenizer(transformers_tokenizer(inner))


def vllm_detokenizer(
    kind: str,
    tokenizer: Any,
    prompt: Sequence[int] = (),
    *,
    skip_special_tokens: bool = True,
    stop: Sequence[str] = (),
) -> Any:
    """Return a new detokenizer of vLLM for one request.

    Args:
        kind: `Fast` or `Slow`.
        tokenizer: from `vllm_tokenizer`.
        prompt: the ids before the output.
        skip_special_tokens: leave special tokens out.
        stop: stop strings.
    """
    params = SimpleNamespace(
        stop=list(stop) or None,
        min_tokens=0,
        include_stop_str_in_output=False,
        skip_special_tokens=skip_special_tokens,
        spaces_between_special_tokens=True,
    )
    request = SimpleNamespace(
        request_id="0", prompt_token_ids=list(prompt), prompt_embeds=None, sampling_params=params
    )
    return getattr(_vllm("v1.engine.detokenizer"), f"{kind}IncrementalDetokenizer")(
        tokenizer, request
    )


def vllm_stop_check() -> Any:
    """Return `check_stop_strings`, vLLM's search for stop strings."""
    return _vllm("v1.engine.detokenizer").check_stop_strings


def vllm_texts(detokenizer: Any, bursts: Iterable[list[int]]) -> list[str]:
    """Drive a detokenizer of vLLM to its end; return the text of each step, then of the end."""
    texts = []
    for burst in bursts:
        detokenizer.update(burst, False)
        texts.append(detokenizer.get_next_output_text(False, True))
    return [*texts, detokenizer.get_next_output_text(True, True)]
