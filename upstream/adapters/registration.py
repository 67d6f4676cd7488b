"""Registers a tool parser, and a reasoning splitter if there is one, with an engine."""

from collections.abc import Callable
from typing import Any


def register_in_vllm(
    name: str, make_parser: Callable[[], Any], make_splitter: Callable[[bool], Any] | None
) -> None:
    """Give vLLM the parsers under a name, for its flags.

    Args:
        name: the name of both parsers.
        make_parser: returns a fresh tool parser.
        make_splitter: returns a fresh reasoning splitter for a text that begins inside, or not.
    """
    from upstream.adapters import vllm_tools

    class Tools(vllm_tools.VllmTools):
        def make_parser(self, tools: Any) -> Any:
            return make_parser()

    vllm_tools.register(name, Tools)
    if make_splitter is not None:
        from upstream.adapters import vllm_reasoning

        class Reasoning(vllm_reasoning.VllmReasoning):
            def make_splitter(self, inside: bool | None) -> Any:
                # After a prompt that ends the reasoning, a text has none.
                return None if inside is False else make_splitter(bool(inside))

        vllm_reasoning.register(name, Reasoning)


def register_in_sglang(
    name: str, make_parser: Callable[[], Any], make_splitter: Callable[[bool], Any] | None
) -> None:
    """Give SGLang the parsers under a name, before it reads its arguments.

    Args:
        name, make_parser, make_splitter: as for vLLM.
    """
    from sglang.srt.function_call.function_call_parser import FunctionCallParser

    from upstream.adapters import sglang_tools

    class Tools(sglang_tools.SglangTools):
        def make_parser(self, tools: Any) -> Any:
            return make_parser()

    FunctionCallParser.ToolCallParserEnum[name] = Tools
    if make_splitter is not None:
        from sglang.srt.parser.reasoning_parser import ReasoningParser

        from upstream.adapters import sglang_reasoning

        class Reasoning(sglang_reasoning.SglangReasoning):
            def make_splitter(self, inside: bool, tools: bool) -> Any:
                return make_splitter(inside)

        ReasoningParser.DetectorMap[name] = Reasoning
