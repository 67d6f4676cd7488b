"""A client that reads a stream as OpenAI's own does, and insists on what that relies on.

It joins strings by index, whatever they are: a role or a name that comes twice comes out doubled.
"""

import json


def read_events(data):
    """Return the JSON of each event of a whole stream, which must end with `[DONE]`."""
    text = data.decode("utf-8")
    assert text.endswith("data: [DONE]\n\n"), text[-200:]
    events = text.removesuffix("\n\n").split("\n\n")
    assert all(event.startswith("data: ") and len(event.splitlines()) == 1 for event in events)
    bodies = [event.removeprefix("data: ") for event in events]
    assert bodies.count("[DONE]") == 1
    return [json.loads(body) for body in bodies[:-1]]


def read_chat(data, *, include_usage=False):
    """Return the messages of a chat by index, each with its `finish_reason`, and the usage."""
    events, choices, usage = read_events(data), {}, None
    heads = {tuple(event[key] for key in ("id", "object", "created", "model")) for event in events}
    assert len(heads) == 1
    assert next(iter(heads))[1] == "chat.completion.chunk"
    if include_usage:
        last = events.pop()
        usage = last["usage"]
        assert last["choices"] == []
        assert all(event["usage"] is None for event in events)
    else:
        assert all("usage" not in event for event in events)
    for event in events:
        (news,) = event["choices"]
        _take(choices.setdefault(news["index"], {"finish_reason": None, "calls": []}), news)
    for choice in choices.values():
        assert choice["role"] == "assistant"
        assert choice["finish_reason"] in ("stop", "length", "tool_calls")
    return choices, usage


def _take(choice, news):
    assert choice["finish_reason"] is None, "news after the last"
    assert {"index", "delta", "logprobs", "finish_reason"} <= set(news)
    delta = news["delta"]
    assert ("role" in delta) == ("role" not in choice), "the role comes once, and first"
    if "role" in delta:
        assert delta == {"role": "assistant", "content": ""}
    else:
        assert len(delta) <= 1
        assert all(delta.values()), "an empty piece of news"
    for key in ("role", "content", "reasoning_content"):
        if key in delta:
            choice[key] = choice.get(key, "") + delta[key]
    for entry in delta.get("tool_calls", []):
        _take_call(choice["calls"], entry)
    if news["logprobs"]:
        choice.setdefault("logprobs", []).extend(news["logprobs"]["content"])
    choice.setdefault("token_ids", []).extend(news.get("token_ids", []))
    if news["finish_reason"]:
        assert delta == {}
        choice["finish_reason"] = news["finish_reason"]
        choice["stop_reason"] = news["stop_reason"]


def _take_call(calls, entry):
    function = entry["function"]
    if "id" in entry:
        assert set(entry) == {"index", "id", "type", "function"}
        assert set(function) == {"name", "arguments"}
        assert function["arguments"] == "", "a call opens with empty arguments"
        assert entry["index"] == len(calls), "indices are dense, and begin at 0"
        assert entry["type"] == "function"
        calls.append({"id": "", "name": "", "arguments": ""})
        calls[-1]["id"] += entry["id"]
        calls[-1]["name"] += function["name"]
    else:
        assert set(entry) == {"index", "function"}
        assert set(function) == {"arguments"}
        assert entry["index"] == len(calls) - 1, "calls do not interleave"
        calls[-1]["arguments"] += function["arguments"]


def message_of(choice):
    """Return a choice of `read_chat` as the message of an answer that does not stream."""
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments"]},
        }
        for call in choice["calls"]
    ]
    message = {"role": choice["role"], "content": choice["content"] or (None if calls else "")}
    if "reasoning_content" in choice:
        message["reasoning_content"] = choice["reasoning_content"]
    return {**message, "tool_calls": calls} if calls else message
