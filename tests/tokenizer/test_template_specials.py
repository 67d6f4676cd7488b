"""Special tokens in a prompt: those that the template wrote count, what messages say is text."""

import asyncio
import functools
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from model_files import file_backends
from vocabularies import byte_level

from mini_vllm.chat_template.template import ChatTemplate, Rendered, TemplateLimits
from mini_vllm.chat_template.worker import Renderer, answer
from mini_vllm.server.endpoints.chat_request import ChatCompletionMessage
from mini_vllm.server.endpoints.prompts import chat_prompt
from mini_vllm.server.service import DEFAULT_LIMITS
from mini_vllm.tokenizer import (
    ByteTokenizer,
    CacheConfig,
    CachedTokenizer,
    HuggingFaceTokenizer,
    TokenizerWrapper,
)
from mini_vllm.tokenizer.encoding import special_pattern

LOOP = "{{% for m in messages %}}{}{{% endfor %}}{}"
CHATML_TOKENS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
# By family: its special tokens, and a small template that treats messages as real ones of it do.
FAMILIES = {
    "chatml": (CHATML_TOKENS, LOOP.format(
        "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}",
        "{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}<|im_start|>assistant\n")),
    "llama 3": (["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        "{% set ns = namespace(first=true) %}" + LOOP.format(
            "{% set text = '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n'"
            " + m['content'] | trim + '<|eot_id|>' %}"
            "{% if ns.first %}{% set text = bos_token + text %}{% set ns.first = 0 %}{% endif %}"
            "{{ text }}", "{{ tools | tojson }}<|start_header_id|>assistant<|end_header_id|>")),
    "mistral": (["<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[TOOL_CALLS]"],
        "{{ bos_token }}" + LOOP.format(
            "{% if m.role == 'user' %}{{ '[INST] ' ~ m.content ~ ' [/INST]' }}"
            "{% else %}{{ m.content[:40] }}{{ eos_token }}{% endif %}",
            "[AVAILABLE_TOOLS] {{ tools | tojson(ensure_ascii=True) }}")),
    "phi": (["<|user|>", "<|assistant|>", "<|system|>", "<|end|>"], LOOP.format(
        "{{ '<|' + m.role + '|>' ~ m.content ~ '<|end|>' }}", "<|{{ 'assistant' }}|>")),
    "phi, as it stands": (["<|user|>", "<|assistant|>", "<|system|>", "<|end|>"], LOOP.format(
        "<|{{ m.role }}|>\n{{ m.content | lower }}<|end|>\n", "<|assistant|>")),
    "gemma 4": (["<|turn>", "<turn|>", "<|channel>", "<channel|>"],
        "{% macro strip(text) %}{% for part in text.split('<channel|>') %}"
        "{{ part.split('<|channel>')[0] }}{% endfor %}{% endmacro %}" + LOOP.format(
            "<|turn>{{ m.role }}\n{{ strip(m.content) }}<turn|>\n", "{{ '<|turn>model\n' }}")),
    "deepseek": (["<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<think>", "</think>"],
        LOOP.format(
            "{% if m.role == 'user' %}<｜User｜>{{ m.content }}{% else %}<｜Assistant｜>"
            "{% set said = m.content %}{% if '</think>' in said %}"
            "{% set said = said.split('</think>')[-1] %}{% endif %}"
            "{{ said }}<｜end▁of▁sentence｜>{% endif %}", "<｜Assistant｜><think>")),
    "harmony": (["<|start|>", "<|message|>", "<|channel|>", "<|end|>"],
        "{% macro turn(role, text) %}<|start|>{{ role }}<|message|>{{ text }}{% endmacro %}"
        + LOOP.format("{% if '<|channel|>' in m.content or m.content.startswith('<|start|>') %}"
            "{{ turn(m.role, 'left out') }}{% else %}{{ turn(m.role, m.content) }}{% endif %}"
            "{{ {'user': '<|end|>', 'system': '<|end|>'}.get(m.role, '<|end|>') }}",
            "{{ '%s%s' | format('<|start|>', 'assistant') }}")),
    "joined": (["<a>", "<b>", "<a><b>"], LOOP.format(
        "{{ [m.content, m.role] | join('<a>') | replace('x', '<b>') }}"
        "{{ '<b>'.join([m.content, 'same<a>' if m.content == '<a>' else 'other<a>']) }}"
        "{{ '<b>' is eq(m.content) }}{{ m.missing | d('<b>') }}{{ loop.cycle('<a>', '<b>') }}"
        "{{ ('<a>' + m.content).find(m.content) }}"
        "{{ {'<a>': 'found'}[m.content] }}{{ m.content | replace('<a>', '-') }}"
        "{{ '<%s>' % (m.content or 'a') }}{{ '<a>x'[:3] }}{{ m.content.count('<b>') }}",
        "{{ messages | map(attribute='content') | join('<b>') }}")),
}  # fmt: skip
ROLES = {"bos_token": "<s>", "eos_token": "</s>"}


