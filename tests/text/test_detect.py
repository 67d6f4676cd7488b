"""`detect_format`: for each format a minimal template, which writes a call or reasoning in it."""

import pytest

from mini_vllm.models.tool_examples import read_tool_examples
from mini_vllm.text.detect import REASONING_MARKERS, TOOL_MARKERS, detect_format
from mini_vllm.text.formats import FORMATS, find_format
from mini_vllm.text.reasoning_formats import REASONING_FORMATS

CALLS = read_tool_examples()
# A template that writes past turns as the model did.
TEMPLATE = """\
{{%- if tools %}}{taught}{{{{ tools | tojson }}}}{{% endif -%}}
{{%- for message in messages %}}{{{{ message.role }}}}
{{%- if message.reasoning %}}{opening}{{{{ message.reasoning }}}}{closing}{{% endif -%}}
{{%- if message.tool_calls %}}{call}{{% else %}}{{{{ message.content }}}}{{% endif %}}
{{%- endfor %}}"""
# What templates of formats without a marker of their own say of calls to a model that has tools,
# or otherwise do.
TAUGHT = {
    "llama_json": 'Respond in the format {"name": function name, "parameters": dictionary}',
    "pythonic": "Use the format [func_name1(param1=value1), ...]",
    "xlam": "make calls in a single JSON array",
    "granite_20b_fc": "<|function_call_library|>",
    "ernie45": "<response>",
    "gigachat3": "{% set role_sep = '<|role_sep|>' %}",
}
# The formats that other formats' templates look like; their parsers are for who names them.
NEVER_SHOWN = {"mimo": "qwen3_coder"}
# What else a template has that shows these markers.
CONTEXTS = {
    **{name: CALLS[name] for name in ("glm45", "minimax_m2", "kimi_k2", "step3", "olmo3")},
    "deepseek_r1": CALLS["deepseek_v31"],
    "deepseek_v3": "{% set thinking = false %}" + CALLS["deepseek_v31"],
    "hunyuan_a13b": CALLS["jamba"],
    "hy_v3": CALLS["hy_v3"],
    "nemotron_v3": "{% if truncate_history_thinking %}" + CALLS["qwen3_coder"],
    "granite_3_3": "<|start_of_role|><response>",
    "ernie45": "<response>",
}
# Their templates show no more than the tags that Qwen3's do, and the prompt where it begins.
AS_QWEN3 = {"holo2", "step3p5", "granite_thinking_parser"}


def template(call="", opening="", closing="", taught=""):
    return TEMPLATE.format(call=call, opening=opening, closing=closing, taught=taught)


@pytest.mark.parametrize("name", FORMATS)
def test_a_template_shows_the_format_that_it_writes(name):
    shown = detect_format(template(CALLS[name], taught=TAUGHT.get(name, "")))
    # XTML has one kind of tag for all that a turn has, reasoning too.
    reasoning = "kimi_k3" if name == "kimi_k3" else None
    assert shown == (NEVER_SHOWN.get(name, name), reasoning), (
        "add to TOOL_MARKERS in mini_vllm/text/detect.py what a template of "
        f"{name} has and no other does: before any row that is more general, and, if no call "
        "shows it, here to TAUGHT; if it has nothing of its own, name it in NEVER_SHOWN"
    )


@pytest.mark.parametrize("name", REASONING_FORMATS)
def test_a_template_shows_the_reasoning_that_it_writes(name):
    format = REASONING_FORMATS[name]
    framed = "".join(format.frame[0]) if name.startswith(("kimi", "cohere")) else ""
    shown = detect_format(
        template(CONTEXTS.get(name, framed), format.openings[0], format.closings[0])
    )
    assert shown.reasoning_format == ("qwen3" if name in AS_QWEN3 else name)


@pytest.mark.parametrize("rows", [TOOL_MARKERS, REASONING_MARKERS], ids=["tools", "reasoning"])
def test_every_row_counts_where_it_alone_is_shown(rows):
    """No row stands behind a more general one."""
    for number, (texts, name) in enumerate(rows):
        text = " ".join(texts)
        first = next(row for row in rows if all(one in text for one in row[0]))
        assert first is rows[number], f"{name} stands behind {first[1]}"


def test_all_reasoning_that_a_template_shows_can_be_read():
    assert {name for _, name in REASONING_MARKERS} <= set(REASONING_FORMATS)


@pytest.mark.parametrize(
    ("text", "tools", "reasoning"),
    [
        (CALLS["hy_v3"].replace(">", ":opensource>"), "hy_v3:opensource", None),
        (
            "{%- set HYTK = ':opensource' %}{{ '<think' + HYTK + '>' }}{{ '<tool_calls' + HYTK }}"
            "{{ '<arg_key' + HYTK + '>' }}",
            "hy_v3:opensource",
            "hy_v3:opensource",
        ),
    ],
    ids=["in the tags", "in a variable"],
)
def test_a_template_shows_the_suffix_of_its_tags(text, tools, reasoning):
    assert detect_format(text) == (tools, reasoning)
    assert find_format(tools).states["content"].on.keys() == {"<tool_calls:opensource>"}


def test_a_tag_of_hunyuan_in_another_template_does_not_show_its_reasoning():
    # MiniCPM 5 splits its own calls at `<tool_sep>`.
    text = f"</think>{CALLS['minicpm5']}{{{{ content.split('<tool_sep>') }}}}"
    assert detect_format(text) == ("minicpm5", "qwen3")
    assert detect_format(f"</think>{CALLS['hy_v3']}") == ("hy_v3", "hy_v3")


@pytest.mark.parametrize(
    "text",
    [
        "{% for message in messages %}{{ message.role }}: {{ message.content }}{% endfor %}",
        "",
        # Functionary's calls have a tag of Qwen3 Coder's, and MiniMax M1's those of Jamba.
        "<function=go>{{ arguments }}</function>",
        "<beginning_of_sentence>ai\n<tool_calls>\n{{ call }}\n</tool_calls>",
    ],
)
def test_a_template_of_no_format_shows_none(text):
    assert detect_format(text) == (None, None)
