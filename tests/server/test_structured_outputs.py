"""Answers held to a schema or a grammar, and calls that are demanded, over real sockets."""

import json
import sys

import jsonschema
import pytest
from running import Says, asking, running_embedded, serving, tool
from wire_client import read_chat

from mini_vllm.models.sayer import Sayer

pytest.importorskip("llguidance")
JOKE = {
    "type": "object",
    "properties": {"joke": {"type": "string", "maxLength": 40}, "stars": {"enum": [1, 2, 3]}},
    "required": ["joke", "stars"],
    "additionalProperties": False,
}
AS_JOKE = {"type": "json_schema", "json_schema": {"name": "joke", "schema": JOKE, "strict": True}}
UNIT = tool("unit", properties={"to": {"enum": ["C", "F"]}}, required=["to"],
            additionalProperties=False)  # fmt: skip
CITY = tool("get_weather", properties={"city": {"type": "string", "maxLength": 20}},
            required=["city"], additionalProperties=False)  # fmt: skip
PARAMETERS = {one["function"]["name"]: one["function"]["parameters"] for one in (UNIT, CITY)}
NAMED = {"type": "function", "function": {"name": "unit"}}
CALL = '<tool_call>\n{"name": "unit", "arguments": {"to": "C"}}\n</tool_call>'


def saying(text, **fields):
    return {"messages": [{"role": "user", "content": text}], **fields}


@pytest.fixture(scope="module")
def embedded():
    # As `mini-vllm serve` starts it: what `say` gives may reason.
    with running_embedded(Sayer, reasoning_format="qwen3", can_say=True) as running_server:
        yield running_server


@pytest.fixture(scope="module")
def client(embedded):
    import openai

    base_url = f"http://{embedded.host}:{embedded.port}/v1"
    with openai.OpenAI(base_url=base_url, api_key="-", max_retries=0) as client:
        yield client


def said(server, **fields):
    """Return the choices of a chat, which are the same streamed and whole."""
    body = saying("Tell me a joke about the weather.", max_tokens=300, **fields)
    choices = server.chat(body).json()["choices"]
    told = read_chat(server.chat({**body, "stream": True}).body)[0]
    for choice in choices:
        streamed = told[choice["index"]]
        assert streamed["content"] == (choice["message"]["content"] or "")
        assert [one["arguments"] for one in streamed["calls"]] == [
            call["function"]["arguments"] for call in choice["message"].get("tool_calls", [])
        ]
    return choices


def test_every_answer_fits_the_schema(embedded):
    for seed in range(2):
        for choice in said(embedded, response_format=AS_JOKE, seed=seed, n=3):
            assert choice["finish_reason"] == "stop"
            jsonschema.validate(json.loads(choice["message"]["content"]), JOKE)


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({"choice": ["sunny", "rainy 🌧"]}, ["sunny", "rainy 🌧"].__contains__),
        ({"regex": r"\d{4}-\d{2}"}, lambda text: len(text) == 7 and text[4] == "-"),
        ({"grammar": 'root ::= "a" | "b"'}, "ab".__contains__),
        ({"json": json.dumps(JOKE)}, lambda text: jsonschema.validate(json.loads(text), JOKE) or 1),
        ({"json": {"enum": [1, None]}}, lambda text: json.loads(text) in (1, None)),
        ({"json_object": True, "disable_any_whitespace": True}, lambda text: text[0] == "{"),
    ],
    ids=["choice", "regex", "grammar", "schema as text", "schema", "object"],
)
def test_vllms_structured_outputs_hold_for_chats_and_completions(embedded, wanted, fits):
    for choice in said(embedded, structured_outputs=wanted, seed=1, n=2):
        assert fits(choice["message"]["content"])
    body = {"prompt": "Hm", "structured_outputs": wanted, "max_tokens": 300, "seed": 2}
    assert fits(embedded.fetch("/v1/completions", body).json()["choices"][0]["text"])


@pytest.mark.parametrize(
    ("choice", "more", "reason"),
    [
        ("required", {}, "tool_calls"),
        ("required", {"parallel_tool_calls": False}, "tool_calls"),
        ("required", {"response_format": AS_JOKE}, "tool_calls"),
        (NAMED, {}, "stop"),
    ],
    ids=["required", "one", "beside a schema", "named"],
)
def test_a_demanded_call_comes_and_its_arguments_fit(embedded, choice, more, reason):
    for seed in range(3):
        given = {"tools": [CITY, UNIT], "tool_choice": choice, "seed": seed, "n": 2, **more}
        for answer in said(embedded, **given):
            assert answer["message"]["content"] is None
            assert answer["finish_reason"] == reason
            for call in answer["message"]["tool_calls"]:
                function = call["function"]
                assert choice == "required" or function["name"] == "unit"
                jsonschema.validate(json.loads(function["arguments"]), PARAMETERS[function["name"]])
            assert len(answer["message"]["tool_calls"]) == 1 or not more


