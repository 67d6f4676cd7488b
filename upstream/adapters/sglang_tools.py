"""A tool parser of this course in SGLang 0.5.23.

But: a detector cannot tell SGLang the id of a call, so ids that the model wrote are lost.
"""

from collections.abc import Sequence
from typing import Any

from sglang.srt.function_call.base_format_detector import BaseFormatDetector
from sglang.srt.function_call.core_types import StreamingParseResult, ToolCallItem

from upstream.adapters.guarded_parser import GuardedParser, ParsedPiece


class SglangTools(BaseFormatDetector):
    """One tool parser as SGLang wants it: one object for one stream."""

    def __init__(self) -> None:
        super().__init__()
        self._stream: GuardedParser | None = None

    def make_parser(self, tools: Sequence[Any]) -> Any:
        """Return a fresh parser.

        Args:
            tools: the tools of the request.
        """
        raise NotImplementedError

    def has_tool_call(self, text: str) -> bool:
        """Return whether a text is more than plain text; if not, SGLang shows it unparsed."""
        result = self.detect_and_parse(text, [])
        return bool(result.calls) or result.normal_text != text

    def detect_and_parse(self, text: str, tools: Sequence[Any]) -> StreamingParseResult:
        """Return the calls in a whole text, and its other text."""
        return _result(self._parser(tools).parse(text))

    def parse_streaming_increment(
        self, new_text: str, tools: Sequence[Any]
    ) -> StreamingParseResult:
        """Return what is certain after the next piece of a stream."""
        if self._stream is None:
            self._stream = self._parser(tools)
        return _result(self._stream.feed(new_text))

    def finish(self, tools: Sequence[Any]) -> StreamingParseResult:
        """End the stream: return what was held."""
        return _result(self._stream.flush() if self._stream else ParsedPiece())

    def supports_structural_tag(self) -> bool:
        """Return False: a call cannot be forced in this format, so SGLang forces a JSON array."""
        return False

    def structure_info(self) -> Any:
        """Raise NotImplementedError: SGLang only asks where structural tags are supported."""
        raise NotImplementedError

    def _parser(self, tools: Sequence[Any]) -> GuardedParser:
        return GuardedParser(lambda: self.make_parser(tools))


def _result(piece: ParsedPiece) -> StreamingParseResult:
    """Return the text of a piece, and one item for each call in it."""
    items = [
        # SGLang makes an id for each item that has a name.
        ToolCallItem(tool_index=index, name=call.get("name"), parameters=call["arguments"])
        for index, call in piece.calls.items()
    ]
    return StreamingParseResult(normal_text=piece.reasoning + piece.text, calls=items)
