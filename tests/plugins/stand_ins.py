"""Stand-ins for the classes of vLLM and SGLang that plug-ins extend, without either engine.

But: they show how the engines call a plug-in, not what the engines do with its answers. `make
oracles` has the engines themselves.
"""

import itertools
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace

numbers = itertools.count()


class Message(SimpleNamespace):
    """A message with the fields that were set."""

    def fields(self):
        return {
            key: [item.fields() for item in value]
            if isinstance(value, list)
            else value.fields()
            if isinstance(value, Message)
            else value
            for key, value in vars(self).items()
        }


class ToolParser:
    def __init__(self, tokenizer, tools=None):
        self.prev_tool_call_arr, self.streamed_args_for_tool = [], []

    def adjust_request(self, request):
        return request

    def get_remaining_unstreamed_args(self):
        if not self.prev_tool_call_arr:
            return ""
        sent = self.streamed_args_for_tool[-1]
        return self.prev_tool_call_arr[-1].get("arguments", "").removeprefix(sent)


class ReasoningParser:
    def __init__(self, tokenizer, *more, **options):
        self.model_tokenizer = tokenizer


class Manager:
    def __init__(self):
        self.parsers = {}

    def register_module(self, name, module):
        self.parsers[name] = module


class StreamingParseResult(SimpleNamespace):
    def __init__(self, normal_text="", calls=(), reasoning_text=""):
        super().__init__(normal_text=normal_text, calls=[*calls], reasoning_text=reasoning_text)


class BaseReasoningFormatDetector:
    def __init__(self, think_start, think_end, *, force_reasoning, **options):
        self._in_reasoning = force_reasoning


def put_engines(monkeypatch):
    """Put both engines into `sys.modules`; return their tables of parsers, by name."""
    tools, reasoning, calls, detectors = Manager(), Manager(), {}, {}
    messages = dict.fromkeys(
        ("DeltaMessage", "DeltaToolCall", "DeltaFunctionCall", "FunctionCall", "ToolCall",
         "ExtractedToolCallInformation"), Message)  # fmt: skip
    modules = {
        "vllm": {},
        "vllm.tool_parsers.abstract_tool_parser": {
            "ToolParser": ToolParser, "ToolParserManager": tools},
        "vllm.reasoning.abs_reasoning_parsers": {
            "ReasoningParser": ReasoningParser, "ReasoningParserManager": reasoning},
        "vllm.entrypoints.generate.base.protocol": messages,
        "vllm.renderers.chat_utils": {"make_tool_call_id": lambda: f"id-{next(numbers)}"},
        "sglang.srt.function_call.base_format_detector": {
            "BaseFormatDetector": type("BaseFormatDetector", (), {})},
        "sglang.srt.function_call.core_types": {
            "StreamingParseResult": StreamingParseResult, "ToolCallItem": SimpleNamespace},
        "sglang.srt.function_call.function_call_parser": {
            "FunctionCallParser": SimpleNamespace(ToolCallParserEnum=calls)},
        "sglang.srt.parser.reasoning_parser": {
            "BaseReasoningFormatDetector": BaseReasoningFormatDetector,
            "StreamingParseResult": StreamingParseResult,
            "ReasoningParser": SimpleNamespace(DetectorMap=detectors)},
    }  # fmt: skip
    for name, values in modules.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    return SimpleNamespace(
        vllm_tools=tools.parsers, vllm_reasoning=reasoning.parsers, sglang_tools=calls,
        sglang_reasoning=detectors)  # fmt: skip


def load(file, monkeypatch):
    """Import a file as vLLM does."""
    spec = spec_from_file_location(file.stem, file)
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, file.stem, module)
    spec.loader.exec_module(module)
    return module


class Characters:
    """A tokenizer of characters."""

    def decode(self, ids):
        return "".join(map(chr, ids))


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]


