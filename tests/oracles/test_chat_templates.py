"""ChatTemplate against transformers' `apply_chat_template`.

But: transformers renders within its own process and without limits; those are tested elsewhere.
"""

import functools

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: make oracles")

from jinja2 import TemplateError

from benchmarks.materials.vocabularies import trained
from benchmarks.peers.detokenizers import transformers_tokenizer
from mini_vllm.tokenizer import ChatTemplate, ChatTemplateError

CHATML = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' }}
    {%- if message['role'] == 'assistant' %}
        {%- generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}
    {%- else %}
        {{- message['content'] + '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
TOOLS = """\
{{- bos_token }}
{%- if tools %}[TOOLS]{{ tools | tojson }}[/TOOLS]
{% endif %}
{%- if documents %}{% for d in documents %}{{ loop.index }}. {{ d.title | upper }}
{% endfor %}{% endif %}
{%- for m in messages if m.role != 'system' %}
    {%- if m.tool_calls is defined and m.tool_calls %}
        {%- for call in m.tool_calls %}
            {{- call.function | tojson(indent=2) }}
            {%- if loop.last %}{% break %}{% endif %}
        {%- endfor %}
    {%- else %}
        {{- m.content | trim }}{{ eos_token }}
    {%- endif %}
{%- endfor %}
{%- set ns = namespace(count=0) %}
{%- for m in messages %}{% set ns.count = ns.count + 1 %}{% endfor %}
{{- ns.count }} {{ flavour | default('plain') }}
"""
TWO_SPANS = """\
{% for m in messages %}
{%- if m.role == 'assistant' -%}
<{% generation %}{{ m.content }}{% endgeneration %}|{% generation %}!{% endgeneration %}>
{% else -%}
[{{ m.content }}]
{% endif %}
{%- endfor %}"""
# Blocks on lines of their own, indented: what trim_blocks and lstrip_blocks are for.
PLAIN = """\
{% for m in messages %}
    {% if loop.first %}
    {{ bos_token }}
    {% elif m.role == 'user' %}
  > {{ m.content }}
    {% endif %}
{% endfor %}
{# a comment #}
end
"""
TURNS = [
    {"role": "system", "content": "Be brief. “你好”"},
    {"role": "user", "content": "Où est la 🚀?\n"},
    {"role": "assistant", "content": "  Là-bas <|im_end|> & 'ici'  "},
    {"role": "user", "content": "And then?"},
    # transformers marks only the first token of a span's last character: let that be its last.
    {"role": "assistant", "content": "नमस्ते 👩‍👩‍👧."},
]
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"type": "function", "function": {"name": "get", "arguments": {"b": 1, "a": "é<>&"}}}
    ],
}
WEATHER = {"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}
REASONING = (
    "{% for m in messages %}{{ m.thinking }}|{{ m.reasoning_content }}|"
    "{{ m.reasoning }};{% endfor %}"
)
CASES = {
    "chatml": (CHATML, TURNS, {}),
    "chatml, prompt": (CHATML, TURNS, {"add_generation_prompt": True}),
    "tools": (TOOLS, [*TURNS, CALL], {"tools": [WEATHER]}),
    "documents": (TOOLS, TURNS, {"documents": [{"title": "naïve", "text": "é"}]}),
    "a variable": (TOOLS, TURNS, {"flavour": "sweet"}),
    "blocks on lines": (PLAIN, TURNS, {}),
    "two spans a turn": (TWO_SPANS, TURNS, {}),
    "names of reasoning": (
        REASONING,
        [
            {"role": "assistant", "content": "", **names}
            for names in (
                {},
                {"reasoning": "a"},
                {"thinking": "b", "reasoning": "c"},
                {"reasoning_content": "", "thinking": "d"},
                {"thinking": None, "reasoning": "e"},
            )
        ],
        {},
    ),
}


@functools.cache
def peer():
    return transformers_tokenizer(trained(1024), bos_token="<s>", eos_token="</s>")


def ours(template):
    return ChatTemplate(template, bos_token="<s>", eos_token="</s>")


@pytest.mark.parametrize("case", CASES)
def test_renders_like_transformers(case):
    template, turns, options = CASES[case]
    want = peer().apply_chat_template(turns, chat_template=template, tokenize=False, **options)
    assert ours(template).apply_chat_template(turns, **options) == want


@pytest.mark.parametrize(
    "template", ["{{ raise_exception('no é') }}", "{% for %}", "{{ ''.__class__.__mro__ }}"]
)
def test_refuses_what_transformers_refuses(template):
    with pytest.raises(TemplateError):
        peer().apply_chat_template(TURNS, chat_template=template, tokenize=False)
    with pytest.raises(ChatTemplateError):
        ours(template).apply_chat_template(TURNS)
