"""Fields of requests: what each means, and how much of it is allowed."""

import json
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import tool

from mini_vllm.engine import SamplingParams
from mini_vllm.server.endpoints.chat_request import (
    ChatCompletionRequest,
    FunctionName,
    NamedToolChoice,
    decode_chat_request,
    template_messages,
    with_objects,
)
from mini_vllm.server.endpoints.completions import CompletionRequest, decode_completion_request
from mini_vllm.server.endpoints.sampling import Unsupported, to_sampling_params
from mini_vllm.server.endpoints.tokens import (
    DetokenizeRequest,
    TokenizeRequest,
    decode_detokenize_request,
    decode_tokenize_request,
)
from mini_vllm.server.service import DEFAULT_LIMITS, Limits
from mini_vllm.server.wire.api_errors import ApiError

DECODERS = [
    decode_chat_request, decode_completion_request, decode_tokenize_request,
    decode_detokenize_request,
]  # fmt: skip
HELLO = [{"role": "user", "content": "Hi"}]
F = tool("f")
BY_NAME = {"type": "function", "function": {"name": "f"}}


def nested(depth, leaf=1):
    for _ in range(depth):
        leaf = {"a": leaf}
    return leaf


def decode(decoder, fields, limits=DEFAULT_LIMITS):
    return decoder(json.dumps(fields).encode(), limits)


def chat(limits=DEFAULT_LIMITS, **fields):
    return decode(decode_chat_request, {"messages": HELLO, **fields}, limits)


def completion(limits=DEFAULT_LIMITS, **fields):
    return decode(decode_completion_request, {"prompt": "Hi", **fields}, limits)


def tokenize(limits=DEFAULT_LIMITS, **fields):
    return decode(decode_tokenize_request, fields, limits)


def detokenize(limits=DEFAULT_LIMITS, **fields):
    return decode(decode_detokenize_request, fields, limits)


def params(asked, limits=DEFAULT_LIMITS):
    return to_sampling_params(asked, limits, 100, asked.logprobs_param)


def chat_params(limits=DEFAULT_LIMITS, **fields):
    return params(chat(limits, **fields), limits)


def completion_params(limits=DEFAULT_LIMITS, **fields):
    return params(completion(limits, **fields), limits)


def refusal(call, *args, **fields):
    args = (*args, DEFAULT_LIMITS) if args and isinstance(args[-1], bytes) else args
    with pytest.raises(ApiError) as caught:
        call(*args, **fields)
    return caught.value


def test_nothing_said_means_the_defaults_of_vllm():
    assert chat_params() == SamplingParams(max_tokens=100)
    nothing = dict.fromkeys(["n", "stop", "temperature", "top_p", "seed", "logprobs", "tools"])
    assert chat_params(**nothing) == SamplingParams(max_tokens=100)


def test_every_field_of_sampling_arrives():
    fields = {
        "max_tokens": 7, "min_tokens": 2, "stop_token_ids": [3, 4], "ignore_eos": True, "n": 2,
        "include_stop_str_in_output": True, "skip_special_tokens": False, "temperature": 0,
        "top_p": 0.5, "seed": -3, "top_k": 4, "min_p": 0.1, "repetition_penalty": 1.2,
        "presence_penalty": -1.5, "frequency_penalty": 0.5,
    }  # fmt: skip
    expected = {**fields, "stop_token_ids": frozenset({3, 4}), "stop": ("a", "b"), "logprobs": 5}
    expected["logit_bias"] = {7: -100.0, 8: 2.5}
    fields |= {"stop": ["a", "b"], "logit_bias": {"7": -100, "8": 2.5}}
    assert chat_params(**fields, logprobs=True, top_logprobs=5) == SamplingParams(**expected)
    assert completion_params(**fields, logprobs=5) == SamplingParams(**expected)


TOOL = {"type": "function", "function": {"name": "f", "strict": True, "x": [1]}, "y": {}}
G = tool("g")
SOME = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
    {"type": "function", "function": {"name": "g"}}
]}}  # fmt: skip
CHOSEN = NamedToolChoice(FunctionName("f"))
EFFORT = {"reasoning_effort": "low"}


