"""The objects of a lab's parts, in a process that never has a submission.

What is asked here was written by a submission, so it may be anything that JSON can be: it is taken
apart by its shape, and reaches only public methods and attributes of the parts' own objects. Their
sources and the objects themselves stay here; values go out, as `labkit.isolation.wire` sends them.
"""

import math
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from labkit.isolation.wire import MOST_CHARACTERS

MOST_OBJECTS = 10_000
_MOST_WATCHED = 16
# Of the values of attributes after guessed calls.
_MOST_CHARACTERS_AHEAD = 1 << 16


class Parts:
    """What the parts' process can be asked.

    Args:
        resolve: returns the class of a part.
        names: of those classes.
    """

    def __init__(self, resolve: Callable[[str], Any], names: Collection[str]) -> None:
        self._resolve = resolve
        self._names = names
        self._objects: dict[int, _Object] = {}
        self._spent = 0.0
        self._most = math.inf

    def allow(self, milliseconds: int) -> int:
        """Let the parts use so much processor time from now on; return what they used before."""
        spent, self._spent = self._spent, 0.0
        self._most = milliseconds / 1000
        return int(spent * 1000)

    def answer(self, requests: Any) -> list[Any]:
        """Do what is asked, in order; return of the last `["told", value]`.

        Where something raises, that is the end: `["raised", kind, message]`.
        """
        begin = time.process_time()
        try:
            if self._spent > self._most:
                raise TimeoutError(f"it has computed for more than {self._most:g} s")
            return ["told", [self._answer(request) for request in requests][-1]]
        except Exception as error:
            return ["raised", type(error).__name__, f"{error!s:.{MOST_CHARACTERS}}"]
        finally:
            self._spent += time.process_time() - begin

    def _answer(self, request: Any) -> Any:
        match request:
            case ["class", str(name)]:
                return _methods(self._class(name))
            case ["new", int(number), str(name), list(args), dict(kwargs), list(dropped)]:
                for one in dropped:
                    self._objects.pop(one, None)
                if len(self._objects) >= MOST_OBJECTS:
                    raise ValueError(f"more than {MOST_OBJECTS} objects of parts at a time")
                self._objects[number] = _Object(self._class(name), args, kwargs)
                return None
            case ["function", str(name), list(args), dict(kwargs)]:
                return self._class(name)(*args, **kwargs)
            case ["call", int(number), int(done), str(method), *rest]:
                part = self._objects[number]
                part.go_back(done)
                return part.call(method, *rest)
            case ["read", int(number), int(done), str(name)]:
                part = self._objects[number]
                part.go_back(done)
                return part.read(name)
        raise ValueError("a part cannot be asked this")

    def _class(self, name: str) -> Any:
        if name not in self._names:
            raise ValueError(f"there is no part {name!r:.60}")
        return self._resolve(name)


class _Object:
    """An object, and the calls that brought it where it is."""

    def __init__(self, cls: type, args: list[Any], kwargs: dict[str, Any]) -> None:
        self._make: Callable[[], Any] = lambda: cls(*args, **kwargs)
        self._methods = _methods(cls)
        self._calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._object = self._make()

    def go_back(self, done: int) -> None:
        """Take back all calls but the first `done`: make the object anew, and call it so often."""
        if done == len(self._calls):
            return
        if not 0 <= done < len(self._calls):
            raise ValueError("an object cannot go back to where it has not been")
        del self._calls[done:]
        self._start_again()

    def _start_again(self) -> None:
        """Make the object anew, and have all its calls happen again."""
        self._object = self._make()
        for name, args, kwargs in self._calls:
            with suppress(Exception):
                getattr(self._object, name)(*args, **kwargs)

    def call(
        self,
        method: str,
        args: list[Any],
        kwargs: dict[str, Any],
        guesses: list[Any],
        watch: list[str],
    ) -> tuple[list[Any], list[list[Any]]]:
        """Call a method, and then with each of the guessed arguments.

        Only what the first call raises is raised; a later one that raises was only guessed, and has
        not happened.

        Returns:
            What each call returned, and for each watched attribute its values after the calls.
        """
        results = [self._call(method, tuple(args), kwargs)]
        watch = watch[:_MOST_WATCHED]
        values = [[self.read(name)] for name in watch]
        part, again = self._object, getattr(self._object, method)
        size, raised = 0, False
        for guess in guesses:
            try:
                results.append(again(guess))
            except Exception:
                raised = True
                break
            for name, seen in zip(watch, values, strict=True):
                value = getattr(part, name)
                seen.append(value)
                if value.__class__ is str or value.__class__ is bytes:
                    size += len(value)
            if size > _MOST_CHARACTERS_AHEAD:
                break
        self._calls += [(method, (guess,), {}) for guess in guesses[: len(results) - 1]]
        if raised:
            self._start_again()
        return results, values

    def read(self, name: str) -> Any:
        """Return a public attribute."""
        if name.startswith("_") or name in self._methods:
            raise AttributeError(f"{type(self._object).__name__!r} object has no {name!r}")
        return getattr(self._object, name)

    def _call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if method not in self._methods:
            raise AttributeError(f"{type(self._object).__name__!r} object has no {method!r}")
        self._calls.append((method, args, kwargs))
        return getattr(self._object, method)(*args, **kwargs)


def _methods(cls: type) -> list[str]:
    """Return the names of the public methods of a class."""
    public = (name for name in dir(cls) if not name.startswith("_"))
    return [name for name in public if callable(getattr(cls, name))]
