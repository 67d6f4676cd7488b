"""The tokenizers of a running server, by id and by name, each loaded once.

But:
- It does not know how to load a tokenizer; that is the `loader` of each call.
- It forgets nothing by itself, and what is removed lives on for those who still hold it.
"""

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mini_vllm.tokenizer.protocols import Tokenizer

Loader = Callable[[], Tokenizer | Awaitable[Tokenizer]]


@dataclass(frozen=True, slots=True)
class TokenizerEntry:
    """A loaded tokenizer; `source` is the path or hub id that it came from."""

    id: str
    name: str
    source: str
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """The id under which a name is registered, and whether this call has loaded it."""

    id: str
    newly_loaded: bool


@dataclass(frozen=True, slots=True)
class _Loading:
    id: str
    done: concurrent.futures.Future[None]


class TokenizerRegistry:
    """A table of tokenizers that threads, and the event loops in them, may share.

    One lock guards the tables; nothing is loaded or awaited under it. Who waits for another's load
    waits for a `concurrent.futures.Future`, which belongs to no event loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, TokenizerEntry] = {}  # by name
        self._names: dict[str, str] = {}  # by id
        self._loading: dict[str, _Loading] = {}  # by name

    async def load(self, id: str, name: str, source: str, loader: Loader) -> LoadOutcome:
        """Register what `loader` returns under `id` and `name`, unless the name is registered.

        `loader` is called in a thread, and its result awaited if it can be. Calls for a name that
        is being loaded wait for that load: they report its id or raise its error. If it is
        cancelled instead, one of them loads in its place. A failed load leaves nothing behind.
        Removing does not stop a load under way.

        Raises:
            ValueError: an argument is empty, or another name has this id.
            Exception: whatever `loader` raises.
        """
        for argument, value in (("id", id), ("name", name), ("source", source)):
            if not value.strip():
                raise ValueError(f"the tokenizer's {argument} is empty; give it a text")
        while True:
            with self._lock:
                if name in self._entries:
                    return LoadOutcome(self._entries[name].id, newly_loaded=False)
                theirs = self._loading.get(name)
                if theirs is None:
                    self._refuse_taken(id)
                    mine = self._loading[name] = _Loading(id, _running_future())
                    break
            await asyncio.wrap_future(theirs.done)
        await self._finish(mine, name, source, loader)
        return LoadOutcome(id, newly_loaded=True)

    def get(self, name_or_id: str) -> Tokenizer | None:
        """Return the tokenizer of this name, else the one of this id, else None."""
        with self._lock:
            entry = self._find(name_or_id)
        return None if entry is None else entry.tokenizer

    def get_by_name(self, name: str) -> TokenizerEntry | None:
        """Return the entry of this name, or None."""
        with self._lock:
            return self._entries.get(name)

    def get_by_id(self, id: str) -> TokenizerEntry | None:
        """Return the entry of this id, or None."""
        with self._lock:
            return self._entries.get(self._names.get(id, ""))

    def remove(self, name_or_id: str) -> TokenizerEntry | None:
        """Take out and return the entry of this name, else of this id; None if there is none."""
        with self._lock:
            return self._remove(self._find(name_or_id))

    def remove_by_name(self, name: str) -> TokenizerEntry | None:
        """Take out and return the entry of this name; None if there is none."""
        with self._lock:
            return self._remove(self._entries.get(name))

    def remove_by_id(self, id: str) -> TokenizerEntry | None:
        """Take out and return the entry of this id; None if there is none."""
        with self._lock:
            return self._remove(self._entries.get(self._names.get(id, "")))

    def list(self) -> tuple[TokenizerEntry, ...]:
        """Return all entries, sorted by name."""
        with self._lock:
            return tuple(sorted(self._entries.values(), key=lambda entry: entry.name))

    def clear(self) -> None:
        """Take out all entries."""
        with self._lock:
            self._entries.clear()
            self._names.clear()

    def _find(self, name_or_id: str) -> TokenizerEntry | None:
        name = name_or_id if name_or_id in self._entries else self._names.get(name_or_id, "")
        return self._entries.get(name)

    def _remove(self, entry: TokenizerEntry | None) -> TokenizerEntry | None:
        if entry is not None:
            del self._entries[entry.name], self._names[entry.id]
        return entry

    def _refuse_taken(self, id: str) -> None:
        loading = {load.id: name for name, load in self._loading.items()}
        taken_by = self._names.get(id) or loading.get(id)
        if taken_by is not None:
            raise ValueError(f"id {id!r} is the one of {taken_by!r}; choose another")

    async def _finish(self, load: _Loading, name: str, source: str, loader: Loader) -> None:
        failure = None
        try:
            tokenizer = await asyncio.to_thread(loader)
            if inspect.isawaitable(tokenizer):
                tokenizer = await tokenizer
            with self._lock:
                self._entries[name] = TokenizerEntry(load.id, name, source, tokenizer)
                self._names[load.id] = name
        except Exception as error:
            failure = error
            raise
        finally:
            with self._lock:
                del self._loading[name]
            if failure is None:
                load.done.set_result(None)
            else:
                load.done.set_exception(failure)


def _running_future() -> concurrent.futures.Future[None]:
    # A running future cannot be cancelled, so one waiter's cancellation does not reach the others.
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()
    return future