@pytest.mark.parametrize("most", [1, 4, 20, 45, 60])
@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_a_demanded_call_that_is_cut_leaves_no_text(embedded, choice, most):
    body = saying("Weather?", tools=[CITY, UNIT], tool_choice=choice, max_tokens=most, seed=1)
    [whole] = embedded.chat(body).json()["choices"]
    streamed = read_chat(embedded.chat({**body, "stream": True}).body)[0][0]
    assert not whole["message"]["content"]
    assert streamed["content"] == ""
    assert whole["finish_reason"] == "length"
    flat = {"tools": [{"type": "function", **CITY["function"]}], "tool_choice": "required"}
    answer = embedded.fetch("/v1/responses", {"input": "Hm", **flat, "max_output_tokens": most})
    assert [item["type"] for item in answer.json()["output"]] in ([], ["function_call"])


def test_beside_tools_a_schema_leaves_the_choice_between_a_call_and_an_answer(embedded):
    seen = set()
    for seed in range(4):
        for answer in said(embedded, tools=[UNIT], response_format=AS_JOKE, seed=seed, n=4):
            if answer["message"].get("tool_calls"):
                assert not answer["message"]["content"]
            else:
                jsonschema.validate(json.loads(answer["message"]["content"]), JOKE)
            seen.add(answer["finish_reason"])
    assert seen == {"stop", "tool_calls"}


@pytest.mark.parametrize("reasoning", ["", "<think>Hm.</think>\n\n"])
def test_what_is_said_is_held_to_the_schema_behind_its_reasoning(embedded, reasoning):
    (choice,) = said(embedded, response_format=AS_JOKE, say=f'{reasoning}{{"joke":"","stars":1}}')
    assert json.loads(choice["message"]["content"])["stars"] == 1


def test_a_model_that_never_reasons_does_not_begin_inside_its_reasoning():
    with running_embedded(reasoning_format="deepseek_r1") as server:
        for wanted in ({"response_format": AS_JOKE}, {"tools": [UNIT], "tool_choice": "required"}):
            (choice,) = said(server, **wanted, seed=1)
            assert "reasoning_content" not in choice["message"]
            assert choice["finish_reason"] == ("tool_calls" if "tools" in wanted else "stop")


def test_the_log_tells_of_what_does_not_fit_but_not_all_that_was_said(embedded, caplog):
    chat = saying("x", response_format=AS_JOKE, say="no joke " * 99)
    assert embedded.chat(chat).status == 500
    (record,) = caplog.records
    assert "outside the grammar" in record.getMessage()
    assert len(record.getMessage()) < 200


def test_the_openai_client_parses_what_it_asked_for(client):
    from openai import BadRequestError

    messages = [{"role": "user", "content": "Tell me a joke."}]
    whole = client.chat.completions.create(
        model="embedded", messages=messages, response_format=AS_JOKE, seed=1
    )
    jsonschema.validate(json.loads(whole.choices[0].message.content), JOKE)
    with client.chat.completions.stream(
        model="embedded", messages=messages, tools=[UNIT], tool_choice="required", seed=1
    ) as stream:
        final = stream.get_final_completion()
    assert json.loads(final.choices[0].message.tool_calls[0].function.arguments)["to"] in "CF"
    with pytest.raises(BadRequestError, match=r"response_format: .*Invalid type: strin"):
        client.chat.completions.create(
            model="embedded", messages=messages, stream=True,
            response_format={"type": "json_schema",
                             "json_schema": {"name": "x", "schema": {"type": "strin"}}},
        )  # fmt: skip


DEEP = {"type": "object"}
for _ in range(40):
    DEEP = {"items": DEEP}


def schema(value):
    return {"response_format": {"type": "json_schema", "json_schema": {"schema": value}}}


def structured(**kinds):
    return {"structured_outputs": kinds}


WHEN = {"type": "string", "description": 'When to "start" / ends.'}


