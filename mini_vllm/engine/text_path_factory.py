"""From a request to its text path: the layers, and how they depend on each other."""

from collections.abc import Sequence

from mini_vllm.engine.request import Request
from mini_vllm.engine.text_path import TextPath
from mini_vllm.engine.whole_calls import WholeCalls
from mini_vllm.pipeline import TextPipeline
from mini_vllm.text.formats import find_format
from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer.protocols import Tokenizer


class TextPathFactory:
    """Makes a `TextPipeline` for each choice.

    If the model leaves its reasoning open, an opener in `Format.ends_reasoning` of its tool format
    ends the reasoning. This holds only for a request with tools: without tools, an opener in the
    reasoning is part of the reasoning. vLLM 0.33.0's engine parsers also end reasoning there.

    Args:
        tokenizer: turns ids into text.
        tool_format: the format of the model's tool calls, used if a request has tools, and in
            every chat if the format also marks reasoning.
        reasoning_format: the format of the model's reasoning, or None for a model without any.
        stop_scope: `all`, or `content` to look for stop strings only after the reasoning.

    Raises:
        ValueError: a format or the scope is unknown.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        tool_format: str | None = None,
        reasoning_format: str | None = None,
        stop_scope: str = "all",
    ) -> None:
        if stop_scope not in ("all", "content"):
            raise ValueError(f"stop_scope is {stop_scope!r}; it must be all or content")
        self._format = None if tool_format is None else find_format(tool_format)
        if reasoning_format is not None:
            create_reasoning_splitter(reasoning_format)
        self._tokenizer = tokenizer
        self._reasoning_format = reasoning_format
        self._stop_scope = stop_scope

    def __call__(self, request: Request, prompt_token_ids: Sequence[int]) -> TextPath:
        """Return a new pipeline.

        Raises:
            ValueError: the schema of a tool is invalid, or the request's format unknown.
        """
        params, format = request.params, self._format
        if request.tool_format is not None:
            format = find_format(request.tool_format)
        tools = reasoning = None
        ends_at: tuple[str, ...] = ()
        if format is not None and request.tools is not None:
            tools = create_tool_parser(format.name, tools=request.tools)
            ends_at = format.ends_reasoning
        elif format is not None and format.marks_reasoning and request.split_reasoning:
            tools = create_tool_parser(format.name)
        if request.split_reasoning and self._reasoning_format is not None:
            reasoning = create_reasoning_splitter(
                self._reasoning_format, in_reasoning=request.thinking, ends_at=ends_at
            )
        path = TextPipeline(
            self._tokenizer,
            prompt_token_ids=prompt_token_ids,
            skip_special_tokens=params.skip_special_tokens,
            stop=params.stop,
            stop_token_ids=params.stop_token_ids,
            eos_token_ids=() if params.ignore_eos else self._tokenizer.eos_token_ids,
            include_stop_str_in_output=params.include_stop_str_in_output,
            min_tokens=params.min_tokens,
            stop_scope="content" if self._stop_scope == "content" else "all",
            reasoning=reasoning,
            tools=None if request.whole_calls else tools,
        )
        if tools is None or not request.whole_calls:
            return path
        return WholeCalls(path, tools, first_only=not request.parallel_tool_calls)
