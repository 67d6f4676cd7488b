"""`/v1/responses`: what a request means, and what is told of an answer, streamed and whole."""

import json
from itertools import groupby
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import Says, running_embedded, serving

from mini_vllm.engine import CompletionOutput, FinishReason, StreamChunk
from mini_vllm.server.endpoints.chat_request import template_messages
from mini_vllm.server.endpoints.responses_request import ResponsesRequest, decode_responses_request
from mini_vllm.server.item_store import ItemStore
from mini_vllm.server.service import DEFAULT_LIMITS, Limits
from mini_vllm.server.wire.api_errors import ApiError
from mini_vllm.server.wire.responses_stream import ResponseHead, ResponsesStream, whole_response
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)  # fmt: skip

PATH = "/v1/responses"
FUNCTION = {"name": "f", "parameters": {"type": "object"}}
F = {"type": "function", **FUNCTION}
USER = {"role": "user", "content": "Hi"}
THINKS = {"type": "reasoning", "id": "rs_1", "summary": [],
          "content": [{"type": "reasoning_text", "text": "hm"}]}  # fmt: skip
SAYS = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "I look.", "annotations": []}]}  # fmt: skip
CALLS = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}


def decoded(limits=DEFAULT_LIMITS, **fields):
    body = json.dumps({"input": "Hi", **fields}).encode()
    return decode_responses_request(body, limits, ItemStore(0))


def refusal(limits=DEFAULT_LIMITS, **fields):
    with pytest.raises(ApiError) as caught:
        decoded(limits, **fields)
    assert caught.value.status == 400
    return caught.value


def turns(**fields):
    """The conversation as a template reads it."""
    return template_messages(decoded(**fields)[1].messages, DEFAULT_LIMITS)


CALLED = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {}}}]
ASKED, ANSWERED = dict(USER), {"role": "tool", "content": "sunny", "tool_call_id": "c1"}
WHOLE_TURN = {"role": "assistant", "reasoning_content": "hm", "content": "I look.",
              "tool_calls": CALLED}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"input": "Hi"}, [ASKED]),
        ({"input": [USER], "instructions": "Be kind"},
         [{"role": "system", "content": "Be kind"}, ASKED]),
        ({"input": [{**USER, "type": "message", "content": [{"type": "input_text", "text": "a"},
                                                            {"type": "input_text", "text": "b"}]}]},
         [{"role": "user", "content": "a\nb"}]),
        # What the model said in one turn is one message; its reasoning begins the next.
        ({"input": [USER, THINKS, SAYS, CALLS, RESULT, THINKS, SAYS]},
         [ASKED, WHOLE_TURN, ANSWERED,
          {"role": "assistant", "reasoning_content": "hm", "content": "I look."}]),
        ({"input": [SAYS, SAYS]}, [{"role": "assistant", "content": "I look."}] * 2),
        ({"input": [CALLS, SAYS, {**CALLS, "call_id": "c2"}]},
         [{"role": "assistant", "content": "I look.",
           "tool_calls": [*CALLED, {**CALLED[0], "id": "c2"}]}]),
        ({"input": [SAYS, CALLS, SAYS]},
         [{"role": "assistant", "content": "I look.I look.", "tool_calls": CALLED}]),
        ({"input": [THINKS, THINKS]},
         [{"role": "assistant", "reasoning_content": "hm", "content": ""}] * 2),
        ({"input": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]},
                    {**RESULT, "output": [{"type": "input_text", "text": "sunny"}]}]},
         [{"role": "assistant", "reasoning_content": "s", "content": ""}, ANSWERED]),
        ({"input": [{**THINKS, "content": None}, SAYS]},
         [{"role": "assistant", "reasoning_content": "", "content": "I look."}]),
    ],
)  # fmt: skip
def test_items_are_the_messages_of_a_chat(fields, expected):
    assert turns(**fields) == expected


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"tools": [F]}, "tools", [{"type": "function", "function": FUNCTION}]),
        ({"tools": [F], "tool_choice": "required"}, "tool_choice", "required"),
        ({"max_output_tokens": 7}, "max_tokens_param", ("max_completion_tokens", 7)),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, "template_kwargs",
         {"reasoning_effort": "low"}),
        ({"seed": 5}, "seed", 5),
        ({"stop": "END"}, "stop", "END"),
        ({"temperature": 0.5}, "temperature", 0.5),
        ({"parallel_tool_calls": False}, "parallel_tool_calls", False),
        ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, "verbosity", "low"),
        ({"input": [USER, {"role": "assistant",
                           "content": [{"type": "refusal", "refusal": "No."}]}]}, "n", None),
        # Of no influence, or of none here.
        ({"store": True, "user": "u", "metadata": {"a": "b"}, "service_tier": "auto",
          "truncation": "disabled", "background": False, "top_logprobs": 0,
          "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "stream": True,
          "stream_options": {"include_obfuscation": False}},
         "n", None),
    ],
)  # fmt: skip
def test_fields_mean_what_they_mean_in_a_chat(fields, name, value):
    assert getattr(decoded(**fields)[1], name) == value