@pytest.mark.parametrize(
    ("wanted", "said_text"),
    [
        (schema({"type": "object", "properties": {"start": WHEN}, "required": ["start"]}),
         '{"start": "now"}'),
        (structured(regex="start|/start/"), "/start/"),
        (structured(choice=["start", "stop"]), "start"),
        (structured(grammar='// start\nstart: "start" one\none: "1"\n'), "start1"),
    ],
)  # fmt: skip
def test_the_word_start_is_a_text_like_any_other_behind_reasoning(embedded, wanted, said_text):
    (choice,) = said(embedded, **wanted, say=f"<think>Hm.</think>{said_text}")
    assert choice["message"]["content"] == said_text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (schema({"enum": []}), "response_format: failed to compile JSON schema: Unsat"),
        (schema(None), "response_format.json_schema.schema: is missing"),
        (schema(DEEP), "response_format.json_schema.schema: is nested deeper than 32"),
        (schema(3), "response_format.json_schema.schema: expected"),
        (structured(), "structured_outputs: has no kind; give one of json, regex"),
        (structured(regex="a", choice=["b"]), "structured_outputs: has regex, choice; give one of"),
        (structured(choice=[]), "structured_outputs: choice is empty or has an empty text"),
        (structured(json="{"), "structured_outputs.json: is not JSON"),
        (structured(json="[" * 257), "structured_outputs.json: is nested deeper than 256; flatten"),
        (structured(json="[1]"), "structured_outputs.json: is [1]; a schema is an object"),
        (structured(regex="["), 'structured_outputs: invalid regex "["'),
        (structured(regex="a", structural_tag="x"), "structured_outputs.structural_tag: is not"),
        (structured(regex="a") | {"response_format": {"type": "json_object"}},
         "structured_outputs: is set beside response_format"),
        (structured(regex="a") | {"ignore_eos": True}, "structured_outputs: ignore_eos with"),
        ({"guided_json": {}}, 'guided_json: was removed from vLLM, and here; send structured'),
        ({"tools": [UNIT, tool("f", type="x")], "tool_choice": "required"},
         "tools: the parameters of 'f': failed to compile"),
        ({"tools": [UNIT, tool("g", type="x")], "response_format": AS_JOKE},
         "tools: the parameters of 'g': failed to compile"),
        ({"tools": [tool("array", type="array")], "tool_choice": "required"},
         "tools: the parameters of 'array': failed to compile JSON schema: Unsatisfiable schema"),
        (structured(grammar='start: "a"') | {"tools": [UNIT]}, "structured_outputs: a grammar"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_what_cannot_be_is_refused_before_any_token(embedded, fields, message):
    for stream in (False, True):
        answer = embedded.chat(saying("x", stream=stream, **fields))
        assert answer.status == 400
        assert answer.json()["error"]["message"].startswith(message)


def test_a_text_is_the_default_and_a_missing_package_is_named(embedded, monkeypatch):
    assert embedded.chat(saying("Hi", response_format={"type": "text"})).status == 200
    monkeypatch.setitem(sys.modules, "llguidance", None)
    answer = embedded.chat(saying("x", **structured(regex="never seen before")))
    assert answer.status == 501
    assert "pip install -r requirements/serve.txt" in answer.json()["error"]["message"]


server = serving(
    Says(fits=CALL, two=CALL + CALL, prose=f"I look. {CALL}", thinks="Hm.</think>\n\n[1]")
)


def test_a_script_is_held_to_what_is_demanded_but_not_changed(server):
    given = {"tools": [UNIT], "tool_choice": "required"}
    message = server.chat(asking("fits", **given)).json()["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"to": "C"}'
    refused = server.chat(asking("prose", **given))
    assert refused.status == 500
    assert refused.error["message"].startswith("the model's id 73 is outside the grammar")
    streamed = server.chat(asking("prose", stream=True, **given)).body
    assert streamed.endswith(b"data: %s\n\ndata: [DONE]\n\n" % refused.body)
    assert server.chat(asking("prose", tools=[UNIT])).status == 200
    assert server.chat(asking("two", **given)).status == 200
    assert server.chat(asking("two", **given, parallel_tool_calls=False)).status == 500
    assert server.chat(asking("two", tools=[UNIT], tool_choice=NAMED)).status == 500


def test_only_the_answer_behind_reasoning_is_held(server, monkeypatch):
    monkeypatch.setattr(server.service, "reasoning_format", "deepseek_r1")
    wanted = structured(json={"type": "array"})
    assert server.chat(asking("thinks", **wanted)).status == 200
    assert server.chat(asking("fits", **wanted)).status == 500
