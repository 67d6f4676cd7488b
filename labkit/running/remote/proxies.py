"""Proxies in a submission's process for the parts that it lacks: their objects are elsewhere.

The other process never has a submission (see `labkit.running.remote.parts`), so no code of a
reference is in this process. A request takes as long as a hundred calls here, so a proxy requests
ahead: the input of a part is usually the test's input of the submission, or the return value of the
previous part; in a hunt, `labkit.running.remote.streams` guesses. A wrong guess changes nothing,
because the other side undoes the calls that were not made. Without guesses the reference of lab 05
takes about ten times as long to grade.
"""

import builtins
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from labkit.running.hunting.private_names import check_public
from labkit.running.remote.streams import MOST_GUESSES, MOST_MISSES, Stream, Streams
from labkit.running.trace import Call

# Sends a request to the other process and returns its answer.
Ask = Callable[[list[Any]], Any]
# As in `labkit.running.hunting.rules`, which a worker does not have.
MAKE = "hunt.make"
# An attribute is read ahead if it was read after one of the last calls, up to this number.
_STILL_READ = 4


class Proxies:
    """The classes of the parts in the other process, and the guesses of their next calls.

    Args:
        ask: asks the other process.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._classes: dict[str, type] = {}
        self._calls: Sequence[Call] = ()
        self._position = 0
        # The object that was called last in this call of the run, and the returned value.
        self.last: tuple[_Remote, Any] | None = None
        self._numbers = itertools.count(1)
        self._dropped: list[int] = []
        # An object that once was made without an exception can be made later: it raises none.
        self._proven: set[str] = set()
        self._waiting: list[Any] = []
        # By class, the attributes read from the object that was made last.
        self.read: dict[str, dict[str, int]] = {}
        # By class.
        self.streams: defaultdict[str, Streams] = defaultdict(Streams)
        # How many objects there are.
        self.living = 0

    def resolve(self, name: str) -> type:
        """Return the class of a part."""
        if name not in self._classes:
            methods = self.ask(["class", name])
            space: dict[str, Any] = {method: _method(method) for method in methods}
            self._classes[name] = type(name, (_Proxy,), {**space, "_parts": self, "_part": name})
        return self._classes[name]

    def following(self, calls: Sequence[Call]) -> Iterator[Call]:
        """Yield the calls of a run, and note the current call."""
        self._calls = calls
        for self._position, call in enumerate(calls):
            self.last = None
            yield call
        self._calls = ()

    def make(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Have an object made, at the latest before the next request; return its number."""
        # The object that was called last may be in use only here.
        self.last = None
        dropped, self._dropped = self._dropped, []
        number = next(self._numbers)
        request = ["new", number, name, list(args), kwargs or None, dropped]
        recipe = repr(request[2:5])
        if recipe in self._proven:
            self._waiting.append(request)
        else:
            self.ask(request)
            self._proven.add(recipe)
        return number

    def drop(self, number: int) -> None:
        """Note that an object is not needed any more."""
        self.living -= 1
        self._dropped.append(number)

    def ask(self, request: list[Any]) -> Any:
        """Return the answer to a request.

        Raises:
            Exception: the exception of a part, in its own type if Python has that type.
        """
        waiting, self._waiting = self._waiting, []
        kind, *content = self._ask([*waiting, request])
        if kind == "raised":
            raise _exception(*content)
        return content[0]

    def guesses(self, args: tuple[Any, ...]) -> tuple[list[Any], bool]:
        """Return guesses of a part's next arguments, if its current arguments are `args`, and
        whether they are all that a test has for this object.
        """
        if self.last is not None:
            source, result = self.last
            return source.coming if args == (result,) else [], False
        here = self._position
        if not self._calls or args != self._calls[here].args:
            return [], False
        name, _, _, number = self._calls[here]
        end = here + 1 + MOST_GUESSES
        guesses = [
            call.args[0]
            for call in self._calls[here + 1 : end]
            if call.name == name and call.object == number and call.args and len(call.args) == 1
        ]
        return guesses, end >= len(self._calls)

    @property
    def is_in_run(self) -> bool:
        """Whether the calls of a run are known."""
        return bool(self._calls)

    @property
    def is_alone(self) -> bool:
        """Whether there is one object. If several wrongly shared a state, guessed calls on one of
        them would change the others.
        """
        return self.living == 1


