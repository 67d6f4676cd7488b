"""`/metrics` and `/health`: what a server says of itself, and the cache of encoded prompts."""

import json
import time
from contextlib import closing, contextmanager
from types import SimpleNamespace

import pytest
from processes import process
from prometheus_client.parser import text_string_to_metric_families
from remote_stub import RemoteStub
from running import CHAT, Client, Says, asking, running, tool, until
from vocabularies import byte_level

from mini_vllm.models.remote import RemoteModel
from mini_vllm.models.scripted import Hook, Raise
from mini_vllm.server import cli
from mini_vllm.tokenizer.cache import CacheStats


def scrape(server):
    """Return the samples of a server, or of what a client talks to, by name and further labels.

    What has vLLM's name must have vLLM's labels.
    """
    answer = server.fetch("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    found = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            if sample.name.startswith("vllm:"):
                assert (labels.pop("model_name"), labels.pop("engine")) in LABELS
            found[sample.name, *sorted(labels.values())] = sample.value
    return found


LABELS = [("scripted", "0"), ("remote", "0")]


def test_what_each_layer_holds_is_told_by_layer():
    """The model has written the first half of several things, and then waits."""
    waiting = [Hook(lambda: time.sleep(0.002))] * 100_000
    begun = {"rocket": b"ab\xf0\x9f\x9a", "stop": b"not the EN", "tag": b"see <tool_c"}
    scripts = {name: [*((byte,) for byte in said), *waiting] for name, said in begun.items()}
    bodies = [
        asking("rocket", stream=True),
        asking("stop", stream=True, stop=["END"]),
        asking("tag", stream=True, tools=[tool("f")]),
        asking("rocket", stream=True),
    ]
    gauges = ["num_requests_running", "num_requests_waiting"]
    with running(Says(**scripts), max_num_seqs=3) as server:
        clients = [server.connect() for _ in bodies]
        for client, body in zip(clients, bodies, strict=True):
            client.ask(CHAT, body)
            client.head()

        def held():
            found = scrape(server)
            layers = ("tokens", "stops", "calls")
            return [found.get(("mini_vllm:held_characters", one)) for one in layers] == [3, 2, 7]

        until(held, "three bytes of a rocket, EN, and <tool_c")
        found = scrape(server)
        assert [found[f"vllm:{name}",] for name in gauges] == [3, 1]
        assert found[("vllm:kv_cache_usage_perc",)] > 0
        for client in clients:
            client.socket.close()
        server.idle()
        found = scrape(server)
        assert found[("vllm:request_success_total", "abort")] == 4
        assert [found[f"vllm:{name}",] for name in [*gauges, "kv_cache_usage_perc"]] == [0, 0, 0]
        assert not any(v for key, v in found.items() if key[0] == "mini_vllm:held_characters")


def test_tokens_and_their_times_are_counted():
    with running(Says(say="Hello 🚀")) as server:
        tokens = len("Hello 🚀".encode()) + 1
        prompt = server.chat(asking("say", n=2)).json()["usage"]["prompt_tokens"]
        server.chat(asking("say", max_tokens=3, stream=True))
        server.idle()
        found = scrape(server)
    expected = {
        ("vllm:generation_tokens_total",): 2 * tokens + 3,
        ("vllm:prompt_tokens_total",): 3 * prompt,
        ("vllm:time_to_first_token_seconds_count",): 3,
        ("vllm:time_to_first_token_seconds_bucket", "+Inf"): 3,
        ("vllm:time_to_first_token_seconds_bucket", "2560.0"): 3,
        ("vllm:inter_token_latency_seconds_count",): 2 * (tokens - 1) + 2,
        ("vllm:inter_token_latency_seconds_bucket", "80.0"): 2 * (tokens - 1) + 2,
        ("vllm:e2e_request_latency_seconds_count",): 3,
        ("vllm:e2e_request_latency_seconds_bucket", "7680.0"): 3,
        ("vllm:request_success_total", "stop"): 2,
        ("vllm:request_success_total", "length"): 1,
        ("vllm:request_success_total", "abort"): 0,
        ("vllm:request_prompt_tokens_sum",): 3 * prompt,
        ("vllm:request_generation_tokens_bucket", "5.0"): 1,
        ("vllm:request_generation_tokens_count",): 3,
        ("sgl_tokenizer_stream_tokens_total",): 2 * tokens + 3,
    }
    assert {key: found[key] for key in expected} == expected


COUNTED = """
encode_duration_seconds_count encode_batch_duration_seconds_count tokens_per_encode_count
chars_per_encode_count decode_duration_seconds_count tokens_per_decode_count stream_tokens_total
stream_incomplete_utf8_total stream_step_duration_seconds_count partial_matches_total
factory_load_duration_seconds_count stop_detection_duration_seconds_count
"""


def test_a_prompt_that_comes_again_is_a_hit_of_the_cache():
    def levels(server):
        found = scrape(server)
        return [
            found[f"sgl_tokenizer_cache_{name}", "l0"]
            for name in ("hits_total", "misses_total", "hit_rate", "entries")
        ]

    with running(Says(say="Hi")) as server:
        assert levels(server) == [0, 0, 0, 0]
        server.chat(asking("say"))
        assert levels(server) == [0, 1, 0, 1]
        server.chat(asking("say", stream=True))
        assert levels(server) == [1, 1, 0.5, 1]
        server.fetch("/v1/completions", {"prompt": "<say>"})
        server.fetch("/tokenize", {"prompt": "<say>", "add_special_tokens": False})
        server.fetch("/tokenize", asking("say"))
        assert levels(server) == [2, 3, 0.4, 3]
        found = scrape(server)
    assert found["sgl_tokenizer_cache_memory_bytes", "l0"] > 0
    assert ("sgl_tokenizer_cache_hits_total", "l1") not in found, "bytes have no segments"
    assert {name for name, *_ in found} >= {f"sgl_tokenizer_{name}" for name in COUNTED.split()}


def test_a_remote_models_tokenizer_is_metered_cached_and_keeps_its_template(tmp_path):
    """As users start it: the tokenizer comes from a folder, and its chat template with it."""
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
    (tmp_path / "tokenizer.json").write_text(byte_level().to_str(), encoding="utf-8")
    config = json.dumps({"chat_template": template, "eos_token": "<|im_end|>"})
    (tmp_path / "tokenizer_config.json").write_text(config)
    asked = ("Hello", "Hello", "Hello again", "Hello")
    arguments = ("--remote", "http://127.0.0.1:9", "--tokenizer", str(tmp_path))
    arguments += ("--tokenizer-cache-l0-max-entries", "1")
    with process(*arguments) as (_, port), Client("127.0.0.1", port) as client:
        for text in asked:
            turns = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]
            body = {"messages": turns, "return_token_strs": True}
            tokens = client.fetch("/tokenize", body).json()["token_strs"]
            said = f"system: Be kind.<|im_end|>user: {text}<|im_end|>"
            assert "".join(tokens).replace("Ġ", " ") == said
        found = scrape(client)
    cache = {key: found["sgl_tokenizer_cache_" + key[0], key[1]] for key in CACHED}
    assert cache == CACHED
    assert found["sgl_tokenizer_factory_loads_total", "huggingface"] == 1
    assert found["sgl_tokenizer_encode_requests_total", "encode", "huggingface"] == 3
    assert found["sgl_tokenizer_vocab_size", "huggingface"] == byte_level().get_vocab_size()
    assert not [name for name, *_ in found if name.endswith("_created")]


