"""RemoteModel: the ids of another server, whatever the pieces they come in, and clear errors."""

import json
import random
import re
import socket
import threading
from contextlib import closing, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_stub import (
    CUT,
    DEADLINE,
    HOLD,
    RemoteStub,
    chunk,
    event,
    logprobs_style,
    python_style,
    rust_style,
    written_logprobs,
)

from mini_vllm.engine import Engine, Request
from mini_vllm.engine.engine_errors import EngineStateError, RemoteModelError, StreamingError
from mini_vllm.engine.model import Burst, SlotView
from mini_vllm.engine.request import SamplingParams, StructuredOutputsParams
from mini_vllm.models.remote import RemoteModel
from mini_vllm.models.remote_frames import SseReader, read_frame, request_body
from mini_vllm.models.scripted import ScriptedModel
from mini_vllm.tokenizer import ByteTokenizer

EOS = 2
BURSTS = [(104,), (226, 130), (172,), (105, 33)]
IDS = [one for burst in BURSTS for one in burst]


def slot(request_id="a", choice=0, prompt=(7, 8), **params):
    return SlotView(request_id, choice, prompt, SamplingParams(**{"max_tokens": 50, **params}))


def finish(model, slots):
    """Drive the slots to their ends, as the engine does; return logprobs or the error of each."""
    results = {one.key: [] for one in slots}
    waiting = list(slots)
    news = model.prefill(slots)
    rounds = 0
    while waiting:
        for one, burst in zip(list(waiting), news, strict=True):
            one.step += 1
            ended = isinstance(burst, Exception)
            if ended:
                results[one.key] = burst
            elif burst is not None:
                one.output_token_ids += burst.token_ids
                results[one.key] += burst.logprobs
                ended = EOS in burst.token_ids
                ended = ended or len(one.output_token_ids) >= one.params.max_tokens
            if ended:
                waiting.remove(one)
                model.release(one)
        rounds += 1
        assert rounds < 2000, f"no end: {[one.output_token_ids for one in waiting]}"
        news = model.decode(waiting) if waiting else []
    return [results[one.key] for one in slots]


@contextmanager
def served(answer, **options):
    with RemoteStub(answer) as stub:
        model = RemoteModel(stub.url, **{"eos_token_id": EOS, **options})
        with closing(model):
            yield stub, model


def recut(data, seed):
    """`data` in pieces of 1 to 9 bytes, which also cut its two-byte characters."""
    chance, start = random.Random(seed), 0
    while start < len(data):
        end = start + chance.randint(1, 9)
        yield data[start:end]
        start = end


def ids_of(stub, one=None, **options):
    one = one or slot()
    with closing(RemoteModel(stub.url, eos_token_id=EOS, **options)) as model:
        [result] = finish(model, [one])
    if isinstance(result, Exception):
        raise result
    assert result == [], "logprobs, where none are asked for"
    return one.output_token_ids


# What the stub sends.


@pytest.mark.parametrize("style", [python_style, rust_style, logprobs_style])
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("kept", [True, False], ids=["EOS kept", "EOS sent"])
def test_ids_equal_what_the_server_generated_and_an_eos_that_it_kept(style, chunked, kept):
    with RemoteStub(lambda body: style([*BURSTS, *[(EOS,)] * (not kept)]), chunked=chunked) as stub:
        assert ids_of(stub, ids_from_logprobs=style is logprobs_style) == [*IDS, EOS]
        # None are asked for, unless the ids are in them.
        assert stub.bodies[0].get("logprobs") == (0 if style is logprobs_style else None)


def test_what_is_said_of_sampling_is_sent_where_it_says_something():
    said = {"top_k": 3, "min_p": 0.5, "repetition_penalty": 1.5, "presence_penalty": 1.0,
            "frequency_penalty": -1.0}  # fmt: skip
    with RemoteStub(lambda body: python_style(BURSTS)) as stub:
        ids_of(stub)
        ids_of(stub, slot(**said, logit_bias={5: -100.0}))
    assert stub.bodies[0].keys().isdisjoint({*said, "logit_bias"})
    expected = {**said, "logit_bias": {"5": -100.0}}
    assert {name: stub.bodies[1].get(name) for name in expected} == expected