@pytest.mark.parametrize(
    ("ask", "fields", "name", "value"),
    [
        (chat_params, {"stop": "END"}, "stop", ("END",)),
        (chat_params, {"max_tokens": 5, "max_completion_tokens": 9}, "max_tokens", 9),
        (chat_params, {"max_tokens": 2.0, "seed": -3.0}, "max_tokens", 2),
        (chat_params, {"max_tokens": 5, "min_tokens": 5}, "min_tokens", 5),
        # Without a number they are those of the chosen tokens.
        (chat_params, {"logprobs": True}, "logprobs", 0),
        (chat_params, {"logprobs": False}, "logprobs", None),
        (completion_params, {"logprobs": 0}, "logprobs", 0),
        (completion, {"prompt": "a"}, "prompts", ["a"]),
        (completion, {"prompt": ["a", "b"]}, "prompts", ["a", "b"]),
        (completion, {"prompt": [1, 2]}, "prompts", [[1, 2]]),
        (completion, {"prompt": [[1], [2]]}, "prompts", [[1], [2]]),
        (chat, {}, "tool_choice", "none"),
        (chat, {"tools": []}, "tool_choice", "none"),
        (chat, {"tools": []}, "tools", None),
        (chat, {"tools": [F]}, "tool_choice", "auto"),
        (chat, {"tools": [F], "tool_choice": "required"}, "tool_choice", "required"),
        (chat, {"tools": [F], "tool_choice": BY_NAME}, "tool_choice", CHOSEN),
        (chat, {"tools": [TOOL]}, "tools", [TOOL]),
        (chat, {"tools": [F, G], "tool_choice": SOME}, "tools", [G]),
        (chat, {"tools": [F, G], "tool_choice": SOME}, "tool_choice", "required"),
        (chat, {**EFFORT, "chat_template_kwargs": {"a": 1}}, "template_kwargs", {**EFFORT, "a": 1}),
        (tokenize, {"prompt": ""}, "prompt", ""),
        (tokenize, {"messages": HELLO, "tools": [F]}, "add_generation_prompt", True),
        (detokenize, {"tokens": []}, "tokens", []),
    ],
)
def test_a_field_is_taken_as_what_it_means(ask, fields, name, value):
    assert getattr(ask(**fields), name) == value


def test_places_are_not_written_out_for_every_value():
    # Written out, the places of these values would need 100 GB.
    body = b'{"%s":[%s]}' % (b"k" * 1_000_000, b",".join([b"1"] * 100_000 + [b"NaN"]))
    assert refusal(decode_completion_request, body).param == "k" * 200


NEUTRAL = msgspec.structs.asdict(Unsupported())


@pytest.mark.parametrize("name", NEUTRAL)
@pytest.mark.parametrize("ask", [chat, completion])
def test_what_would_change_the_answer_is_refused_not_ignored(ask, name):
    # A chat whose last message is continued must also say that no turn is opened.
    ask = partial(ask, add_generation_prompt=False)
    if name in ask().supported:
        ask(**{name: True})
        return
    values = [True, False, 2, "x", [], ["x"], [{}], {}, {"x": "y"}]
    for value in (value for value in values if value != NEUTRAL[name]):
        error = refusal(ask, **{name: value})
        assert (error.status, error.param, error.code) == (400, name, "unsupported_parameter")


def test_the_value_that_changes_nothing_is_taken_and_unknown_fields_are_skipped():
    for name, neutral in NEUTRAL.items():
        for value in (None, neutral):
            chat_params(**{name: value})
            completion_params(**{name: value})
    assert chat_params(user="u", metadata={"a": "b"}, store=True, service_tier="auto", xyz=[1])


@pytest.mark.parametrize(
    "fields",
    [
        {"verbosity": "low"}, {"verbosity": "high"}, {"best_of": 1}, {"best_of": 3, "n": 3},
        {"best_of": 1.0},
    ],
)  # fmt: skip
def test_advice_without_influence_is_taken(fields):
    assert chat_params(**fields).n == fields.get("n", 1)
    assert completion_params(**fields).n == fields.get("n", 1)


CALL = {"name": "f", "arguments": '{"a": 1}'}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            {"role": "function", "name": "f", "content": "7"},
            {"role": "tool", "name": "f", "content": "7"},
        ),
        (
            {"role": "assistant", "content": None, "function_call": CALL},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": None, "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
            ]},
        ),
        (
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"role": "assistant", "content": "No."},
        ),
        (
            {"role": "assistant", "content": None, "refusal": "No."},
            {"role": "assistant", "content": "No."},
        ),
        (
            {"role": "assistant", "content": "Yes.", "refusal": None},
            {"role": "assistant", "content": "Yes."},
        ),
    ],
    ids=["role function", "function_call", "refusal part", "refusal", "no refusal"],
)  # fmt: skip
def test_older_names_and_refusals_in_the_history_are_read(message, expected):
    [_, turn] = template_messages(chat(messages=[*HELLO, message]).messages, DEFAULT_LIMITS)
    assert turn == expected


def turns(*texts):
    return [{"role": "user", "content": text} for text in texts]


CALLING = {
    "role": "assistant",
    "reasoning_content": "abc",
    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}     "}}],
}
LEVELS = 2 * DEFAULT_LIMITS.max_schema_depth - 1


