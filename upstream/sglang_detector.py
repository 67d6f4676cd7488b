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
from collections.abc import Sequence
from typing import Any, ClassVar

from mini_vllm.text.formats import FORMATS
from mini_vllm.text.stream_parser import StreamParser
from mini_vllm.text.tool_parsers import create_tool_parser
from upstream.adapters.sglang_tools import SglangTools


class MiniDetector(SglangTools):
    """One format of the course."""

    format: ClassVar[str]

    def make_parser(self, tools: Sequence[Any]) -> StreamParser:
        """Return a parser of the format."""
        return create_tool_parser(self.format, tools=[tool.model_dump() for tool in tools])


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
