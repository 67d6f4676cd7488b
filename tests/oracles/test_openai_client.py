"""The official `openai` client against the server: what it makes of our bytes is the scripted text.

It is the judge of the wire format: it adds up deltas by index and joins all strings.
"""

import asyncio
import random

import openai
import pytest
from running import Says, paced, running, running_embedded, tool, until

ARGUMENTS = '{"city":  "São Paulo 🚀", "说": ["你好", 2.50, "\\u00e9"]}'


def call(name="get_weather", arguments=ARGUMENTS):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


TEXTS = {
    "plain": "Hello 🚀, 你好.\n\u2028 done",
    "call": f"I shall look. {call()}",
    "calls": f"{call('a')}{call('b', '{}')}{call('c')}",
    "half": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "P',
    "until": "not the EN, but the END of it",
}
TOOLS = [tool(name) for name in ("get_weather", "a", "b", "c")]


@pytest.fixture(scope="module")
def server():
    torn = [*((byte,) for byte in "ab🚀".encode()), OSError("secret")]
    with running(Says(**TEXTS, torn=torn, slow=paced())) as running_server:
        yield running_server
        running_server.idle()


@pytest.fixture(scope="module")
def client(server):
    with client_of(server) as made:
        yield made


def client_of(server, kind=openai.OpenAI, **options):
    options = {"api_key": "none", "max_retries": 0, "timeout": 60, **options}
    return kind(base_url=f"{server.url}/v1", **options)


def asking(name, **fields):
    return {
        "model": "scripted",
        "messages": [{"role": "user", "content": f"<{name}>"}],
        **fields,
    }


def calls_of(message):
    return [(one.function.name, one.function.arguments) for one in message.tool_calls or ()]


def test_a_whole_answer(client):
    answer = client.chat.completions.create(**asking("plain"))
    (choice,) = answer.choices
    assert choice.message.content == TEXTS["plain"]
    assert (choice.message.role, choice.finish_reason) == ("assistant", "stop")
    assert answer.usage.completion_tokens == len(TEXTS["plain"].encode()) + 1


def test_a_stream(client):
    chunks = list(client.chat.completions.create(**asking("plain", stream=True)))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == TEXTS["plain"]
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1


def test_the_stream_helper_adds_up_text_and_tells_usage(client):
    options = {"stream_options": {"include_usage": True}}
    with client.chat.completions.stream(**asking("plain", **options)) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert "".join(deltas) == TEXTS["plain"] == final.choices[0].message.content
    assert final.usage.completion_tokens == len(TEXTS["plain"].encode()) + 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("call", [("get_weather", ARGUMENTS)]),
        ("calls", [("a", ARGUMENTS), ("b", "{}"), ("c", ARGUMENTS)]),
    ],
)
def test_the_stream_helper_adds_up_calls(client, name, expected):
    with client.chat.completions.stream(**asking(name, tools=TOOLS)) as stream:
        events = list(stream)
        final = stream.get_final_completion().choices[0]
    assert calls_of(final.message) == expected
    assert final.finish_reason == "tool_calls"
    assert len({one.id for one in final.message.tool_calls}) == len(expected)
    deltas = dict.fromkeys(range(len(expected)), "")
    for event in events:
        if event.type == "tool_calls.function.arguments.delta":
            deltas[event.index] += event.arguments_delta
    assert [deltas[index] for index in deltas] == [arguments for _, arguments in expected]
    done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    assert [(event.name, event.arguments) for event in done] == expected


def test_whole_calls(client):
    answer = client.chat.completions.create(**asking("calls", tools=TOOLS))
    assert calls_of(answer.choices[0].message) == [("a", ARGUMENTS), ("b", "{}"), ("c", ARGUMENTS)]
    assert answer.choices[0].finish_reason == "tool_calls"
    one = client.chat.completions.create(
        **asking("calls", tools=TOOLS, parallel_tool_calls=False)
    ).choices[0]
    assert calls_of(one.message) == [("a", ARGUMENTS)]


def test_an_answer_with_calls_may_be_sent_back(client):
    message = client.chat.completions.create(**asking("call", tools=TOOLS)).choices[0].message
    fields = asking("plain", tools=TOOLS)
    fields["messages"] = [
        {"role": "user", "content": "weather?"},
        message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"},
        *fields["messages"],
    ]
    assert client.chat.completions.create(**fields).choices[0].message.content == TEXTS["plain"]


def test_a_half_call_ends_with_length(client):
    fields = asking("half", tools=TOOLS, stream=True, max_tokens=len(TEXTS["half"].encode()))
    chunks = list(client.chat.completions.create(**fields))
    assert chunks[-1].choices[0].finish_reason == "length"


