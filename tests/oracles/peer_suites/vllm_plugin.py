"""A pytest plugin with which vLLM's tests of its tool parsers run without vLLM, and are recorded.

The parsers are vLLM's own files. What they import from the rest of vLLM is stubbed: requests and
messages are small pydantic models, tokenizers cut a text at marks and know every mark as a token.

Each text that a test gives to a parser is a line of JSON in the file that PEER_CASES names: `text`,
`tools`, and what the parser made of it, `content` and `calls`. A line with `outcome` says how a
test ended.
"""

import functools
import itertools
import json
import os
import re
import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import transformers
from pydantic import BaseModel, ConfigDict, Field

ROOT = Path(os.environ["PEER_ROOT"])
REAL = (
    "vllm.tool_parsers", "vllm.parser", "vllm.reasoning", "vllm.utils.collection_utils",
    "vllm.utils.import_utils", "vllm.tokenizers.detokenizer_utils",
)  # fmt: skip
STUBBED = {
    "vllm", "torch", "xgrammar", "cohere_melody", "openai_harmony", "ijson", "lxml", "llguidance",
    "prometheus_client",
}  # fmt: skip
numbers = itertools.count()


# What stands in for vLLM.


class Open(BaseModel):
    """A model that takes whatever else it is given."""

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)


class FunctionDefinition(Open):
    name: str = ""
    parameters: Any = None


class ChatCompletionToolsParam(Open):
    type: str = "function"
    function: FunctionDefinition


class FunctionCall(Open):
    id: str | None = None
    name: str = ""
    arguments: str = ""


def make_id(*_, **__):
    return f"chatcmpl-tool-{next(numbers):024d}"


class ToolCall(Open):
    id: str = Field(default_factory=make_id)
    type: str = "function"
    function: FunctionCall


class DeltaFunctionCall(Open):
    name: str | None = None
    arguments: str | None = None


class DeltaToolCall(Open):
    id: str | None = None
    type: str | None = None
    index: int = 0
    function: DeltaFunctionCall | None = None


class DeltaMessage(Open):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[DeltaToolCall] = Field(default_factory=list)


class ExtractedToolCallInformation(Open):
    tools_called: bool
    tool_calls: list[ToolCall]
    content: str | None = None


class Request(Open):
    tools: Any = None
    tool_choice: Any = "auto"
    skip_special_tokens: bool = True
    include_reasoning: bool = True
    parallel_tool_calls: bool | None = True
    chat_template_kwargs: dict[str, Any] | None = None
    structured_outputs: Any = None
    response_format: Any = None
    text: Any = None


class ChatCompletionRequest(Request):
    messages: list[Any] = Field(default_factory=list)
    tools: list[ChatCompletionToolsParam] | None = None


class ResponsesRequest(Request):
    input: Any = None
    tools: list[Any] = Field(default_factory=list)


MARK = re.compile(r"<[|｜]?/?[\w:.\-|｜▁/]+[|｜]?>|</?[\w:]+|\[/?[A-Z_]+\]|\w{1,6}|\s|.", re.DOTALL)


class Vocabulary(dict[str, int]):
    """Every text is a token, from when it is first asked for."""

    def __missing__(self, text):
        self[text] = id = next(numbers)
        texts[id] = text
        return id

    def __contains__(self, text):
        return isinstance(text, str)

    def get(self, text, default=None):
        return self[text] if isinstance(text, str) else default


vocabulary, texts = Vocabulary(), {}


class Tokenizer:
    """Marks and short words are tokens."""

    all_special_tokens: ClassVar[list[str]] = []
    all_special_ids: ClassVar[list[int]] = []
    added_tokens_encoder: ClassVar[dict[str, int]] = {}
    is_fast = True
    vocab_size = 1 << 20

    def get_vocab(self):
        return vocabulary

    def __len__(self):
        return self.vocab_size

    def tokenize(self, text, **_):
        return MARK.findall(text)

    def encode(self, text, **_):
        return [vocabulary[token] for token in self.tokenize(text)]

    def decode(self, ids, **_):
        return "".join(texts.get(id, "") for id in ([ids] if isinstance(ids, int) else ids))

    def convert_tokens_to_ids(self, tokens):
        if isinstance(tokens, str):
            return vocabulary[tokens]
        return [vocabulary[token] for token in tokens]

    def convert_ids_to_tokens(self, ids, **_):
        return texts.get(ids) if isinstance(ids, int) else [texts.get(id, "") for id in ids]

    def add_tokens(self, *_, **__):
        return 0

    def convert_tokens_to_string(self, tokens):
        return "".join(tokens)


def make_tokenizer(*_, **__):
    return Tokenizer()


class Silence:
    """A logger."""

    def __getattr__(self, name):
        return lambda *_, **__: None


