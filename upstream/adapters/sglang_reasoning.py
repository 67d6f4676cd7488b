"""A reasoning splitter of this course in SGLang 0.5.23.

But: whether a text begins inside SGLang works out from the chat template, where it can.
"""

from typing import Any, ClassVar

from sglang.srt.parser.reasoning_parser import BaseReasoningFormatDetector, StreamingParseResult

from upstream.adapters.guarded_parser import GuardedParser, ParsedPiece


class SglangReasoning(BaseReasoningFormatDetector):
    """One reasoning splitter as SGLang wants it: one object for one stream.

    Args:
        stream_reasoning: as SGLang has it; ours streams always.
        force_reasoning: whether the text begins inside; None for the family's default.
        tool_call_parser_active: whether calls are looked for in the answer.
        **options: passed on to SGLang's base class.
    """

    openings: ClassVar[tuple[str, ...]] = ("<think>",)
    closings: ClassVar[tuple[str, ...]] = ("</think>",)
    # Whether a text begins inside, if the request does not say it.
    inside: ClassVar[bool] = False

    def __init__(
        self,
        stream_reasoning: bool = True,
        force_reasoning: bool | None = None,
        tool_call_parser_active: bool = False,
        **options: Any,
    ) -> None:
        inside = self.inside if force_reasoning is None else force_reasoning
        super().__init__(
            self.openings[0],
            self.closings[0],
            force_reasoning=inside,
            stream_reasoning=stream_reasoning,
            reasoning_default="always" if self.inside else "enable_thinking",
            **options,
        )
        # The base class has looked at the beginning that a client wrote for the model, too.
        begins_inside = self._in_reasoning
        self._splitter = GuardedParser(
            lambda: self.make_splitter(begins_inside, tool_call_parser_active)
        )

    def make_splitter(self, inside: bool, tools: bool) -> Any:
        """Return a fresh splitter.

        Args:
            inside: whether the stream begins with reasoning.
            tools: whether calls are looked for in the answer.
        """
        raise NotImplementedError

    def detect_and_parse(self, text: str) -> StreamingParseResult:
        """Return the reasoning in a whole text, and the rest."""
        return self._result(self._splitter.parse(text))

    def parse_streaming_increment(self, new_text: str) -> StreamingParseResult:
        """Return what is certain after the next piece of a stream."""
        return self._result(self._splitter.feed(new_text))

    def finish(self) -> StreamingParseResult:
        """End the stream: return what was held."""
        return self._result(self._splitter.flush())

    def _result(self, piece: ParsedPiece) -> StreamingParseResult:
        self._in_reasoning = not piece.text and self._in_reasoning
        return StreamingParseResult(normal_text=piece.text, reasoning_text=piece.reasoning)
