"""The application: its paths and methods, and who may ask if there is a key."""

import gc
import tomllib
from types import SimpleNamespace

import pytest
from running import CHAT, Says, asking, serving
from starlette.routing import Route

from labkit.course.lab import ROOT
from mini_vllm.engine.text_path_factory import TextPathFactory
from mini_vllm.server import cli, middleware
from mini_vllm.server.app import create_app
from mini_vllm.server.cli import main

KEY = "sk-clé-🔑"
OPEN = ["/", "/health", "/page/page.js"]
PROTECTED = [
    *(
        (method, route.path.replace("{name:path}", "scripted"))
        for route in create_app(None).routes
        if isinstance(route, Route) and route.path not in OPEN
        for method in sorted(route.methods - {"HEAD"})
    ),
    *(("GET", path) for path in ("/no/such/path", "/page", "//health", "/health/")),
    ("OPTIONS", "/v1/models"),
]


server = serving(Says(say="Hi"))
locked = serving(Says(say="Hi"), api_key=KEY)
PAGE = "http://localhost:3000"
shared = serving(Says(say="Hi"), api_key=KEY, allowed_origins=[PAGE], open_metrics=True)


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/v1", "/v1/chat/completions/", "/v1/models/", "/%ff", "/a%00b", "/health/"],
)
def test_an_unknown_path_is_404(server, path):
    answer = server.fetch(path)
    assert answer.status == 404
    assert "location" not in answer.headers
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/chat/completions", CHAT),
        ("/v1/v1/models", "/v1/models"),
        ("/v1/responses/resp_1", "/v1/responses"),
        ("/v1/embeddings", f"{CHAT}, /v1/completions, /v1/responses, /v1/models, "),
    ],
)
def test_an_unknown_path_names_the_ones_that_are_there(server, path, named):
    assert f"Not Found; the server has {named}" in server.fetch(path).error["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, {"post"}),
        ("HEAD", CHAT, {"post"}),
        ("OPTIONS", CHAT, {"post"}),
        ("PUT", "/tokenize", {"post"}),
        ("DELETE", "/v1/models", {"get", "head"}),
        ("OPTIONS", "/health", {"get", "head"}),
        ("POST", "/metrics", {"get", "head"}),
    ],
)
def test_a_wrong_method_is_405_and_the_right_ones_are_named(server, method, path, allowed):
    answer = server.fetch(path, method=method)
    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == allowed
    if method != "HEAD":
        assert answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics", "/"])
def test_head_is_get_without_the_body(server, path):
    with server.connect() as client:
        assert client.fetch(path, method="HEAD").status == 200
        answer = client.fetch(path)
        assert answer.status == 200
        assert client.buffer == b""
    if path == "/v1/models":
        (model,) = answer.json()["data"]
        expected = ("scripted", "model", 2**17)
        assert (model["id"], model["object"], model["max_model_len"]) == expected


def test_a_model_is_told_by_its_name(server):
    (listed,) = server.fetch("/v1/models").json()["data"]
    assert server.fetch("/v1/models/scripted").json() == listed
    answer = server.fetch("/v1/models/org/other")
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")


def test_the_version_is_that_of_the_project(server):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert server.fetch("/version").json() == {"version": project["version"]}


@pytest.mark.parametrize(
    ("path", "given", "kept"),
    [
        ("/v1/models", "my-id-1", True),
        ("/nothing", "my-id-1", True),
        ("/v1/models", None, False),
        ("/v1/models", "two words", False),
        ("/v1/models", "x" * 129, False),
    ],
)
def test_every_answer_has_the_id_of_its_request(server, path, given, kept):
    headers = {} if given is None else {"X-Request-Id": given}
    ids = [server.fetch(path, headers=headers).headers["x-request-id"] for _ in range(2)]
    assert ids == [given] * 2 if kept else given not in ids
    assert kept or len(set(ids)) == 2


@pytest.mark.parametrize(("origin", "allowed"), [(PAGE, True), ("http://evil.example", False)])
def test_pages_of_allowed_origins_may_ask_and_read(shared, server, origin, allowed):
    question = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    # It comes without a key; so does an answer that says that the key is missing.
    may_ask = shared.fetch(CHAT, method="OPTIONS", headers=question)
    assert (may_ask.status == 200) == allowed
    for answer in (may_ask, shared.chat(asking("say"), headers={"origin": origin})):
        assert answer.headers.get("access-control-allow-origin") == (origin if allowed else None)
    assert (
        server.fetch("/v1/models", headers={"origin": PAGE})
        .headers.keys()
        .isdisjoint({"access-control-allow-origin", "vary"})
    )


