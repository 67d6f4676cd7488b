"""More than it can take: refused at once, with a time to come back; and all is well afterwards."""

import pytest
from running import CHAT, Says, asking, at_once, paced, running, until
from wire_client import read_chat


@pytest.fixture
def full():
    """A server whose one slot and whose two places in the line are taken."""
    model = Says(talk=paced(), say="Hi")
    with running(model, max_num_seqs=1, max_waiting=2) as server:
        clients = [server.begun("talk") for _ in range(3)]
        yield server, clients
        for client in clients:
            client.socket.close()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("path", "body"), [(CHAT, asking("say")), ("/v1/completions", {"prompt": "<say>"})]
)
def test_one_too_many_gets_429_and_is_told_when_to_come_back(full, path, body, stream):
    server, _ = full
    answer = server.fetch(path, {**body, "stream": stream})
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.error["type"] == "rate_limit_error"
    assert server.engine.stats().waiting == 2


def test_a_full_server_still_says_how_it_is(full):
    server, _ = full
    for path in ("/health", "/v1/models", "/metrics"):
        assert server.fetch(path).status == 200


def test_choices_count_not_requests():
    with running(Says(talk=paced(), say="Hi"), max_num_seqs=2, max_waiting=1) as server:
        # More than could ever run and wait.
        assert server.chat(asking("say", n=4)).status == 400
        assert server.chat(asking("say", n=3)).status == 200
        with server.begun("talk").socket:
            assert server.chat(asking("say", n=3)).status == 429
            assert server.chat(asking("say", n=2)).status == 200


def test_a_place_that_gets_free_is_given_away(full):
    server, clients = full
    assert server.chat(asking("say")).status == 429
    clients[2].socket.close()
    until(lambda: server.engine.stats().waiting == 1)
    with server.connect() as client:
        client.ask(CHAT, asking("say"))
        until(lambda: server.engine.stats().waiting == 2)
        clients[0].socket.close()
        clients[1].socket.close()
        assert client.answer().json()["choices"][0]["message"]["content"] == "Hi"


def test_a_storm_is_answered_whole_or_refused_and_nothing_else():
    said = "word 你🚀 " * 10
    with running(Says(say=said), max_num_seqs=4, max_waiting=8) as server:

        def ask(number):
            return server.chat(asking("say", stream=number % 2 == 0, max_tokens=1000))

        answers = at_once(ask, range(80))
        server.idle()
        assert server.chat(asking("say")).status == 200
    for number, answer in enumerate(answers):
        if answer.status == 429:
            assert answer.error["type"] == "rate_limit_error"
        elif number % 2 == 0:
            assert read_chat(answer.body)[0][0]["content"] == said
        else:
            assert answer.json()["choices"][0]["message"]["content"] == said
    assert 200 in {answer.status for answer in answers} <= {200, 429}
