"""`/metrics` and `/health`: what a server says of itself."""

import time

import pytest
from prometheus_client.parser import text_string_to_metric_families
from running import Says, asking, chat, running, tool, until

from mini_vllm.models.scripted import Hook, Raise


def scrape(server):
    """Return the samples by name and labels."""
    with server.connect() as client:
        answer = client.fetch("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


@pytest.fixture
def stands_still():
    """A server whose model has written the first half of several things, and then waits."""
    waiting = [Hook(lambda: time.sleep(0.002))] * 100_000
    scripts = {
        "rocket": [(byte,) for byte in b"ab\xf0\x9f\x9a"] + waiting,
        "stop": [(byte,) for byte in b"not the EN"] + waiting,
        "tag": [(byte,) for byte in b"see <tool_c"] + waiting,
    }
    with running(Says(**scripts), max_num_seqs=3) as server:
        yield server


def test_what_each_layer_holds_is_told_by_layer(stands_still):
    server = stands_still
    clients = [server.connect() for _ in range(4)]
    bodies = [
        asking("rocket"),
        asking("stop", stop=["END"]),
        asking("tag", tools=[tool("f")]),
        asking("rocket"),
    ]
    for client, body in zip(clients, bodies, strict=True):
        client.ask("/v1/chat/completions", {**body, "stream": True})
        client.head()

    def held():
        found = scrape(server)
        return {
            layer: found.get(("mini_vllm:held_characters", layer))
            for layer in ("detokenizer", "stop", "tools")
        } == {"detokenizer": 3.0, "stop": 2.0, "tools": 7.0}

    until(held, "three bytes of a rocket, EN, and <tool_c")
    found = scrape(server)
    assert found[("vllm:num_requests_running",)] == 3
    assert found[("vllm:num_requests_waiting",)] == 1
    assert found[("vllm:kv_blocks_used",)] > 0
    for client in clients:
        client.socket.close()
    server.idle()
    found = scrape(server)
    assert found[("vllm:requests_aborted_total",)] == 4
    assert found[("vllm:num_requests_running",)] == 0
    assert found[("vllm:num_requests_waiting",)] == 0
    assert found[("vllm:kv_blocks_used",)] == 0
    assert not any(value for key, value in found.items() if key[0] == "mini_vllm:held_characters")


def test_tokens_and_their_times_are_counted():
    with running(Says(say="Hello 🚀")) as server:
        tokens = len("Hello 🚀".encode()) + 1
        prompt = chat(server, asking("say", n=2)).json()["usage"]["prompt_tokens"]
        chat(server, asking("say", max_tokens=3, stream=True))
        server.idle()
        found = scrape(server)
    assert found[("vllm:generation_tokens_total",)] == 2 * tokens + 3
    assert found[("vllm:prompt_tokens_total",)] == 3 * prompt
    assert found[("vllm:time_to_first_token_seconds_count",)] == 3
    assert found[("vllm:inter_token_latency_seconds_count",)] == 2 * (tokens - 1) + 2
    assert found[("vllm:time_to_first_token_seconds_bucket", "+Inf")] == 3
    assert found[("vllm:request_success_total", "end-of-sequence")] == 2
    assert found[("vllm:request_success_total", "max-length")] == 1
    assert found[("vllm:requests_aborted_total",)] == 0


def test_each_server_counts_for_itself():
    with running(Says(say="Hi")) as first, running(Says(say="Hi")) as second:
        chat(first, asking("say"))
        first.idle()
        assert scrape(first)[("vllm:generation_tokens_total",)] == 3
        assert scrape(second)[("vllm:generation_tokens_total",)] == 0


def test_health_is_ok_until_the_engine_fails():
    with running(Says(bad=[Raise(RuntimeError("the disk is gone"))])) as server:
        with server.connect() as client:
            assert client.fetch("/health").status == 200
        chat(server, asking("bad"))
        with server.connect() as client:
            assert client.fetch("/health").status == 503
            assert scrape(server)[("vllm:kv_blocks_used",)] == 0


def test_health_is_told_while_the_model_hangs():
    """An answer that waited for the engine would come too late to say that it hangs."""
    stuck = []

    def hang():
        stuck.append(1)
        until(lambda: not stuck)

    with running(Says(hang=[(97,), Hook(hang), (98,), (257,)])) as server:
        client = server.connect()
        client.ask("/v1/chat/completions", asking("hang", stream=True))
        until(lambda: stuck)
        scrapers = [server.connect() for _ in range(60)]
        for one in scrapers:
            one.ask("/metrics")
        for path in ("/health", "/v1/models"):
            with server.connect() as asker:
                assert asker.fetch(path).status == 200
        stuck.clear()
        assert all(one.answer().status == 200 for one in scrapers)
        for one in [client, *scrapers]:
            one.socket.close()
        server.idle()