# Of four prompts the second came again at once, and the fourth when L0 had no room for it any more;
# all its segments were still there.
CACHED = {
    ("hits_total", "l0"): 1, ("misses_total", "l0"): 3, ("entries", "l0"): 1,
    ("hits_total", "l1"): 3, ("misses_total", "l1"): 3, ("entries", "l1"): 3,
    ("hit_rate", "l1"): 0.5,
}  # fmt: skip


def test_the_cache_can_be_switched_off(monkeypatch):
    services = []

    def make_server(app, service, **options):
        services.append(service)
        return SimpleNamespace(run=lambda sockets: sockets[0].close())

    monkeypatch.setattr(cli, "make_server", make_server)
    for options in ([], ["--no-tokenizer-cache"]):
        assert cli.main(["--port", "0", *options]) == 0
    on, off = (service.tokenizer.stats for service in services)
    assert on.l0 is not None
    assert off == CacheStats()


def test_each_server_counts_for_itself():
    with running(Says(say="Hi")) as first, running(Says(say="Hi")) as second:
        first.chat(asking("say"))
        first.idle()
        assert scrape(first)[("vllm:generation_tokens_total",)] == 3
        assert scrape(second)[("vllm:generation_tokens_total",)] == 0


def test_health_is_ok_until_the_engine_fails():
    with running(Says(bad=[Raise(RuntimeError("the disk is gone"))])) as server:
        assert server.fetch("/health").status == 200
        server.chat(asking("bad"))
        assert server.fetch("/health").status == 503
        assert scrape(server)[("vllm:kv_cache_usage_perc",)] == 0


@contextmanager
def remote(url):
    """Serve the model of another server."""
    with closing(RemoteModel(url)) as model, running(model, model_problem=model.problem) as server:
        yield server


@pytest.mark.parametrize("stream", [False, True])
def test_a_remote_model_that_is_down_is_told_with_the_cause(stream):
    stub = RemoteStub(lambda body: (500, b'{"error": {"message": "out of memory"}}'))
    with stub, remote(stub.url) as server:
        assert server.fetch("/health").status == 200
        answer = server.chat(asking("x", stream=stream))
        if stream:
            error = json.loads(answer.body.split(b"data: ")[-2])["error"]
        else:
            error = answer.error
            assert answer.status == 502
        assert (error["type"], error["code"]) == ("server_error", "model_unavailable")
        assert f"{stub.url}/completions answered with status 500" in error["message"]
        assert "out of memory" in error["message"]
        stub.status = 401
        answer = server.fetch("/health")
        assert (answer.status, answer.error["code"]) == (503, "model_unavailable")
        assert answer.error["message"].endswith("status 401; check api_key")


def test_a_remote_model_that_cannot_be_reached_is_told():
    with remote("http://127.0.0.1:9/v1") as server:
        found = server.fetch("/health").error, server.chat(asking("x")).error
    assert all("cannot be reached" in error["message"] for error in found)


def test_health_is_told_while_the_model_hangs():
    """An answer that waited for the engine would come too late to say that it hangs."""
    stuck = []

    def hang():
        stuck.append(1)
        until(lambda: not stuck)

    with running(Says(hang=[(97,), Hook(hang), (98,), (257,)])) as server:
        client = server.connect()
        client.ask(CHAT, asking("hang", stream=True))
        until(lambda: stuck)
        scrapers = [server.connect() for _ in range(60)]
        for one in scrapers:
            one.ask("/metrics")
        for path in ("/health", "/v1/models"):
            assert server.fetch(path).status == 200
        stuck.clear()
        assert all(one.answer().status == 200 for one in scrapers)
        for one in [client, *scrapers]:
            one.socket.close()
