"""The embedded model: it answers, it ends, and it calls tools that it has never seen."""

import itertools
import json
import os
from pathlib import Path

import pytest

from mini_vllm.engine.model import SlotView
from mini_vllm.engine.request import SamplingParams
from mini_vllm.finish_reason import FinishReason
from mini_vllm.models import ngram
from mini_vllm.models.ngram import load_embedded
from mini_vllm.pipeline import TextPipeline
from mini_vllm.text.events import ArgsDelta, CallEnd, CallStart, TextDelta
from mini_vllm.text.tool_parsers import create_tool_parser

EOS = 257
EMBEDDED = load_embedded()
DATA = Path(ngram.__file__).with_name("embedded_model")
CORPUS = (DATA / "corpus.txt").read_text(encoding="utf-8")
DOCUMENTS = CORPUS.split("<|end|>\n")[:-1]
# Temperature 0, then seeds.
SEEDS = range(50 if os.environ.get("SOAK") else 20)
SAMPLINGS = [{"temperature": 0}, *({"seed": seed} for seed in SEEDS)]


def user(content):
    return {"role": "user", "content": content}


def function(name, properties=None, **rest):
    if properties is not None:
        rest["parameters"] = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, **rest}}


def prompt(messages, tools=None):
    return EMBEDDED.chat_template.apply_chat_template(messages, True, tools=tools)


def generate(text, most=2000, **params):
    """Return the events, the ids and the finish reason."""
    ids = EMBEDDED.tokenizer.encode(text).ids
    view = SlotView("r", 0, ids, SamplingParams(max_tokens=most, **params))
    pipeline = TextPipeline(
        EMBEDDED.tokenizer,
        prompt_token_ids=ids,
        eos_token_ids=EMBEDDED.tokenizer.eos_token_ids,
        tools=create_tool_parser(EMBEDDED.tool_format),
    )
    events = []
    while pipeline.finish_reason is None and view.step < most:
        ask = EMBEDDED.model.decode if view.step else EMBEDDED.model.prefill
        (burst,) = ask([view])
        view.output_token_ids += burst.token_ids
        view.step += 1
        events += pipeline.feed(burst.token_ids)
    EMBEDDED.model.release(view)
    events += pipeline.finish(FinishReason.LENGTH)
    return events, view.output_token_ids, pipeline.finish_reason


def answer(text, **params):
    """Return the text of an answer that is nothing but text and ends by itself."""
    events, ids, reason = generate(text, **params)
    assert reason == "stop"
    assert ids[-1] == EOS
    assert all(isinstance(event, TextDelta) for event in events)
    said = "".join(event.text for event in events)
    assert said.encode() == bytes(ids[:-1])
    assert "<|" not in said
    assert "<tool_call>" not in said
    return said


def test_the_corpus_has_the_shape_that_the_template_renders():
    for document in DOCUMENTS:
        asked, said = document.split("<|assistant|>\n")
        if asked == "<|result|>\n":
            assert prompt([{"role": "tool", "content": ""}]).endswith("<|result|>\n<|assistant|>\n")
            continue
        question = asked.removeprefix("<|user|>\n").removesuffix("\n")
        assert question == question.strip()
        assert prompt([user(question)]) == asked + "<|assistant|>\n"
        messages = [user(question), {"role": "assistant", "content": said}]
        rendered = EMBEDDED.chat_template.apply_chat_template(messages)
        assert rendered == document + "<|end|>\n"


def test_the_corpus_shows_what_streaming_is_about():
    assert 15_000 < len(CORPUS.encode()) < 30_000
    assert {len(character.encode()) for character in CORPUS} == {1, 2, 3, 4}
    for text in ("naïve café", "你好", "🚀", "🇫🇷", "👩‍🚀"):
        assert text in CORPUS
    assert "<tool_call>" not in CORPUS
    assert "\ufffd" not in CORPUS


QUESTIONS = [
    "Hello!", "What is a token?", "who won the world cup in 1998?",
    "Explain quantum computing to a child, please", "你好吗", "ß", "🇯🇵", "", "x" * 3000, "a\n\nb\n",
    "<tool_call>", "Write <tool_call>\n{}\n</tool_call>",
]  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS, ids=range(len(QUESTIONS)))
def test_every_question_gets_an_answer_that_ends(question):
    text = prompt([user(question)])
    for sampling in SAMPLINGS:
        assert 40 <= len(answer(text, **sampling).encode()) <= 400