def test_cuts_of_the_stream_change_nothing():
    data = "".join(f.decode() for f in rust_style([*BURSTS, (EOS,)])).replace("\\u00e9", "é")
    data = (": ping\n\n" + data.replace("\n", "\r\n")).replace("data: ", "data:").encode()
    seeds = iter(range(1000))
    with RemoteStub(lambda body: recut(data, next(seeds))) as stub:
        for _ in range(10):
            assert ids_of(stub) == [*IDS, EOS]


def test_eight_slots_at_once_keep_their_own_ids():
    all_here = threading.Barrier(8)

    def answer(body):
        all_here.wait(DEADLINE)  # none is answered unless all are asked
        base = body["prompt"][0]
        return rust_style([(base + i,) for i in range(20)])

    slots = [slot(f"r{i // 2}", i % 2, prompt=(100 * i + 100,)) for i in range(8)]
    with served(answer) as (_, model):
        finish(model, slots)
    for i, one in enumerate(slots):
        assert one.output_token_ids == [*range(100 * i + 100, 100 * i + 120), EOS]


def test_a_slow_slot_does_not_hold_up_another():
    go = threading.Event()

    def answer(body):
        first = chunk(token_ids=[body["prompt"][0]])
        return [first, go, *rust_style([(5,)])] if body["prompt"] == [1] else rust_style([(6,)])

    slow, quick = slot("slow", prompt=(1,)), slot("quick", prompt=(9,))
    # Without a poll to save it, decode must wake at the news of either.
    with served(answer, poll=3600) as (_, model):
        model.prefill([slow, quick])
        ids = []
        while EOS not in ids:
            other, news = model.decode([slow, quick])
            assert not isinstance(other, Exception)  # the stub gives up on waiting for `go`
            ids += news.token_ids if news else ()
        assert ids == [6, EOS]
        go.set()


def test_logprobs_arrive_by_id():
    top = [{65: -0.25, 66: -1.5}, {67: -3.0, 66: -0.125}]
    frames = [
        chunk(token_ids=[65], logprobs=written_logprobs([65], top[:1])),
        chunk(token_ids=[67], logprobs=written_logprobs([67], top[1:]), finish_reason="length"),
    ]
    one = slot(logprobs=2, max_tokens=2)
    with served(lambda body: frames) as (stub, model):
        assert finish(model, [one]) == [top]
        assert stub.bodies[0]["logprobs"] == 2
    assert one.output_token_ids == [65, 67]


def test_the_chosen_id_has_its_logprob_though_it_is_not_among_the_likeliest():
    logprobs = {**written_logprobs([65]), "top_logprobs": [{"token_id:66": -0.125}]}
    frame = f'{{"choices": [{{"token_ids": [65], "logprobs": {json.dumps(logprobs)}}}]}}'
    assert read_frame(frame, with_logprobs=True).burst == ((65,), ({65: -0.5, 66: -0.125},))


def test_an_added_eos_has_a_logprob_where_they_are_asked_for():
    frames = [chunk(token_ids=[65], logprobs=written_logprobs([65])), chunk(finish_reason="stop")]
    with served(lambda body: frames) as (_, model):
        assert finish(model, [slot(logprobs=0)]) == [[{65: -0.5}, {EOS: 0.0}]]


# What the stub is asked.


def test_the_request_carries_what_the_server_must_know_and_no_stops():
    one = slot(
        "r", 2, prompt=(3, 4), max_tokens=9, min_tokens=1, temperature=0.5, top_p=0.9, seed=40,
        stop=("END",), stop_token_ids=frozenset({5}), ignore_eos=True,
    )  # fmt: skip
    answer = rust_style([range(9)], "length")
    with served(lambda _: answer, model="tiny", api_key="secret", eos_token_id=None) as (
        stub,
        model,
    ):
        finish(model, [one])
    assert stub.paths == ["/v1/completions"]
    assert stub.headers[0]["Authorization"] == "Bearer secret"
    assert stub.bodies == [
        {
            "model": "tiny", "prompt": [3, 4], "stream": True, "max_tokens": 9, "min_tokens": 1,
            "temperature": 0.5, "top_p": 0.9, "seed": 42, "ignore_eos": True,
            "skip_special_tokens": False, "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }
    ]  # fmt: skip


SCORES = {"tokens": ["token_id:7", "token_id:8", "token_id:1"],
          "token_logprobs": [None, -0.5, -0.1],
          "top_logprobs": [None, {"token_id:9": -0.25, "token_id:8": -0.5}, {}]}  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ((200, {"choices": [{"logprobs": SCORES}]}), [None, {8: -0.5, 9: -0.25}]),
        ((200, {"choices": [{"logprobs": None}]}), "sent no logprobs of the prompt"),
        ((200, {"choices": [{"logprobs": {**SCORES, "token_logprobs": [None]}}]}),
         "sent 1 logprobs for a prompt of 2 tokens"),
        ((400, {"error": {"message": "no echo here"}}), "status 400, no echo here"),
    ],
)  # fmt: skip
def test_a_prompt_is_scored_by_the_server(answer, found):
    status, body = answer
    with served(lambda asked: (status, json.dumps(body).encode())) as (stub, model):
        if isinstance(found, list):
            assert model.prompt_logprobs((7, 8), 2) == found
        else:
            with pytest.raises(RemoteModelError, match=found):
                model.prompt_logprobs((7, 8), 2)
    asked = {"prompt": [7, 8], "max_tokens": 1, "echo": True, "logprobs": 2}
    assert asked.items() <= stub.bodies[0].items()


