"""The registry: one load a name, whoever asks, and nothing left of a failure."""

import asyncio
import threading
import time

import pytest

from mini_vllm.tokenizer.backends.mock import MockTokenizer
from mini_vllm.tokenizer.loading.registry import LoadOutcome, TokenizerRegistry


class Loader:
    """Counts its calls; fails while there are errors left."""

    def __init__(self, *errors, delay=0.02):
        self.calls = 0
        self.delay = delay
        self.errors = list(errors)
        self.tokenizer = MockTokenizer()

    def __call__(self):
        self.calls += 1
        time.sleep(self.delay)
        if self.errors:
            raise self.errors.pop(0)
        return self.tokenizer


def filled(*pairs):
    registry = TokenizerRegistry()
    for token_id, name in pairs:
        asyncio.run(registry.load(token_id, name, "path", Loader(delay=0)))
    return registry


def test_load_and_look_up():
    registry, loader = TokenizerRegistry(), Loader()
    assert asyncio.run(registry.load("1", "m", "/a", loader)) == LoadOutcome("1", True)
    assert asyncio.run(registry.load("2", "m", "/b", loader)) == LoadOutcome("1", False)
    assert loader.calls == 1
    entry = registry.get_by_name("m")
    assert (entry.id, entry.name, entry.source) == ("1", "m", "/a")
    assert registry.get_by_id("1") is entry
    assert registry.get("m") is registry.get("1") is entry.tokenizer is loader.tokenizer
    assert (registry.get("2"), registry.get_by_id("m"), registry.get_by_name("1")) == (None,) * 3
    assert (registry.get(""), registry.get_by_id("")) == (None, None)


def test_a_name_comes_before_an_id():
    registry = filled(("b", "a"), ("a", "c"))
    assert registry.get("a") is registry.get_by_name("a").tokenizer
    assert registry.get_by_id("a").name == "c"
    assert registry.remove("a").name == "a"
    assert registry.remove("a").name == "c"
    assert registry.remove("a") is None


def test_remove_list_and_clear():
    registry = filled(("1", "b"), ("2", "c"), ("3", "a"))
    assert [entry.name for entry in registry.list()] == ["a", "b", "c"]
    assert registry.remove_by_id("b") is registry.remove_by_name("1") is None
    assert registry.remove_by_id("1").name == "b"
    assert registry.remove_by_name("c").id == "2"
    assert [entry.name for entry in registry.list()] == ["a"]
    assert registry.get_by_id("1") is None
    assert asyncio.run(registry.load("1", "d", "s", Loader())).newly_loaded  # its id is free
    registry.clear()
    assert registry.list() == ()
    assert registry.get_by_id("3") is None
    assert asyncio.run(registry.load("3", "a", "s", Loader())).newly_loaded


@pytest.mark.parametrize("empty", ["id", "name", "source"])
@pytest.mark.parametrize("value", ["", " \n"])
def test_empty_arguments_are_refused(empty, value):
    loader = Loader()
    with pytest.raises(ValueError, match=f"the tokenizer's {empty} is empty"):
        asyncio.run(
            TokenizerRegistry().load(
                **{"id": "1", "name": "n", "source": "s", "loader": loader, empty: value}
            )
        )
    assert loader.calls == 0


def test_an_id_has_one_name():
    registry = filled(("1", "a"))
    with pytest.raises(ValueError, match="id '1' is the one of 'a'; choose another"):
        asyncio.run(registry.load("1", "b", "s", Loader()))

    async def both():
        loads = [registry.load("2", name, "s", Loader()) for name in "bc"]
        return await asyncio.gather(*loads, return_exceptions=True)

    first, second = asyncio.run(both())
    assert first == LoadOutcome("2", True)
    assert isinstance(second, ValueError)
    assert [entry.name for entry in registry.list()] == ["a", "b"]


async def gather(registry, loader, count=10):
    loads = [registry.load(str(number), "m", "s", loader) for number in range(count)]
    return await asyncio.gather(*loads, return_exceptions=True)


def test_ten_tasks_load_once():
    loader = Loader()
    outcomes = asyncio.run(gather(TokenizerRegistry(), loader))
    assert loader.calls == 1
    assert outcomes == [LoadOutcome("0", True)] + [LoadOutcome("0", False)] * 9


def test_names_load_side_by_side():
    registry, together = TokenizerRegistry(), threading.Barrier(2, timeout=5)

    def loader():
        together.wait()
        return MockTokenizer()

    async def both():
        await asyncio.gather(*(registry.load(name, name, "s", loader) for name in "ab"))

    asyncio.run(both())


@pytest.mark.parametrize("kind", ["function", "lambda"])
def test_a_loader_may_be_async(kind):
    tokenizer, loops = MockTokenizer(), []

    async def function():
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return tokenizer

    registry = TokenizerRegistry()

    async def load():
        loader = function if kind == "function" else lambda: function()
        assert (await registry.load("1", "m", "s", loader)).newly_loaded
        assert loops == [asyncio.get_running_loop()]

    asyncio.run(load())
    assert registry.get("m") is tokenizer


def test_a_sync_loader_does_not_hold_the_loop():
    async def load():
        started = asyncio.create_task(TokenizerRegistry().load("1", "m", "s", Loader(delay=0.1)))
        await asyncio.sleep(0.01)
        assert not started.done()
        await started

    asyncio.run(load())


def test_a_failure_is_seen_by_all_and_leaves_nothing():
    registry, loader = TokenizerRegistry(), Loader(OSError("disk"))
    outcomes = asyncio.run(gather(registry, loader))
    assert [str(outcome) for outcome in outcomes] == ["disk"] * 10
    assert loader.calls == 1
    assert registry.list() == ()
    assert registry.get("m") is registry.get("0") is None
    assert asyncio.run(registry.load("0", "m", "s", loader)) == LoadOutcome("0", True)


@pytest.mark.parametrize("who", ["loader", "waiter"])
def test_a_cancelled_call_harms_no_other(who):
    registry, loader = TokenizerRegistry(), Loader()

    async def load():
        tasks = [
            asyncio.create_task(registry.load(str(number), "m", "s", loader)) for number in range(4)
        ]
        await asyncio.sleep(0.005)
        cancelled = tasks.pop(0 if who == "loader" else 1)
        cancelled.cancel()
        outcomes = await asyncio.gather(*tasks)
        assert cancelled.cancelled()
        return outcomes

    outcomes = asyncio.run(load())
    assert loader.calls == (2 if who == "loader" else 1)
    assert sum(outcome.newly_loaded for outcome in outcomes) == 1
    assert len({outcome.id for outcome in outcomes}) == 1


@pytest.mark.parametrize("errors", [[], [OSError("disk")]])
def test_event_loops_in_threads_share_one_load(errors):
    registry, loader, outcomes = TokenizerRegistry(), Loader(*errors, delay=0.3), []
    together = threading.Barrier(8)

    def work():
        together.wait()
        outcomes.extend(asyncio.run(gather(registry, loader, 3)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(outcomes) == 24
    assert loader.calls == 1
    if errors:
        assert {str(outcome) for outcome in outcomes} == {"disk"}
    else:
        assert sum(outcome.newly_loaded for outcome in outcomes) == 1
        assert len({outcome.id for outcome in outcomes}) == 1