def test_metrics_need_no_key_only_where_that_was_asked_for(shared, locked):
    assert (shared.fetch("/metrics").status, locked.fetch("/metrics").status) == (200, 401)
    assert shared.fetch("/v1/models").status == 401


def with_key(key):
    return {"authorization": f"Bearer {key}".encode().decode("latin-1")}


WRONG = [
    {},
    with_key("wrong"),
    with_key(KEY[:-1]),
    with_key(KEY + "x"),
    with_key(""),
    {"authorization": "Bearer"},
    {"authorization": "Basic " + with_key(KEY)["authorization"][7:]},
    {"authorization": with_key(KEY)["authorization"][7:]},
    {"authorization": "\xff\xfe"},
    {"x-api-key": with_key(KEY)["authorization"][7:]},
]


@pytest.mark.parametrize(("method", "path"), PROTECTED)
def test_without_the_key_nobody_gets_in(locked, method, path):
    for headers in WRONG:
        body = {} if method == "POST" else None
        answer = locked.fetch(path, body, method=method, headers=headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].lower() == "bearer"
        assert answer.error["type"] == "authentication_error"
        assert answer.error["code"] == "invalid_api_key"
        assert "clé" not in answer.body.decode()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_the_key_opens_whatever_the_case_of_its_scheme(locked, scheme):
    headers = {"authorization": f"{scheme} {KEY}".encode().decode("latin-1")}
    answer = locked.chat(asking("say"), headers=headers)
    assert answer.json()["choices"][0]["message"]["content"] == "Hi"


@pytest.mark.parametrize("path", OPEN)
def test_the_page_and_the_health_need_no_key(locked, path):
    assert locked.fetch(path).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/page/../v1/models", "/page/%2e%2e/v1/models", "/page/..%2f..%2fapp.py",
        "/page/%2e%2e/app.py", "/page//etc/passwd",
    ],
)  # fmt: skip
def test_no_way_leads_round_the_key_through_the_open_folder(locked, path):
    answer = locked.fetch(path)
    assert answer.status in (401, 404)
    assert b"Starlette" not in answer.body


def test_a_body_behind_a_refusal_does_not_spoil_the_connection(locked):
    with locked.connect() as client:
        assert client.fetch("/v1/completions", b"x" * 100_000, method="POST").status == 401
        assert client.fetch("/v1/models", headers=with_key(KEY)).status == 200


def test_keys_are_compared_in_constant_time(locked, monkeypatch):
    compared, compare = [], middleware.hmac.compare_digest

    def spy(*pair):
        compared.append(pair)
        return compare(*pair)

    monkeypatch.setattr(middleware.hmac, "compare_digest", spy)
    for key, status in (("wrong", 401), (KEY, 200)):
        assert locked.fetch("/v1/models", headers=with_key(key)).status == status
    assert len(compared) == 2
    assert all(isinstance(one, bytes) for pair in compared for one in pair)


@pytest.mark.parametrize("origins", ["http://localhost:3000", "{}", "[1]"])
def test_origins_that_are_no_list_are_refused(origins, capsys):
    with pytest.raises(SystemExit):
        main(["--allowed-origins", origins, "--port", "0"])
    assert "is not a JSON list" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["", " "])
def test_an_empty_key_is_refused_not_taken_for_none(key, capsys):
    with pytest.raises(SystemExit):
        main(["--api-key", key, "--port", "0"])
    assert "--api-key" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text_path", "strips"),
    [([], None, True), (["--no-strip"], None, False), ([], TextPathFactory, False)],
)
def test_white_space_beside_calls_is_left_out_unless_asked_for(
    arguments, text_path, strips, monkeypatch
):
    services = []

    def make_server(app, service, **options):
        services.append(service)
        return SimpleNamespace(run=lambda sockets: [one.close() for one in sockets])

    monkeypatch.setattr(cli, "make_server", make_server)
    assert cli.main(["--port", "0", *arguments], text_path=text_path) == 0
    assert [service.strip for service in services] == [strips]


def test_garbage_collections_skip_what_was_loaded(monkeypatch):
    found = []

    def make_server(app, service, **options):
        def run(sockets):
            found.append(gc.get_freeze_count())
            sockets[0].close()

        return SimpleNamespace(run=run)

    monkeypatch.setattr(cli, "make_server", make_server)
    gc.unfreeze()
    try:
        cli.main(["--port", "0"])
        assert found[0] > 10_000
    finally:
        gc.unfreeze()
