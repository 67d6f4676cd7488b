"""Which formats a server reads: named, shown by the chat template, or none."""

import json

import pytest
from page_stub import EXAMPLES, page_server
from processes import process
from running import WEATHER, Client
from vocabularies import byte_level

from mini_vllm.server.format_options import choose_formats

QWEN = "{{ '<tool_call>\n<function=f>\n<parameter=a>' }}{{ '<think>' }}"
HERMES = "{{ '<tool_call>' }}"
PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.mark.parametrize(
    ("tools", "reasoning", "template", "written", "said", "chosen"),
    [
        (None, None, QWEN, None, None, ("qwen3_coder", "qwen3")),
        (None, None, QWEN, "hermes", None, ("qwen3_coder", "qwen3")),
        (None, None, HERMES, None, None, ("hermes", None)),
        (None, None, PLAIN, None, None, (None, None)),
        (None, None, PLAIN, "hermes", None, ("hermes", None)),
        ("none", "none", QWEN, "hermes", None, (None, None)),
        ("kimi_k2", None, QWEN, None, None, ("kimi_k2", "qwen3")),
        (None, "mistral", QWEN, None, None, ("qwen3_coder", "mistral")),
        (None, None, PLAIN, "hermes", "qwen3", ("hermes", "qwen3")),
        (None, None, QWEN, None, "glm47", ("qwen3_coder", "qwen3")),
        (None, "none", PLAIN, None, "qwen3", (None, None)),
    ],
)
def test_what_is_named_counts_before_what_is_shown(
    tools, reasoning, template, written, said, chosen
):
    formats = choose_formats(tools, reasoning, template, written, said)
    assert (formats.tools.name, formats.reasoning.name) == chosen
    for line, name, named in zip(
        str(formats).splitlines(), chosen, (tools, reasoning), strict=True
    ):
        assert f"  {name or 'none'} (" in line
        assert ("as you asked" in line) is (named is not None)


SCRIPT = """\
[[turn]]
text = '''I need it.
<tool_call>
<function=get_weather>
<parameter=city>
Oslo
</parameter>
</function>
</tool_call>'''
"""
TEMPLATE = """\
{% for m in messages %}{{ m.role }}: {{ m.content }}
{% if m.tool_calls %}<tool_call>
<function={{ m.name }}>
<parameter=city>
{{ m.city }}
</parameter>
</function>
</tool_call>{% endif %}
{% endfor %}assistant: {{ '<think>\n' }}"""

SHOWN = ("qwen3_coder (its chat template shows it", "qwen3 (its chat template shows it")


@pytest.mark.parametrize(
    ("arguments", "said", "calls"),
    [
        (("--chat-template", "chat_template.jinja"), SHOWN, 1),
        (("--tokenizer", "."), SHOWN, 1),
        (("--tokenizer", ".", "--tool-call-parser", "none", "--reasoning-parser", "glm47"),
         ("none (as you asked)", "glm47 (as you asked)"), 0),
    ],
)  # fmt: skip
def test_a_server_reads_what_its_template_shows_and_says_so(tmp_path, arguments, said, calls):
    """A call in reasoning that begins in the prompt and is left open."""
    (tmp_path / "answers.toml").write_text(SCRIPT)
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    (tmp_path / "tokenizer.json").write_text(byte_level().to_str(), encoding="utf-8")
    option, name, *named = arguments
    files = ("--script", str(tmp_path / "answers.toml"), option, str(tmp_path / name))
    body = {"messages": [{"role": "user", "content": "?"}], "tools": [WEATHER]}
    with process(*files, *named) as (child, port), Client("127.0.0.1", port) as client:
        lines = [child.stdout.readline() for _ in range(3)]
        assert [one in line for one, line in zip(said, lines[1:], strict=True)] == [True, True]
        message = client.fetch("/v1/chat/completions", body).json()["choices"][0]["message"]
    assert message["reasoning_content"].startswith("I need it.\n")
    made = [one["function"] for one in message.get("tool_calls") or ()]
    assert len(made) == calls
    for one in made:
        assert (one["name"], json.loads(one["arguments"])) == ("get_weather", {"city": "Oslo"})


def chat(client, **more):
    asked = [{"role": "user", "content": "rocket"}]
    return client.fetch("/v1/chat/completions", {"messages": asked, **more})


def test_a_chat_can_let_the_model_say_the_call_of_any_format():
    """Read in that format, whatever the server's own model writes, and with or without tools."""
    with page_server() as server, server.connect() as client:
        assert client.fetch("/say").json() == {"can_say": True, "examples": EXAMPLES, "note": ""}
        for format, text in EXAMPLES.items():
            for tools in (None, [WEATHER]):
                told = chat(client, say=text, tool_format=format, tools=tools)
                (choice,) = told.json()["choices"]
                (call,) = choice["message"]["tool_calls"]
                assert call["function"]["name"] == "get_weather"
                assert json.loads(call["function"]["arguments"]) == {"city": "Paris"}
                assert choice["finish_reason"] == "tool_calls"
                assert not choice["message"]["content"]


@pytest.mark.parametrize(
    ("say", "more", "content", "reasoning", "stopped"),
    [
        ("Go 🚀!", {}, "Go 🚀!", None, None),
        (r"half \xf0\x9f\x9a, C:\new", {}, "half \ufffd, C:\\new", None, None),
        ("<think>Hm.</think>Yes", {}, "Yes", "Hm.", None),
        ("one STOP two", {"stop": "STOP"}, "one ", None, "STOP"),
        (EXAMPLES["glm45"], {}, EXAMPLES["glm45"], None, None),
        ("a" * 20_000, {"max_tokens": 3}, "aaa", None, None),
        ("", {}, "", None, None),
    ],
)
def test_a_chat_can_let_the_model_say_anything(say, more, content, reasoning, stopped):
    with page_server() as server, server.connect() as client:
        (choice,) = chat(client, say=say, **more).json()["choices"]
        message = choice["message"]
        assert (message["content"], message.get("reasoning_content")) == (content, reasoning)
        assert choice["stop_reason"] == stopped


@pytest.mark.parametrize(
    ("more", "can", "param", "said"),
    [
        ({"say": "a", "tool_format": "no"}, True, "tool_format", "is 'no'; this server reads herm"),
        ({"tool_format": "hermes"}, True, "tool_format", "needs say"),
        ({"say": "a" * 20_001}, True, "say", "has 20,001 characters; at most 20,000 are allowed"),
        ({"say": "a"}, False, "say", "serve the embedded model or a --script"),
    ],
)
def test_what_cannot_be_said_is_refused(more, can, param, said):
    with page_server(can_say=can) as server, server.connect() as client:
        refused = chat(client, **more)
        assert (refused.status, refused.error["param"]) == (400, param)
        assert said in refused.error["message"]
