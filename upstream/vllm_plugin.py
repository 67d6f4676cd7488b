"""The course's tool parsers in vLLM: each format is a tool parser `mini_<format>` there.

    PYTHONPATH=. vllm serve MODEL --enable-auto-tool-choice --tool-call-parser mini_hermes \\
        --tool-parser-plugin upstream/vllm_plugin.py

But: it does not constrain generation. With `tool_choice` "required" or a named function the text is
still parsed, and nothing forces the model to write a call. Splitting reasoning is the work of
`--reasoning-parser`; reasoning that a format marks comes out as content. vLLM does not tell a
parser why a text ended, so one that a length cut off ends like any other.

Written for vLLM 0.33.0. Versions without `finish_streaming` lose the text held at the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

from mini_vllm.text.events import ArgsDelta, CallStart, Event, Malformed, ReasoningDelta, TextDelta
from mini_vllm.text.formats import FORMATS
from mini_vllm.text.stream_parser import StreamParser
from mini_vllm.text.tool_parsers import create_tool_parser


def _first(*names: str) -> Any:
    """Return the first of these modules that can be imported."""
    for name in names[:-1]:
        try:
            return import_module(name)
        except ImportError:
            continue
    return import_module(names[-1])


# Each has moved between versions, so all places are tried, the newest first.
_base = _first(
    "vllm.tool_parsers.abstract_tool_parser",
    "vllm.entrypoints.openai.tool_parsers.abstract_tool_parser",
)
_messages = _first(
    "vllm.entrypoints.generate.base.protocol",
    "vllm.entrypoints.openai.engine.protocol",
    "vllm.entrypoints.openai.protocol",
)
_ids = _first("vllm.renderers.chat_utils", "vllm.entrypoints.chat_utils")

# Their markers are optional, so no harm is done when the detokenizer leaves them out.
_MARKERS_OPTIONAL = frozenset(["llama_json", "pythonic"])


class MiniToolParser(_base.ToolParser):
    """One format of the course as vLLM wants it: one object for each choice of a request.

    Args:
        tokenizer: not needed; passed on to vLLM's base class.
        tools: the tools of the request; if not given, they are read from the request itself.
    """

    format: ClassVar[str]
    # With this, vLLM keeps no text for us and calls `finish_streaming` when the text has ended.
    engine_based_streaming = True
    # If true, vLLM would read a JSON array for "required" from text that it does not keep for us.
    supports_required_and_named = False

    def __init__(self, tokenizer: Any, tools: Sequence[Any] | None = None) -> None:
        super().__init__(tokenizer, tools)
        self._given = tools
        self._stream: StreamParser | None = None

    def adjust_request(self, request: Any) -> Any:
        """Let markers through that are special tokens."""
        request = super().adjust_request(request)
        if request.tools and request.tool_choice != "none" and self.format not in _MARKERS_OPTIONAL:
            request.skip_special_tokens = False
        return request

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        """Return the calls in a whole text, and its other text."""
        parser = self._parser(request)
        text, calls = _merged(parser.feed(model_output) + parser.flush())
        return _messages.ExtractedToolCallInformation(
            tools_called=bool(calls),
            tool_calls=[
                _messages.ToolCall(
                    id=call["id"],
                    function=_messages.FunctionCall(name=call["name"], arguments=call["arguments"]),
                )
                for call in calls.values()
            ],
            content=text or None,
        )

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any:
        """Return what is certain after the next piece of a stream, or None."""
        if self._stream is None:
            self._stream = self._parser(request)
        return self._message(self._stream.feed(delta_text))

    def finish_streaming(self) -> Any:
        """End the stream: return what was held, or None."""
        return self._message(self._stream.flush()) if self._stream else None

    def _parser(self, request: Any) -> StreamParser:
        tools = self._given or getattr(request, "tools", None)
        return create_tool_parser(self.format, tools=_functions(tools or ()))

    def _message(self, events: Iterable[Event]) -> Any:
        text, calls = _merged(events)
        for index, call in calls.items():
            self._remember(index, call)
        # Fields that are left out are not sent; a null would replace what the client has.
        fields: dict[str, Any] = {"content": text} if text else {}
        if calls:
            fields["tool_calls"] = [_call_delta(index, call) for index, call in calls.items()]
        return _messages.DeltaMessage(**fields) if fields else None

    def _remember(self, index: int, call: Mapping[str, str]) -> None:
        """Record what was sent: at the end vLLM sends what it thinks is missing, here nothing."""
        if "name" in call:
            self.prev_tool_call_arr.append({"name": call["name"]})
            self.streamed_args_for_tool.append("")
        self.streamed_args_for_tool[index] += call["arguments"]
        self.prev_tool_call_arr[index]["arguments"] = self.streamed_args_for_tool[index]


def _functions(tools: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Return the functions among the tools, in the form of chat completions."""
    given = (tool if isinstance(tool, Mapping) else tool.model_dump() for tool in tools)
    # A request to /v1/responses has flat functions, and other kinds of tools among them.
    return [
        tool if "function" in tool else {"function": tool}
        for tool in given
        if tool.get("type") == "function"
    ]


def _merged(events: Iterable[Event]) -> tuple[str, dict[int, dict[str, str]]]:
    """Return the text of some events, and what they say about each call."""
    text: list[str] = []
    calls: dict[int, dict[str, str]] = {}
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta):
            text.append(event.text)
        elif isinstance(event, Malformed):
            text.append(event.raw)
        elif isinstance(event, CallStart):
            id = event.id or _ids.make_tool_call_id()
            calls[event.index] = {"id": id, "name": event.name, "arguments": ""}
        elif isinstance(event, ArgsDelta):
            calls.setdefault(event.index, {"arguments": ""})["arguments"] += event.text
    return "".join(text), calls


def _call_delta(index: int, call: Mapping[str, str]) -> Any:
    if "name" not in call:
        function = _messages.DeltaFunctionCall(arguments=call["arguments"])
        return _messages.DeltaToolCall(index=index, function=function)
    function = _messages.DeltaFunctionCall(name=call["name"], arguments=call["arguments"])
    return _messages.DeltaToolCall(index=index, id=call["id"], type="function", function=function)


for _name in FORMATS:
    _base.ToolParserManager.register_module(
        f"mini_{_name}", module=type(f"Mini_{_name}", (MiniToolParser,), {"format": _name})
    )
