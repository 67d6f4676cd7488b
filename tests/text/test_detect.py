"""`detect_format`: minimal templates of each family, each read back by the format that it shows."""

import json

import jinja2
import pytest

from mini_vllm.text.detect import REASONING_MARKERS, TOOL_MARKERS, detect_format
from mini_vllm.text.events import ArgsDelta, CallStart, ReasoningDelta
from mini_vllm.text.formats import ALIASES, FORMATS
from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.reasoning_formats import REASONING_FORMATS
from mini_vllm.text.tool_parsers import create_tool_parser

ARGUMENTS = {"city": "Oslo"}
OBJECT = '{"name": "go", "arguments": {{ arguments | tojson }}}'
PARAMETERS = OBJECT.replace("arguments", "parameters", 1)
PYTHON = 'go({% for key, value in arguments.items() %}{{ key }}="{{ value }}"{% endfor %})'
EACH = "{% for key, value in arguments.items() %}KEY{% endfor %}"
PARAMETER = EACH.replace("KEY", "<parameter={{ key }}>\n{{ value }}\n</parameter>\n")
THINK = "{{ '<think>' + reasoning + '</think>' if reasoning else '' }}"


def taught(text):
    """Return what a template says of calls to a model that has tools."""
    return f"{{% if tools %}}{{% raw %}}{text}{{% endraw %}}{{% endif %}}"


# What a template writes for a turn with a call, and the formats that it shows.
TEMPLATES = {
    "hermes": (f"<tool_call>\n{OBJECT}\n</tool_call>", None),
    "mistral": ("[TOOL_CALLS]go[ARGS]{{ arguments | tojson }}", None),
    "llama_json": (
        taught('Respond in the format {"name": function name, "parameters": dictionary}')
        + PARAMETERS,
        None,
    ),
    "pythonic": (taught("Use the format [func_name1(param1=value1), ...]") + f"[{PYTHON}]", None),
    "qwen3_coder": (
        f"{THINK}<tool_call>\n<function=go>\n{PARAMETER}</function>\n</tool_call>",
        "qwen3",
    ),
    "kimi_k2": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.go:0<|tool_call_argument_begin|>"
        "{{ arguments | tojson }}<|tool_call_end|><|tool_calls_section_end|>",
        None,
    ),
    "harmony": (
        "<|start|>assistant<|channel|>commentary to=functions.go <|constrain|>json<|message|>"
        "{{ arguments | tojson }}<|call|>",
        None,
    ),
    "deepseek_v3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>go\n```json\n"
        "{{ arguments | tojson }}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        None,
    ),
    "kimi_k3": (
        "{{ '<|open|>think<|sep|>' + reasoning + '<|close|>think<|sep|>' if reasoning else '' }}"
        '<|open|>tools<|sep|><|open|>call tool="go" index="1"<|sep|>'
        + EACH.replace(
            "KEY",
            '<|open|>argument key="{{ key }}" type="string"<|sep|>{{ value }}'
            "<|close|>argument<|sep|>",
        )
        + "<|close|>call<|sep|><|close|>tools<|sep|>",
        "kimi_k3",
    ),
    "plamo3": (
        "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>"
        "<|plamo:begin_tool_name:plamo|>go<|plamo:end_tool_name:plamo|>"
        "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
        "{{ arguments | tojson }}<|plamo:end_tool_arguments:plamo|>"
        "<|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>",
        None,
    ),
    "deepseek_v31": (
        "{% set thinking = false %}" + THINK + "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>go"
        "<｜tool▁sep｜>{{ arguments | tojson }}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "deepseek_v3",
    ),
    "glm45": (
        f"{THINK}<tool_call>go\n"
        + EACH.replace("KEY", "<arg_key>{{ key }}</arg_key>\n<arg_value>{{ value }}</arg_value>\n")
        + "</tool_call>",
        "glm45",
    ),
    "minimax_m2": (
        f'{THINK}<minimax:tool_call>\n<invoke name="go">\n'
        + EACH.replace("KEY", '<parameter name="{{ key }}">{{ value }}</parameter>\n')
        + "</invoke>\n</minimax:tool_call>",
        "minimax_m2",
    ),
    "jamba": (f"<tool_calls>[{OBJECT}]</tool_calls>", None),
    "hunyuan_a13b": (f"{THINK}<tool_calls>[{OBJECT}]</tool_calls>", "hunyuan_a13b"),
    "phi4_mini_json": (f"functools[{OBJECT}]", None),
    "granite": (f"<|tool_call|>[{OBJECT}]", None),
    "cohere_command3": (
        "{{ '<|START_THINKING|>' + reasoning + '<|END_THINKING|>' if reasoning else '' }}"
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "go", "parameters": '
        "{{ arguments | tojson }}}]<|END_ACTION|>",
        "cohere_command3",
    ),
    "xlam": (taught("make calls in a single JSON array") + f"[{OBJECT}]", None),
    "apertus": ('<|tools_prefix|>[{"go": {{ arguments | tojson }}}]<|tools_suffix|>', None),
    "longcat": (f"<longcat_tool_call>{OBJECT}</longcat_tool_call>", None),
    "ernie45": (
        f"{THINK}{taught('<response>')}<tool_call>\n{OBJECT}\n</tool_call>",
        "ernie45",
    ),
    "internlm": (f"<|action_start|><|plugin|>{PARAMETERS}<|action_end|>", None),
    "granite_20b_fc": (taught("<|function_call_library|>") + f"<function_call> {OBJECT}", None),
    "gigachat3": (
        f"{{% set role_sep = '<|role_sep|>' %}}function call{{{{ role_sep }}}}{OBJECT}",
        None,
    ),
}