@pytest.mark.parametrize(
    ("ask", "limits", "enough", "too_much", "message"),
    [
        (chat_params, {"max_messages": 2}, {"messages": HELLO * 2}, {"messages": HELLO * 3},
         "messages: has 3 messages; at most 2 are allowed"),
        (chat_params, {"max_prompt_chars": 5}, {"messages": turns("abc", "de")},
         {"messages": turns("abc", "def")},
         "messages: has 6 characters in all; at most 5 are allowed"),
        (chat_params, {"max_prompt_chars": 10}, {"messages": [CALLING]},
         {"messages": [CALLING, *turns("x")]},
         "messages: has 11 characters in all; at most 10 are allowed"),
        (chat_params, {"max_tools": 1}, {"tools": [F]}, {"tools": [F, F]},
         "tools: has 2 tools; at most 1 are allowed"),
        (chat_params, {}, {"tools": [{**F, "x": nested(LEVELS)}]},
         {"tools": [{**F, "x": nested(LEVELS + 1)}]}, "tools[0]: is nested deeper than 32"),
        (chat_params, {"max_stops": 2}, {"stop": ["a", "b"]}, {"stop": ["a", "b", "c"]},
         "stop: has 3 strings; at most 2 are allowed"),
        (completion_params, {"max_choices": 3}, {"prompt": ["a"], "n": 3},
         {"prompt": ["a", "b"], "n": 2},
         "prompt: has 4 choices in all, prompts times n; at most 3 are allowed"),
        (completion_params, {"max_prompt_chars": 5}, {"prompt": [[1, 2, 3], [4, 5]]},
         {"prompt": [[1, 2, 3], [4, 5, 6]]},
         "prompt: has 6 characters or ids in all; at most 5 are allowed"),
        (tokenize, {"max_prompt_chars": 2}, {"prompt": "ab"}, {"prompt": "abc"},
         "prompt: has 3 characters; at most 2 are allowed"),
        (detokenize, {"max_prompt_chars": 2}, {"tokens": [1, 2]}, {"tokens": [1, 2, 3]},
         "tokens: has 3 ids; at most 2 are allowed"),
    ],
)  # fmt: skip
def test_as_much_as_the_limit_says_is_allowed_and_no_more(ask, limits, enough, too_much, message):
    limits = Limits(**limits)
    ask(limits, **enough)
    error = refusal(ask, limits, **too_much)
    assert error.status == 400
    assert error.message.startswith(message)


def test_a_pair_of_surrogates_is_one_character_and_of_two_equal_keys_the_last_one_counts():
    body = rb'{"messages":[{"role":"user","content":"\ud83d\ude80"}]}'
    assert decode_chat_request(body, DEFAULT_LIMITS).messages[0].content == "🚀"
    body = b'{"prompt":"a","prompt":"b"}'
    assert decode_completion_request(body, DEFAULT_LIMITS).prompt == "b"


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: json.dumps(text).encode()))
def test_total(body):
    for decoder in DECODERS:
        assert refusal(decoder, body).status == 400


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KINDS = (ChatCompletionRequest, CompletionRequest, TokenizeRequest, DetokenizeRequest)
FIELDS = st.sampled_from(sorted({name for kind in KINDS for name in kind.__struct_fields__}))


@given(st.dictionaries(FIELDS, ANY, max_size=6))
def test_any_value_of_any_field_is_taken_or_400(fields):
    refusals = []
    for decoder in DECODERS:
        try:
            asked = decode(decoder, {"messages": HELLO, **fields})
            if decoder in (decode_chat_request, decode_completion_request):
                params(asked)
        except ApiError as error:
            refusals.append(error.status)
    assert set(refusals) <= {400}


@pytest.mark.parametrize(
    ("arguments", "read"),
    [('{"a": 1}', {"a": 1}), ({"a": {"b": "é"}}, {"a": {"b": "é"}}), ("", {}), (None, {})],
)
def test_a_template_reads_text_and_arguments_as_objects(arguments, read):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    read = {**call, "function": {"name": "f", "arguments": read}}
    answer = {"role": "tool", "content": "7", "tool_call_id": "c", "name": "f"}
    texts = [{"type": "text", "text": text} for text in ("a", "b")]
    said = {"role": "assistant", "reasoning_content": "hm", "reasoning": "a", "thinking": "b"}
    asked = chat(messages=[*turns(texts), {**said, "tool_calls": [call]}, answer])
    assert template_messages(asked.messages, DEFAULT_LIMITS) == [
        *turns("a\nb"), {**said, "content": "", "tool_calls": [read]}, answer
    ]  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        "[1]", "{", '{"a": NaN}', '{"a":' + "[" * 100_000, json.dumps(nested(17)),
        '{"a":' * 9_000 + "1" + "}" * 9_000, '{"a":' * 100_000 + "1" + "}" * 100_000,
    ],
    ids=range(7),
)  # fmt: skip
def test_arguments_that_are_no_object_stay_the_text_that_they_are(arguments):
    call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
    asked = chat(messages=[*HELLO, {"role": "assistant", "tool_calls": [call]}])
    turns = template_messages(asked.messages, DEFAULT_LIMITS)
    assert turns[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": arguments}
    made = with_objects(turns)[1]["tool_calls"][0]["function"]
    assert made == {"name": "f", "arguments": {"arguments": arguments}}


def test_a_call_without_arguments_has_none_and_long_ones_count():
    call = {"id": "c", "function": {"name": "f"}}
    asked = chat(messages=[*HELLO, {"role": "assistant", "tool_calls": [call]}])
    (said,) = template_messages(asked.messages, DEFAULT_LIMITS)[1]["tool_calls"]
    assert said["function"] == {"name": "f", "arguments": {}}
    call["function"]["arguments"] = {"a": "b" * DEFAULT_LIMITS.max_prompt_chars}
    with pytest.raises(ApiError, match="messages: has 1000010 characters in all"):
        chat(messages=[*HELLO, {"role": "assistant", "tool_calls": [call]}])
