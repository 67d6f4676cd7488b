"""Endpoints and the contract of streams, over real sockets."""

import asyncio
import json
import threading
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import (
    CHAT,
    WEATHER,
    Says,
    asking,
    at_once,
    running,
    running_embedded,
    serving,
    spelled,
    tool,
)
from vocabularies import byte_level
from wire_client import message_of, read_chat, read_events

from mini_vllm.models.ngram import load_embedded
from mini_vllm.models.remote import RemoteModel
from mini_vllm.models.sayer import Sayer
from mini_vllm.models.scripted import Hook
from mini_vllm.models.spelled import SpelledModel
from mini_vllm.server.endpoints.replies import EventStream
from mini_vllm.tokenizer import ByteTokenizer, ChatTemplate, HuggingFaceTokenizer

ARGUMENTS = '{"city":  "São Paulo 🚀", "days": [1, 2.50], "说": "你好\\u00e9"}'


def call(name="get_weather", arguments=ARGUMENTS):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


TEXTS = {
    "plain": "Hello, world.",
    "lines": 'a\nb\r\nc\u2028d\u2029e\x85f\tg\0h"i\\j</script>',
    "many": "é你🚀👩‍👩‍👧 z̸a̵l̷g̶o̷ ﷽ \ufffd \ufeff",
    "call": f"I shall look. {call()}",
    "calls": f"{call('a')}{call('b', '{}')}\n{call('c')}",
    "just a call": call(),
    "half": 'So <tool_call>\n{"name": "get_weather", "arguments": {"city": "P',
    "wrong": f"Well. {call(arguments='{x: 1}')} Or {call('b', '{}')}",
    "torn behind": f"{call('a')} and {call(arguments='{x: 1}')}.",
    "think": "Hm, 你.</think>Yes 🚀.",
    "until": "not the EN, but the END of it",
    "tag": "a < b <tool_cal and 🚀",
    "empty": "",
}
# The content of an answer that does not stream, in which a call breaks off, and its other calls.
BROKEN = {
    "half": (TEXTS["half"], []),
    "wrong": (f"Well. {call(arguments='{x: 1}')} Or ", ["b"]),
    "torn behind": (f" and {call(arguments='{x: 1}')}.", ["a"]),
}
# It goes through the members of arguments, as that of Qwen3-Coder does.
MEMBERS = """{% for turn in messages %}{{ turn.content }}{% for call in turn.tool_calls or [] %}
{{ call.function.name }}{% for name, value in call.function.arguments | items %}
{{ name }}={{ value }}{% endfor %}{% endfor %}
{% endfor %}"""
TOOLS = [tool(name) for name in ("get_weather", "a", "b", "c")]
NAMED = {"type": "function", "function": {"name": "get_weather"}}


server = serving(Says(**TEXTS))


@pytest.fixture(scope="module")
def embedded():
    with running_embedded() as running_server:
        yield running_server


@pytest.mark.parametrize("name", ["plain", "lines", "many", "until", "tag", "empty"])
@pytest.mark.parametrize("step", [1, 7, 65536])
def test_a_stream_is_the_text_byte_for_byte_however_the_socket_is_read(server, name, step):
    choice = server.told(name, step=step)[0]
    assert choice["content"].encode() == TEXTS[name].encode()
    assert choice["finish_reason"] == "stop"


def test_headers_of_a_stream_forbid_caches_and_buffers(server):
    headers = server.chat(asking("plain", stream=True)).headers
    assert headers["content-type"].partition(";")[0] == "text/event-stream"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"


def test_a_character_outside_ascii_inside_arguments_is_never_cut(server):
    """X18: each event is decoded on its own, strictly, and the arguments grow by whole ones."""
    answer = server.chat(asking("call", stream=True, tools=TOOLS), step=1)
    for event in answer.body.split(b"\n\n"):
        event.decode("utf-8", "strict")
    deltas = [
        one["function"]["arguments"]
        for event in read_events(answer.body)
        for choice in event["choices"]
        for one in choice["delta"].get("tool_calls", [])
    ]
    assert "".join(deltas) == ARGUMENTS
    assert len(deltas) > 5
    assert all("\ufffd" not in delta for delta in deltas)