MODELS = {
    model.__name__: model
    for model in (
        FunctionDefinition, ChatCompletionToolsParam, FunctionCall, ToolCall, DeltaFunctionCall,
        DeltaToolCall, DeltaMessage, ExtractedToolCallInformation, ChatCompletionRequest,
        ResponsesRequest,
    )
}  # fmt: skip
GIVEN = {
    "vllm.logger": {"init_logger": lambda name: Silence()},
    "vllm.envs": {"VLLM_TOOL_PARSE_REGEX_TIMEOUT_SECONDS": 5},
    "vllm.renderers.chat_utils": {"make_tool_call_id": make_id},
    "vllm.utils": {"random_uuid": make_id},
    "vllm.utils.mistral": {"is_mistral_tokenizer": lambda tokenizer: False},
    "vllm.tokenizers": {"get_tokenizer": make_tokenizer, "TokenizerLike": Tokenizer},
    "vllm.exceptions": {"VLLMValidationError": type("VLLMValidationError", (ValueError,), {})},
}


class Constants(type):
    """Classes whose attributes are their own names, as those of an enumeration are."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class Stub(ModuleType):
    """A module that has whatever is asked of it: a model above, or a class of that name."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        body = {
            "__init__": lambda self, *_, **__: None,
            "__class_getitem__": classmethod(lambda cls, key: cls),
        }
        made = MODELS.get(name) or Constants(name, (), body)
        setattr(self, name, made)
        return made


class Finder:
    """Finds vLLM's own files where they are `REAL`, and stubs for the rest."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in STUBBED:
            return None
        if name.startswith(REAL):
            place = ROOT.joinpath(*name.split("."))
            if place.with_suffix(".py").is_file():
                return spec_from_file_location(name, place.with_suffix(".py"))
            if (place / "__init__.py").is_file():
                inside = [str(place)]
                return spec_from_file_location(
                    name, place / "__init__.py", submodule_search_locations=inside
                )
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        module.__dict__.update(GIVEN.get(module.__name__, {}))


sys.meta_path.insert(0, Finder())
sys.path.insert(0, str(ROOT))
transformers.AutoTokenizer.from_pretrained = staticmethod(make_tokenizer)


@pytest.fixture(scope="module")
def default_tokenizer():
    """As vLLM's conftest has it, whose own imports vLLM whole."""
    return Tokenizer()


# The record.

test = ""
streams = []


def write(line):
    with open(os.environ["PEER_CASES"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")


def record(parser, kind, text, request, content, calls):
    tools = getattr(request, "tools", None) or getattr(parser, "tools", None) or []
    tools = [tool.model_dump() if isinstance(tool, BaseModel) else tool for tool in tools]
    line = {"parser": type(parser).__name__, "kind": kind, "text": text, "tools": tools}
    write({**line, "content": content, "calls": calls, "test": test})


def wrap_whole(inner):
    @functools.wraps(inner)
    def extract_tool_calls(self, model_output, request, *more, **options):
        # A parser may ask its base class.
        outermost = not self.__dict__.get("recording")
        self.recording = True
        try:
            done = inner(self, model_output, request, *more, **options)
        finally:
            self.recording = not outermost
        if outermost:
            calls = [[call.function.name, call.function.arguments] for call in done.tool_calls]
            record(self, "whole", model_output, request, done.content, calls)
        return done

    return extract_tool_calls


def wrap_stream(inner):
    @functools.wraps(inner)
    def extract_tool_calls_streaming(
        self, previous_text, current_text, delta_text, *more, **options
    ):
        outermost = not self.__dict__.get("recording")
        self.recording = True
        try:
            delta = inner(self, previous_text, current_text, delta_text, *more, **options)
        finally:
            self.recording = not outermost
        if outermost:
            request = options.get("request") or (more[-1] if more else None)
            if current_text == delta_text:
                streams.append((self, request, [], []))
            if streams:
                streams[-1][2].append(delta_text)
                streams[-1][3].append(delta)
        return delta

    return extract_tool_calls_streaming


WRAPPERS = {"extract_tool_calls": wrap_whole, "extract_tool_calls_streaming": wrap_stream}


def wrap_all():
    from vllm.tool_parsers.abstract_tool_parser import ToolParser

    waiting = [ToolParser]
    while waiting:
        parser = waiting.pop()
        waiting += parser.__subclasses__()
        for name, wrap in WRAPPERS.items():
            inner = parser.__dict__.get(name)
            if inner is not None and not hasattr(inner, "__wrapped__"):
                setattr(parser, name, wrap(inner))


def joined(deltas):
    """The content and the calls of a stream."""
    content, calls = "", []
    for delta in deltas:
        content += getattr(delta, "content", None) or ""
        for call in getattr(delta, "tool_calls", None) or []:
            calls += [["", ""] for _ in range(call.index + 1 - len(calls))]
            if call.function is not None:
                calls[call.index][0] += call.function.name or ""
                calls[call.index][1] += call.function.arguments or ""
    return content, calls


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    global test
    # Fixtures import parsers, too.
    wrap_all()
    test = item.nodeid
    streams.clear()
    done = yield
    seen = []
    for parser, request, pieces, deltas in streams:
        # A test may go on with another text; what a parser keeps of the first one is in the second.
        if any(parser is other for other in seen):
            continue
        seen.append(parser)
        record(parser, "stream", "".join(pieces), request, *joined(deltas))
    return done


def pytest_runtest_logreport(report):
    if report.when == "call":
        write({"test": report.nodeid, "outcome": report.outcome})