def test_choices_have_seeds_of_their_own_and_no_seed_is_none():
    with served(lambda body: rust_style([(1,)])) as (stub, model):
        finish(model, [slot("a", 0, seed=5), slot("a", 1, seed=5), slot("b", 0)])
    assert sorted(body.get("seed", -1) for body in stub.bodies) == [-1, 5, 6]


# The end of a slot before the end of its stream.


def test_release_closes_the_stream_of_that_slot_only():
    go = threading.Event()

    def answer(body):
        rest = [HOLD] if body["prompt"] == [1] else [go, *rust_style([(6,)])]
        return [chunk(token_ids=[5]), *rest]

    left, stays = slot("left", prompt=(1,)), slot("stays", prompt=(2,))
    with served(answer) as (stub, model):
        model.prefill([left, stays])
        while model.decode([left]) == [None]:
            pass
        model.release(left)
        assert stub.left.acquire(timeout=DEADLINE)
        assert not stub.left.acquire(blocking=False)
        go.set()
        ids = []
        while EOS not in ids:
            [news] = model.decode([stays])
            ids += news.token_ids if news else ()
        assert ids == [5, 6, EOS]
        model.release(left)  # a second time does nothing


def test_close_closes_all_streams_and_ends_the_thread():
    with RemoteStub(lambda body: [chunk(token_ids=[5]), HOLD]) as stub:
        model = RemoteModel(stub.url)
        slots = [slot("a"), slot("b")]
        model.prefill(slots)
        for one in slots:
            while model.decode([one]) == [None]:
                pass
        model.close()
        assert stub.left.acquire(timeout=DEADLINE)
        assert stub.left.acquire(timeout=DEADLINE)
        assert "remote-model" not in [thread.name for thread in threading.enumerate()]
        model.release(slots[0])
        model.close()
        with pytest.raises(EngineStateError, match="closed"):
            model.prefill([slot("c")])


def test_decode_returns_without_news_and_starts_no_thread_before_the_first_slot():
    before = threading.active_count()
    RemoteModel("http://127.0.0.1:9/v1").close()
    assert threading.active_count() == before
    with served(lambda body: [HOLD], poll=0.001) as (_, model):
        assert model.prefill([slot()]) == [None]
        assert model.decode([slot()]) == [None]


# Errors. Each ends its slot alone, and names the address.


def failure(stub_or_url, one=None, **options):
    url = getattr(stub_or_url, "url", stub_or_url)
    with closing(RemoteModel(url, **{"eos_token_id": EOS, **options})) as model:
        [error] = finish(model, [one or slot()])
    assert isinstance(error, StreamingError)
    assert error.__cause__ is not None or "finish_reason" in str(error)
    assert str(error).startswith(f"{url}/completions ")
    return str(error)


def test_nobody_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        assert re.search(r"cannot be reached .*is the server running", failure(url))


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("sent", [[], [chunk(token_ids=[5])], [chunk(token_ids=[5])[:-9]]])
def test_a_cut_stream_gives_its_ids_and_then_an_error(chunked, sent):
    one = slot()
    with RemoteStub(lambda body: [*sent, CUT], chunked=chunked) as stub:
        assert "the connection in the middle of the stream" in failure(stub, one)
    assert one.output_token_ids == ([5] if sent == [chunk(token_ids=[5])] else [])


