"""The process that holds a submission, from the moment that its walls are up.

It receives sources, then runs, and answers each with data. From the moment the submission is
imported, nothing here can be relied on; the reader of the answers relies on nothing.
"""

import gc
import marshal
import os
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from types import ModuleType
from typing import Any

from labkit.errors import LoadFailure
from labkit.running.drive import Run, perform
from labkit.running.hunting.work import WORK
from labkit.running.remote.parts import Parts
from labkit.running.remote.proxies import MAKE, Ask, Make, Proxies
from labkit.running.remote.wire import (
    HEAD,
    MOST_BYTES,
    MOST_READ,
    PART,
    WireError,
    pack,
    unpack,
    unpack_calls,
    unpack_request,
)
from labkit.running.source import Given, compile_source, load_given, load_source
from labkit.running.trace import GIVEN_PREFIX, Call, Step, Trace

_OBJECTS_BETWEEN_COLLECTIONS = 20_000
# Sent as text, it takes twice as many in an answer.
_MOST_BYTES_OF_CODE = MOST_BYTES >> 2


def main(reader: int, writer: int) -> None:
    """Serve requests that are read from one end of a pipe until it is closed."""

    def hear() -> tuple[int, bytearray]:
        """Return the kind of the next frame, and the frame."""
        data = bytearray()
        while len(data) < HEAD.size or len(data) < HEAD.size + HEAD.unpack_from(data)[0]:
            part = os.read(reader, MOST_READ)
            if not part:
                os._exit(0)
            data += part  # The other side waits for each answer, so this is one frame.
        return HEAD.unpack_from(data)[1], data

    def say(data: bytes) -> None:
        sent = os.write(writer, data)
        while sent < len(data):
            sent += os.write(writer, data[sent : sent + (1 << 20)])

    def write(*answer: Any) -> None:
        try:
            data = pack(list(answer))
        except WireError as error:
            data = pack([answer[0], f"{error}"])
        say(data)

    def ask_part(request: list[Any]) -> Any:
        try:
            say(pack(request, PART))
        except WireError as error:
            raise TypeError(f"{error}") from None
        return unpack(bytes(hear()[1][HEAD.size :]))

    def answer_part(request: bytes) -> None:
        try:
            data = pack(serve.answer_part(unpack(request)), PART)
        except WireError as error:
            data = pack(["raised", "ValueError", f"{error}"], PART)
        say(data)

    # A run makes many values without cycles: searching for cycles takes a tenth of its time.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    serve = Server(ask_part)
    while True:
        kind, data = hear()
        if kind == PART:
            answer_part(bytes(data[HEAD.size :]))
            continue
        number, do, *rest = unpack_request(data)
        try:
            write(number, None, *getattr(serve, do)(*rest))
        except BaseException as error:
            write(number, f"{type(error).__name__}: {error}")


class Server:
    """The requests of a worker; each method returns the answer.

    Args:
        ask_part: asks the process that has the parts which are not here.
    """

    def __init__(self, ask_part: Ask) -> None:
        self._ask_part = ask_part
        self._modules = Modules("", {}, {}, [], Given(), ask_part)
        self._parts = Parts(self._modules.resolve, [])
        self._sources: tuple[Any, ...] = ()
        self._run: Run | None = None
        self._answered = 0

    def compile(self, main: str, sources: Any, *rest: Any) -> list[Any]:
        """Check and compile the submission of a `load`; answer its code, or b"" if there is none.

        A source of which only a huge code can be made is compiled in each worker.
        """
        shown, filename, data = sources[main]
        _, _, given, _ = rest
        try:
            code = marshal.dumps(compile_source(data, shown, filename, Given(*given).modules))
        except LoadFailure:
            return [b""]
        return [code if len(code) <= _MOST_BYTES_OF_CODE else b""]

    def load(
        self, main: str, sources: Any, parts: Any, elsewhere: Any, given: Any, code: bytes
    ) -> list[Any]:
        """Import a submission; answer why the import failed, or None."""
        self._sources = main, sources, parts, elsewhere, given, code
        course = Given(*given)
        self._modules = Modules(main, sources, parts, elsewhere, course, self._ask_part, code)
        self._parts = Parts(self._modules.resolve, parts)
        return [self._modules.load()]

    def answer_part(self, request: Any) -> list[Any]:
        """Answer another worker's request to the parts that are here."""
        return self._parts.answer(request)

    def renew(self, most_calls: int, *sources: Any) -> list[Any]:
        """Import sources, or those of the last request again, and begin to count their work.

        The answer is that of `load`.
        """
        self._sources = sources or self._sources
        answer = self.load(*self._sources)
        WORK.begin(most_calls)
        return answer

    def count(self, most_calls: int) -> list[Any]:
        """Begin to count the work of the parts that are here; answer why it was too much so far."""
        reason = WORK.reason if WORK.is_over else ""
        WORK.begin(most_calls)
        return [reason]

    def perform(self, *plan: Any) -> list[Any]:
        """Carry out a whole run; answer with the values of its trace."""
        new, calls, watch = unpack_calls(*plan)
        trace = perform(self._modules.resolve, new, self._modules.following(calls), watch)
        return [*_outcome(trace, trace.steps, watch), trace.changed]

    def record(self, cases: Any, facts: Any, keep: int, most: int) -> list[Any]:
        """Record the first of some cases that goes wrong as in the test; answer with JSON.

        Args:
            cases: the runs of each case, as `pack_calls` returns them, with `watch` and outcome.
            facts: see `labkit.running.recording.case_recording.Facts`.
            keep, most: the most steps, and the most characters of the answer.
        """
        # Only feedback needs this.
        from labkit.running.recording.case_recording import Facts, record
        from labkit.running.recording.reading import packed
        from labkit.running.recording.replay import Case, first_repeatable
        from labkit.running.recording.runs import CaseRun

        def fresh() -> Any:
            self.load(*self._sources)
            return self._modules.resolve

        def run_of(new: Any, calls: Any, watch: str, outcome: Any) -> CaseRun:
            made, called, watch = unpack_calls(new, calls, watch)
            return CaseRun(tuple(made), tuple(called), watch, outcome)

        filenames = self._modules.filenames
        candidates = [
            Case(fresh, filenames, [run_of(*run) for run in runs],
                 lambda calls: self._modules.following(calls))
            for runs in cases
        ]  # fmt: skip
        case = first_repeatable(candidates) if len(candidates) > 1 else candidates[0]
        return [packed(record(case, Facts(*facts), keep), most)]

    def begin(self, *plan: Any) -> list[Any]:
        """Carry out the first calls of a run, which stays open; answer as `go_on` does."""
        new, calls, watch = unpack_calls(*plan)
        self._run, self._answered = Run(self._modules.resolve, new, watch), 0
        return self._carried_out(self._run, calls)

    def go_on(self, *plan: Any) -> list[Any]:
        """Carry out the next calls of the open run; answer with their results."""
        _, calls, _ = unpack_calls(*plan)
        assert self._run is not None
        return self._carried_out(self._run, calls)

    def _carried_out(self, run: Run, calls: Sequence[Call]) -> list[Any]:
        run.carry_out(self._modules.following(calls))
        steps = run.trace.steps[self._answered :]
        self._answered += len(steps)
        return _outcome(run.trace, steps, run.watch)

    def end(self) -> list[Any]:
        """End the open run; answer which arguments it changed."""
        assert self._run is not None
        run, self._run = self._run, None
        return [run.end().changed]