def rendered(template, **variables):
    return jinja2.Template(template).render(arguments=ARGUMENTS, **variables)


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_format_that_a_template_shows_reads_what_it_writes(name):
    template, reasoning = TEMPLATES[name]
    assert detect_format(template) == (name, reasoning)
    parser = create_tool_parser(name)
    events = parser.feed(rendered(template)) + parser.flush()
    assert [event.name for event in events if isinstance(event, CallStart)] == ["go"]
    written = "".join(event.text for event in events if isinstance(event, ArgsDelta))
    assert json.loads(written) == ARGUMENTS


@pytest.mark.parametrize("name", [name for name, (_, reasoning) in TEMPLATES.items() if reasoning])
def test_the_reasoning_that_a_template_shows_is_what_it_writes(name):
    template, reasoning = TEMPLATES[name]
    splitter = create_reasoning_splitter(reasoning, in_reasoning=False)
    events = splitter.feed(rendered(template, reasoning="Hm."))
    assert events[0] == ReasoningDelta("Hm.")
    assert len(events) > 1


@pytest.mark.parametrize("rows", [TOOL_MARKERS, REASONING_MARKERS], ids=["tools", "reasoning"])
def test_every_row_counts_where_it_alone_is_shown(rows):
    """No row stands behind a more general one."""
    for number, (texts, name) in enumerate(rows):
        template = " ".join(texts)
        first = next(row for row in rows if all(text in template for text in row[0]))
        assert first is rows[number], f"{name} stands behind {first[1]}"


def test_every_format_is_shown_by_some_template():
    shown = {ALIASES.get(name, name) for _, name in TOOL_MARKERS}
    assert set(FORMATS) <= shown
    assert set(FORMATS) <= set(TEMPLATES)


def test_all_reasoning_that_a_template_shows_can_be_read():
    reasoning = {name for _, name in REASONING_MARKERS}
    assert reasoning <= set(REASONING_FORMATS)


@pytest.mark.parametrize(
    "template",
    [
        "{% for message in messages %}{{ message.role }}: {{ message.content }}{% endfor %}",
        "",
        # Functionary's calls have a tag of Qwen3 Coder's, and MiniMax M1's those of Jamba.
        "<function=go>{{ arguments }}</function>",
        "<beginning_of_sentence>ai\n<tool_calls>\n{{ call }}\n</tool_calls>",
    ],
)
def test_a_template_of_no_format_shows_none(template):
    assert detect_format(template) == (None, None)
