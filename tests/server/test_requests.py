"""Requests: what is taken, what is refused, and that every refusal names its field."""

import json
from dataclasses import replace

import pytest
from running import Says, asking, request, serving, tool

from mini_vllm.text.json_scanner import DEEPEST

CHAT, COMPLETION, TOKENIZE, DETOKENIZE = PATHS = (
    "/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"
)  # fmt: skip
JSON = {"content-type": "application/json"}
GOOD = {
    CHAT: asking("say"),
    COMPLETION: {"prompt": "<say>"},
    TOKENIZE: {"prompt": "x"},
    DETOKENIZE: {"tokens": [1]},
}
HELLO = [{"role": "user", "content": "Hi"}]
F = tool("f")


def nested(depth, leaf=1):
    for _ in range(depth):
        leaf = {"a": leaf}
    return leaf


def content(*parts):
    return {"messages": [{"role": "user", "content": list(parts)}]}


def named(name, kind="function"):
    return {"tool_choice": {"type": kind, "function": {"name": name}}}


def allowed(mode, *names):
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
    return {"tool_choice": choice}


def function(**fields):
    return {"tools": [{"type": "function", "function": fields}]}


NO_SCHEMA = function(name="f", parameters="none")
# What is wrong with a request, and what its sender is told, or a part of that.
REFUSED = {
    CHAT: [
        ({"messages": []}, "messages: is empty"),
        ({"messages": None}, "messages: expected `array`, got `null`"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role: is missing"),
        ({"messages": [*HELLO, {"role": 3}]}, "messages[1].role: expected `str`, got `int`"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role: is 'robot'; known"),
        ({"messages": [{"role": "user"}]}, "messages[0].content: is missing"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content: expected"),
        (content({"type": "text"}), "messages[0].content[0].text: is missing; add it"),
        (
            content({"type": "image_url", "image_url": {}}),
            "messages[0].content[0]: is of type 'image_url'; send text: no other part is read",
        ),
        (content({"type": "refusal"}), "messages[0].content[0].refusal: is missing; add it"),
        (content(), "messages[0].content: is an empty list; send a text"),
        ({"verbosity": "loud"}, "verbosity: invalid enum value 'loud'; it must be low"),
        ({"best_of": 2}, "best_of: is 2; it must be n, which is 1, or left out"),
        ({"max_tokens": 1e300}, "max_tokens: expected `int | null`, got `float`"),
        ({"logit_bias": {"5": 1, "7": "x"}}, "logit_bias.7: is 'x'; it must be a number"),
        ({"logit_bias": {"7": True}}, "logit_bias.7: is True; it must be a number"),
        ({"n": 0}, "n: is 0; it must be from 1 to 264"),
        ({"n": 265}, "n: is 265; it must be from 1 to 264"),
        ({"n": True}, "n: expected `int | null`, got `bool`"),
        ({"max_tokens": 0}, "max_tokens: is 0; it must be at least 1"),
        ({"max_tokens": 2.5}, "max_tokens: expected `int | null`, got `float`"),
        ({"max_completion_tokens": -1}, "max_completion_tokens: is -1; it must be at least 1"),
        ({"min_tokens": -1}, "min_tokens: is -1; it must be at least 0"),
        ({"min_tokens": 3, "max_tokens": 2}, "min_tokens: is 3; at most 2 tokens may be made"),
        ({"min_tokens": 600}, "min_tokens: is 600; at most"),
        ({"temperature": -0.1}, "temperature: is -0.1; it must be from 0 to 2"),
        ({"temperature": 2.1}, "temperature: is 2.1; it must be from 0 to 2"),
        ({"temperature": "hot"}, "temperature: expected `float | null`, got `str`"),
        ({"top_p": 0}, "top_p: is 0; it must be above 0 and at most 1"),
        ({"top_p": 1.01}, "top_p: is 1.01; it must be from 0 to 1"),
        ({"top_k": -2}, "top_k: is -2; it must be at least -1"),
        ({"min_p": 1.5}, "min_p: is 1.5; it must be from 0 to 1"),
        ({"repetition_penalty": 0}, "repetition_penalty: is 0.0; it must be above 0"),
        ({"presence_penalty": 2.1}, "presence_penalty: is 2.1; it must be from -2 to 2"),
        ({"frequency_penalty": -3}, "frequency_penalty: is -3.0; it must be from -2 to 2"),
        ({"logit_bias": {"x": 1}}, "logit_bias: has the key 'x'; keys are token ids"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5: is 101; it must be from -100 to 100"),
        ({"logit_bias": {"300": 1}}, "logit_bias: has the id 300; ids are below 259"),
        ({"logit_bias": dict.fromkeys(map(str, range(1025)), 1)}, "logit_bias: has 1025 tokens"),
        ({"seed": 2**63}, "seed: is 9223372036854775808; it must be from -92233720368547"),
        ({"seed": int("9" * 2000)}, "seed: is 999999"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs: is 21; it must be from 0 to 20"),
        ({"top_logprobs": 1}, "top_logprobs: needs logprobs"),
        ({"stop_token_ids": [1, -2]}, "stop_token_ids[1]: is -2; it must be at least 0"),
        ({"stop": ""}, "stop: is empty"),
        ({"stop": ["a", ""]}, "stop[1]: is empty"),
        ({"stop": 3}, "stop: expected"),
        ({"stop": ["a"] * 257}, "stop: has 257 strings; at most 256 are allowed"),
        ({"stop": ["a", "b" * 8192]}, "stop: has 8193 characters in all; at most 8192 are allowed"),
        ({"stream": None, "stream_options": {}}, "stream_options: is for streams only"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage:"),
        ({"tool_choice": "required"}, "tool_choice: is required, but there are no tools"),
        ({"tool_choice": "sometimes"}, "tool_choice: is 'sometimes'; it must be none, auto"),
        (named("f"), "tool_choice.function.name: is 'f', which is not among the tools"),
        ({**named("g"), "tools": [F]}, "tool_choice.function.name: is 'g', which is not among"),
        ({**named("f", "tool"), "tools": [F]}, "tool_choice.type: invalid value 'tool'; it must"),
        ({**allowed("some", "f"), "tools": [F]}, "tool_choice.allowed_tools.mode: invalid enum"),
        ({**allowed("auto"), "tools": [F]}, "tool_choice.allowed_tools.tools: is empty"),
        (
            {**allowed("auto", "f", "g"), "tools": [F]},
            "tool_choice.allowed_tools.tools[1].function.name: is 'g', which",
        ),
        ({"tools": [{"type": "retrieval"}]}, "tools[0].type: is 'retrieval'; it must be"),
        (
            {"tools": [{"type": "custom", "custom": {"name": "f"}}]},
            """tools[0].type: is 'custom'; it must be "function\"""",
        ),
        ({"tools": [F, {"type": "function"}]}, "tools[1].function: is"),
        (function(name=""), "tools[0].function.name: is"),
        (function(name=[1] * 999), f"tools[0].function.name: is {str([1] * 999)[:60]}; it must"),
        (NO_SCHEMA, "tools[0].function.parameters: is"),
        ({"tools": [F] * 129}, "tools: has 129 tools; at most 128 are allowed"),
        ({"tools": [{**F, "x": nested(32)}]}, "tools[0]: is nested deeper than 32; flatten it"),
        ({"chat_template_kwargs": nested(17)}, "chat_template_kwargs: is nested deeper than 16"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages: is taken"),
        (
            {"continue_final_message": True},
            "continue_final_message: is set; also set add_generation",
        ),
        ({"response_format": {"type": "xml"}}, "response_format.type: is 'xml'; it must be text,"),
    ],
    COMPLETION: [
        ({"prompt": None}, "prompt: expected"),
        ({"prompt": {}}, "prompt: expected"),
        ({"prompt": "", "add_special_tokens": False}, "prompt: has no tokens; send a text with"),
        ({"prompt": ["a", ""], "add_special_tokens": False}, "prompt: has no tokens"),
        ({"prompt": []}, "prompt: is an empty list; send a text or ids"),
        ({"prompt": [[]]}, "prompt: has an empty list; send a text or ids"),
        ({"prompt": [-1]}, "prompt: has the id -1; ids begin at 0"),
        ({"prompt": [[1], [-2]]}, "prompt: has the id -2; ids begin at 0"),
        ({"prompt": [10**6]}, "prompt: has the id 1000000; ids are below 259"),
        ({"prompt": [10**30]}, "prompt: has the id 1000000"),
        ({"prompt": ["a", 1]}, "prompt: mixes kinds"),
        ({"prompt": ["a", [1]]}, "prompt: mixes kinds"),
        ({"prompt": ["a"] * 265}, "prompt: has 265 choices in all, prompts times n; at most 264"),
        ({"logprobs": 30}, "logprobs: is 30; it must be from 0 to 20"),
        ({"prompt": ["a", "b"], "return_token_ids": True}, "return_token_ids: is for a single"),
    ],
    TOKENIZE: [
        ({"prompt": None}, "prompt: send either prompt or messages"),
        ({"messages": HELLO}, "prompt: send either prompt or messages"),
        ({"prompt": None, "messages": [{"role": "user"}]}, "messages[0].content: is missing"),
        ({"prompt": None, "messages": HELLO, "tools": [{}]}, "tools[0].type: is None"),
        (
            {"prompt": None, "messages": HELLO, "continue_final_message": True},
            "continue_final_message: is set; also set add_generation",
        ),
        ({"prompt": None, "messages": HELLO, "chat_template": "x"}, "chat_template: is not impl"),
        ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs.tools: is taken"),
    ],
    DETOKENIZE: [
        ({"tokens": None}, "tokens: expected `array`, got `null`"),
        ({"tokens": "a"}, "tokens: expected `array`, got `str`"),
        ({"tokens": [1, -1]}, "tokens: has the id -1; ids begin at 0"),
        ({"tokens": [10**6]}, "tokens: has the id 1000000; ids are below 259"),
        ({"tokens": [10**30]}, "tokens: has the id 1000000"),
    ],
}


server = serving(Says(say="Hi 🚀"), max_model_len=512)


def post(server, path, body):
    return server.fetch(path, body, headers=JSON if isinstance(body, bytes) else None)


ROWS = [(path, *row) for path, rows in REFUSED.items() for row in rows]


@pytest.mark.parametrize(
    ("path", "fields", "message"), ROWS, ids=[f"{n} {row[2][:40]}" for n, row in enumerate(ROWS)]
)
def test_a_bad_field_is_named(server, path, fields, message):
    for stream in (False, True):
        answer = post(server, path, {**GOOD[path], "stream": stream, **fields})
        assert answer.status == 400
        error = answer.error
        assert error["message"].startswith(message)
        assert error["param"] == message.partition(":")[0]
        assert error["type"] == "invalid_request_error"
        assert len(error["message"]) < 200
        unsupported = "is not implemented" in error["message"] or "best_of" in message
        assert error["code"] == ("unsupported_parameter" if unsupported else None)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_long_path_is_shortened_in_the_answer(server, method):
    answer = server.fetch("/" + "x" * 20_000, {} if method == "POST" else None, method=method)
    assert answer.status == 404
    assert len(answer.body) < 500


@pytest.mark.parametrize("path", PATHS)
def test_a_field_that_is_missing_is_named_and_another_model_is_not_found(server, path):
    missing = {CHAT: "messages", DETOKENIZE: "tokens"}.get(path, "prompt")
    answer = post(server, path, {})
    assert (answer.status, answer.error["param"]) == (400, missing)
    answer = post(server, path, {**GOOD[path], "model": "gpt-é"})
    assert answer.status == 404
    assert (answer.error["code"], answer.error["param"]) == ("model_not_found", "model")
    assert post(server, path, {**GOOD[path], "model": "scripted"}).status == 200


def test_prompt_and_answer_have_exactly_the_room_of_the_model(server):
    long = {"messages": [{"role": "user", "content": "x" * 600}]}
    for path, body, param in (
        (CHAT, long, "messages"),
        (COMPLETION, {"prompt": "x" * 600}, "prompt"),
        (COMPLETION, {"prompt": ["x", "x" * 600]}, "prompt"),
        (COMPLETION, {"prompt": [97] * 512}, "prompt"),
    ):
        error = post(server, path, body).error
        assert (error["code"], error["param"]) == ("context_length_exceeded", param)
        assert "512" in error["message"]
    prompt = post(server, CHAT, GOOD[CHAT]).json()["usage"]["prompt_tokens"]
    assert post(server, CHAT, {**GOOD[CHAT], "max_tokens": 512 - prompt}).status == 200
    # Of several prompts the longest says how much the answers may have, if nothing else does.
    answer = post(server, COMPLETION, {"prompt": ["<say>", "<say>".rjust(509)]}).json()
    assert [choice["text"] for choice in answer["choices"]] == ["Hi", "Hi"]


@pytest.mark.parametrize(
    ("path", "fields", "param", "asked"),
    [
        (CHAT, {"max_tokens": 513}, "max_tokens", (513, "messages")),
        (CHAT, {"max_tokens": 10**30}, "max_tokens", (10**30, "messages")),
        (CHAT, {"max_completion_tokens": 513.0, "max_tokens": 5}, "max_completion_tokens",
         (513, "messages")),
        (COMPLETION, {"max_tokens": 512}, "max_tokens", (512, "prompt")),
        (COMPLETION, {"prompt": ["a", "<say>"], "max_tokens": 508}, "max_tokens", (508, "prompt")),
    ],
)  # fmt: skip
def test_more_than_the_context_holds_is_refused_in_the_words_that_clients_look_for(
    server, path, fields, param, asked
):
    prompt = post(server, path, GOOD[path]).json()["usage"]["prompt_tokens"]
    answer, where = asked
    error = post(server, path, {**GOOD[path], **fields}).error
    assert (error["param"], error["code"]) == (param, "context_length_exceeded")
    assert error["message"] == (
        f"This model's maximum context length is 512 tokens. However, you requested "
        f"{prompt + answer} tokens ({prompt} in the {where}, {answer} in the completion). "
        f"Please reduce the length of the {where} or completion."
    )


def test_a_long_number_of_tokens_is_shortened(server):
    error = post(server, CHAT, {**GOOD[CHAT], "max_tokens": 10**300}).error
    assert error["code"] == "context_length_exceeded"
    assert "000… tokens (" in error["message"]
    assert len(error["message"]) < 300


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"verbosity": "v" * 5000}, "verbosity"),
        ({**allowed("m" * 5000, "f"), "tools": [F]}, "tool_choice.allowed_tools.mode"),
        ({**named("f", "t" * 5000), "tools": [F]}, "tool_choice.type"),
    ],
)
def test_a_long_value_is_shortened(server, fields, param):
    error = post(server, CHAT, {**GOOD[CHAT], **fields}).error
    assert error["param"] == param
    assert error["message"].startswith(f"{param}: invalid ")
    assert len(error["message"]) < 200


NOT_REQUESTS = [
    b"", b"{", b"nonsense", b"null", b"[]", b'"text"', b'{"messages": [}',
    b'{"tokens":[1],"prompt":"a"} trailing',
    b'{"messages":[{"role":"user","content":"\xff"}],"prompt":"\xff","tokens":[1]}',
    b'{"messages": [{"role": "user", "content": "x"}], "user": "\xff"}',
    "{}".encode("utf-16"), b"\xef\xbb\xbf{}",
    b"[" * 100_000,
    b'{"messages":' + b"[" * 100_000,
    b'{"x":NaN,"y":' + b"[" * 100_000,
    b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"messages": [{"role": "user", "content": "x"}], "user": ' + b"[" * 9000 + b"]" * 9000 + b"}",
    b'{"x":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    b'{"messages": [{"role": "user", "content": "<say>"}], "prompt": "<say>", "tokens": [1], "x": '
    + b"[" * DEEPEST + b"]" * DEEPEST + b"}",
    b'{"model":' + b"9" * 5000 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("body", NOT_REQUESTS, ids=range(len(NOT_REQUESTS)))
def test_a_body_that_is_no_request_is_400(server, body):
    for path in PATHS:
        with server.connect() as client:
            answer = client.fetch(path, body, headers=JSON)
            assert answer.status == 400
            assert answer.error["type"] == "invalid_request_error"
            assert answer.error["param"] or "the body" in answer.error["message"]
            assert client.fetch(path, GOOD[path]).status == 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r'{"messages":[{"role":"user","content":"a\ud800"}]}', "messages[0].content: the string"),
        (r'{"messages":[{"role":"user","content":[{"type":"text","text":"\udc00\ud800 a"}]}]}',
         "messages[0].content[0].text: the string has a lone surrogate"),
        (r'{"prompt":"x","stop":["a","\ud83d"]}', "stop[1]: the string has a lone surrogate"),
        (r'{"temperature":NaN}', "temperature: nan is not a JSON number"),
        (r'{"tools":[{"a":{"b":-Infinity}}]}', "tools[0].a.b: -inf is not a JSON number"),
        (r'{"metadata":{"\ud800":1}}', "metadata: a key has a lone surrogate"),
        (r'{"\ud800":1}', "a key has a lone surrogate"),
    ],
)  # fmt: skip
def test_what_json_lacks_is_refused_by_name(server, text, message):
    for path in PATHS:
        error = post(server, path, text.encode()).error
        assert error["message"].startswith(message)
        assert error["param"] == (message.partition(": ")[0] if ": " in message else None)


@pytest.mark.parametrize(
    ("depth", "message"),
    [
        (DEEPEST, "tools[0]: is nested deeper than 32; flatten it"),
        (DEEPEST + 1, f"the body is nested deeper than {DEEPEST}; flatten it"),
        (100_000, f"the body is nested deeper than {DEEPEST}; flatten it"),
    ],
)
def test_a_nested_tool_is_named_within_the_limit_of_bodies(server, depth, message):
    # The body, the tools, and the tool are three of the levels.
    tools = b'[{"type":"function","x":' + b"[" * (depth - 3) + b"]" * (depth - 3) + b"}]"
    body = b'{"messages":[{"role":"user","content":"[{]}"}],"tools":' + tools + b"}"
    assert post(server, CHAT, body).error["message"] == message


def test_a_body_of_exactly_the_depth_is_read(server):
    rest = json.dumps(GOOD[CHAT]).removesuffix("}").encode() + b', "user": "}]", "x": '
    assert (
        post(server, CHAT, rest + b"[" * (DEEPEST - 1) + b"]" * (DEEPEST - 1) + b"}").status == 200
    )


@pytest.mark.parametrize(
    ("kind", "coding", "refused"),
    [
        *((kind, "", "content-type") for kind in ("", "text/plain", "\xff", "json")),
        ("multipart/form-data", "", "content-type"),
        *((kind, "", "") for kind in ("application/json; charset=utf-8", "Application/JSON")),
        *(("application/json", coding, "content-encoding") for coding in ("gzip", "deflate, br")),
        ("application/json", "Identity", ""),
    ],
)
def test_what_is_not_declared_as_json_in_one_way_or_another_is_415(server, kind, coding, refused):
    body = json.dumps(GOOD[CHAT]).encode()
    headers = {"content-type": kind, "content-encoding": coding}
    given = {name: value for name, value in headers.items() if value}
    answer = server.fetch(CHAT, body, headers=given)
    assert answer.status == (415 if refused else 200)
    assert not refused or answer.error["message"].startswith(f"{refused}: is ")


def test_a_body_of_exactly_the_limit_is_read_and_the_rest_of_a_longer_one_skipped(
    server, monkeypatch
):
    limits = replace(server.service.limits, max_body_bytes=20_000)
    monkeypatch.setattr(server.service, "limits", limits)
    body = json.dumps(GOOD[CHAT]).encode()
    with server.connect() as client:
        for length in (20_000, 20_001, 500_000):
            answer = client.fetch(CHAT, body.ljust(length), headers=JSON)
            assert answer.status == (200 if length == 20_000 else 413)
        assert "20000" in answer.error["message"]
        assert client.fetch(CHAT, GOOD[CHAT]).status == 200
        client.send(request(CHAT, method="POST", headers={**JSON, "transfer-encoding": "chunked"}))
        for _ in range(100):
            client.send(b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert client.answer().status == 413