def _outcome(trace: Trace, steps: Sequence[Step], watch: str) -> list[Any]:
    raised = trace.raised
    return [
        [step.result for step in steps],
        [step.held for step in steps] if watch else None,
        raised and [raised.kind, raised.message, raised.line, raised.call],
    ]


class Modules:
    """The sources that a worker has received, as modules.

    A name is looked up in the submission, then in the part that has it, here or in the other
    process. Files are never read.

    Args:
        main: the name of the submission among `sources`.
        sources: from a name to (the file's name in messages, its path, its bytes).
        parts: from a class to a name.
        elsewhere: the classes that are in the other process.
        given: the objects that the course gives to the sources, besides Python's library.
        ask: sends a request to that process.
        code: the submission as code, its imports checked; b"" if it has not been compiled.
    """

    def __init__(
        self,
        main: str,
        sources: dict[str, tuple[str, str, bytes]],
        parts: dict[str, str],
        elsewhere: list[str],
        given: Given,
        ask: Ask,
        code: bytes = b"",
    ) -> None:
        self._given = given
        self._code = code
        self._ask = ask
        self._proxies = Proxies(ask)
        self._elsewhere = elsewhere
        self._main = main
        self._sources = sources
        self._parts = parts
        self._modules: dict[str, ModuleType | LoadFailure] = {}

    @property
    def filenames(self) -> list[str]:
        """The names in tracebacks of the submission and of the parts that are here."""
        names = [self._main, *(name for name in self._sources if name != self._main)]
        return [self._sources[name][1] for name in names]

    def load(self) -> str | None:
        """Import the submission, once; return why that failed, or None."""
        try:
            self._module(self._main)
        except LoadFailure as failure:
            return str(failure)
        return None

    def following(self, calls: Sequence[Call]) -> Iterable[Call]:
        """Return the calls of a run; parts in the other process learn which call is current."""
        return self._proxies.following(calls) if self._elsewhere else calls

    def resolve(self, name: str) -> Any:
        """Return the object called `name`; `given.NAME` is an object that the course gives.

        Raises:
            AttributeError: neither the submission nor a part has it.
            LoadFailure: the module that should have it could not be imported.
        """
        if name.startswith(GIVEN_PREFIX):
            return getattr(self._given_here, name.removeprefix(GIVEN_PREFIX))
        if name == MAKE:
            # With numbers of its own for objects, a test makes the same requests in each run.
            return partial(Make, Proxies(self._ask))
        module = self._module(self._main)
        if not hasattr(module, name) and name in self._elsewhere:
            return self._proxies.resolve(name)
        if not hasattr(module, name) and name in self._parts:
            module = self._module(self._parts[name])
        if not hasattr(module, name):
            raise AttributeError(f"{self._sources[self._main][0]} has no {name!r}")
        return getattr(module, name)

    @cached_property
    def _given_here(self) -> ModuleType:
        return load_given(self._given, "under_test.given")

    def _module(self, key: str) -> ModuleType:
        if key not in self._modules:
            shown, filename, data = self._sources[key]
            try:
                code = marshal.loads(self._code) if self._code and key == self._main else None
                name, importable = f"under_test.{key}", self._given.modules
                self._modules[key] = load_source(data, shown, filename, name, importable, code=code)
            except LoadFailure as error:
                self._modules[key] = error
        module = self._modules[key]
        if isinstance(module, LoadFailure):
            raise module
        return module
