"""The course's reasoning splitters in SGLang: `register` adds each family as `mini_<family>`.

    PYTHONPATH=. python upstream/sglang_detector.py --model-path MODEL \\
        --tool-call-parser mini_qwen3_coder --reasoning-parser mini_qwen3

SGLang tells a reasoning parser whether calls are looked for, but not in which format. Where they
are, reasoning that is left open ends at the openers of the tool formats that the family's models
write (`ReasoningFormat.ends_at`).

But: whether a text begins inside SGLang works out from the chat template, where it can.

Written for SGLang 0.5.23.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from sglang.srt.parser.reasoning_parser import (
    BaseReasoningFormatDetector,
    ReasoningParser,
    StreamingParseResult,
)

from mini_vllm.text.events import Event, ReasoningDelta
from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.reasoning_formats import REASONING_FORMATS, find_reasoning_format


class MiniReasoningDetector(BaseReasoningFormatDetector):
    """One family's reasoning as SGLang wants it: one object for one stream.

    Args:
        stream_reasoning: as SGLang has it; ours streams always.
        force_reasoning: whether the text begins inside; None for the family's default.
        tool_call_parser_active: whether calls are looked for in the answer.
        **options: passed on to SGLang's base class.
    """

    format: ClassVar[str]

    def __init__(
        self,
        stream_reasoning: bool = True,
        force_reasoning: bool | None = None,
        tool_call_parser_active: bool = False,
        **options: Any,
    ) -> None:
        format = find_reasoning_format(self.format)
        inside = format.inside if force_reasoning is None else force_reasoning
        super().__init__(
            format.openings[0],
            format.closings[0],
            force_reasoning=inside,
            stream_reasoning=stream_reasoning,
            reasoning_default="always" if format.inside else "enable_thinking",
            **options,
        )
        self._splitter = create_reasoning_splitter(
            self.format,
            # The base class has looked at the beginning that a client wrote for the model, too.
            in_reasoning=self._in_reasoning,
            ends_at=format.ends_at if tool_call_parser_active else (),
        )

    def detect_and_parse(self, text: str) -> StreamingParseResult:
        """Return the reasoning in a whole text, and the rest."""
        return self._result(self._splitter.feed(text) + self._splitter.flush())

    def parse_streaming_increment(self, new_text: str) -> StreamingParseResult:
        """Return what is certain after the next piece of a stream."""
        return self._result(self._splitter.feed(new_text))

    def finish(self) -> StreamingParseResult:
        """End the stream: return what was held."""
        return self._result(self._splitter.flush())

    def _result(self, events: Iterable[Event]) -> StreamingParseResult:
        reasoning, normal = [], []
        for event in events:
            (reasoning if isinstance(event, ReasoningDelta) else normal).append(event.text)
        self._in_reasoning = not normal and self._in_reasoning
        return StreamingParseResult(normal_text="".join(normal), reasoning_text="".join(reasoning))


def register(prefix: str = "mini_") -> None:
    """Add the families to SGLang's reasoning parsers, before it reads its arguments.

    Args:
        prefix: comes before each name. An empty one replaces SGLang's parsers of the same name.
    """
    ReasoningParser.DetectorMap.update(
        {
            f"{prefix}{name}": type(f"Mini_{name}", (MiniReasoningDetector,), {"format": name})
            for name in REASONING_FORMATS
        }
    )
