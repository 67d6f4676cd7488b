"""The course's reasoning splitters in SGLang: `register` adds each family as `mini_<family>`.

    PYTHONPATH=. python upstream/sglang_detector.py --model-path MODEL \\
        --tool-call-parser mini_qwen3_coder --reasoning-parser mini_qwen3

SGLang tells a reasoning parser whether calls are looked for, but not in which format. Where they
are, reasoning that is left open ends at the openers of the tool formats that the family's models
write (`ReasoningFormat.ends_at`).

But: whether a text begins inside SGLang works out from the chat template, where it can.

Written for SGLang 0.5.23.
"""

from typing import ClassVar

from sglang.srt.parser.reasoning_parser import ReasoningParser

from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.reasoning_formats import REASONING_FORMATS, find_reasoning_format
from mini_vllm.text.stream_parser import StreamParser
from upstream.adapters.sglang_reasoning import SglangReasoning


class MiniReasoningDetector(SglangReasoning):
    """One family's reasoning."""

    format: ClassVar[str]

    def make_splitter(self, inside: bool, tools: bool) -> StreamParser:
        """Return a splitter of the family."""
        ends_at = find_reasoning_format(self.format).ends_at if tools else ()
        return create_reasoning_splitter(self.format, in_reasoning=inside, ends_at=ends_at)


def register(prefix: str = "mini_") -> None:
    """Add the families to SGLang's reasoning parsers, before it reads its arguments.

    Args:
        prefix: comes before each name. An empty one replaces SGLang's parsers of the same name.
    """
    ReasoningParser.DetectorMap.update(
        {
            f"{prefix}{name}": type(
                f"Mini_{name}",
                (MiniReasoningDetector,),
                {
                    "format": name,
                    "openings": format.openings,
                    "closings": format.closings,
                    "inside": format.inside,
                },
            )
            for name, format in REASONING_FORMATS.items()
        }
    )
