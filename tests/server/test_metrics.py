"""`/metrics` and `/health`: what a server says of itself, and the cache of encoded prompts."""

import json
import re
import time
from contextlib import closing, contextmanager
from types import SimpleNamespace

import pytest
from processes import process
from prometheus_client.parser import text_string_to_metric_families
from remote_stub import RemoteStub
from running import CHAT, EOS, Client, Says, asking, running, tool, until
from vocabularies import byte_level

from mini_vllm.models.remote import RemoteModel
from mini_vllm.models.scripted import Hook, Raise
from mini_vllm.server import cli
from mini_vllm.server.prometheus_metrics import PrometheusMetrics
from mini_vllm.tokenizer import TokenizerError, TokenizerFileNotFound, create_tokenizer
from mini_vllm.tokenizer.cache import CacheStats


def families_of(server):
    """Return what a server exports, or what a client talks to, by family."""
    answer = server.fetch("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return list(text_string_to_metric_families(answer.body.decode()))


def scrape(server):
    """Return the samples of a server, or of what a client talks to, by name and further labels.

    What has vLLM's name must have vLLM's labels.
    """
    found = {}
    for family in families_of(server):
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
    # Of the three texts the third ends before the rocket.
    expected = {
        ("sgl_tokenizer_stream_incomplete_utf8_total",): 2 * 3,
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


@pytest.mark.parametrize("limit", [100, 2])
def test_all_tokens_of_a_first_burst_are_counted(limit):
    with running(Says(say=[(97, 98, 99), (100, *EOS)])) as server:
        usage = server.chat(asking("say", max_tokens=limit)).json()["usage"]
        server.idle()
        found = scrape(server)
    assert usage["completion_tokens"] == min(limit, 5)
    for name in ("generation_tokens_total", "request_generation_tokens_sum"):
        assert found[f"vllm:{name}",] == usage["completion_tokens"]


@pytest.mark.parametrize("stream", [True, False])
def test_what_waits_in_a_stream_is_counted_after_each_token(stream):
    """Each byte is a token: 11 end inside a character, 4 inside the stop, of these 3 in both."""
    with running(Says(say="naïve 你好 🚀🚀🚀")) as server:
        for _ in range(2):
            server.chat(asking("say", stream=stream, stop=["🚀🚀"]))
        server.idle()
        found = scrape(server)
    expected = {
        "stream_tokens_total": 2 * len("naïve 你好 🚀🚀".encode()),
        "stream_incomplete_utf8_total": 2 * 11,
        "partial_matches_total": 2 * 4,
        "stop_detection_duration_seconds_count": 2,
    }
    assert {key: found[f"sgl_tokenizer_{key}",] for key in expected} == expected
    assert found["sgl_tokenizer_stop_sequences_detected_total", "string"] == 2
    assert found[("sgl_tokenizer_stream_step_duration_seconds_count",)] >= 2
    assert found[("sgl_tokenizer_stream_step_duration_seconds_sum",)] > 0


def test_every_exported_series_is_moved_by_what_it_is_about(tmp_path):
    """Each sample but buckets, sums and times of creation is above 0 in one of two scrapes."""
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
    inner, metrics = byte_level(), PrometheusMetrics()
    (tmp_path / "tokenizer.json").write_text(inner.to_str(), encoding="utf-8")
    config = json.dumps({"chat_template": template, "eos_token": "<|im_end|>"})
    (tmp_path / "tokenizer_config.json").write_text(config)
    with pytest.raises(TokenizerFileNotFound):
        create_tokenizer(tmp_path / "no", metrics=metrics.tokenizer)
    tokenizer = create_tokenizer(tmp_path, metrics=metrics.tokenizer)

    def spelled(text):
        return [(token_id,) for token_id in inner.encode(text, add_special_tokens=False).ids]

    class SaysIds(Says):
        def name_of(self, slot):
            prompt = inner.decode(slot.prompt_token_ids, skip_special_tokens=False)
            return re.findall("<([a-z]+)>", prompt)[-1]

    waiting = [Hook(lambda: time.sleep(0.002))] * 100_000
    begun = {"half": spelled("🫨")[:-1], "stop": spelled("EN"), "call": spelled("<tool_c")}
    begun["reasoning"] = spelled("<thin")
    (end,), (stop_id,) = tokenizer.eos_token_ids, spelled("!")
    model = SaysIds(
        say=[*spelled("naïve 你好 🫨🫨 END"), (10**6,), stop_id, (end,)],
        bad=[ValueError("the model fails")],
        **{name: [*script, *waiting] for name, script in begun.items()},
    )
    options = {"tokenizer": tokenizer, "chat_template": tokenizer.chat_template}
    options.update(metrics=metrics, max_num_seqs=len(begun), reasoning_format="qwen3")
    with running(model, **options) as server:
        for fields in (
            {},
            {"max_tokens": 3},
            {"stop": ["END"]},
            {"stop": ["END"], "include_stop_str_in_output": True},
            {"stop_token_ids": stop_id},
            {"stop_token_ids": stop_id, "include_stop_str_in_output": True},
        ):
            assert server.chat(asking("say", stream=True, **fields)).status == 200
        # L1 has the first segment of this one.
        server.chat({"messages": asking("say")["messages"] * 2, "stream": True})
        server.chat(asking("bad", stream=True))
        server.fetch("/detokenize", {"tokens": [1]})
        # No endpoint encodes a batch, and bad input comes to none of them.
        tokenizer.encode_batch(["a"])
        for ask, wrong in (
            (tokenizer.encode, "\ud800"),
            (tokenizer.encode_batch, ["\ud800"]),
            (tokenizer.decode, [10**6]),
        ):
            with pytest.raises(TokenizerError):
                ask(wrong)
        fields = {"stop": ["END"], "tools": [tool("f")], "stream": True}
        clients = [server.connect() for _ in (*begun, "half")]
        for client, name in zip(clients, [*begun, "half"], strict=True):
            client.ask(CHAT, asking(name, **fields))
            client.head()
        most = {}

        def look():
            """Keep the most of each sample; return whether all that waits is seen to wait."""
            for family in families_of(server):
                key = family.name, "number of samples"
                most[key] = max(most.get(key, 0), len(family.samples))
                for sample in family.samples:
                    if not sample.name.endswith(("_bucket", "_sum", "_created")):
                        key = sample.name, *sorted(sample.labels.values())
                        most[key] = max(most.get(key, 0), sample.value)
            layers = [size for key, size in most.items() if key[0] == "mini_vllm:held_characters"]
            return all(layers) and most["vllm:num_requests_waiting", "0", "scripted"]

        until(look, "all that waits")
        for client in clients:
            client.socket.close()
        server.idle()
        look()
    assert [key for key, value in most.items() if not value] == []


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