CALLED = ("get_weather", ARGUMENTS)
HALF = len(TEXTS["half"].encode())


@pytest.mark.parametrize("step", [1, 65536])
@pytest.mark.parametrize(
    ("name", "fields", "calls", "content", "reason"),
    [
        ("calls", {"tools": TOOLS}, [("a", ARGUMENTS), ("b", "{}"), ("c", ARGUMENTS)], "\n",
         "tool_calls"),
        ("half", {"tools": TOOLS, "max_tokens": HALF}, [("get_weather", '{"city": "P')], "So ",
         "length"),
        ("call", {}, [], TEXTS["call"], "stop"),
        ("call", {"tools": TOOLS, "tool_choice": "none"}, [], TEXTS["call"], "stop"),
        ("just a call", {"tools": TOOLS, "tool_choice": "required"}, [CALLED], "", "tool_calls"),
        # Only a function chosen by name ends with stop.
        ("just a call", {"tools": TOOLS, "tool_choice": NAMED}, [CALLED], "", "stop"),
        ("calls", {"tools": TOOLS, "parallel_tool_calls": False}, [("a", ARGUMENTS)], "\n",
         "tool_calls"),
        ("torn behind", {"tools": TOOLS, "parallel_tool_calls": False}, [("a", ARGUMENTS)],
         " and .", "tool_calls"),
        ("until", {"stop": [*map(str, range(200)), "END", "z" * 4000]}, [],
         "not the EN, but the ", "stop"),
    ],
    ids=["calls", "cut off", "no tools", "none", "required", "by name", "not parallel",
         "not parallel, and torn", "stop"],
)  # fmt: skip
def test_what_was_asked_for_is_what_is_told(server, name, fields, calls, content, reason, step):
    choice = server.told(name, step=step, **fields)[0]
    assert [(one["name"], one["arguments"]) for one in choice["calls"]] == calls
    assert len({one["id"] for one in choice["calls"]}) == len(calls)
    assert (choice["content"], choice["finish_reason"]) == (content, reason)
    assert choice["stop_reason"] == ("END" if name == "until" else None)
    whole = server.chat(asking(name, **fields)).json()["choices"][0]
    assert whole["finish_reason"] == reason
    if name != "half":
        assert (whole["message"]["content"] or "") == content


def test_a_server_that_strips_sends_no_white_space_beside_calls(server, monkeypatch):
    monkeypatch.setattr(server.service, "strip", True)
    for name, fields, content in (
        ("calls", {"tools": TOOLS}, None),
        ("call", {"tools": TOOLS}, "I shall look."),
        ("call", {}, TEXTS["call"]),
    ):
        assert server.told(name, **fields)[0]["content"] == (content or "")
        message = server.chat(asking(name, **fields)).json()["choices"][0]["message"]
        assert message["content"] == content


def test_usage_counts_the_tokens_and_is_null_before(server):
    body = asking("plain", stream=True, stream_options={"include_usage": True})
    _, usage = read_chat(server.chat(body).body, include_usage=True)
    tokens = len(TEXTS["plain"]) + 1
    assert usage["completion_tokens"] == tokens
    assert usage["total_tokens"] == usage["prompt_tokens"] + tokens
    whole = server.chat(asking("plain")).json()["usage"]
    assert whole == usage


def test_usage_is_counted_all_the_time_if_that_was_asked_for(server):
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = asking("plain", stream=True, stream_options=options, n=2)
    *events, last = read_events(server.chat(body).body)
    for index in (0, 1):
        usages = [one["usage"] for one in events if one["choices"][0]["index"] == index]
        counts = [usage["completion_tokens"] for usage in usages]
        assert (counts[0], counts[-1]) == (0, len(TEXTS["plain"]) + 1)
        assert counts == sorted(counts)
        prompts = {usage["prompt_tokens"] for usage in usages}
        assert prompts == {last["usage"]["prompt_tokens"]}
    assert last["usage"]["completion_tokens"] == 2 * (len(TEXTS["plain"]) + 1)