def test_answers_are_those_to_the_question_and_vary():
    said = {answer(prompt([user("What is a token?")]), **sampling) for sampling in SAMPLINGS}
    assert len(said) > 1
    assert all("oken" in one for one in said)
    strange = {answer(prompt([user("Zażółć")]), **sampling) for sampling in SAMPLINGS}
    assert len(strange) > 10


def test_a_long_conversation_goes_on():
    messages = [{"role": "system", "content": "You are a friendly model."}]
    for seed, question in enumerate(["Hello!", "What is a byte?", "Hello!", "Why?", "qqq"] * 3):
        messages.append(user(question))
        said = answer(prompt(messages), seed=seed)
        assert 40 <= len(said.encode()) <= 400
        messages.append({"role": "assistant", "content": said})


def test_multi_byte_characters_arrive_token_by_token():
    events, ids, _ = generate(prompt([user("你好！")]), temperature=0)
    text = "".join(event.text for event in events)
    assert len(ids) - 1 == len(text.encode()) > len(text)
    assert all(len(event.text) == 1 for event in events)


WEATHER = function("get_weather", {"city": {"type": "string"}}, description="The weather. é")
TOOLS = {
    "one": [WEATHER],
    "three": [
        WEATHER,
        function("add", {"a": {"type": "number"}, "b": {"type": "integer"}}),
        function("send", {"to": {"enum": ["all", "me"]}, "loud": {"type": "boolean"}}),
    ],
    "seven alike": [function(f"turn_{n}", {"way": {"enum": ["left"]}}) for n in range(7)],
    "no parameters": [function("now"), function("today", {}), function("tick", parameters=None)],
    "nested": [
        function(
            "plan",
            {
                "where": {"type": "object", "properties": {"city": {"type": "string"}}},
                "days": {"type": "array", "items": {"type": "string"}},
                "items": {"type": ["integer", "null"]},
                "nothing": {"type": "null"},
                "anything": {},
                "true": True,
            },
        )
    ],
    "unicode": [
        function("天气", {"城市": {"type": "string"}, "Größe": {"enum": ['"ä" \\ {', "ö"]}}),
        function('say "hi"\\', {'a "b" {': {"type": "string"}}),
        function("🚀_start", {"</tool_call>": {"enum": ["<tool_call>", "x"]}}),
    ],
    "bare": [{"name": "lookup", "parameters": {"properties": {"q": {"type": "string"}}}}],
}


def call_of(events):
    """Return text, name and arguments of one call, whose events come in their order."""
    kinds = [type(event) for event in events]
    order = (TextDelta, CallStart, ArgsDelta, CallEnd)
    assert tuple(kind for kind, _ in itertools.groupby(kinds)) == order
    assert kinds.count(CallStart) == kinds.count(CallEnd) == 1
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    arguments = "".join(event.text for event in events if isinstance(event, ArgsDelta))
    (start,) = (event for event in events if isinstance(event, CallStart))
    return text, start.name, json.loads(arguments)


def names(tools):
    return {tool.get("function", tool)["name"] for tool in tools}


@pytest.mark.parametrize("tools", TOOLS.values(), ids=TOOLS)
def test_with_tools_it_says_a_sentence_and_makes_a_call(tools):
    text = prompt([user("What is the weather in Zürich?")], tools)
    called = set()
    for sampling in SAMPLINGS:
        events, ids, reason = generate(text, **sampling)
        said, name, arguments = call_of(events)
        assert reason == "tool_calls"
        assert ids[-1] == EOS
        assert 10 < len(said) < 80
        assert isinstance(arguments, dict)
        called.add(name)
    assert called == names(tools)


@pytest.mark.parametrize("content", [None, "?", '"<|\\ 🚀{', "Hello " * 500, "a<|end|>\n"])
def test_with_tools_it_makes_a_call_whatever_the_user_says(content):
    messages = [user("Hello"), {"role": "assistant", "content": "Hi!"}, user(content)]
    text = prompt(messages, TOOLS["three"])
    for sampling in SAMPLINGS[:8]:
        assert call_of(generate(text, **sampling)[0])[1] in names(TOOLS["three"])


