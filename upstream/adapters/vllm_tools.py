"""A tool parser of this course in vLLM 0.33.0.

But: versions without `finish_streaming` lose the text held at the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from upstream.adapters.guarded_parser import GuardedParser, ParsedPiece


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


class VllmTools(_base.ToolParser):
    """One tool parser as vLLM wants it: one object for each choice of a request.

    Args:
        tokenizer: not needed; passed on to vLLM's base class.
        tools: the tools of the request; if not given, they are read from the request itself.
    """

    # With this, vLLM keeps no text for us and calls `finish_streaming` when the text has ended.
    engine_based_streaming = True
    # If true, vLLM would read a JSON array for "required" from text that it does not keep for us.
    supports_required_and_named = False
    # Whether no harm is done if the detokenizer leaves special tokens out.
    markers_optional = False

    def __init__(self, tokenizer: Any, tools: Sequence[Any] | None = None) -> None:
        super().__init__(tokenizer, tools)
        self._given = tools
        self._stream: GuardedParser | None = None

    def make_parser(self, tools: Iterable[Any]) -> Any:
        """Return a fresh parser.

        Args:
            tools: the tools of the request.
        """
        raise NotImplementedError

    def adjust_request(self, request: Any) -> Any:
        """Let markers through that are special tokens."""
        request = super().adjust_request(request)
        if request.tools and request.tool_choice != "none" and not self.markers_optional:
            request.skip_special_tokens = False
        return request

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        """Return the calls in a whole text, and its other text."""
        piece = self._parser(request).parse(model_output)
        return _messages.ExtractedToolCallInformation(
            tools_called=bool(piece.calls),
            tool_calls=[
                _messages.ToolCall(
                    id=call["id"] or _ids.make_tool_call_id(),
                    function=_messages.FunctionCall(name=call["name"], arguments=call["arguments"]),
                )
                for call in piece.calls.values()
            ],
            content=piece.reasoning + piece.text or None,
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

    def _parser(self, request: Any) -> GuardedParser:
        tools = self._given or getattr(request, "tools", None) or ()
        # vLLM asks for the text of these requests, too, and then drops the calls in it.
        calls = bool(tools) and getattr(request, "tool_choice", None) != "none"
        return GuardedParser(lambda: self.make_parser(tools) if calls else None)

    def _message(self, piece: ParsedPiece) -> Any:
        for index, call in piece.calls.items():
            self._remember(index, call)
        # Fields that are left out are not sent; a null would replace what the client has.
        text = piece.reasoning + piece.text
        fields: dict[str, Any] = {"content": text} if text else {}
        if piece.calls:
            fields["tool_calls"] = [_call_delta(*item) for item in piece.calls.items()]
        return _messages.DeltaMessage(**fields) if fields else None

    def _remember(self, index: int, call: Mapping[str, Any]) -> None:
        """Record what was sent: at the end vLLM sends what it thinks is missing, here nothing."""
        if "name" in call:
            self.prev_tool_call_arr.append({"name": call["name"]})
            self.streamed_args_for_tool.append("")
        self.streamed_args_for_tool[index] += call["arguments"]
        self.prev_tool_call_arr[index]["arguments"] = self.streamed_args_for_tool[index]


def _call_delta(index: int, call: Mapping[str, Any]) -> Any:
    if "name" not in call:
        function = _messages.DeltaFunctionCall(arguments=call["arguments"])
        return _messages.DeltaToolCall(index=index, function=function)
    function = _messages.DeltaFunctionCall(name=call["name"], arguments=call["arguments"])
    id = call["id"] or _ids.make_tool_call_id()
    return _messages.DeltaToolCall(index=index, id=id, type="function", function=function)


def register(name: str, parser: type) -> None:
    """Give vLLM a subclass of `VllmTools` under a name."""
    _base.ToolParserManager.register_module(name, module=parser)