def test_choices_are_whole_each_for_itself(server):
    choices = server.told("call", n=3, tools=TOOLS)
    assert sorted(choices) == [0, 1, 2]
    for choice in choices.values():
        assert choice["calls"][0]["arguments"] == ARGUMENTS
    assert len({choice["calls"][0]["id"] for choice in choices.values()}) == 3


def test_more_choices_than_slots_take_turns(server):
    answer = server.chat(asking("plain", n=20)).json()
    assert [one["message"]["content"] for one in answer["choices"]] == [TEXTS["plain"]] * 20


def test_logprobs_are_there_for_every_token(server):
    steps = server.told("many", logprobs=True, top_logprobs=2)[0]["logprobs"]
    assert len(steps) == len(TEXTS["many"].encode()) + 1
    assert all(len(step["top_logprobs"]) == 2 and step["logprob"] <= 0 for step in steps)
    said = b"".join(bytes(step["bytes"]) for step in steps[:-1])
    assert said == TEXTS["many"].encode()


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_whole_answer_is_the_stream_in_one(server, name):
    streamed = server.told(name, tools=TOOLS)
    whole = server.chat(asking(name, tools=TOOLS)).json()
    assert whole["object"] == "chat.completion"
    message, expected = whole["choices"][0]["message"], message_of(streamed[0])
    if name in BROKEN:
        content, called = BROKEN[name]
        calls = [one for one in expected["tool_calls"] if one["function"]["name"] in called]
        expected = {"role": "assistant", "content": content}
        expected |= {"tool_calls": calls} if calls else {}
    for one in (message, expected):
        for made in one.get("tool_calls", []):
            made.pop("id")
    assert message == expected
    assert whole["choices"][0]["finish_reason"] == streamed[0]["finish_reason"]


def test_every_answer_is_taken_back_as_history():
    deep = call(arguments='{"a": ' * 30 + "1" + "}" * 31)
    with running(Says(**TEXTS, deep=deep), chat_template=ChatTemplate(MEMBERS)) as server:
        for name in (*TEXTS, "deep"):
            whole = server.chat(asking(name, tools=TOOLS)).json()["choices"][0]["message"]
            for said in (whole, message_of(server.told(name, tools=TOOLS)[0])):
                calls = said.get("tool_calls", [])
                results = [{"role": "tool", "tool_call_id": c["id"], "content": "7"} for c in calls]
                turns = [*asking(name)["messages"], said, *results]
                found = server.fetch("/tokenize", {"messages": turns, "return_token_strs": True})
                assert found.status == 200
                if said is not whole and name == "half":
                    shown = "".join(found.json()["token_strs"])
                    assert 'get_weatherarguments={"city": "P' in shown


def test_reasoning_has_a_field_of_its_own():
    with running(Says(**TEXTS), reasoning_format="deepseek_r1") as server:
        choice = server.told("think", step=1)[0]
    assert (choice["reasoning_content"], choice["content"]) == ("Hm, 你.", "Yes 🚀.")


def test_completions_stream_and_whole_say_the_same(server):
    body = {"prompt": ["<plain>", "<many>"], "max_tokens": 100, "n": 2}
    whole = server.fetch("/v1/completions", body).json()
    events = read_events(server.fetch("/v1/completions", {**body, "stream": True}).body)
    texts = dict.fromkeys(range(4), "")
    reasons = {}
    for event in events:
        assert event["object"] == "text_completion"
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
            if choice["finish_reason"]:
                reasons[choice["index"]] = choice["finish_reason"]
    said = [TEXTS["plain"], TEXTS["plain"], TEXTS["many"], TEXTS["many"]]
    assert [texts[index] for index in range(4)] == said
    assert [choice["text"] for choice in whole["choices"]] == said
    assert reasons == dict.fromkeys(range(4), "stop")