def test_choices_stops_and_logprobs(client):
    answer = client.chat.completions.create(
        **asking("until", n=2, stop="END", logprobs=True, top_logprobs=3)
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    for choice in answer.choices:
        assert choice.message.content == "not the EN, but the "
        assert len(choice.logprobs.content) == len("not the EN, but the END")
        assert all(len(step.top_logprobs) == 3 for step in choice.logprobs.content)
    with client.chat.completions.stream(
        **asking("plain", n=2, logprobs=True, top_logprobs=1)
    ) as stream:
        final = stream.get_final_completion()
    assert [choice.message.content for choice in final.choices] == [TEXTS["plain"]] * 2
    for choice in final.choices:
        steps = choice.logprobs.content
        assert b"".join(bytes(step.bytes) for step in steps[:-1]) == TEXTS["plain"].encode()


def test_completions(client):
    fields = {"model": "scripted", "prompt": ["<plain>", "<until>"], "max_tokens": 200}
    answer = client.completions.create(**fields)
    assert [one.text for one in answer.choices] == [TEXTS["plain"], TEXTS["until"]]
    texts = ["", ""]
    for chunk in client.completions.create(**fields, stream=True, logprobs=1):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [TEXTS["plain"], TEXTS["until"]]


def test_models(client):
    assert [model.id for model in client.models.list()] == ["scripted"]
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_a_bad_request_names_the_field(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(**asking("plain", temperature=9))
    assert error.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(**asking("plain", max_tokens=10**6))
    assert (error.value.param, error.value.code) == ("max_tokens", "context_length_exceeded")


def test_another_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(**{**asking("plain"), "model": "gpt"})
    assert error.value.code == "model_not_found"


def test_an_error_in_the_midst_of_a_stream_arrives_as_one(client):
    said = ""
    with pytest.raises(openai.APIError) as error:  # noqa: PT012 - it is raised while it is read
        for chunk in client.chat.completions.create(**asking("torn", stream=True)):
            said += chunk.choices[0].delta.content or ""
    assert said == "ab🚀"
    assert "secret" not in str(error.value)
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(**asking("torn"))


def test_a_wrong_key_is_an_authentication_error():
    with running(Says(**TEXTS), api_key="right") as server:
        with client_of(server, api_key="wrong") as wrong, pytest.raises(openai.AuthenticationError):
            wrong.chat.completions.create(**asking("plain"))
        with client_of(server, api_key="right") as right:
            answer = right.chat.completions.create(**asking("plain"))
            assert answer.choices[0].message.content == TEXTS["plain"]


def test_too_many_requests_are_a_rate_limit_error_and_a_retry_succeeds():
    with running(Says(slow=paced(), **TEXTS), max_num_seqs=1, max_waiting=1) as server:
        with client_of(server) as client, client_of(server, max_retries=8) as patient:
            streams = [
                client.chat.completions.create(**asking("slow", stream=True, max_tokens=4000))
                for _ in range(2)
            ]
            with pytest.raises(openai.RateLimitError) as error:
                client.chat.completions.create(**asking("plain"))
            assert int(error.value.response.headers["retry-after"]) >= 1
            for stream in streams:
                stream.close()
            answer = patient.chat.completions.create(**asking("plain"))
            assert answer.choices[0].message.content == TEXTS["plain"]
        server.idle()


def test_closing_a_stream_cancels_it(server, client):
    stream = client.chat.completions.create(**asking("slow", stream=True, max_tokens=4000))
    next(iter(stream))
    assert server.engine.has_work
    stream.close()
    until(lambda: not server.engine.has_work)


def test_two_hundred_streams_at_once_are_each_its_own_text():
    chance = random.Random(0)
    alphabet = "ab 你好🚀👩‍👩‍👧é\\n"
    arguments, scripts = {}, {}
    for number in range(200):
        text = "".join(chance.choices(alphabet, k=20)).replace("\\", "\\\\")
        arguments[f"t{number}"] = f'{{"n":  {number}, "text": "{text}"}}'
        scripts[f"t{number}"] = f"No {number} 🚀. {call(arguments=arguments[f't{number}'])}"

    async def ask(client, name):
        async with client.chat.completions.stream(**asking(name, tools=TOOLS)) as stream:
            return name, (await stream.get_final_completion()).choices[0]

    async def ask_all(server):
        async with client_of(server, openai.AsyncOpenAI) as client:
            return await asyncio.gather(*(ask(client, name) for name in scripts))

    with running(Says(**scripts), max_num_seqs=32) as server:
        found = asyncio.run(ask_all(server))
        server.idle()
    assert len(found) == 200
    for name, choice in found:
        assert choice.message.content == f"No {name[1:]} 🚀. "
        assert calls_of(choice.message) == [("get_weather", arguments[name])]
        assert choice.finish_reason == "tool_calls"


def test_the_embedded_model_streams_what_it_says_whole():
    with running_embedded() as server, client_of(server) as client:
        for prompt in ("Hello!", "What is the weather in Paris?"):
            for tools in (None, TOOLS[:1]):
                fields = {
                    "model": "embedded",
                    "messages": [{"role": "user", "content": prompt}],
                    "seed": 3,
                    "max_tokens": 200,
                    **({"tools": tools} if tools else {}),
                }
                whole = client.chat.completions.create(**fields).choices[0]
                with client.chat.completions.stream(**fields) as stream:
                    streamed = stream.get_final_completion().choices[0]
                said = (streamed.message.content or "", whole.message.content or "")
                assert said[0] == said[1]
                assert calls_of(streamed.message) == calls_of(whole.message)
                assert streamed.finish_reason == whole.finish_reason
        server.idle()