class Make:
    """The argument of a student's test in a hunt: it makes objects of an implementation elsewhere.

    It behaves like `labkit.running.hunting.here.Make`.
    """

    def __init__(self, proxies: Proxies) -> None:
        self._proxies = proxies

    def __getattribute__(self, name: str) -> Any:
        """Refuse private names."""
        check_public("make", name)
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        return "make"

    def __call__(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Make an object of a class."""
        made = _proxies_of(self).resolve(name)(*args, **kwargs)
        return _Public(name, made)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function."""
        return _proxies_of(self).ask(["function", name, [*args], kwargs or None])

    def each(self, method: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[Any]:
        """Yield a method's return value for each of the arguments. The arguments are known, so the
        calls are requested ahead, and so are attributes that are read in between.
        """
        name = method.__name__
        calls = [Call(name, (argument,)) for argument in arguments]
        for call in _proxies_of(self).following(calls):
            yield method(*call.args or ())


def _proxies_of(make: Make) -> Proxies:
    proxies: Proxies = object.__getattribute__(make, "_proxies")
    return proxies


class _Public:
    """An object that a test of a hunt gets: the proxy's public names, and nothing else."""

    def __init__(self, name: str, made: Any) -> None:
        self._name = name
        self._made = made

    def __getattribute__(self, name: str) -> Any:
        check_public(object.__getattribute__(self, "_name"), name)
        if name.startswith("_"):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_made"), name)

    def __repr__(self) -> str:
        return f"<{object.__getattribute__(self, '_name')}>"


class _Remote:
    """An object in the other process: the last requested call, and the calls guessed with it.

    The guessed calls take effect one by one, as long as the submission makes the same calls.
    """

    def __init__(self, parts: Proxies, name: str, number: int) -> None:
        self._parts = parts
        parts.living += 1
        self._number = number
        self._calls = 0
        self._misses = 0
        self._streams = parts.streams[name]
        self._stream = Stream(self._streams)
        self._only_full = False
        # The attributes that were read, and after how many calls.
        self._read = dict.fromkeys(parts.read.get(name, ()), 0)
        parts.read[name] = self._read
        # By place: the guessed call, the return value, and the values of attributes after it.
        self._guessed: list[tuple[str, Any]] = []
        self._results: list[Any] = []
        self._values: dict[str, list[Any]] = {}
        self._next = 0

    def __del__(self) -> None:
        self._parts.drop(self._number)

    @property
    def coming(self) -> list[Any]:
        """The return values of guessed calls that have not been made yet."""
        return self._results[self._next :]

    def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method, or take the value that it returned ahead."""
        self._stream.note(method, args, bool(kwargs))
        place = self._next
        if place < len(self._results):
            if (method, args) == self._guessed[place] and not kwargs:
                self._next += 1
                self._calls += 1
                result = self._results[place]
                self._parts.last = self, result
                return result
            self._missed(args)
        return self._call(method, args, kwargs)

    def read(self, name: str) -> Any:
        """Read an attribute's value after the calls that have been made."""
        self._read[name] = self._calls
        if name in self._values:
            return self._values[name][self._next - 1]
        self._missed_end()
        self._forget()
        try:
            value = self._parts.ask(["read", self._number, self._calls, name])
        except AttributeError:
            del self._read[name]
            raise
        self._values[name] = [value]
        return value

    def _call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        guesses, ends = self._guesses(args) if not kwargs else ([], [])
        number, done = self._number, self._calls
        watch = [name for name, when in self._read.items() if done - when < _STILL_READ]
        self._forget()
        self._calls += 1  # It has happened even if it raises.
        request = ["call", number, done, method, list(args), kwargs or None, guesses, ends, watch]
        results, values = self._parts.ask(request)
        coming = [(method, (guess,)) for guess in guesses] + [(end, ()) for end in ends]
        self._guessed, self._results = [(method, args), *coming], results
        self._values = {name: seen for name, seen in zip(watch, values, strict=False) if seen}
        self._next = 1
        self._parts.last = self, results[0]
        return results[0]

    def _forget(self) -> None:
        """Forget the calls requested ahead."""
        self._results, self._values, self._next = [], {}, 0

    def _missed(self, args: tuple[Any, ...]) -> None:
        _, guess = self._guessed[self._next]
        if self._missed_end():
            return
        self._misses += 1
        self._streams.other_cuts += 1
        # Some layers pass on every text, and some only non-empty texts.
        self._only_full = guess == ("",) and args != ("",)

    def _missed_end(self) -> bool:
        """Note that a guessed call is not made; return whether it would have ended a stream."""
        is_end = self._next < len(self._results) and not self._guessed[self._next][1]
        self._streams.other_ends += is_end
        return is_end

    def _guesses(self, args: tuple[Any, ...]) -> tuple[list[Any], list[str]]:
        """Return guesses of the next arguments, and of the calls without arguments after these."""
        if self._misses > MOST_MISSES:
            return [], []
        guesses, is_whole = self._parts.guesses(args)
        ends: list[str] = []
        if self._parts.is_alone:
            if not self._parts.is_in_run:
                guesses, is_whole = self._stream.pieces()
            ends = self._stream.ends() if is_whole else []
        return [guess for guess in guesses if guess != "" or not self._only_full], ends


class _Proxy:
    """The base class for every part in the other process."""

    _parts: Proxies
    _part: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        number = self._parts.make(self._part, args, kwargs)
        self._remote = _Remote(self._parts, self._part, number)

    def __getattr__(self, name: str) -> Any:
        try:
            if name.startswith("_"):
                raise AttributeError(f"{self._part!r} object has no attribute {name!r}")
            return self._remote.read(name)
        except AttributeError as error:
            # With these, Python's message suggests the intended name.
            raise AttributeError(str(error), name=name, obj=self) from None


def _method(name: str) -> Callable[..., Any]:
    def method(self: _Proxy, *args: Any, **kwargs: Any) -> Any:
        return self._remote.call(name, args, kwargs)

    method.__name__ = name
    return method


def _exception(kind: str, message: str) -> Exception:
    known: Any = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        # UnicodeError and the like are made of more than a message.
        with suppress(TypeError):
            return known(message)
    made: Exception = type(kind, (Exception,), {})(message)
    return made
