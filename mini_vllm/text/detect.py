"""Guesses the formats that a model writes from the text of its chat template, like llama.cpp.

A template shows the model's past calls and reasoning as the model wrote them, so it contains their
markers. llama.cpp (common/chat.cpp) and SGLang 0.5.23 (srt/parser/template_detection.py) also look
for these markers.

But: a template that describes calls in prose, or whose markers no row here has, shows no format.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from mini_vllm.text.formats import is_format

# The texts that a template must contain, and the format that they show. The first matching row
# counts, so the most specific rows are first. A row for a tool format that we cannot read keeps the
# templates of that format from a more general row.
Rows = Sequence[tuple[tuple[str, ...], str]]
TOOL_MARKERS: Rows = (
    (("<|open|>", "<|sep|>"), "kimi_k3"),
    (("<ifm|tool_call",), "k2_horizon"),
    (("]<]minimax[>[",), "minimax_m3"),
    (("<minimax:tool_call>",), "minimax_m2"),
    (("<dots_function_call>",), "dots"),
    (("<seed:tool_call>",), "seed_oss"),
    (("<｜GCML｜tool_calls>",), "gigachat35"),
    (("role_sep", "function call"), "gigachat3"),
    (("<｜DSML｜ calls>",), "deepseek_v41"),
    # The templates put the tags together from their parts.
    (("｜DSML｜", "function_calls>"), "deepseek_v32"),
    (("｜DSML｜", "tool_calls>"), "deepseek_v4"),
    (("<｜tool▁sep｜>", "```json"), "deepseek_v3"),
    (("<｜tool▁sep｜>",), "deepseek_v31"),
    (("<steptml:",), "step3"),
    (("<|tool_calls_section_begin|>",), "kimi_k2"),
    (("<|channel|>", "<rfl:parameter"), "beam"),
    (("<|channel|>", "functions."), "harmony"),
    (("<|tool_call>", "<tool_call|>"), "gemma4"),
    (("<start_function_call>",), "functiongemma"),
    (("<|tools_prefix|>",), "apertus"),
    (("<|START_ACTION|>", "<|START_TEXT|>"), "cohere_command4"),
    (("<|START_ACTION|>",), "cohere_command3"),
    (("<longcat_tool_call>",), "longcat"),
    (("<|action_start|>", "<|plugin|>"), "internlm"),
    (("<|tool_call_start|>",), "lfm2"),
    (("<|tool_list_start|>",), "lfm2"),
    (("<|plamo:begin_tool_request",), "plamo3"),
    (("<atem:function_calls>",), "muse"),
    (("<|function_call_library|>", "<function_call>"), "granite_20b_fc"),
    (("<|tool_call|>",), "granite"),
    (("functools[",), "phi4_mini_json"),
    (('<function name="', '<param name="'), "minicpm5"),
    (("<tool_sep>",), "hy_v3"),
    (("<tool_calls>", "</think>"), "hunyuan_a13b"),
    (("<tool_calls>", "<beginning_of_sentence>"), "minimax"),
    (("<tool_calls>",), "jamba"),
    (("<TOOLCALL>",), "nemotron_v2"),
    (("<function_calls>",), "olmo3"),
    (("<iquest_tool_call>",), "iquest_q1"),
    (("<arg_key>",), "glm45"),
    (("<function=", "<parameter="), "qwen3_coder"),
    (("<function=",), "functionary"),
    (("<tool_call>", "<response>"), "ernie45"),
    (("make calls in a single JSON array",), "xlam"),
    (("<tool_call>",), "hermes"),
    (("[TOOL_CALLS]",), "mistral"),
    (('{"name": function name, "parameters": dictionary',), "llama_json"),
    (("[func_name1(",), "pythonic"),
)
REASONING_MARKERS: Rows = (
    (("<|open|>", "<|sep|>"), "kimi_k3"),
    (("<ifm|think>",), "k2_horizon"),
    (("<|channel>thought",), "gemma4"),
    (("<mm:think>",), "minimax_m3"),
    (("<seed:think>",), "seed_oss"),
    (("<|START_THINKING|>", "<|START_TEXT|>"), "cohere_command4"),
    (("<|START_THINKING|>",), "cohere_command3"),
    (("<|plamo:begin_think",), "plamo3"),
    (("[THINK]",), "mistral"),
    (("◁think▷",), "kimi"),
    (("Here is my thought process:",), "granite"),
    (("</think>", "<tool_sep>", "<arg_key>"), "hy_v3"),
    (("</think>", "<tool_calls>"), "hunyuan_a13b"),
    (("</think>", "<minimax:tool_call>"), "minimax_m2"),
    (("</think>", "<response>", "<|start_of_role|>"), "granite_3_3"),
    (("</think>", "<response>"), "ernie45"),
    (("</think>", "<|tool_calls_section_begin|>"), "kimi_k2"),
    (("</think>", "｜DSML｜"), "deepseek_v3"),
    (("</think>", "<｜tool▁calls▁begin｜>", "thinking = false"), "deepseek_v3"),
    (("</think>", "<｜tool▁calls▁begin｜>"), "deepseek_r1"),
    (("</think>", "<steptml:"), "step3"),
    (("</think>", "<arg_key>"), "glm45"),
    (("</think>", "truncate_history_thinking"), "nemotron_v3"),
    (("</think>", "<function_calls>"), "olmo3"),
    (("<think>",), "qwen3"),
    (("</think>",), "qwen3"),
)


# A tag with the suffix that each checkpoint of Hunyuan chooses, or the variable of that suffix.
_HUNYUAN_SUFFIX = re.compile(r"""<tool_calls(:[^\s<>'"{}]+)>|set \w+ = ['"](:[\w.-]+)['"]""")


class Detected(NamedTuple):
    """The formats that a template shows.

    Attributes:
        tool_format: for `create_tool_parser`, or None.
        reasoning_format: for `create_reasoning_splitter`, or None.
    """

    tool_format: str | None
    reasoning_format: str | None


def detect_format(chat_template: str) -> Detected:
    """Return the formats that a chat template shows, each None if it shows none that we read."""
    if "<tool_calls" in chat_template and "<arg_key" in chat_template:
        suffix = _HUNYUAN_SUFFIX.search(chat_template)
        if suffix is not None:
            name = f"hy_v3{suffix[1] or suffix[2]}"
            return Detected(name, name if "<think" in chat_template else None)
    tools = _first(TOOL_MARKERS, chat_template)
    return Detected(
        tools if tools is not None and is_format(tools) else None,
        _first(REASONING_MARKERS, chat_template),
    )


def _first(rows: Rows, template: str) -> str | None:
    """Return the name of the first row whose texts are all in a template, or None."""
    return next((name for texts, name in rows if all(text in template for text in texts)), None)
