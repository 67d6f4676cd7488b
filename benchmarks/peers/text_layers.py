"""Tool parsers of vLLM and SGLang, run from their own files without torch.

`fetch_vllm.py` puts a few modules of both wheels into `.oracles/`. What they import from the rest
is stubbed here; the messages that they fill are small pydantic models, lighter than the real ones.

But: vLLM's new engine has no table for Hermes. The one here has only Hermes' two tags: the name
stays part of the call's body, so the engine does less work than ours.
"""

import functools
import importlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

from benchmarks.peers.detokenizers import HAS_VLLM, SGLANG, SGLANG_FILES, VLLM, has

HAS_VLLM_PARSERS = HAS_VLLM and has("openai") and has("partial-json-parser") and has("regex")
HAS_SGLANG = (
    all((SGLANG / name).is_file() for name in SGLANG_FILES)
    and has("orjson")
    and has("partial-json-parser")
    and has("pydantic")
)
# A parser takes one piece of text.
Feed = Callable[[str], object]


class _Stub(ModuleType):
    """A module that makes a class for every name that is asked of it."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


class _Finder:
    """Find the modules of one package: its files where they exist, and stubs for the rest."""

    def __init__(self, root: Path, package: str, stubs: Mapping[str, Mapping[str, Any]]) -> None:
        self.root = root
        self.package = package
        self.stubs = stubs

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.split(".")[0] != self.package:
            return None
        file = self.root.joinpath(*name.split(".")).with_suffix(".py")
        if file.is_file():
            return spec_from_file_location(name, file)
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(self.stubs.get(module.__name__, {}))


@contextmanager
def _package(root: Path, package: str, stubs: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Make a package importable for a while, leaving no stub behind."""

    def loaded() -> list[str]:
        return [name for name in sys.modules if name.split(".")[0] == package]

    before = {name: sys.modules.pop(name) for name in loaded()}
    finder = _Finder(root, package, stubs)
    sys.meta_path.insert(0, finder)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.meta_path.remove(finder)  # type: ignore[arg-type]
        for name in loaded():
            del sys.modules[name]
        sys.modules.update(before)


@functools.cache
def _messages() -> dict[str, Any]:
    """Return the messages that vLLM's parsers fill, with the fields that they use."""
    from pydantic import BaseModel, create_model

    function = create_model(
        "DeltaFunctionCall", name=(str | None, None), arguments=(str | None, None)
    )
    call = create_model(
        "DeltaToolCall", id=(str | None, None), type=(str | None, None), index=(int, ...),
        function=(function | None, None),
    )  # fmt: skip
    message = create_model(
        "DeltaMessage", role=(str | None, None), content=(str | None, None),
        reasoning=(str | None, None), tool_calls=(list[call], []),  # type: ignore[valid-type]
    )  # fmt: skip
    others = ("ExtractedToolCallInformation", "FunctionCall", "ToolCall")
    return {
        "DeltaFunctionCall": function,
        "DeltaToolCall": call,
        "DeltaMessage": message,
        **{name: type(name, (BaseModel,), {}) for name in others},
    }


def _vllm_stubs() -> dict[str, dict[str, Any]]:
    return {
        "vllm.logger": {"init_logger": logging.getLogger},
        "vllm.renderers.chat_utils": {"make_tool_call_id": lambda: "chatcmpl-tool-0"},
        "vllm.utils.mistral": {"is_mistral_tokenizer": lambda tokenizer: False},
        "vllm.tool_parsers.tool_strict_level": {"ToolStrictLevel": SimpleNamespace(AUTO=0)},
        "vllm.entrypoints.generate.base.protocol": _messages(),
    }


@functools.cache
def _vllm_engine(json: bool) -> tuple[Any, Any]:
    """Return the class of vLLM's parser engine, and a table of Hermes' tags for it."""
    with _package(VLLM, "vllm", _vllm_stubs()):
        tables = importlib.import_module("vllm.parser.engine.parser_engine_config")
        events = importlib.import_module("vllm.parser.engine.events").EventType
        engine = importlib.import_module("vllm.parser.engine.streaming_parser_engine")
        state, go = tables.ParserState, tables.Transition
        config = tables.ParserEngineConfig(
            name="hermes",
            tool_args_json=json,
            terminals={"TOOL_START": "<tool_call>", "TOOL_END": "</tool_call>"},
            transitions={
                (state.CONTENT, "TOOL_START"): go(state.TOOL_ARGS, (events.TOOL_CALL_START,)),
                (state.TOOL_ARGS, "TOOL_END"): go(state.CONTENT, (events.TOOL_CALL_END,)),
            },
        )
        # Computed here because it imports a module of the package when first used.
        assert config.lexer_shape
    return engine.StreamingParserEngine, config


def vllm_engine(*, json: bool = True) -> Any:
    """Return vLLM's `StreamingParserEngine` for one stream: `feed(text, ids)`, then `finish()`.

    Args:
        json: follow the arguments as JSON, as vLLM's tables of JSON formats do; otherwise they are
            any text up to the end tag.
    """
    engine, config = _vllm_engine(json)
    return engine(config, None)


@functools.cache
def _vllm_hermes() -> Any:
    with _package(VLLM, "vllm", _vllm_stubs()):
        module = importlib.import_module("vllm.tool_parsers.hermes_tool_parser")
    return module.Hermes2ProToolParser


def vllm_hermes() -> Feed:
    """Return vLLM's `Hermes2ProToolParser` for one stream, called as its server calls it.

    It gets all the text so far with each piece; vLLM's server joins it.
    """
    parse = _vllm_hermes()(object()).extract_tool_calls_streaming
    text = ""

    def feed(piece: str) -> object:
        nonlocal text
        before = text
        text += piece
        return parse(before, text, piece, (), (), (), None)

    return feed


@functools.cache
def _sglang_hermes() -> Any:
    with _package(SGLANG, "sglang", {}):
        module = importlib.import_module("sglang.srt.function_call.hermes_detector")
    return module.HermesDetector


def sglang_hermes(*names: str) -> Feed:
    """Return SGLang's `HermesDetector` for one stream; it knows tools of these names."""
    parse = _sglang_hermes()().parse_streaming_increment
    tools = [SimpleNamespace(function=SimpleNamespace(name=name)) for name in names]
    return lambda piece: parse(piece, tools)
