"""A lab that pytest has collected once: each run of it is a fork of that process.

Starting pytest, importing the plugins and collecting a lab's tests take as long as most runs, and
do not depend on the code under test. A fork continues after the collection, with an implementation
from its caller, and ends like any session of pytest.
"""

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from labkit.course.lab import Lab, read_lab
from labkit.running.source import load_source


class CollectedLab:
    """A process that has collected a lab, and forks for each run.

    Args:
        forks: makes the process.
        arguments: the arguments of pytest's command line.
        folder: the working folder.
        env: its environment, without `LAB_IMPL`.
        bytecode: a folder for bytecode.
    """

    def __init__(
        self,
        forks: ForkServerContext,
        arguments: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        bytecode: str,
    ) -> None:
        self._forks = forks
        self._lock = Lock()
        self._orders, self._theirs = forks.Pipe()
        self._process = forks.Process(
            target=_collect, args=(list(arguments), folder, dict(env), bytecode, self._theirs)
        )
        self._is_ready: bool | None = None

    def run(self, implementation: str, results: Path) -> str | None:
        """Run the lab's tests on an implementation.

        Args:
            implementation: the value of `LAB_IMPL`.
            results: the path of the results file.

        Returns:
            The output of the run; None if the lab could not be collected.
        """
        output, to_output = self._forks.Pipe(duplex=False)
        try:
            with self._lock:
                if self._is_ready is None:
                    self._is_ready = self._start()
                if not self._is_ready:
                    return None
                self._orders.send((implementation, str(results)))
                send_handle(self._orders, to_output.fileno(), self._process.pid)
        finally:
            to_output.close()
        with open(output.fileno(), "rb", closefd=False) as stream:
            # Until the last process has closed it: the watchdog prints after its process has ended.
            return stream.read().decode(errors="replace")

    def _start(self) -> bool:
        self._process.start()
        self._theirs.close()
        try:
            return bool(self._orders.recv())
        except EOFError:
            return False

    def close(self) -> None:
        """End the process, if it was started; its runs are over."""
        self._orders.close()
        if self._is_ready is not None:
            self._process.join()


class _Forks:
    """The plugin of that process: it stops at the end of the collection, and forks."""

    def __init__(self, orders: Connection) -> None:
        self._orders = orders

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Fork for each order; only a fork returns, and continues the session."""
        for folder in {item.path.parent for item in session.items}:
            _compile_pool(read_lab(folder))
        # Collected objects are not garbage; pytest searches for garbage when it ends.
        gc.freeze()
        self._orders.send(True)
        for implementation, results in iter(self._next, None):
            output = recv_handle(self._orders)
            if os.fork() == 0:
                self._go_on(session.config, implementation, Path(results), output)
                return
            os.close(output)
            _bury()
        os._exit(0)

    def _next(self) -> Any:
        try:
            return self._orders.recv()
        except EOFError:
            return None

    def _go_on(
        self, config: pytest.Config, implementation: str, results: Path, output: int
    ) -> None:
        self._orders.close()
        # The files that pytest captures to are shared by all forks, and have to be its own.
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()
        for stream in (1, 2):
            os.dup2(output, stream)
        os.close(output)
        capture.start_global_capturing()
        capture.suspend_global_capture()
        config.option.lab_results = results
        os.environ["LAB_IMPL"] = implementation


def _compile_pool(lab: Lab) -> None:
    """Load the pool of a hunt, so that each run finds its modules compiled."""
    for code in lab.pool.codes if lab.hunt is not None else ():
        load_source(code.metered_program(), code.name, code.name, f"pool.{code.name}", code.imports)


def _bury() -> None:
    """Wait for the forks that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _collect(
    arguments: list[str], folder: Path, env: dict[str, str], bytecode: str, orders: Connection
) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.dont_write_bytecode = False
    sys.pycache_prefix = bytecode
    code = int(pytest.main(arguments, plugins=[_Forks(orders)]))
    for printed in (sys.stdout, sys.stderr):
        printed.flush()
    # Exit even if the code under test has left threads.
    os._exit(code)