def test_a_reason_or_done_is_an_end_of_its_own():
    for last in (chunk(finish_reason="stop"), b"data: [DONE]\n\n"):
        with RemoteStub(lambda body, last=last: [chunk(token_ids=[5]), last, CUT]) as stub:
            assert ids_of(stub) == [5, EOS]


def answered(status, body, said):
    return pytest.param((status, body), said, {}, id=f"status {status}, {said}")


def sent(frames, said, *, held=True, **options):
    frames = frames if isinstance(frames, list) else [frames]
    return pytest.param([*frames, *[HOLD] * held], said, options, id=said)


@pytest.mark.parametrize(
    ("answer", "said", "options"),
    [
        answered(
            400, b'{"error": {"message": "too long"}}', r"status 400, too long; .*does not accept"
        ),
        answered(400, b'{"object": "error", "message": "too long"}', r"status 400, too long"),
        answered(422, b'{"detail": "no prompt"}', r"status 422, no prompt; see the log"),
        answered(401, b'{"error": "Unauthorized"}', r"status 401, .*Unauthorized.*; check api_key"),
        answered(
            404, b"<h1>not here</h1>", r"404, .*not here.*; check that base_url ends with /v1"
        ),
        answered(500, b"", r"status 500, ''; see the log"),
        answered(503, b"[1]", r"status 503, '\[1\]'; it is not ready"),
        answered(502, b"x" * 999, r"status 502, 'x{300}\.\.\.'; see"),
        answered(200, b'{"choices": []}', "answered with application/json, not a stream: "),
        answered(500, chunk(token_ids=[5]), "answered with status 500"),
        sent(event(error={"message": "out of memory", "code": 500}), "error: out of memory"),
        sent(chunk(text="hi"), r"without token ids.*ids_from_logprobs"),
        sent(chunk(text="hi", logprobs={"tokens": ["hi"]}), r"'hi'.*return_tokens_as_token_ids"),
        sent(b"data: <html>\n\n", r"not a completion chunk, '<html>'"),
        sent(b"data: 5\n\n", r"not a completion chunk, '5'"),
        sent(b"data: {}\n\n", r"not a completion chunk, '{}' \(KeyError\('choices'\)\)"),
        sent(b"data: " + b"[" * 257 + b"]" * 257 + b"\n\n", r"chunk, .*nested deeper than 256"),
        sent(chunk(token_ids=["5"]), r"not a completion chunk.*token_ids are \['5'\]"),
        sent(chunk(token_ids=5), r"not a completion chunk"),
        sent(chunk(finish_reason="length"), r"'length' after 0 of 50 tokens;.*context"),
        sent(chunk(finish_reason="abort"), r"'abort' after 0 of 50 tokens"),
        sent(chunk(token_ids=[5, 6]), "2 ids with 0 logprobs", one=slot(logprobs=1)),
        sent(chunk(token_ids=[5]), "sent nothing for 0.1 s", timeout=0.1),
        sent(chunk(token_ids=[5]), "closed the connection in the middle of the stream", held=False),
        # What follows a reason does not change it.
        sent(rust_style([(5,)], "length"), "'length' after 1 of 50"),
    ],
)
def test_what_no_server_of_ids_sends_is_told(answer, said, options):
    a_stream = not isinstance(answer, tuple) or answer[1].startswith(b"data:")
    with RemoteStub(lambda _: answer, *[] if a_stream else ["application/json"]) as stub:
        assert re.search(said, failure(stub, **options))


@pytest.mark.parametrize(("eos", "ids"), [(9, [5, 9]), (None, [5])])
def test_an_end_that_the_engine_does_not_take_is_an_error_and_no_endless_eos(eos, ids):
    one = slot()
    with RemoteStub(lambda body: rust_style([(5,)])) as stub:
        assert f"eos_token_id={eos} must be" in failure(stub, one, eos_token_id=eos)
    assert one.output_token_ids == ids


def test_one_failed_slot_leaves_the_others_alone():
    bad, good = slot("bad", prompt=(1,)), slot("good", prompt=(2,))
    with served(lambda body: (500, b"") if body["prompt"] == [1] else rust_style(BURSTS)) as (
        _,
        model,
    ):
        error, logprobs = finish(model, [bad, good])
    assert isinstance(error, StreamingError)
    assert logprobs == []
    assert good.output_token_ids == [*IDS, EOS]