class Vllm:
    """One answer of vLLM, in the order of `DelegatingParser.parse` and `parse_delta`."""

    def __init__(self, engines, name, *, tools=TOOLS, tool_choice="auto", prompt=""):
        self.tools = engines.vllm_tools[name](Characters(), tools)
        self.request = SimpleNamespace(
            tools=tools, tool_choice=tool_choice, skip_special_tokens=True
        )
        make = engines.vllm_reasoning.get(name)
        self.reasoning = make and make(Characters())
        ids = [*map(ord, prompt)]
        self.ended = self.reasoning is None or self.reasoning.is_reasoning_end(ids)
        if self.reasoning is not None:
            self.reasoning.set_prompt_token_ids(ids)

    def whole(self, text):
        """Return (reasoning, text, [(name, arguments)])."""
        reasoning = None
        if self.reasoning is not None:
            reasoning, text = self.reasoning.extract_reasoning(text, self.request)
        result = self.tools.extract_tool_calls(text or "", self.request)
        calls = [(call.function.name, call.function.arguments) for call in result.tool_calls]
        assert len({call.id for call in result.tool_calls}) == len(calls)
        dropped = self.request.tool_choice == "none" or not self.request.tools
        return reasoning or "", result.content or "", [] if dropped else calls

    def streamed(self, pieces):
        """Return the same, put together as a client does."""
        messages = [message for piece in pieces for message in self._step(piece)]
        if not self.ended:
            messages.append(self.reasoning.finish_streaming())
        messages.append(self.tools.finish_streaming())
        assert self.tools.get_remaining_unstreamed_args() == ""
        return self._merged([message.fields() for message in messages if message is not None])

    def _step(self, piece):
        if self.ended:
            yield self._feed(piece)
            return
        message = self.reasoning.extract_reasoning_streaming("", piece, piece, (), (), ())
        if not self.reasoning.has_engine_confirmed_reasoning_end():
            yield message
            return
        self.ended = True
        parts = [message, self.reasoning.finish_streaming()]
        yield Message(reasoning=getattr(message, "reasoning", ""))
        yield self._feed("".join(getattr(part, "content", "") for part in parts if part))

    def _feed(self, piece):
        message = self.tools.extract_tool_calls_streaming(
            "", piece, piece, (), (), (), self.request
        )
        if message is not None and (self.request.tool_choice == "none" or not self.request.tools):
            vars(message).pop("tool_calls", None)
        return message

    @staticmethod
    def _merged(messages):
        calls = []
        for message in messages:
            assert set(message) <= {"reasoning", "content", "tool_calls"}
            for delta in message.get("tool_calls", ()):
                if delta["index"] == len(calls):
                    assert delta["type"] == "function"
                    assert delta["id"]
                    calls.append([delta["function"]["name"], ""])
                else:
                    assert set(delta) == {"index", "function"}
                    assert set(delta["function"]) == {"arguments"}
                calls[delta["index"]][1] += delta["function"]["arguments"]
        joined = ("".join(m.get(key, "") for m in messages) for key in ("reasoning", "content"))
        return (*joined, [tuple(call) for call in calls])


class Sglang:
    """One answer of SGLang: reasoning first, then the calls."""

    def __init__(self, engines, name, *, prompt=""):
        self.tools = engines.sglang_tools[name]()
        make = engines.sglang_reasoning.get(name)
        force = prompt.rstrip().endswith("<think>")
        self.reasoning = make and make(force_reasoning=force, tool_call_parser_active=True)

    def whole(self, text):
        """Return (reasoning, text, [(name, arguments)])."""
        first = self.reasoning.detect_and_parse(text) if self.reasoning else None
        rest = self.tools.detect_and_parse(first.normal_text if first else text, TOOLS)
        calls = [(item.name, item.parameters) for item in rest.calls]
        return (first.reasoning_text if first else ""), rest.normal_text, calls

    def streamed(self, pieces):
        """Return the same, put together as a client does."""
        results = []
        for piece in pieces:
            text = piece
            if self.reasoning:
                results.append(self.reasoning.parse_streaming_increment(piece))
                text = results[-1].normal_text
                results[-1].normal_text = ""
            if text:
                results.append(self.tools.parse_streaming_increment(text, TOOLS))
        if self.reasoning:
            results.append(self.reasoning.finish())
            results.append(self.tools.parse_streaming_increment(results[-1].normal_text, TOOLS))
            results[-2].normal_text = ""
        results.append(self.tools.finish(TOOLS))
        calls = []
        for item in (item for result in results for item in result.calls):
            if item.tool_index == len(calls):
                calls.append([item.name, ""])
            calls[item.tool_index][1] += item.parameters
        reasoning = "".join(getattr(result, "reasoning_text", "") for result in results)
        text = "".join(result.normal_text for result in results)
        return reasoning, text, [tuple(call) for call in calls]
