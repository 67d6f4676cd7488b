"""What a submitter gets for each request: its answer as a whole, once it is there."""

from concurrent.futures import Future

from mini_vllm.engine.request import CompletionOutput, Response


class Handle:
    """A request that was taken in. Any thread.

    Attributes:
        request_id: its name.
        future: of the response; for asyncio, `await asyncio.wrap_future(handle.future)`.
            Cancelling that stops the waiting, `cancel` the generation.
        is_cancelled: whether its end was asked for.
    """

    def __init__(self, request_id: str, choices: int) -> None:
        self.request_id = request_id
        self.future: Future[Response] = Future()
        self.future.set_running_or_notify_cancel()
        self._outputs: list[CompletionOutput | None] = [None] * choices
        self.is_cancelled = False

    def cancel(self) -> None:
        """Ask for the end of all choices. The response comes as usual, with what there is."""
        self.is_cancelled = True

    def result(self, timeout: float | None = None) -> Response:
        """Wait for the response; return it.

        Args:
            timeout: seconds, or None for as long as it takes.

        Raises:
            TimeoutError: it is not there in time.
            EngineDeadError: the engine failed.
        """
        return self.future.result(timeout)

    def add(self, output: CompletionOutput) -> None:
        """Take a finished choice. The engine's thread."""
        self._outputs[output.index] = output
        outputs = [one for one in self._outputs if one is not None]
        if len(outputs) == len(self._outputs):
            self.future.set_result(Response(tuple(outputs)))

    def fail(self, error: BaseException) -> None:
        """End the waiting with an error. The engine's thread."""
        if not self.future.done():
            self.future.set_exception(error)