def allowed(*names):
    tools = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "mode": "required", "tools": tools}


def test_functions_are_chosen_by_their_names():
    chat = decoded(tools=[F], tool_choice={"type": "function", "name": "f"})[1]
    assert chat.tool_choice.function.name == "f"
    chat = decoded(tools=[F, {**F, "name": "g"}], tool_choice=allowed("g"))[1]
    assert (chat.tool_choice, [one["function"]["name"] for one in chat.tools]) == (
        "required",
        ["g"],
    )


@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "no conversation is stored"),
        ({"conversation": "c"}, "conversation", "no conversation is stored"),
        ({"input": [{"type": "item_reference", "id": "i"}]}, "input[0].id", "{ store: false }"),
        ({"input": [{"type": "item_reference"}]}, "input[0].id", "missing"),
        ({"background": True}, "background", "not implemented"),
        ({"prompt": {"id": "p"}}, "prompt", "not implemented"),
        ({"truncation": "auto"}, "truncation", "not implemented"),
        ({"top_logprobs": 3}, "top_logprobs", "not implemented"),
        ({"include": ["message.output_text.logprobs"]}, "include[0]", "must be 'reasoning."),
        ({"reasoning": {"summary": "detailed"}}, "reasoning.summary", "'detailed'"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "codex -c 'web_search="),
        ({"tools": [{"type": "namespace"}]}, "tools[0].type", "codex -c features.multi_agent"),
        ({"tools": [{"type": 7}]}, "tools[0].type", "is 7; only functions"),
        ({"tools": [F, {"type": "function"}]}, "tools[1].name", ""),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice.type", "'mcp'"),
        ({"tools": [F], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice.name",
         "'g'"),
        ({"tools": [F], "tool_choice": allowed("f", "g")}, "tool_choice.tools[1].name", "'g'"),
        ({"tools": [F], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.mode", "missing"),
        ({"max_output_tokens": "many"}, "max_output_tokens", "expected"),
        ({"messages": [USER]}, "messages", "use input"),
        ({"max_tokens": 5}, "max_tokens", "use max_output_tokens"),
        ({"response_format": {"type": "text"}}, "response_format", "use text.format"),
        ({"n": 2}, "n", "leave it out"),
        ({"text": {"verbosity": "loud"}}, "text.verbosity", "'loud'"),
        ({"metadata": {"a": "b", "c": 1}}, "metadata.c", "is 1; it must be a text"),
        ({"input": [{"role": "user", "content": []}]}, "input[0].content", "is an empty list"),
        ({"input": None}, "input", "expected"),
        ({"input": []}, "input", "is an empty list"),
        ({"input": [{"type": "computer_call"}]}, "input[0].type", "'computer_call'"),
        ({"input": [{"type": 7}]}, "input[0].type", "7"),
        ({"input": [USER, {"role": "tool", "content": ""}]}, "input[1].role", "'tool'"),
        ({"input": [{"role": "user"}]}, "input[0].content", "missing"),
        ({"input": [{**USER, "content": [{"type": "input_text"}]}]}, "input[0].content[0].text",
         "is missing; add it"),
        ({"input": [{**USER, "content": [{"type": "input_image"}]}]}, "input[0].content[0]",
         "'input_image'"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id",
         "missing"),
        ({"input": [{**THINKS, "content": None, "encrypted_content": "x"}]},
         "input[0].encrypted_content", "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused_by_name(fields, param, says):
    error = refusal(**fields)
    assert error.param == param
    assert error.message.startswith(f"{param}: ")
    assert says in error.message


def test_limits_are_those_of_a_chat():
    assert refusal(Limits(max_messages=1), input=[THINKS, SAYS]).param == "input"
    assert refusal(Limits(max_prompt_chars=1)).message.startswith("input: has 2 characters")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [*ResponsesRequest.__struct_fields__, "stop"]
ITEM = st.sampled_from([USER, THINKS, SAYS, CALLS, RESULT])
KEY = st.sampled_from(["type", "content", "output", "summary", "role"])
SPOILT = st.builds(lambda item, key, value: {**item, key: value}, ITEM, KEY, ANY)


@given(st.dictionaries(st.sampled_from(FIELDS), ANY, max_size=3), st.none() | st.lists(SPOILT))
def test_any_value_of_any_field_is_taken_or_400(fields, items):
    status = 400
    try:
        decoded(**{**fields, **({} if items is None else {"input": items})})
    except ApiError as error:
        status = error.status
    assert status == 400


# What an answer says, and the items that tell it.
EVENTS = {
    "nothing": [],
    "text": [TextDelta("Hello "), TextDelta("🚀")],
    "reasoning": [ReasoningDelta("h"), ReasoningDelta("m"), TextDelta("Yes")],
    "call": [TextDelta("I look."), CallStart(0, "own", "f"), ArgsDelta(0, '{"a"'),
             ArgsDelta(0, ": 1}"), CallEnd(0)],
    "calls": [CallStart(0, None, "f"), ArgsDelta(0, "{}"), CallEnd(0), CallStart(1, None, "\ud800"),
              ArgsDelta(1, "{}"), CallEnd(1), TextDelta("\n done")],
    "broken": [CallStart(0, None, "f"), ArgsDelta(0, "{"), Malformed(0, "x}", "why")],
    "no arguments": [CallStart(0, None, "f"), Malformed(0, "", "why")],
}  # fmt: skip


def head():
    fields = {"id": "resp_1", "object": "response", "created_at": 7, "model": "mini"}
    return ResponseHead(fields, prompt_tokens=3, count=len)


def named(events):
    return StreamChunk((1,), "".join(e.text for e in events if isinstance(e, TextDelta)),
                       events=tuple(events))  # fmt: skip


def streamed(events, size, reason=FinishReason.END_ID, **options):
    """The events of a stream that gets so many events a chunk."""
    stream = ResponsesStream(head(), **options)
    data = stream.start()
    for at in range(0, len(events), size):
        data += stream.feed(0, named(events[at : at + size]))
    data += stream.feed(0, StreamChunk((2,), finished=True, reason=reason)) + stream.end()
    assert stream.end() == b""
    return read(data)


def read(data):
    """Return the JSON of each event, which has a name and a number."""
    told = []
    for number, event in enumerate(data.decode().removesuffix("\n\n").split("\n\n")):
        name, line = event.split("\n")
        told.append(json.loads(line.removeprefix("data: ")))
        assert (name, told[-1]["sequence_number"]) == (f"event: {told[-1]['type']}", number)
    return told


TEXT_ITEM = ["output_item.added", "content_part.added", "{0}.delta", "{0}.done",
             "content_part.done", "output_item.done"]  # fmt: skip
ORDER = {
    "message": [one.format("output_text") for one in TEXT_ITEM],
    "reasoning": [one.format("reasoning_text") for one in TEXT_ITEM],
    "function_call": ["output_item.added", "function_call_arguments.delta",
                      "function_call_arguments.done", "output_item.done"],
}  # fmt: skip


def items_of(told):
    """Add up the items of a stream, as a client does that reads deltas; check the order."""
    assert [event["type"] for event in told[:2]] == ["response.created", "response.in_progress"]
    items = []
    for index, events in groupby(told[2:-1], lambda event: event["output_index"]):
        events = list(events)
        assert index == len(items), "an item is done before the next is added"
        items.append(item_of(events))
    last = told[-1]["response"]
    assert last["output"] == items
    assert told[-1]["type"] == f"response.{last['status']}"
    return items


def item_of(events):
    """Return the item that is done in the end, and that its events add up to."""
    added, done = events[0]["item"], events[-1]["item"]
    kinds = [kind.removeprefix("response.") for kind, _ in groupby(events, itemgetter("type"))]
    order = ORDER[done["type"]]
    assert kinds in (order, [one for one in order if not one.endswith(".delta")])
    assert added["status"] == "in_progress"
    assert (added.get("content"), added.get("arguments")) in (([], None), (None, ""))
    assert {event.get("item_id", done["id"]) for event in events} == {added["id"]} == {done["id"]}
    deltas = [event["delta"] for event in events if "delta" in event]
    assert all(deltas)
    finals = [event for event in events[2:-1] if "delta" not in event]
    for event in finals:
        said = event.get("text", event.get("arguments", event.get("part", {}).get("text")))
        assert said == "".join(deltas) == plain([done])[0][2]
    return done


def plain(items):
    """What items say, without ids that are made up."""
    said = []
    for item in items:
        text = item.get("arguments")
        if text is None:
            text = "".join(part["text"] for part in item["content"])
        said.append((item["type"], item.get("name", ""), text, item["status"]))
    return said


DONE, CUT = "completed", "incomplete"
SAID = {
    "nothing": [],
    "text": [("message", "", "Hello 🚀", DONE)],
    "reasoning": [("reasoning", "", "hm", DONE), ("message", "", "Yes", DONE)],
    "call": [("message", "", "I look.", DONE), ("function_call", "f", '{"a": 1}', DONE)],
    "calls": [("function_call", "f", "{}", DONE), ("function_call", "\ufffd", "{}", DONE),
              ("message", "", "\n done", DONE)],
    "broken": [("function_call", "f", "{", CUT), ("message", "", "x}", DONE)],
    "no arguments": [("function_call", "f", "", CUT)],
}  # fmt: skip


@pytest.mark.parametrize("name", EVENTS)
def test_a_stream_says_the_same_however_it_is_cut(name):
    for size in (1, 2, 9):
        assert plain(items_of(streamed(EVENTS[name], size))) == SAID[name]


@pytest.mark.parametrize("name", ["nothing", "text", "reasoning", "call", "calls"])
@pytest.mark.parametrize("reason", [FinishReason.END_ID, FinishReason.LENGTH])
def test_a_whole_response_is_the_last_event_of_a_stream(name, reason):
    output = CompletionOutput("r", 0, (1,) * len(EVENTS[name]) + (2,), "", reason,
                              events=tuple(EVENTS[name]))  # fmt: skip
    whole = whole_response(head(), output)
    last = streamed(EVENTS[name], 1, reason)[-1]["response"]
    assert plain(whole["output"]) == plain(last["output"])
    for name in ("status", "usage", "incomplete_details"):
        assert whole[name] == last[name]


def test_a_call_keeps_the_id_that_the_model_gave_it():
    (_, call) = items_of(streamed(EVENTS["call"], 1))
    assert call["call_id"] == "own"
    assert len({item["id"] for item in items_of(streamed(EVENTS["calls"], 1))}) == 3


@pytest.mark.parametrize(("name", "statuses"), [("call", [DONE, CUT]), ("reasoning", [DONE, CUT])])
def test_at_the_limit_the_response_and_its_last_item_are_incomplete(name, statuses):
    told = streamed(EVENTS[name][:3], 1, FinishReason.LENGTH)
    assert [one[3] for one in plain(items_of(told))] == statuses
    response = told[-1]["response"]
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["completed_at"] is None


def test_usage_counts_the_tokens_and_those_of_the_reasoning_by_its_text():
    usage = streamed(EVENTS["reasoning"], 1)[-1]["response"]["usage"]
    assert usage == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 7,
    }


def test_options_are_those_of_a_chat():
    events = [TextDelta("a\n"), *EVENTS["calls"]]
    told = streamed(events, 1, parallel_tool_calls=False, strip=True)
    texts = ("message", "", "a", DONE), ("message", "", "done", DONE)
    items = [texts[0], ("function_call", "f", "{}", DONE), texts[1]]
    assert plain(items_of(told)) == items
    broken = [*events[:-1], CallStart(2, None, "h"), Malformed(2, "x", "why"), events[-1]]
    output = CompletionOutput("r", 0, (1,), "", FinishReason.END_ID, events=tuple(broken))
    whole = whole_response(head(), output, parallel_tool_calls=False, strip=True)
    assert plain(whole["output"]) == items


@pytest.mark.parametrize("reason", [FinishReason.ERROR, FinishReason.CANCELLED, None])
def test_a_stream_that_breaks_off_fails_and_says_what_there_was(reason):
    stream = ResponsesStream(head())
    data = stream.start() + stream.feed(0, named([TextDelta("Hel")]))
    if reason is not None:
        data += stream.feed(0, StreamChunk(finished=True, reason=reason))
    told = read(data + stream.end())
    assert plain(items_of(told)) == [("message", "", "Hel", CUT)]
    assert told[-1]["type"] == "response.failed"
    assert told[-1]["response"]["error"]["code"] == "server_error"
    assert stream.feed(0, StreamChunk((1,), "x")) == b""


CALL = '<tool_call>\n{"name": "f", "arguments": {"a":  "é"}}\n</tool_call>'
server = serving(
    Says(
        call=f"<think>hm</think>I look.\n{CALL}",
        cut=CALL[:-30],
        torn=[(97,), OSError("secret")],
    ),
    reasoning_format="qwen3",
    strip=True,
)


def asking(name, **fields):
    return {"input": f"<{name}>", "tools": [F], **fields}


def test_the_server_streams_what_it_answers_whole(server):
    body = server.fetch(PATH, asking("call")).json()
    said = [("reasoning", "", "hm", DONE), ("message", "", "I look.", DONE),
            ("function_call", "f", '{"a":  "é"}', DONE)]  # fmt: skip
    assert plain(body["output"]) == said
    answer = server.fetch(PATH, asking("call", stream=True))
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = read(answer.body)
    assert plain(items_of(told)) == said
    assert told[-1]["response"]["usage"] == body["usage"]
    assert told[0]["response"].items() >= {"store": False, "tools": [F], "usage": None}.items()


def test_an_answer_may_be_sent_back(server):
    output = server.fetch(PATH, asking("call")).json()["output"]
    result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "sunny"}
    items = [
        {"role": "user", "content": "?"},
        *output,
        result,
        {"role": "user", "content": "<call>"},
    ]
    assert server.fetch(PATH, asking("call", input=items)).json()["status"] == DONE


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_may_refer_to_the_items_of_the_latest_responses(server, stream, monkeypatch):
    def answer(**fields):
        reply = server.fetch(PATH, asking("call", stream=stream, **fields))
        return read(reply.body)[-1]["response"] if stream else reply.json()

    def ask_after(response):
        call = response["output"][-1]
        references = [{"type": "item_reference", "id": one["id"]} for one in response["output"]]
        result = {**RESULT, "call_id": call["call_id"]}
        last = {"role": "user", "content": "<call>"}
        return server.fetch(PATH, asking("call", input=[USER, *references, result, last]))

    monkeypatch.setattr(server.service, "stored_items", ItemStore(2))
    first, second = answer(), answer(store=True)
    assert (first["store"], second["store"], answer(store=False)["store"]) == (True, True, False)
    assert ask_after(second).json()["status"] == DONE
    # That was another response, so the first one is dropped.
    assert ask_after(first).error["param"] == "input[1].id"
    monkeypatch.setattr(server.service, "stored_items", ItemStore(0))
    unstored = answer()
    assert not unstored["store"]
    assert "is not stored here; send the item itself" in ask_after(unstored).error["message"]


def test_a_reference_is_the_item_in_its_place():
    stored = ItemStore(1)
    stored.add([THINKS, SAYS, CALLS])
    kinds = ({"type": "item_reference"}, {"type": None}, {})
    items = (THINKS, SAYS, CALLS)
    references = [{**kind, "id": one["id"]} for kind, one in zip(kinds, items, strict=True)]
    body = json.dumps({"input": [USER, *references, RESULT]}).encode()
    chat = decode_responses_request(body, DEFAULT_LIMITS, stored)[1]
    assert template_messages(chat.messages, DEFAULT_LIMITS) == [ASKED, WHOLE_TURN, ANSWERED]


def test_stored_items_are_bounded_in_bytes():
    stored = ItemStore(9, most_bytes=500)
    for number in range(9):
        stored.add([{"id": f"m{number}", "text": "x" * 180}])
    assert [number for number in range(9) if stored.get(f"m{number}")] == [7, 8]
    stored.add([{"id": "large", "text": "x" * 900}])
    assert stored.get("large") is None


def test_a_broken_call_stays_text_and_may_be_sent_back(server):
    output = server.fetch(PATH, asking("cut")).json()["output"]
    assert plain(output) == [("message", "", CALL[:-30], DONE)]
    streamed = read(server.fetch(PATH, asking("cut", stream=True)).body)[-1]["response"]["output"]
    for items in (output, streamed):
        said = [{"role": "user", "content": "?"}, *items, {"role": "user", "content": "<call>"}]
        assert server.fetch(PATH, asking("call", input=said)).json()["status"] == DONE


def test_what_is_wrong_with_the_conversation_is_wrong_with_the_input(server):
    fields = {"input": [USER], "max_output_tokens": 10**6}
    assert server.fetch(PATH, fields).error["param"] == "max_output_tokens"
    assert server.fetch(PATH, asking("call", model="gpt")).status == 404
    long = server.fetch(PATH, {"input": "x" * 2**17})
    assert (long.error["param"], long.error["code"]) == ("input", "context_length_exceeded")


@pytest.mark.parametrize(
    ("format", "param"),
    [
        ({"type": "xml"}, "text.format.type"),
        ({"type": "json_schema", "name": "n"}, "text.format.schema"),
    ],
)
def test_a_format_that_is_not_there_is_refused_by_name(server, format, param):
    answer = server.fetch("/v1/responses", {"input": "<hello>", "text": {"format": format}})
    assert (answer.status, answer.error["param"]) == (400, param)
    assert answer.error["message"].startswith(f"{param}: ")


def test_an_answer_fits_the_schema_of_its_format():
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    schema["additionalProperties"] = False
    format = {"type": "json_schema", "name": "n", "schema": schema}
    with running_embedded() as server:
        body = {"input": "Hi", "text": {"format": format}}
        (item,) = server.fetch("/v1/responses", body).json()["output"]
    assert json.loads(item["content"][0]["text"]) in ({"a": 1}, {"a": 2})


def test_a_failing_engine_fails_the_response(server):
    told = read(server.fetch(PATH, asking("torn", stream=True)).body)
    assert told[-1]["type"] == "response.failed"
    assert "secret" not in json.dumps(told)
    assert server.fetch(PATH, asking("torn")).status == 500