def test_completions_of_ids(server):
    ids = list(b"<plain>")
    whole = server.fetch("/v1/completions", {"prompt": ids, "max_tokens": 5}).json()
    assert whole["choices"][0]["text"] == "Hello"
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"]["prompt_tokens"] == len(ids)


def test_the_prompt_is_echoed_with_its_logprobs(embedded):
    """As lm-eval asks for the likelihood of a text: echo, and one token or none."""
    body = {"prompt": ["The weather", "Hi"], "echo": True, "logprobs": 1, "temperature": 0}
    for tokens in (0, 1):
        asked = {**body, "max_tokens": tokens, "n": 2}
        whole = embedded.fetch("/v1/completions", asked).json()
        assert whole["usage"]["completion_tokens"] == 4 * tokens
        told = {index: ["", [], []] for index in range(4)}
        for event in read_events(embedded.fetch("/v1/completions", {**asked, "stream": True}).body):
            (choice,) = event["choices"]
            told[choice["index"]][0] += choice["text"]
            lists = choice["logprobs"] or {"token_logprobs": [], "text_offset": []}
            told[choice["index"]][1] += lists["token_logprobs"]
            told[choice["index"]][2] += lists["text_offset"]
        for choice in whole["choices"]:
            prompt, size = (("The weather", 12), ("Hi", 3))[choice["index"] // 2]
            lists = choice["logprobs"]
            expected = [choice["text"], lists["token_logprobs"], lists["text_offset"]]
            assert told[choice["index"]] == expected
            assert choice["text"][: len(prompt)] == prompt
            assert len(choice["text"]) == len(prompt) + tokens
            assert len(lists["tokens"]) == len(lists["top_logprobs"]) == size + tokens
            # BOS is no part of the text.
            assert lists["text_offset"] == [0, *range(len(choice["text"]))]
            assert [one is None for one in lists["token_logprobs"]].count(True) == 1
            assert choice["finish_reason"] == "length"


def test_a_server_like_this_one_may_be_the_model(embedded):
    """It tells tokens of logprobs by their ids, or nobody could tell halves of characters apart."""
    model = RemoteModel(f"{embedded.url}/v1", eos_token_id=ByteTokenizer.eos_token_id)
    template = load_embedded().chat_template
    echo = {"prompt": "café 🚀", "echo": True, "logprobs": 2, "max_tokens": 4}
    chat = {"messages": [{"role": "user", "content": "Hi"}], "logprobs": True, "top_logprobs": 2}
    with running(model, chat_template=template) as front:
        for path, asked in (("/v1/completions", echo), (CHAT, {**chat, "max_tokens": 9})):
            first, second = (
                one.fetch(path, {**asked, "temperature": 0}).json() for one in (front, embedded)
            )
            assert first["choices"] == second["choices"]
    model.close()


def test_an_echo_needs_no_model_that_scores_unless_logprobs_are_wanted(server):
    body = {"prompt": "<plain>", "echo": True, "max_tokens": 5}
    answer = server.fetch("/v1/completions", body).json()
    assert answer["choices"][0]["text"] == "<plain>Hello"
    error = server.fetch("/v1/completions", {**body, "logprobs": 1}).error
    assert (error["param"], error["code"]) == ("echo", "unsupported_parameter")
    assert server.fetch("/v1/completions", {"prompt": "a", "max_tokens": 0}).status == 400
    assert server.chat({**asking("plain"), "echo": True}).status == 400


def test_detokenize_undoes_tokenize(server):
    @given(st.text(st.characters(exclude_categories=["Cs"])).filter(bool))
    @settings(max_examples=20)
    def undoes(text):
        asked = {"prompt": text, "add_special_tokens": False}
        ids = client.fetch("/tokenize", asked).json()["tokens"]
        assert ids == list(text.encode())
        assert client.fetch("/detokenize", {"tokens": ids}).json()["prompt"] == text

    with server.connect() as client:
        undoes()


def test_tokenize_of_messages_is_the_prompt_of_a_chat(server):
    messages = asking("plain")
    found = server.fetch("/tokenize", {**messages, "return_token_strs": True}).json()
    assert found["count"] == len(found["tokens"]) == len(found["token_strs"])
    assert found["count"] == server.chat(messages).json()["usage"]["prompt_tokens"]


def test_the_final_message_is_continued(embedded):
    """The model reads the prompt up to the end of that message, whose turn stays open."""
    said = {"role": "assistant", "content": "The capital of Fra "}
    body = {"messages": [{"role": "user", "content": "Hi"}, said], "add_generation_prompt": False}
    body |= {"continue_final_message": True, "max_tokens": 1, "return_token_ids": True}
    prompt = embedded.chat(body).json()["prompt_token_ids"]
    assert embedded.fetch("/tokenize", body).json()["tokens"] == prompt
    text = embedded.fetch("/detokenize", {"tokens": prompt}).json()["prompt"]
    assert text.endswith("<|user|>\nHi\n<|assistant|>\nThe capital of Fra ")


def test_a_special_token_counts_in_a_prompt_and_is_text_in_a_message(server):
    messages = [{"role": "user", "content": "a<eos>"}]
    said = server.fetch("/tokenize", {"messages": messages}).json()["tokens"]
    assert bytes(said) == b"user: a<eos>\nassistant: "
    prompt = {"prompt": "a<eos>", "add_special_tokens": False}
    assert server.fetch("/tokenize", prompt).json()["tokens"] == [*b"a", 257]


def test_seeds_repeat_and_differ(embedded):
    def say(seed):
        messages = [{"role": "user", "content": "Hello!"}]
        body = {"messages": messages, "seed": seed, "temperature": 1.5, "max_tokens": 60}
        return embedded.chat(body).json()["choices"][0]["message"]["content"]

    assert say(1) == say(1)
    assert len({say(seed) for seed in range(6)}) > 1


def test_what_is_said_of_sampling_is_done(embedded):
    """ID 120 is x, and 115 s."""

    def say(**fields):
        body = {"prompt": "The weather", "temperature": 0, "max_tokens": 30, **fields}
        return embedded.fetch("/v1/completions", body).json()["choices"][0]["text"]

    assert say(logit_bias={"120": 100}) == "x" * 30
    # Without the bias x is impossible, and its logprob is that of an impossible token.
    assert say(logit_bias={"120": 100}, logprobs=0) == "x" * 30
    assert "Paris" in say()
    # Nothing else ever followed "Pari".
    assert "s" not in say(logit_bias={"115": -100})
    assert say(temperature=1, top_k=1) == say() != say(repetition_penalty=5)


# The fields of a request that decide its tokens, and which of them a client gets.
SAMPLING = {
    "temperature": [0, 0.5, 2],
    "top_p": [1e-9, 0.5],
    "top_k": [1, 5],
    "min_p": [0.1, 1],
    "n": [2, 3],
    "presence_penalty": [-2, 2],
    "frequency_penalty": [-2, 0.5],
    "repetition_penalty": [0.5, 2],
    "logit_bias": [{"120": 100}, {"32": -100, "258": 100}, {"101": 5}],
    "stop": ["a", ["\n", "is the"], [" ", "e"]],
    "stop_token_ids": [[], [32], [120, 101]],
    "include_stop_str_in_output": [True],
    "ignore_eos": [True],
    "min_tokens": [1, 5],
    "skip_special_tokens": [False],
    "structured_outputs": [{"regex": "[ab]{3}"}, {"choice": ["yes", "no"]}],
}
COMPLETION = {**SAMPLING, "logprobs": [0, 5], "echo": [True]}
CHAT_FIELDS = {
    **SAMPLING,
    "logprobs": [True],
    "tools": [TOOLS],
    "parallel_tool_calls": [False],
    "response_format": [{"type": "text"}, {"type": "json_object"}],
}


@pytest.mark.parametrize(
    ("path", "asks", "fields"),
    [
        ("/v1/completions", {"prompt": "The café"}, COMPLETION),
        ("/v1/chat/completions", asking("Weather in Paris?"), CHAT_FIELDS),
    ],
)
@pytest.mark.parametrize("seed", range(60))
def test_any_fields_at_once_are_answered_alike_streamed_and_whole(
    embedded, path, asks, fields, seed
):
    random = Random(seed)
    chosen = {name: random.choice(fields[name]) for name in fields if random.random() < 0.25}
    body = {**asks, "max_tokens": 20, "seed": seed, **chosen}
    whole = embedded.fetch(path, body)
    streamed = embedded.fetch(path, {**body, "stream": True})
    assert whole.status == streamed.status
    if whole.status != 200:
        assert (whole.status, whole.error) == (400, streamed.error)
        return
    choices = whole.json()["choices"]
    if path == "/v1/completions":
        assert [joined(streamed.body, choice["index"]) for choice in choices] == choices
        return
    messages = read_chat(streamed.body)[0]
    for choice in choices:
        message = messages[choice["index"]]
        assert without_ids(choice["message"]) == without_ids(message_of(message))
        assert (choice["logprobs"] or {}).get("content", []) == message.get("logprobs", [])
        for key in ("finish_reason", "stop_reason"):
            assert choice[key] == message[key]


def joined(data, index):
    """Return a choice of a streamed completion as that of an answer that does not stream."""
    first, *others = [
        choice
        for event in read_events(data)
        for choice in event["choices"]
        if choice["index"] == index
    ]
    for choice in others:
        first["text"] += choice["text"]
        for key, items in (choice["logprobs"] or {}).items():
            first["logprobs"][key] += items
        first |= {key: choice[key] for key in ("finish_reason", "stop_reason") if key in choice}
    return first


def without_ids(message):
    """Return a message whose calls have no ids, which are drawn for each answer."""
    calls = [{**call, "id": ""} for call in message.get("tool_calls", [])]
    return {**message, "tool_calls": calls}


def test_a_bias_of_tokens_is_refused_where_bytes_are_sampled():
    tokenizer = HuggingFaceTokenizer.from_tokenizer(byte_level())
    spelled = SpelledModel(load_embedded().model, tokenizer)
    for model in (spelled, Sayer(spelled, tokenizer)):
        with running(model, tokenizer=tokenizer) as server:
            error = server.chat(asking("x", max_tokens=1, logit_bias={"5": 1})).error
            assert (error["param"], error["code"]) == ("logit_bias", "unsupported_parameter")
            assert server.chat(asking("x", max_tokens=1, top_k=1)).status == 200


def test_the_embedded_model_calls_a_tool_by_name_and_streams_it(embedded):
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    body = {"messages": messages, "tools": [WEATHER], "temperature": 0}
    whole = embedded.chat(body).json()["choices"][0]
    choices, _ = read_chat(embedded.chat({**body, "stream": True}, step=1).body)
    assert whole["finish_reason"] == choices[0]["finish_reason"] == "tool_calls"
    (made,) = whole["message"]["tool_calls"]
    assert made["function"]["name"] == "get_weather"
    assert json.loads(made["function"]["arguments"])
    assert choices[0]["calls"][0]["arguments"] == made["function"]["arguments"]


def test_two_streams_at_once_do_not_mix(server):
    names = ["plain", "many", "lines", "until", "tag", "call"]
    answers = at_once(
        lambda name: server.chat(asking(name, stream=True), step=1 + names.index(name)), names
    )
    for name, answer in zip(names, answers, strict=True):
        assert read_chat(answer.body)[0][0]["content"] == TEXTS[name]
    assert len({read_events(answer.body)[0]["id"] for answer in answers}) == len(names)


def test_silence_is_broken_by_comments_that_readers_skip():
    speak = threading.Event()
    # Silence in short steps: the engine sees cancellations between two.
    script = [(104,), *[Hook(lambda: speak.wait(0.002))] * 100_000, *spelled("i")]

    class Waits(Says):
        def _step(self, slot):
            if speak.is_set() and slot.step < 100_000:
                slot.step = 100_001
            return super()._step(slot)

    with running(Waits(waits=script), ping_seconds=0.02) as server, server.connect() as client:
        client.ask(CHAT, asking("waits", stream=True))
        client.head()
        said = b""
        while said.count(b": ping\n\n") < 3:
            said += client.piece()
        speak.set()
        said += client.pieces()
    assert read_chat(said.replace(b": ping\n\n", b""))[0][0]["content"] == "hi"


def test_every_stream_has_its_first_text_before_any_has_ended(monkeypatch):
    """32 streams whose model is done before they are read: nothing but good manners lets the others
    in between. The order of events is looked at, not a clock."""
    streams, made, order, begin = 32, 0, [], asyncio.Event()
    call = EventStream.__call__

    async def begin_together(self, scope, receive, send):
        nonlocal made
        made += 1
        if made == streams:
            while server.engine.has_work:
                await asyncio.sleep(0.001)
            begin.set()
        await begin.wait()

        async def note(message):
            if b'"content":"w"' in message.get("body", b"") and ("first", id(self)) not in order:
                order.append(("first", id(self)))
            await send(message)

        await call(self, scope, receive, note)
        order.append(("last", id(self)))

    monkeypatch.setattr(EventStream, "__call__", begin_together)
    said = "word " * 20
    with running(Says(talk=said), max_num_seqs=streams) as server:
        texts = at_once(lambda _: server.told("talk")[0]["content"], range(streams))
    assert texts == [said] * streams
    assert [what for what, _ in order] == ["first"] * streams + ["last"] * streams


def test_a_choice_that_fails_ends_the_stream_and_the_other_choices():
    """Nobody hears the others any more: they are cancelled, and the stream ends with `[DONE]`."""

    class OneFails(Says):
        def _script(self, slot):
            if slot.choice_index == 0:
                return [(104,), (105,), RuntimeError("the tape tore")]
            return [(97,)] * 3000

    with running(OneFails(any="x")) as server:
        answer = server.chat(asking("any", stream=True, n=2, max_tokens=3000))
        error = read_events(answer.body)[-1]["error"]
        assert error["type"] == "server_error"
        assert "tape" not in error["message"]
        server.idle()
        metrics = server.service.metrics.render().decode()
        assert 'finished_reason="abort",model_name="scripted"} 1.0' in metrics


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": ""}]}),
        ("/v1/completions", {"prompt": ""}),
        ("/v1/completions", {"prompt": ["a", ""]}),
        ("/v1/responses", {"input": ""}),
        ("/v1/responses", {"input": [{"role": "user", "content": ""}]}),
    ],
)
def test_an_empty_text_is_a_text(embedded, path, fields):
    # The byte tokenizer begins every prompt with a token, and a chat template writes some text.
    answer = embedded.fetch(path, fields)
    assert answer.status == 200, answer.body


def test_the_server_caches_ids_alone(server):
    tokenizer = server.service.tokenizer
    assert tokenizer.inner.encode("a").offsets is not None
    assert tokenizer.encode("a").offsets is None


@pytest.mark.parametrize(
    ("stop", "content"), [(None, "So <|im_end|> or <eos>."), ("<|im_end|>", "So ")]
)
def test_a_special_token_that_the_model_spells_is_text_which_a_stop_leaves_out(stop, content):
    with running(Says(spells="So <|im_end|> or <eos>.")) as server:
        [choice] = server.chat(asking("spells", stop=stop)).json()["choices"]
    assert choice["message"]["content"] == content
