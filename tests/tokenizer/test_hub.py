"""The hub download, against a stub hub on 127.0.0.1 that counts what it is asked."""

import contextlib
import http.server
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from mini_vllm.tokenizer.loading import hub
from mini_vllm.tokenizer.loading.hub import (
    download_tokenizer_from_hf,
    tokenizer_files,
)
from mini_vllm.tokenizer_errors import HubError

MODEL = "acme/my-model-7b"
COMMIT = "c" * 40
FILES = {
    "tokenizer.json": b'{"version": "1.0"}',
    "tokenizer_config.json": b"{}",
    "chat_template.jinja": b"{{ messages }}",
    "config.json": b'{"eos_token_id": 2}',
    "model.safetensors": b"weights",
    "a.png": b"image",
    "README.md": b"# Hi",
    "1_Pooling/config.json": b"{}",
}
FETCHED = ["chat_template.jinja", "config.json", "tokenizer.json", "tokenizer_config.json"]


class StubHub:
    """Answers as a hub does for one model.

    `status` and `error_code` make the listing fail, or the files named in `refused`; `cut` names a
    file whose connection ends after half of it; `siblings` is a listing of its own; `storage` is
    the address of the hub that has the files.
    """

    def __init__(self):
        self.files, self.siblings, self.commit = dict(FILES), None, COMMIT
        self.status, self.error_code, self.refused = 200, None, ()
        self.cut, self.cut_how, self.listing, self.etag = None, "reset", None, None
        self.storage = None
        self.requests, self.tokens, self.connections = [], set(), set()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(handler):
                super().setup()
                self.connections.add(handler.connection)

            def do_GET(handler):
                self.answer(handler)

            do_HEAD = do_GET

            def log_message(handler, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def stop(self):
        """Stop at once: kept-alive connections would answer on."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def fetched(self):
        """The names of the files that were sent, in order."""
        return [path.rpartition("/")[2] for method, path in self.requests if "/resolve/" in path
                and method == "GET"]  # fmt: skip

    def answer(self, handler):
        path = handler.path.partition("?")[0]
        self.requests.append((handler.command, path))
        self.tokens.add(handler.headers.get("Authorization"))
        file = path.partition(f"/resolve/{self.commit}/")[2]
        if file and self.storage:
            self.send(handler, 302, b"", {"Location": self.storage + path})
        elif self.status != 200 and (file in self.refused if self.refused else not file):
            self.send(handler, self.status, b"no", {"X-Error-Code": self.error_code})
        elif path.startswith(f"/api/models/{MODEL}"):
            names = self.files if self.siblings is None else self.siblings
            content = {
                "id": MODEL, "sha": self.commit, "siblings": [{"rfilename": n} for n in names],
            }  # fmt: skip
            self.send(handler, 200, self.listing or json.dumps(content).encode(), {})
        elif file in self.files:
            etag = f'"{self.etag or file}"'
            headers = {"ETag": etag, "X-Repo-Commit": self.commit}
            self.send(handler, 200, self.files[file], headers, cut=file == self.cut)
        else:
            self.send(handler, 404, b"no", {"X-Error-Code": "EntryNotFound"})

    def send(self, handler, status, body, headers, *, cut=False):
        handler.send_response(status)
        for name, value in headers.items():
            if value is not None:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        handler.wfile.write(body[: len(body) // 2] if cut else body)
        handler.close_connection = cut
        if cut and self.cut_how == "reset":
            # Lingering for 0 seconds makes the last close() send a reset.
            linger = struct.pack("ii", 1, 0)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            handler.rfile.close()
            handler.connection.close()


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """Nothing of the caller's: no login, no proxy, not offline, and a cache of the test's own."""
    from huggingface_hub import constants
    from huggingface_hub.utils import close_session

    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-login"))
    close_session()
    yield
    close_session()


@pytest.fixture
def stub(environment, monkeypatch):
    """A running stub hub, which HF_ENDPOINT names."""
    running = StubHub()
    monkeypatch.setenv("HF_ENDPOINT", running.url + "/")
    yield running
    running.stop()


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def files_below(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_only_the_tokenizers_files_are_fetched_and_once(stub, cache):
    folder = download_tokenizer_from_hf(MODEL, cache_dir=cache)
    assert files_below(folder) == sorted(stub.fetched()) == FETCHED
    assert {name: (folder / name).read_bytes() for name in FETCHED} == {
        name: FILES[name] for name in FETCHED
    }
    assert folder == cache / "models--acme--my-model-7b" / "snapshots" / COMMIT
    assert stub.tokens == {None}
    stub.requests.clear()
    assert download_tokenizer_from_hf(MODEL, cache_dir=str(cache)) == folder
    assert stub.requests == [("GET", f"/api/models/{MODEL}/revision/main")]


def test_a_new_commit_and_another_revision_are_fetched(stub, cache):
    old = download_tokenizer_from_hf(MODEL, cache_dir=cache)
    stub.commit, stub.files["config.json"] = "d" * 40, b"{}"
    new = download_tokenizer_from_hf(MODEL, cache_dir=cache)
    stub.requests.clear()
    download_tokenizer_from_hf(MODEL, cache_dir=cache, revision="refs/pr/1")
    assert stub.requests[0] == ("GET", f"/api/models/{MODEL}/revision/refs%2Fpr%2F1")
    assert (new / "config.json").read_bytes() == b"{}"
    assert (old / "config.json").read_bytes() == FILES["config.json"]
    assert new.name == "d" * 40


def test_a_terminal_sees_how_far_the_files_are(stub, cache, monkeypatch, capsys):
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    download_tokenizer_from_hf(MODEL, cache_dir=cache / "a")
    assert (*capsys.readouterr(),) == ("", "")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    download_tokenizer_from_hf(MODEL, cache_dir=cache)
    first = capsys.readouterr()
    assert first.err.index("tokenizer.json") < first.err.index("18/18 bytes")
    # What is there already needs no bar, and who asks for none sees none.
    download_tokenizer_from_hf(MODEL, cache_dir=cache)
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    download_tokenizer_from_hf(MODEL, cache_dir=cache / "b")
    assert (first.out, *capsys.readouterr()) == ("", "", "")


@pytest.mark.parametrize(
    ("listing", "wanted"),
    [
        ([*FILES, "../x"], FETCHED),
        (["vocab.json", "merges.txt", "vocab.txt"], ["merges.txt", "vocab.json"]),
        (["b.model", "a.tiktoken", "tekken.json"], ["a.tiktoken"]),
        (["vocab.json", "b.model", "added_tokens.json"], ["added_tokens.json", "b.model"]),
        (["tokenizer.json", "vocab.json", "merges.txt", "tokenizer.model", "config.json"],
            ["config.json", "tokenizer.json"]),
        (["tekken.json", "params.json"], []), (["vocab.txt", "config.json"], []),
        (["tiktoken.model", "tokenizer_config.json"], ["tiktoken.model", "tokenizer_config.json"]),
        (["tokenizer.json", "special_tokens_map.json", "generation_config.json"],
            ["generation_config.json", "special_tokens_map.json", "tokenizer.json"]),
        (["config.json", "chat_template.jinja", "merges.txt"], []),
        (["w.bin", "w.gguf", "w.h5", "w.msgpack", "w.ckpt.index", "LICENSE", "w.model.bin"], []),
        (["/etc/tokenizer.json", "a/tokenizer.json", "a\\tokenizer.json", "C:tokenizer.model"], []),
        (["..", ".", "", ".model", "../tokenizer.json", "tokenizer.json\n", "a\0.model"], []),
    ],
)  # fmt: skip
def test_which_files_are_a_tokenizers(listing, wanted):
    assert tokenizer_files(listing) == wanted


@pytest.mark.parametrize(
    ("environment_token", "argument", "sent"),
    [
        ("hf_env", None, "Bearer hf_env"), ("hf_env", " hf_mine\n", "Bearer hf_mine"),
        (None, "hf_mine", "Bearer hf_mine"), ("", None, None), (" \n", None, None),
        ("hf_env", "", None), (None, None, None),
    ],
)  # fmt: skip
def test_the_token_is_sent_unless_it_is_empty(
    stub, cache, monkeypatch, tmp_path, environment_token, argument, sent
):
    if environment_token is not None:
        (tmp_path / "no-login").write_text("hf_of_a_login")
        monkeypatch.setenv("HF_TOKEN", environment_token)
    download_tokenizer_from_hf(MODEL, cache_dir=cache, token=argument)
    assert stub.tokens == {sent}


def test_the_token_is_not_sent_to_where_the_files_are_stored(stub, cache):
    storage = StubHub()
    try:
        stub.storage = storage.url
        folder = download_tokenizer_from_hf(MODEL, cache_dir=cache, token="hf_mine")
    finally:
        storage.stop()
    assert files_below(folder) == sorted(storage.fetched()) == FETCHED
    assert stub.tokens == {"Bearer hf_mine"}
    assert storage.tokens == {None}


def test_a_strange_token_is_neither_sent_nor_shown(stub, cache):
    with pytest.raises(HubError, match="the access token has characters") as raised:
        download_tokenizer_from_hf(MODEL, cache_dir=cache, token="hf_\r\nX: secret")
    assert "secret" not in str(raised.value)
    assert stub.requests == []


BAD_IDS = [
    "../x", "a/../x", "/abs/x", "a\\b", "a/b/c", "", "a/", "/a", "a b", "a//b", "..", "a\n", "c:/x",
]  # fmt: skip
BAD_REVISIONS = ["../../x", "a/../../x", "/x", "a\\b", ".", "a/", "main\n"]


@pytest.mark.parametrize(
    ("model_id", "revision", "message"),
    [(bad, None, "a model id; write name or organisation/name") for bad in BAD_IDS]
    + [(MODEL, bad, "a revision; write a branch, a tag or a commit") for bad in BAD_REVISIONS],
)
def test_a_bad_name_is_refused_before_any_request(stub, cache, model_id, revision, message):
    options = {} if revision is None else {"revision": revision}
    with pytest.raises(HubError, match=f"is not {message}"):
        download_tokenizer_from_hf(model_id, cache_dir=cache, **options)
    assert stub.requests == []
    assert not cache.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": 401}, "no access to model 'acme/my-model-7b': it is gated.*HF_TOKEN"),
        ({"status": 403, "error_code": "GatedRepo"}, "no access to model"),
        ({"status": 403, "error_code": "GatedRepo", "refused": ("tokenizer.json",)},
            "no access to model"),
        ({"status": 403, "refused": ("tokenizer.json",)}, "no access to model"),
        ({"status": 404, "error_code": "RepoNotFound"}, "the hub has no model 'acme/my-model-7b'"),
        ({"status": 404, "error_code": "RevisionNotFound"}, "no model .* with revision 'main'"),
        ({"siblings": ()}, "model 'acme/my-model-7b' has no files"),
        ({"siblings": ("w.bin", "config.json")}, "can be read; it has w.bin, config.json$"),
        ({"siblings": [f"{n}.bin" for n in range(9)]}, r"it has 0.bin, .*4.bin \.\.\.$"),
        ({"status": 500}, r"no tokenizer is cached in .*, and the hub gave no listing \(HfHubHTTP"),
        ({"listing": b"<html>Log in</html>"}, "gave no listing .JSONDecodeError"),
        ({"listing": b"[]"}, "gave no listing .TypeError"),
        ({"listing": b"{}"}, "gave no listing .KeyError"),
        ({"commit": "../../../x"}, "gave no listing .ValueError: its commit is '../../../x'"),
        ({"siblings": ("tokenizer.json", "a.jinja")}, "a.jinja .*broke off .RemoteEntry"),
    ],
)  # fmt: skip
def test_each_failure_has_its_message(stub, cache, change, message):
    vars(stub).update(change)
    with pytest.raises(HubError, match=message):
        download_tokenizer_from_hf(MODEL, cache_dir=cache)


@pytest.mark.parametrize(
    ("change", "fetched"),
    [
        ({"siblings": ["../x.model", "../../../x.model", "/tmp/x.model", "..", "tokenizer.json"]},
            ["tokenizer.json"]),
        # `hf_hub_download` writes `evil` and `evil.lock` four folders up.
        ({"etag": "../../../../evil"}, FETCHED),
    ],
)  # fmt: skip
def test_nothing_is_written_outside_the_cache(stub, cache, tmp_path, change, fetched):
    vars(stub).update(change)
    folder = download_tokenizer_from_hf(MODEL, cache_dir=cache)
    assert files_below(folder) == sorted(stub.fetched()) == fetched
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert not [path for path in cache.rglob("*") if "evil" in path.name]


@pytest.mark.parametrize("how", ["reset", "closed"])
def test_an_interrupted_download_leaves_nothing_and_can_be_repeated(stub, cache, monkeypatch, how):
    stub.cut, stub.cut_how = "tokenizer.json", how
    with pytest.raises(HubError, match=r"the download of tokenizer.json .*broke off .*try again"):
        download_tokenizer_from_hf(MODEL, cache_dir=cache)
    assert stub.fetched() == FETCHED[:3]
    snapshot = cache / "models--acme--my-model-7b" / "snapshots" / COMMIT
    assert files_below(snapshot) == FETCHED[:2]
    assert not list(cache.rglob("*incomplete*"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (snapshot / "tokenizer.json").write_text("as if the third had been the last")
    with pytest.raises(HubError, match="no tokenizer is cached"):
        download_tokenizer_from_hf(MODEL, cache_dir=cache)
    (snapshot / "tokenizer.json").unlink()
    monkeypatch.delenv("HF_HUB_OFFLINE")
    stub.cut = None
    stub.requests.clear()
    folder = download_tokenizer_from_hf(MODEL, cache_dir=cache)
    assert stub.fetched() == FETCHED[2:]
    assert (folder / "tokenizer.json").read_bytes() == FILES["tokenizer.json"]


@pytest.mark.parametrize("value", ["1", "true", "ON"])
def test_offline_uses_the_cache_and_asks_nothing(stub, cache, monkeypatch, value):
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    with pytest.raises(HubError, match=r"no tokenizer is cached in .*HF_HUB_OFFLINE is set; unset"):
        download_tokenizer_from_hf(MODEL, cache_dir=cache)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    folder = download_tokenizer_from_hf(MODEL, cache_dir=cache)
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    stub.requests.clear()
    assert download_tokenizer_from_hf(MODEL, cache_dir=cache) == folder
    assert stub.requests == []
    with pytest.raises(HubError, match="no tokenizer is cached"):
        download_tokenizer_from_hf(MODEL, cache_dir=cache, revision="v2")
    (folder / "tokenizer.json").resolve().unlink()
    with pytest.raises(HubError, match="no tokenizer is cached"):
        download_tokenizer_from_hf(MODEL, cache_dir=cache)


@pytest.fixture
def no_retry(monkeypatch):
    """The library waits before it repeats a request; so whoever waits repeats one."""
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("a request is repeated"))


def test_a_hub_that_went_away(stub, cache, no_retry):
    folder = download_tokenizer_from_hf(MODEL, cache_dir=cache)
    stub.stop()
    assert download_tokenizer_from_hf(MODEL, cache_dir=cache) == folder
    with pytest.raises(HubError, match=r"no tokenizer is cached in .*ConnectError: .*refused"):
        download_tokenizer_from_hf("acme/other", cache_dir=cache)


def test_a_hub_that_is_silent(environment, monkeypatch, cache, no_retry):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(hub, "_TIMEOUT_SECONDS", 0.2)
        with pytest.raises(HubError, match=r"gave no listing .ReadTimeout"):
            download_tokenizer_from_hf(MODEL, cache_dir=cache)


def test_a_cache_that_may_only_be_read_serves(stub, cache):
    folder = download_tokenizer_from_hf(MODEL, cache_dir=cache)
    refs = folder.parents[1] / "refs"
    (refs / "main").unlink()
    refs.rmdir()
    refs.write_text("no folder can be made here")
    assert download_tokenizer_from_hf(MODEL, cache_dir=cache) == folder


def test_importing_the_module_does_not_import_the_library():
    code = "import sys, mini_vllm.tokenizer.loading.hub; sys.exit('huggingface_hub' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=True)
