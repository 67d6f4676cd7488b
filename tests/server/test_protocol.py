"""Requests: what is taken, what is refused, and that every refusal names its field."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.engine import SamplingParams
from mini_vllm.server.endpoints.chat_request import (
    NamedToolChoice,
    decode_chat_request,
    template_messages,
)
from mini_vllm.server.endpoints.completion_request import (
    decode_completion_request,
    decode_detokenize_request,
    decode_tokenize_request,
)
from mini_vllm.server.endpoints.limits import DEFAULT_LIMITS, Limits
from mini_vllm.server.endpoints.sampling import Unsupported, to_sampling_params
from mini_vllm.server.wire.api_errors import ApiError

HELLO = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
DECODERS = (
    decode_chat_request,
    decode_completion_request,
    decode_tokenize_request,
    decode_detokenize_request,
)


def chat(limits=DEFAULT_LIMITS, **fields):
    return decode_chat_request(json.dumps({"messages": HELLO, **fields}).encode(), limits)


def completion(limits=DEFAULT_LIMITS, **fields):
    return decode_completion_request(json.dumps({"prompt": "Hi", **fields}).encode(), limits)


def params(request, limits=DEFAULT_LIMITS, default=100):
    return to_sampling_params(request, limits, default)


def refusal(call, *args, **fields):
    with pytest.raises(ApiError) as caught:
        call(*args, **fields)
    error = caught.value
    assert error.body == {
        "error": {
            "message": error.message,
            "type": "invalid_request_error",
            "param": error.param,
            "code": error.code,
        }
    }
    json.dumps(error.body, ensure_ascii=False).encode()
    if error.param:
        assert error.message.startswith(f"{error.param}: ")
    return error


def nested(depth, leaf=1):
    for _ in range(depth):
        leaf = {"a": leaf}
    return leaf


def test_nothing_said_means_the_defaults_of_vllm():
    assert params(chat()) == SamplingParams(max_tokens=100)
    nothing = dict.fromkeys(["n", "stop", "temperature", "top_p", "seed", "logprobs", "tools"])
    assert params(chat(**nothing)) == SamplingParams(max_tokens=100)


def test_every_field_of_sampling_arrives():
    fields = {
        "max_tokens": 7, "min_tokens": 2, "stop_token_ids": [3, 4], "ignore_eos": True, "n": 2,
        "include_stop_str_in_output": True, "skip_special_tokens": False, "temperature": 0,
        "top_p": 0.5, "seed": -3,
    }  # fmt: skip
    expected = {**fields, "stop_token_ids": frozenset({3, 4}), "stop": ("a", "b"), "logprobs": 5}
    asked = chat(**fields, stop=["a", "b"], logprobs=True, top_logprobs=5)
    assert params(asked) == SamplingParams(**expected)
    assert params(completion(**fields, stop=["a", "b"], logprobs=5)) == SamplingParams(**expected)


def test_one_stop_may_be_a_string_and_the_new_name_of_max_tokens_wins():
    assert params(chat(stop="END")).stop == ("END",)
    assert params(chat(max_tokens=5, max_completion_tokens=9)).max_tokens == 9


def test_logprobs_of_a_chat_without_a_number_are_those_of_the_chosen_tokens():
    assert params(chat(logprobs=True)).logprobs == 0
    assert params(chat(logprobs=False)).logprobs is None
    assert params(completion(logprobs=0)).logprobs == 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 0}, "n"),
        ({"n": 9}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 101}, "min_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.01}, "top_p"),
        ({"seed": 2**63}, "seed"),
        ({"seed": int("9" * 2000)}, "seed"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"stop_token_ids": [1, -2]}, "stop_token_ids[1]"),
        ({"stop": ["a", ""]}, "stop[1]"),
        ({"stop": ""}, "stop"),
        ({"stop": list("abcde")}, "stop"),
        ({"stop": ["a", "b" * 257]}, "stop[1]"),
    ],
)
def test_a_number_out_of_its_range_is_refused_by_name(fields, param):
    error = refusal(params, chat(**fields))
    assert (error.status, error.param) == (400, param)
    assert len(error.message) < 200


def test_a_range_is_said():
    assert refusal(params, chat(n=9)).message == "n: is 9; it must be from 1 to 8"
    assert refusal(params, chat(max_tokens=0)).message == "max_tokens: is 0; it must be at least 1"
    assert "5 strings; at most 4" in refusal(params, chat(stop=list("abcde"))).message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [{"content": "Hi"}]}, "messages[0].role"),
        ({"messages": [*HELLO, {"role": 3, "content": "Hi"}]}, "messages[1].role"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0]",
        ),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"temperature": "hot"}, "temperature"),
        ({"n": True}, "n"),
        ({"stop": 3}, "stop"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream_options": {"include_usage": 1}, "stream": True}, "stream_options.include_usage"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            "tool_choice.function.name",
        ),
        (
            {"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": [TOOL]},
            "tool_choice.function.name",
        ),
        ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
        ({"tools": [TOOL, {"type": "function"}]}, "tools[1].function"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
        (
            {"tools": [{**TOOL, "function": {"name": "f", "parameters": {"properties": 1}}}]},
            "tools[0].function.parameters.properties",
        ),
        ({"tools": [{**TOOL, "x": nested(16)}]}, "tools[0]"),
        ({"chat_template_kwargs": nested(17)}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
    ],
)
def test_a_chat_that_makes_no_sense_is_refused_by_name(fields, param):
    error = refusal(chat, **fields)
    assert (error.status, error.param) == (400, param)


@pytest.mark.parametrize("prompt", ["", [], [""], [1, "a"], [[1], [-2]], [[]], ["a", [1]], {}])
def test_a_prompt_that_makes_no_sense_is_refused_by_name(prompt):
    assert refusal(completion, prompt=prompt).param == "prompt"


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [("a", ["a"]), (["a", "b"], ["a", "b"]), ([1, 2], [[1, 2]]), ([[1], [2]], [[1], [2]])],
)
def test_a_prompt_has_four_shapes(prompt, prompts):
    assert completion(prompt=prompt).prompts == prompts


CHANGES_THE_ANSWER = {
    "logit_bias": {"5": 1}, "frequency_penalty": 0.1, "presence_penalty": -1, "best_of": 2,
    "response_format": {"type": "json_object"}, "suffix": "x", "echo": True, "functions": [{}],
    "function_call": "auto", "modalities": ["text", "audio"], "audio": {"voice": "a"},
    "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "guided_json": {}, "bad_words": ["a"],
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES_THE_ANSWER)
@pytest.mark.parametrize("ask", [chat, completion])
def test_what_would_change_the_answer_is_refused_not_ignored(ask, name):
    error = refusal(ask, **{name: CHANGES_THE_ANSWER[name]})
    assert (error.status, error.param, error.code) == (400, name, "unsupported_parameter")


@pytest.mark.parametrize("name", Unsupported.__struct_fields__)
def test_the_value_that_changes_nothing_is_taken(name):
    for value in (None, getattr(Unsupported(), name)):
        params(chat(**{name: value}))


def test_harmless_and_unknown_fields_are_skipped():
    assert params(chat(user="u", metadata={"a": "b"}, store=True, service_tier="auto", xyz=[1]))


def test_limits_name_the_field_what_was_found_and_the_limit():
    small = Limits(
        max_messages=2, max_prompt_chars=5, max_tools=1, max_choices=3, max_n=2, max_body_bytes=300
    )
    assert refusal(chat, small, messages=HELLO * 3).message == (
        "messages: has 3 messages; at most 2 are allowed"
    )
    assert (
        "6 characters"
        in refusal(chat, small, messages=[{"role": "user", "content": "abcdef"}]).message
    )
    assert refusal(chat, small, tools=[TOOL, TOOL]).param == "tools"
    assert "4 choices" in refusal(completion, small, prompt=["a", "b"], n=2).message
    assert (
        "6 characters or ids" in refusal(completion, small, prompt=[[1, 2, 3], [4, 5, 6]]).message
    )
    too_long = refusal(completion, small, user="x" * 300)
    assert (too_long.status, too_long.param) == (413, None)
    assert "at most 300" in too_long.message


def test_as_many_as_the_limit_says_are_allowed():
    at_most = Limits(max_messages=2, max_prompt_chars=4, max_tools=1, max_choices=4, max_stops=4)
    asked = chat(at_most, messages=HELLO * 2, tools=[TOOL], stop=list("abcd"))
    assert params(asked, at_most).stop == tuple("abcd")
    assert completion(at_most, prompt=["ab", "cd"], n=2).prompts == ["ab", "cd"]


def test_arguments_and_reasoning_count_as_prompt():
    turn = {
        "role": "assistant",
        "reasoning_content": "abc",
        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}     "}}],
    }
    assert "10 characters" in refusal(chat, Limits(max_prompt_chars=9), messages=[turn]).message


def test_the_depth_of_a_tool_is_counted_exactly():
    levels = DEFAULT_LIMITS.max_schema_depth - 1
    chat(tools=[{**TOOL, "x": nested(levels)}])
    assert refusal(chat, tools=[{**TOOL, "x": nested(levels + 1)}]).param == "tools[0]"


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b"[" * 100_000,
        b'{"messages":' + b"[" * 100_000,
        b'{"x":NaN,"y":' + b"[" * 100_000,
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"x":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
        b'{"messages":[{"role":"user","content":"\xff"}],"prompt":"\xff","tokens":[1]}',
        b'{"tokens":[1],"prompt":"a"} trailing',
        '{"prompt":"é"}'.encode("utf-16"),
        b"\xef\xbb\xbf{}",
        b'{"model":' + b"9" * 5000 + b"}",
    ],
    ids=range(13),
)
def test_hostile_bodies_are_400(decode, body):
    assert refusal(decode, body, DEFAULT_LIMITS).status == 400


def test_a_nested_tool_within_the_stack_is_400_too():
    tools = b'[{"type":"function","x":' + b"[" * 900 + b"]" * 900 + b"}]"
    body = b'{"messages":[{"role":"user","content":""}],"tools":' + tools + b"}"
    assert refusal(decode_chat_request, body, DEFAULT_LIMITS).param == "tools[0]"


@pytest.mark.parametrize(
    ("text", "param"),
    [
        (r'{"messages":[{"role":"user","content":"a\ud800"}]}', "messages[0].content"),
        (r'{"messages":[{"role":"user","content":[{"type":"text","text":"\udc00\ud800 a"}]}]}',
         "messages[0].content[0].text"),
        (r'{"prompt":"x","stop":["a","\ud83d"]}', "stop[1]"),
        (r'{"temperature":NaN}', "temperature"),
        (r'{"tools":[{"a":{"b":-Infinity}}]}', "tools[0].a.b"),
        (r'{"metadata":{"\ud800":1}}', "metadata"),
        (r'{"\ud800":1}', None),
    ],
)  # fmt: skip
def test_what_json_has_not_is_refused_by_name(text, param):
    for decode in DECODERS:
        assert refusal(decode, text.encode(), DEFAULT_LIMITS).param == param


def test_places_are_not_written_out_for_every_value():
    # Written out, the places of these values would need 100 GB.
    body = b'{"%s":[%s]}' % (b"k" * 1_000_000, b",".join([b"1"] * 100_000 + [b"NaN"]))
    error = refusal(decode_completion_request, body, DEFAULT_LIMITS)
    assert error.param == "k" * 200


def test_a_whole_pair_of_surrogates_is_one_character():
    body = rb'{"messages":[{"role":"user","content":"\ud83d\ude80"}]}'
    assert decode_chat_request(body, DEFAULT_LIMITS).messages[0].content == "🚀"


def test_of_a_key_that_is_there_twice_the_last_one_counts():
    body = b'{"prompt":"a","prompt":"b"}'
    assert decode_completion_request(body, DEFAULT_LIMITS).prompt == "b"


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: json.dumps(text).encode()))
def test_total(body):
    for decode in DECODERS:
        with pytest.raises(ApiError) as caught:
            decode(body, DEFAULT_LIMITS)
        assert caught.value.status == 400


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    ["messages", "tools", "tool_choice", "stop", "n", "chat_template_kwargs", "prompt", "tokens",
     "response_format", "stream_options", "logprobs", "reasoning_effort"]
)  # fmt: skip


@given(st.dictionaries(FIELDS, ANY, max_size=3))
def test_any_value_of_any_field_is_taken_or_400(fields):
    body, refusals = json.dumps({"messages": HELLO, **fields}).encode(), []
    for decode in DECODERS:
        try:
            request = decode(body, DEFAULT_LIMITS)
            if decode in DECODERS[:2]:
                params(request)
        except ApiError as error:
            refusals.append(error.status)
    assert set(refusals) <= {400}


def test_tool_choice_is_settled():
    assert chat().tool_choice == "none"
    assert chat(tools=[]).tool_choice == "none"
    assert chat(tools=[]).tools is None
    assert chat(tools=[TOOL]).tool_choice == "auto"
    assert chat(tools=[TOOL], tool_choice="required").tool_choice == "required"
    named = chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "f"}})
    assert isinstance(named.tool_choice, NamedToolChoice)


def test_tools_stay_whole():
    tool = {"type": "function", "function": {"name": "f", "strict": True, "x": [1]}, "y": {}}
    assert chat(tools=[tool]).tools == [tool]


def test_a_template_reads_text_and_arguments_as_objects():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    asked = chat(
        messages=[
            {"role": "user", "content": [{"type": "text", "text": t} for t in ("a", "b")]},
            {"role": "assistant", "tool_calls": [call], "reasoning_content": "hm"},
            {"role": "tool", "content": "7", "tool_call_id": "c", "name": "f"},
        ]
    )
    assert template_messages(asked.messages, DEFAULT_LIMITS) == [
        {"role": "user", "content": "a\nb"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "tool_calls": [{**call, "function": {"name": "f", "arguments": {"a": 1}}}],
        },
        {"role": "tool", "content": "7", "tool_call_id": "c", "name": "f"},
    ]


@pytest.mark.parametrize(
    "arguments", ["[1]", "{", '{"a": NaN}', '{"a":' + "[" * 100_000, json.dumps(nested(17))]
)
def test_arguments_that_are_no_object_are_refused_by_name(arguments):
    call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
    asked = chat(messages=[*HELLO, {"role": "assistant", "tool_calls": [call]}])
    error = refusal(template_messages, asked.messages, DEFAULT_LIMITS)
    assert error.param == "messages[1].tool_calls[0].function.arguments"


def test_effort_is_one_more_variable_of_the_template():
    asked = chat(reasoning_effort="low", chat_template_kwargs={"enable_thinking": False})
    assert asked.template_kwargs == {"reasoning_effort": "low", "enable_thinking": False}


def test_tokenize_takes_a_text_or_a_conversation():
    def ask(**fields):
        return decode_tokenize_request(json.dumps(fields).encode(), DEFAULT_LIMITS)

    assert ask(prompt="").prompt == ""
    assert ask(messages=HELLO, tools=[TOOL]).add_generation_prompt
    assert refusal(ask).param == "prompt"
    assert refusal(ask, prompt="a", messages=HELLO).param == "prompt"
    assert refusal(ask, messages=[{"role": "user"}]).param == "messages[0].content"


def test_detokenize_takes_ids():
    assert decode_detokenize_request(b'{"tokens":[]}', DEFAULT_LIMITS).tokens == []
    for body in (b'{"tokens":[1,-1]}', b'{"tokens":"a"}', b"{}"):
        assert refusal(decode_detokenize_request, body, DEFAULT_LIMITS).param == "tokens"
