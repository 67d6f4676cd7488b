"""The official `openai` client on `/v1/responses`: its types take every event, and it adds up."""

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from running import Says, running
from test_responses import read

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city":  "São Paulo 🚀"}}\n</tool_call>'
ARGUMENTS = '{"city":  "São Paulo 🚀"}'
TEXTS = {
    "plain": "Hello 🚀, 你好.\n\u2028 done",
    "think": "<think>hm</think>Yes.",
    "call": f"<think>hm</think>I shall look. {CALL}",
    "calls": CALL + CALL,
    "half": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "P',
    "broken": '<tool_call>\n{"name": "get_weather", "arguments": {x: 1}}\n</tool_call>',
    "nothing": "",
}
TOOL = {"type": "function", "name": "get_weather", "strict": False,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}  # fmt: skip


@pytest.fixture(scope="module")
def server():
    model = Says(**TEXTS, torn=[(97,), OSError("secret")])
    with running(model, reasoning_format="qwen3", strip=True) as running_server:
        yield running_server


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def asking(name, **fields):
    return {"model": "scripted", "input": f"<{name}>", "tools": [TOOL], **fields}


@pytest.fixture(scope="module")
def event_type():
    return TypeAdapter(ResponseStreamEvent)


@pytest.mark.parametrize("name", [*TEXTS, "torn"])
def test_every_event_is_of_its_type(server, event_type, name):
    fields = asking(name, stream=True, instructions="Be kind", metadata={"a": "b"})
    for event in read(server.fetch("/v1/responses", fields).body):
        known = event_type.validate_python(event)
        assert known.type == event["type"]
        # No field but those of the type, so none is misspelt; `name` is in some of its versions.
        assert set(known.model_extra or ()) <= {"name"}


def test_a_whole_response_is_of_its_type(server):
    response = Response.model_validate(server.fetch("/v1/responses", asking("call")).json())
    # The API sends it, its types do not have it.
    assert response.model_extra == {"store": False}
    assert [one.type for one in response.output] == ["reasoning", "message", "function_call"]


@pytest.mark.parametrize("name", ["plain", "think", "call", "calls", "nothing"])
def test_the_stream_helper_adds_up_what_is_answered_whole(client, name):
    whole = client.responses.create(**asking(name))
    with client.responses.stream(**asking(name)) as stream:
        deltas = [one.delta for one in stream if one.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text == whole.output_text
    said = [
        [(one.type, getattr(one, "arguments", "")) for one in response.output]
        for response in (whole, final)
    ]
    assert said[0] == said[1]
    assert final.usage == whole.usage
    assert final.status == "completed"


def test_a_tool_loop_sends_everything_back(client):
    items = [{"role": "user", "content": "<call>"}]
    response = client.responses.create(**asking("call", input=items))
    items += response.output
    call = items[-1]
    assert call.arguments == ARGUMENTS
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "sunny"})
    items.append({"role": "user", "content": "<plain>"})
    answer = client.responses.create(**asking("plain", input=items, store=False))
    assert answer.output_text == TEXTS["plain"]


def test_the_limit_makes_it_incomplete(client):
    response = client.responses.create(**asking("plain", max_output_tokens=5))
    assert (response.status, response.output_text) == ("incomplete", "Hello")
    assert response.incomplete_details.reason == "max_output_tokens"


def test_what_is_not_there_is_a_bad_request_that_names_it(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.create(**asking("plain", previous_response_id="resp_1"))
    assert error.value.param == "previous_response_id"
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_1")
