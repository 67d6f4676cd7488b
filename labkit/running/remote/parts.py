"""The objects of a lab's parts, in a process that never has a submission.

The requests were written by a submission, so they may be any JSON: each is taken apart by its
shape, and reaches only public methods and attributes of the parts' own objects. The parts' sources
and the objects themselves stay here; only values leave, in the form of
`labkit.running.remote.wire`.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from labkit.running.hunting.work import WORK, TooMuchWork
from labkit.running.remote.wire import MOST_CHARACTERS

MOST_OBJECTS = 10_000
_MOST_WATCHED = 16
# The limit for the values of attributes after guessed calls.
_MOST_CHARACTERS_AHEAD = 1 << 16


class Parts:
    """The requests that the parts' process answers.

    Args:
        resolve: returns the class of a part.
        names: the names of these classes.
    """

    def __init__(self, resolve: Callable[[str], Any], names: Collection[str]) -> None:
        self._resolve = resolve
        self._names = names
        self._objects: dict[int, _Object] = {}

    def answer(self, requests: Any) -> list[Any]:
        """Carry out the requests in order; return `["told", value]` for the last request.

        The first exception ends this: `["raised", kind, message]`.
        """
        if WORK.is_over:
            return ["raised", TimeoutError.__name__, WORK.reason]
        try:
            return ["told", [self._answer(request) for request in requests][-1]]
        except TooMuchWork as error:
            return ["raised", TimeoutError.__name__, f"{error}"]
        except Exception as error:
            return ["raised", type(error).__name__, f"{error!s:.{MOST_CHARACTERS}}"]

    def _answer(self, request: Any) -> Any:
        match request:
            case ["class", str(name)]:
                return _methods(self._class(name))
            case [
                "new",
                int(number),
                str(name),
                list(args),
                dict() | None as options,
                list(dropped),
            ]:
                kwargs = options or {}
                for old_number in dropped:
                    self._objects.pop(old_number, None)
                if len(self._objects) >= MOST_OBJECTS:
                    raise ValueError(f"more than {MOST_OBJECTS} objects of parts at a time")
                WORK.take_in(args, kwargs)
                self._objects[number] = _Object(self._class(name), args, kwargs)
                return None
            case ["function", str(name), list(args), dict() | None as options]:
                kwargs = options or {}
                WORK.take_in(args, kwargs)
                return WORK.give_out(self._class(name)(*args, **kwargs))
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


# A call on an object: the method, its arguments, and the counts of the arguments.
_Done = tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, int, int]]


class _Object:
    """An object, and the calls that led to its state."""

    def __init__(self, cls: type, args: list[Any], kwargs: dict[str, Any]) -> None:
        self._make: Callable[[], Any] = lambda: cls(*args, **kwargs)
        self._methods = _methods(cls)
        self._calls: list[_Done] = []
        self._object = self._make()

    def go_back(self, done: int) -> None:
        """Undo all calls but the first `done`: make the object again, and repeat these calls."""
        if done == len(self._calls):
            return
        if not 0 <= done < len(self._calls):
            raise ValueError("an object cannot return to a state that it has not had")
        for *_, counted in self._calls[done:]:
            WORK.take_back(*counted)
        del self._calls[done:]
        self._start_again()

    def _start_again(self) -> None:
        """Make the object again, and repeat all its calls."""
        with WORK.uncounted():
            self._object = self._make()
            for name, args, kwargs, _ in self._calls:
                with suppress(Exception):
                    getattr(self._object, name)(*args, **kwargs)

    def call(
        self,
        method: str,
        args: list[Any],
        kwargs: dict[str, Any] | None,
        guesses: list[Any],
        ends: list[str],
        watch: list[str],
    ) -> tuple[list[Any], list[list[Any]]]:
        """Call a method, then with each of the guessed arguments, and then the methods that are
        guessed to end the stream.

        Only an exception of the first call is raised; a later call that raises was only guessed,
        and counts as not made.

        Returns:
            The result of each call, and for each watched attribute its values after the calls. An
            attribute that raises has no values.
        """
        results = [self._call(method, tuple(args), kwargs or {})]
        watch = watch[:_MOST_WATCHED]
        values = [self._read_ahead(attribute) for attribute in watch]
        size = 0
        ahead = [*((method, (guess,)) for guess in guesses), *((end, ()) for end in ends)]
        for name, arguments in ahead if all(values) else ():
            before, done = WORK.totals, len(self._calls)
            try:
                result = self._call(name, arguments, {})
                current = [self.read(attribute) for attribute in watch]
            except (Exception, TooMuchWork):
                WORK.take_back(*WORK.since(before))
                del self._calls[done:]
                self._start_again()
                break
            results.append(result)
            for value, seen in zip(current, values, strict=True):
                seen.append(value)
                if value.__class__ is str or value.__class__ is bytes:
                    size += len(value)
            if size > _MOST_CHARACTERS_AHEAD:
                break
        return results, values

    def _read_ahead(self, name: str) -> list[Any]:
        """Return the value of an attribute before a request for it; [] if reading it raises."""
        self._check_attribute(name)
        before = WORK.totals
        try:
            return [self.read(name)]
        except (Exception, TooMuchWork):
            WORK.take_back(*WORK.since(before))
            return []

    def _check_attribute(self, name: str) -> None:
        if name.startswith("_") or name in self._methods:
            raise AttributeError(f"{type(self._object).__name__!r} object has no {name!r}")

    def read(self, name: str) -> Any:
        """Return a public attribute."""
        self._check_attribute(name)
        with WORK.aside():
            return getattr(self._object, name)

    def _call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if method not in self._methods:
            raise AttributeError(f"{type(self._object).__name__!r} object has no {method!r}")
        before = WORK.totals
        try:
            WORK.take_in(args, kwargs)
            return WORK.give_out(getattr(self._object, method)(*args, **kwargs))
        finally:
            self._calls.append((method, args, kwargs, WORK.since(before)))


def _methods(cls: type) -> list[str]:
    """Return the names of the public methods of a class."""
    public = (name for name in dir(cls) if not name.startswith("_"))
    return [name for name in public if callable(getattr(cls, name))]
