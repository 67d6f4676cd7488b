"""The course's reasoning splitters in vLLM: each family is a parser `mini_<family>` there.

    PYTHONPATH=. vllm serve MODEL --enable-auto-tool-choice \\
        --tool-call-parser mini_qwen3_coder --tool-parser-plugin upstream/vllm_plugin.py \\
        --reasoning-parser mini_qwen3 --reasoning-parser-plugin upstream/vllm_reasoning.py

vLLM does not tell a reasoning parser which tool parser is used, nor in a stream whether there are
tools. So reasoning that is left open ends at the openers of the tool formats that the family's
models write (`ReasoningFormat.ends_at`), as with vLLM's own parsers.

But: vLLM passes on what follows the reasoning without asking again, so what frames an answer stays
in it; the tool parsers of such families read the frame. Reasoning tokens are not counted.

Written for vLLM 0.33.0.
"""

from typing import ClassVar

from mini_vllm.text.reasoning import create_reasoning_splitter, prompt_in_reasoning
from mini_vllm.text.reasoning_formats import REASONING_FORMATS
from mini_vllm.text.stream_parser import StreamParser
from upstream.adapters import vllm_reasoning


class MiniReasoningParser(vllm_reasoning.VllmReasoning):
    """One family's reasoning."""

    format: ClassVar[str]

    def make_splitter(self, inside: bool | None) -> StreamParser:
        """Return a splitter of the family."""
        return create_reasoning_splitter(self.format, in_reasoning=inside, ends_at=self.ends_at)

    def prompt_inside(self, prompt: str) -> bool | None:
        """Return whether a prompt ends inside the reasoning; None if it does not show it."""
        return prompt_in_reasoning(self.format, prompt)


for _name, _format in REASONING_FORMATS.items():
    vllm_reasoning.register(
        f"mini_{_name}",
        type(
            f"Mini_{_name}",
            (MiniReasoningParser,),
            {
                "format": _name,
                "openings": _format.openings,
                # An answer's frame ends the reasoning too, if only a special token can open it.
                "closings": (*_format.closings, *(_format.frame[0] if _format.special else ())),
                "ends_at": _format.ends_at,
            },
        ),
    )
