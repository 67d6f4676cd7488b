"""The course's tool parsers in SGLang: `register` adds each format as a parser `mini_<format>`.

    PYTHONPATH=. python upstream/sglang_detector.py --model-path MODEL \\
        --tool-call-parser mini_hermes

SGLang has no flag for parsers. Run like this, the file registers them and then starts the server.
A package that is installed beside SGLang can instead name `register` in its entry points, group
`sglang.srt.plugins`; then every process of the server has them.

But: a detector cannot tell SGLang the id of a call, so ids that the model wrote are lost. Unlike
SGLang's own detectors, these forward calls of functions that the request does not have, because the
model wrote them. They do not constrain generation, and reasoning comes out as text. SGLang does not
tell them why a text ended, so one that a length cut off ends like any other.

Written for SGLang 0.5.23.
"""

import runpy
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from sglang.srt.function_call.base_format_detector import BaseFormatDetector
from sglang.srt.function_call.core_types import StreamingParseResult, ToolCallItem

from mini_vllm.text.events import ArgsDelta, CallStart, Event, Malformed, ReasoningDelta, TextDelta
from mini_vllm.text.formats import FORMATS
from mini_vllm.text.stream_parser import StreamParser
from mini_vllm.text.tool_parsers import create_tool_parser


class MiniDetector(BaseFormatDetector):
    """One format of the course as SGLang wants it: one object for one stream."""

    format: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self._stream: StreamParser | None = None

    def has_tool_call(self, text: str) -> bool:
        """Return whether a text is more than plain text; if not, SGLang shows it unparsed."""
        result = self.detect_and_parse(text, [])
        return bool(result.calls) or result.normal_text != text

    def detect_and_parse(self, text: str, tools: Sequence[Any]) -> StreamingParseResult:
        """Return the calls in a whole text, and its other text."""
        parser = self._parser(tools)
        return _result(parser.feed(text) + parser.flush())

    def parse_streaming_increment(
        self, new_text: str, tools: Sequence[Any]
    ) -> StreamingParseResult:
        """Return what is certain after the next piece of a stream."""
        if self._stream is None:
            self._stream = self._parser(tools)
        return _result(self._stream.feed(new_text))

    def finish(self, tools: Sequence[Any]) -> StreamingParseResult:
        """End the stream: return what was held."""
        return _result(self._stream.flush() if self._stream else [])

    def supports_structural_tag(self) -> bool:
        """Return False: a call cannot be forced in this format, so SGLang forces a JSON array."""
        return False

    def structure_info(self) -> Any:
        """Raise NotImplementedError: SGLang only asks where structural tags are supported."""
        raise NotImplementedError

    def _parser(self, tools: Sequence[Any]) -> StreamParser:
        return create_tool_parser(self.format, tools=[tool.model_dump() for tool in tools])


def _result(events: Iterable[Event]) -> StreamingParseResult:
    """Return the text of some events, and one item for each call in them."""
    text: list[str] = []
    items: dict[int, ToolCallItem] = {}
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta):
            text.append(event.text)
        elif isinstance(event, Malformed):
            text.append(event.raw)
        elif isinstance(event, CallStart):
            # SGLang makes an id for each item that has a name.
            items[event.index] = ToolCallItem(
                tool_index=event.index, name=event.name, parameters=""
            )
        elif isinstance(event, ArgsDelta):
            item = ToolCallItem(tool_index=event.index, parameters="")
            items.setdefault(event.index, item).parameters += event.text
    return StreamingParseResult(normal_text="".join(text), calls=list(items.values()))


def register(prefix: str = "mini_") -> None:
    """Add the formats to SGLang's parsers, before it reads its arguments.

    Args:
        prefix: comes before each name. An empty one replaces SGLang's parsers of the same name;
            Kimi K2 needs it, as SGLang makes that model's ids only for the parser `kimi_k2`.
    """
    from sglang.srt.function_call.function_call_parser import FunctionCallParser

    FunctionCallParser.ToolCallParserEnum.update(
        {
            f"{prefix}{name}": type(f"Mini_{name}", (MiniDetector,), {"format": name})
            for name in FORMATS
        }
    )


if __name__ == "__main__":
    # Beside this file, whose folder is the first where Python looks.
    from sglang_reasoning import register as register_reasoning

    register()
    register_reasoning()
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
