"""A thread that steps an engine while there is work, and sleeps otherwise."""

import logging
import threading
from types import TracebackType

from mini_vllm.engine.engine import Engine, EngineState
from mini_vllm.engine.engine_errors import EngineStateError

_LOG = logging.getLogger(__name__)
# The longest wait of an iteration for the loop of its readers.
_READERS_SECONDS = 0.5
_STEPPING = (EngineState.RUNNING, EngineState.DRAINING)


class EngineThread:
    """Runs an engine in the background: `with EngineThread(engine): ...` drains it at the end.

    A failure of the model is logged and ends the thread. All streams have then ended with the
    error, and later submissions raise `EngineDeadError`.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # A daemon, so that the process can end although a model hangs.
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: the thread was started before.
        """
        # From now on, the thread that stepped before may wait for chunks.
        self.engine.thread_id = None
        self._thread.start()

    def shutdown(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """Take no more requests, end the running and waiting requests, and stop the thread.

        Args:
            drain: let requests finish; otherwise they are cancelled at once.
            timeout: seconds to wait before requests are cancelled, and then again for the end.

        Returns:
            Whether the thread has stopped. A thread that is stuck in its model keeps running.
        """
        if self._thread.ident is None:
            # It was never started. Submitted requests are cancelled, without the model.
            self.engine.shutdown(drain=False)
            return True
        self.engine.drain(cancel=not drain)
        self._thread.join(timeout)
        if self._thread.is_alive():
            self.engine.drain(cancel=True)
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def __enter__(self) -> "EngineThread":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown(drain=kind is None)

    def _run(self) -> None:
        engine = self.engine
        try:
            while engine.state in _STEPPING:
                if not self._step():
                    engine.wait_for_work()
                engine.wait_for_readers(_READERS_SECONDS)
        except BaseException:
            _LOG.exception("the engine has failed")

    def _step(self) -> bool:
        try:
            return self.engine.step()
        except EngineStateError:
            if self.engine.state is EngineState.FAILED:
                raise
            # Another thread is running an iteration.
            self.engine.wait_for_work(0.01)
            return True