def test_an_address_without_http_is_refused():
    with pytest.raises(ValueError, match="'localhost:8000'; it must be like 'http://"):
        RemoteModel("localhost:8000")


def test_a_burst_merges_all_that_has_come():
    frames = [chunk(token_ids=[one]) for one in range(10, 20)]
    with served(lambda body: [*frames, chunk(finish_reason="stop")]) as (_, model):
        one = slot()
        model.prefill([one])
        stream = model._streams[one.key]
        with model._news:
            assert model._news.wait_for(lambda: stream.ended, DEADLINE)
        assert model.decode([one]) == [Burst(tuple(range(10, 20)))]
        assert model.decode([one]) == [Burst((EOS,))]


# The reader of events.

LINES = st.lists(
    st.sampled_from(
        ["data: é", "data:🚀", "data", "data: ", "data:  x", ": ping", "event: e", "id:1", "", "",
         "datax: 1", "data: a:b", "nonsense", "data: \ufeff"]
    )
)  # fmt: skip


def standard_events(lines):
    """What the HTML standard says of whole lines."""
    events, data = [], []
    for line in lines:
        name, _, value = line.partition(":")
        if line == "":
            events += ["\n".join(data)] if data else []
            data = []
        elif name == "data":
            data.append(value[1:] if value.startswith(" ") else value)
    return events


@given(LINES, st.data())
def test_events_are_those_of_the_standard_however_bytes_are_cut(lines, draw):
    ends = draw.draw(
        st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=len(lines), max_size=len(lines))
    )
    for i in range(len(lines) - 1):
        if ends[i] == "\r" and lines[i + 1] == "" and ends[i + 1] == "\n":
            ends[i] = "\r\n"  # a CR with an LF right after it would be one end, not two
    mark = draw.draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    data = mark + "".join(map("".join, zip(lines, ends, strict=True))).encode()
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)))))
    reader, events = SseReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        events += reader.feed(data[start:end])
    assert events == standard_events(lines)


@pytest.mark.parametrize(
    ("line", "last"), [(b"data: 1\n", b"\n"), (b"data: 1\r", b"\r"), (b"data: 1\r\n", b"\r")]
)
def test_an_event_waits_for_nothing_but_its_last_byte_and_is_none_without(line, last):
    reader = SseReader()
    assert [reader.feed(bytes([byte])) for byte in line] == [[]] * len(line)
    assert reader.feed(last) == ["1"]
    assert reader.feed(b"") == []
    assert reader.feed(b"\ndata: 2\n\ndata: 3\n") == ["2"]
    # No bytes between CR and LF leave them one end.
    reader = SseReader()
    pieces = [b"data: 1\r", b"", b"\ndata: 2\n\n"]
    assert [reader.feed(piece) for piece in pieces] == [[], [], ["1\n2"]]


@pytest.mark.parametrize("choice", ["", '{"text": ""}', '{"token_ids":[]}'])
def test_an_empty_frame_is_no_burst(choice):
    assert read_frame(f'{{"choices": [{choice}]}}', with_logprobs=True).burst is None


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [
        ({"regex": "a+"}, {"regex": "a+"}),
        ({"choice": ("a", "b")}, {"choice": ["a", "b"]}),
        ({"json": '{"type": "array"}', "disable_any_whitespace": True},
         {"json": '{"type": "array"}', "disable_any_whitespace": True}),
        ({"json_object": True}, {"json_object": True}),
        ({"grammar": 'start: "a"'}, {"grammar": 'start: "a"'}),
    ],
    ids=str,
)  # fmt: skip
def test_structured_outputs_are_forwarded_in_vllms_words_and_not_checked_here(wanted, sent):
    given = slot(structured_outputs=StructuredOutputsParams(**wanted))
    body = request_body(given, None, ids_from_logprobs=False)
    assert json.loads(json.dumps(body))["structured_outputs"] == sent
    assert "structured_outputs" not in request_body(slot(), None, ids_from_logprobs=False)

    class Elsewhere(ScriptedModel):
        forwards_structured_outputs = RemoteModel.forwards_structured_outputs

    engine = Engine(Elsewhere({"r": [(ord("?"),), (257,)]}), ByteTokenizer())
    [output] = engine.handle_request([Request("x", given.params, request_id="r")]).outputs
    assert (output.text, output.error) == ("?", None)
