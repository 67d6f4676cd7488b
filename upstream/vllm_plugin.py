"""The course's tool parsers in vLLM: each format is a tool parser `mini_<format>` there.

    PYTHONPATH=. vllm serve MODEL --enable-auto-tool-choice --tool-call-parser mini_hermes \\
        --tool-parser-plugin upstream/vllm_plugin.py

But: it does not constrain generation. With `tool_choice` "required" or a named function the text is
still parsed, and nothing forces the model to write a call. Splitting reasoning is the work of
`--reasoning-parser`; reasoning that a format marks comes out as content. vLLM does not tell a
parser why a text ended, so one that a length cut off ends like any other.

Without tools, or with `tool_choice` "none", the text is passed on unchanged, and so are the markers
that frame an answer.

Written for vLLM 0.33.0. Versions without `finish_streaming` lose the text held at the end.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mini_vllm.text.formats import FORMATS
from mini_vllm.text.stream_parser import StreamParser
from mini_vllm.text.tool_parsers import create_tool_parser
from upstream.adapters import vllm_tools

# Their markers are optional, so no harm is done when the detokenizer leaves them out.
_MARKERS_OPTIONAL = frozenset(["llama_json", "pythonic"])


class MiniToolParser(vllm_tools.VllmTools):
    """One format of the course."""

    format: ClassVar[str]

    def make_parser(self, tools: Iterable[Any]) -> StreamParser:
        """Return a parser of the format."""
        return create_tool_parser(self.format, tools=_functions(tools))


def _functions(tools: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Return the functions among the tools, in the form of chat completions."""
    given = (tool if isinstance(tool, Mapping) else tool.model_dump() for tool in tools)
    # A request to /v1/responses has flat functions, and other kinds of tools among them.
    return [
        tool if "function" in tool else {"function": tool}
        for tool in given
        if tool.get("type") == "function"
    ]


for _name in FORMATS:
    vllm_tools.register(
        f"mini_{_name}",
        type(
            f"Mini_{_name}",
            (MiniToolParser,),
            {"format": _name, "markers_optional": _name in _MARKERS_OPTIONAL},
        ),
    )