def test_arguments_come_from_the_schema_and_the_question():
    def arguments(tools, question="Say it in Zürich, 你好 Wien?!"):
        return call_of(generate(prompt([user(question)], tools), temperature=0)[0])[2]

    assert arguments([WEATHER]) == {"city": "Wien"}
    assert arguments([WEATHER], "?!") == {"city": "city"}
    assert arguments([WEATHER], 'a "\\') == {"city": "\\"}
    assert arguments(TOOLS["nested"]) == {
        "where": {}, "days": [], "items": 1, "nothing": None, "anything": "Wien", "true": "Wien",
    }  # fmt: skip
    (add,) = TOOLS["three"][1:2]
    assert arguments([add]) == {"a": 1, "b": 1}
    assert arguments(TOOLS["three"][2:]) == {"to": "all", "loud": True}
    assert arguments(TOOLS["unicode"][:1]) == {"城市": "Wien", "Größe": '"ä" \\ {'}


def after_tool(result, arguments='{"city": "Zürich"}'):
    made = {"type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    return [
        user("What is the weather in Zürich?"),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", **made}]},
        {"role": "tool", "tool_call_id": "1", "content": result},
    ]


@pytest.mark.parametrize("tools", [None, TOOLS["three"]], ids=["without", "with"])
@pytest.mark.parametrize("result", ["21 °C 🌤️", '{"t": 21}', "one\ntwo\n", "", "é" * 500])
def test_after_a_tool_it_answers_in_prose(result, tools):
    text = prompt(after_tool(result), tools)
    said = [answer(text, **sampling) for sampling in SAMPLINGS]
    assert all(0 < len(one) < 260 for one in said)
    assert len(set(said)) > 1
    if result:
        assert result[:200] in said[0]
        assert sum(result[:200] in one for one in said) > len(said) / 4


AGAIN = [{"role": "assistant", "content": "It is 21."}, user("What is the weather in Zürich?")]


@pytest.mark.parametrize(
    ("messages", "tools"),
    [
        (
            after_tool('x <tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'),
            [WEATHER],
        ),
        ([*after_tool("21"), *AGAIN], None),
    ],
    ids=["a result that looks like a call is not repeated", "without tools, after a call"],
)
def test_it_makes_no_call(messages, tools):
    text = prompt(messages, tools)
    assert "<tool_call>" in text
    for sampling in SAMPLINGS:
        answer(text, **sampling)


def test_with_tools_it_calls_again_when_the_user_asks_again():
    messages = [*after_tool("21"), {"role": "assistant", "content": "21."}, user("And in Wien?")]
    for sampling in SAMPLINGS:
        assert call_of(generate(prompt(messages, [WEATHER]), **sampling)[0])[2] == {"city": "Wien"}


def test_arguments_of_past_calls_may_be_text_or_an_object():
    assert prompt(after_tool("1")) == prompt(after_tool("1", {"city": "Zürich"}))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Hi", "Hi"),
        (None, ""),
        ([{"type": "text", "text": "H"}, {"type": "text", "text": "i"}], "Hi"),
        ([{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "Hi"}], "Hi"),
        ([], ""),
    ],
)
def test_content_may_be_text_or_null_or_parts(content, text):
    assert prompt([user(content)]) == f"<|user|>\n{text}\n<|assistant|>\n"
    for role in ("system", "developer", "tool", "assistant"):
        rendered = EMBEDDED.chat_template.apply_chat_template([{"role": role, "content": content}])
        assert rendered == f"<|{role}|>\n{text}<|end|>\n"


def test_the_tools_and_an_example_of_each_are_in_the_prompt():
    text = prompt([user("Hi Bo")], TOOLS["three"])
    before, after = text.split("<|user|>\nHi Bo\n")
    for tool in TOOLS["three"]:
        assert json.dumps(tool, ensure_ascii=False) in before
        assert f'<tool_call>\n{{"name": "{tool["function"]["name"]}", "arguments": {{' in after
    assert '{"name": "get_weather", "arguments": {"city": "Bo"}}\n</tool_call>' in after


def test_each_load_is_a_model_of_its_own():
    assert load_embedded().model is not EMBEDDED.model
    assert load_embedded().tool_format == "hermes"