def talk(said):
    return [
        {"role": "system", "content": f"{said} Be brief. "},
        {"role": "user", "content": said},
        {"role": "assistant", "content": f"No {said}.\n"},
        {"role": "user", "content": f"  {said.upper()}{said}"},
    ]


def described(said):
    function = {"name": "get", "description": said, "parameters": {"properties": {said: {}}}}
    return [{"type": "function", "function": function}]


@functools.cache
def renderer(family, *, knows=True):
    tokens, template = FAMILIES[family]
    own = {**ROLES, "bos_token": "<|begin_of_text|>"} if family == "llama 3" else ROLES
    return Renderer(template, 10_000, tokens if knows else (), own)


def rendered(family, said, *, knows=True):
    variables = {"messages": talk(said), "tools": described(said)}
    return answer(renderer(family, knows=knows), variables)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_message_says_is_never_the_templates_own(family):
    tokens, _ = FAMILIES[family]
    harmless = rendered(family, "zz")
    wanted = [harmless["text"][slice(*span)] for span in harmless["special"]]
    assert wanted
    assert harmless["clean"]
    # Whole, twice, around one that the template may take away, cut short, in another case.
    spellings = [
        *tokens, *(token * 2 for token in tokens), *(f" \n{token}\n" for token in tokens),
        *(token[:2] + other + token[2:] for token in tokens for other in tokens),
        *map(str.upper, tokens), *(token[:-1] for token in tokens),
    ]  # fmt: skip
    for said in spellings:
        made = rendered(family, said)
        # The marks are off again, and no comparison saw them.
        assert made["text"] == rendered(family, said, knows=False)["text"]
        assert [made["text"][slice(*span)] for span in made["special"]] == wanted, said
        everywhere = [m.span() for m in special_pattern(frozenset(tokens)).finditer(made["text"])]
        assert made["clean"] == (made["special"] == everywhere)


def test_a_lone_surrogate_leaves_no_special_tokens():
    template = ChatTemplate("<s>{{ messages[0].content }}", special_tokens=["<s>"])
    assert template.render([{"role": "user", "content": "<s>"}]) == Rendered(
        "<s><s>", ((0, 3),), clean=False
    )
    assert template.render([{"role": "user", "content": "\ud800"}]) == Rendered(
        "<s>\ud800", clean=False
    )
    # What a call sets is not the template's own, not even BOS.
    own = ChatTemplate("{{ bos_token }}", bos_token="<s>").with_special_tokens(["<s>"])
    assert own.with_special_tokens(["<s>"]) is own
    assert own.render([]) == Rendered("<s>", ((0, 3),))
    assert own.render([], bos_token="<s>") == Rendered("<s>", clean=False)
    template.close()
    own.close()


def test_what_is_json_is_text():
    """Marks would be escaped like all that is not ASCII."""
    made = answer(Renderer("{{ {'k': '<a>'} | tojson(ensure_ascii=True) }}", 99, ["<a>"]), {})
    assert made == {"text": '{"k": "<a>"}', "special": [], "clean": False}


def test_an_error_has_the_usual_letters():
    broken = Renderer(
        "{{ {}['<|im_end|>'].x }}{{ raise_exception('<|im_end|>') }}", 99, ["<|im_end|>"]
    )
    assert answer(broken, {})["error"] == "line 1: 'dict object' has no attribute '<|im_end|>'"
    refusing = Renderer("{{ raise_exception('no <|im_end|>') }}", 99, ["<|im_end|>"])
    assert answer(refusing, {})["error"] == "no <|im_end|>"


# From a conversation to ids, on every kind of tokenizer.

CHAT = (
    "{% for m in messages %}{{ START + m.role + ' ' + m.content + END }}"
    "{{ m.reasoning_content }}{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}"
    "{% endfor %}{{ tools | tojson }}{% if add_generation_prompt %}{{ START }}{% endif %}"
)
with tempfile.TemporaryDirectory() as folder:
    BACKENDS = {
        "byte": ByteTokenizer(),
        "huggingface": HuggingFaceTokenizer.from_tokenizer(byte_level()),
        **file_backends(Path(folder)),
    }


@pytest.fixture(scope="module")
def prompt_of():
    """Make a conversation's prompt as the server does."""
    templates = {}

    def make(tokenizer, messages, tools=None):
        special = tokenizer.special_tokens
        start, end = special.bos or special.eos, special.eos
        if tokenizer not in templates:
            source = CHAT.replace("START", repr(start)).replace("END", repr(end))
            template = ChatTemplate(source, limits=TemplateLimits(seconds=60))
            templates[tokenizer] = template.with_special_tokens(special.all())
        service = SimpleNamespace(
            tokenizer=CachedTokenizer(tokenizer, CacheConfig().suited_to(tokenizer)),
            chat_template=templates[tokenizer],
            limits=DEFAULT_LIMITS,
        )
        asked = msgspec.convert(messages, list[ChatCompletionMessage])
        return asyncio.run(chat_prompt(service, asked, tools=tools, add_generation_prompt=True))

    yield make
    for template in templates.values():
        template.close()


@pytest.mark.parametrize("name", BACKENDS)
def test_nobody_types_a_special_token(prompt_of, name):
    tokenizer = BACKENDS[name]
    special = tokenizer.special_tokens
    ids = {tokenizer.token_to_id(token) for token in special.all()}

    def special_ids(said):
        call = {"function": {"name": said, "arguments": json.dumps({said: said})}}
        messages = [
            {"role": "system", "content": said},
            {"role": "user", "content": [{"type": "text", "text": said}] * 2},
            {"role": "assistant", "content": said, "reasoning": said, "tool_calls": [call]},
            {"role": "tool", "content": said, "tool_call_id": said, "name": said},
        ]
        made = prompt_of(tokenizer, messages, described(said))
        # What the template wrote is found by its id, what a message says by its text.
        assert made.text.count(said) >= 9
        return [one for one in made.token_ids if one in ids]

    wanted = special_ids("harmless")
    assert len(wanted) == 4 * 2 + 1
    for token in special.all():
        assert special_ids(token) == special_ids(f" {token} {token}") == wanted


@pytest.mark.parametrize("name", BACKENDS)
def test_a_special_token_in_a_message_changes_no_other_id(prompt_of, name):
    """Text is cut at the template's special tokens alone: a message is encoded in one piece."""
    tokenizer = BACKENDS[name]
    end = tokenizer.special_tokens.eos
    made = prompt_of(tokenizer, [{"role": "user", "content": f"the{end} end"}])
    plain = tokenizer.encode(f"user the{end} end").ids
    assert made.token_ids[1 : 1 + len(plain)] == plain
    assert tokenizer.token_to_id(end) == made.token_ids[1 + len(plain)]


def test_a_clean_prompt_is_encoded_once_and_with_all_special_tokens(prompt_of):
    """Nothing but the one call that there was before, so that the cache's segments serve."""
    calls = []

    class Noting(TokenizerWrapper):
        splits_at_specials = None

        def encode(self, text, **options):
            calls.append((text, options["allowed_special"]))
            return super().encode(text, **options)

    tokenizer = Noting(BACKENDS["huggingface"])
    made = prompt_of(tokenizer, [{"role": "user", "content": "Hi"}])
    assert calls == [(made.text, "all")]
