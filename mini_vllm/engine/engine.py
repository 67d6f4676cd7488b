"""The engine's interface: requests in, chunks out, and `step()` for the thread that drives it.

Any thread submits and cancels; one thread steps, such as an `EngineThread`. Both use the inbox of
submissions and the channels. Slots, blocks, ids and text belong to the stepping thread and need no
lock. A model is any object that returns ids.
"""

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from mini_vllm.engine.constrained_model import ConstrainedModel
from mini_vllm.engine.core import ChoiceRow, EngineCore, NullMetrics, close_channels
from mini_vllm.engine.engine_errors import (
    EngineDeadError,
    EngineOverloadedError,
    EngineStateError,
    StreamingSubmissionError,
)
from mini_vllm.engine.intake import (
    Channels,
    Intake,
    Submitted,
    attach_all,
    refuse,
    validate_streaming_submission,
)
from mini_vllm.engine.model import Model, forwards_structured_outputs
from mini_vllm.engine.outputs import Handle, Response
from mini_vllm.engine.request import Request
from mini_vllm.engine.scheduler import KVBlockPool, Scheduler
from mini_vllm.engine.slot_stream import SlotStreamState
from mini_vllm.engine.structured_output_manager import StructuredOutputManager
from mini_vllm.engine.text_path import MakeTextPath
from mini_vllm.engine.text_path_factory import TextPathFactory
from mini_vllm.tokenizer.adapter import as_tokenizer
from mini_vllm.tokenizer.protocols import Tokenizer

# How many chunks may be pending for the loop of their readers, for each reader or in all. Waking
# the loop for every chunk would cost more than the chunk, and one reader's chunks go out together.
_MOST_AHEAD_EACH = 4
_MOST_AHEAD = 256
# A channel joins chunks if twice as many are pending.
_MOST_AHEAD_ALONE = 128


class EngineState(Enum):
    """RUNNING takes requests, DRAINING only finishes them; CLOSED and FAILED are final."""

    RUNNING = "running"
    DRAINING = "draining"
    FAILED = "failed"
    CLOSED = "closed"


# Looking up an enum member takes Python 3.11 as long as a call does.
_DRAINING = EngineState.DRAINING


@dataclass(frozen=True, slots=True)
class EngineStats:
    """The engine's state at the end of an iteration.

    Attributes:
        running: choices with a slot.
        waiting: choices without a slot.
        used_blocks: KV blocks in use.
        held: how much each layer of the text path holds, over all slots: characters, or bytes for a
            layer that holds bytes.
    """

    running: int
    waiting: int
    used_blocks: int
    held: Mapping[str, int]


class Engine:
    """Requests in, chunks out.

    Args:
        model: makes ids.
        tokenizer: encodes prompts; its vocabulary determines which ids are known. It may also be a
            tokenizer of the `tokenizers` library.
        max_num_seqs: how many slots there are, so how many choices run at the same time.
        num_blocks: how many KV blocks there are.
        block_size: tokens in a block.
        max_model_len: most tokens of a prompt and its answer together; by default as many as the
            blocks hold.
        max_num_batched_tokens: most prompt tokens that one iteration takes in; by default as many
            as one choice may have.
        max_waiting: most choices that wait for a slot, or None for any number.
        make_text_path: makes the text path of a choice; by default a `TextPipeline`.
        hooks: functions by the names in `core.HOOKS`, called at those points of each iteration.
        metrics: receives reports.

    Attributes:
        state: whether the engine takes requests.
        intake: checks requests.
        structured_outputs: compiles grammars over this tokenizer's vocabulary.
        forwards_grammars: whether the model forwards grammars to another server.
        thread_id: of the thread that stepped last.

    Raises:
        ValueError: a number is below 1 (`max_waiting`: below 0), or a hook has an unknown name.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        *,
        max_num_seqs: int = 8,
        num_blocks: int = 256,
        block_size: int = 16,
        max_model_len: int | None = None,
        max_num_batched_tokens: int | None = None,
        max_waiting: int | None = None,
        make_text_path: MakeTextPath | None = None,
        hooks: Mapping[str, Callable[[], object]] | None = None,
        metrics: NullMetrics | None = None,
    ) -> None:
        tokenizer = as_tokenizer(tokenizer)
        self._pool = KVBlockPool(num_blocks, block_size)
        room = num_blocks * block_size
        self.max_model_len = room if max_model_len is None else min(max_model_len, room)
        self.max_num_seqs = max_num_seqs
        if max_num_batched_tokens is None:
            max_num_batched_tokens = self.max_model_len
        if max_waiting is not None and max_waiting < 0:
            raise ValueError(f"max_waiting is {max_waiting}; it must be at least 0, or None")
        self._max_waiting = max_waiting
        self.structured_outputs = StructuredOutputManager(tokenizer)
        self.forwards_grammars = forwards_structured_outputs(model)
        self.intake = Intake(
            tokenizer,
            make_text_path or TextPathFactory(tokenizer),
            max_model_len=self.max_model_len,
            max_num_batched_tokens=max_num_batched_tokens,
            may_block=max_num_seqs == 1,
            compile_grammar=None if self.forwards_grammars else self.structured_outputs.compile,
        )
        self._scheduler: Scheduler[SlotStreamState] = Scheduler(
            self._pool, max_num_seqs, max_num_batched_tokens
        )
        self._core = EngineCore(
            model if self.forwards_grammars else ConstrainedModel(model),
            self._scheduler,
            tokenizer.vocab_size,
            on_end=self._ended,
            hooks=hooks or {},
            metrics=metrics or NullMetrics(),
        )
        self.state = EngineState.RUNNING
        self.thread_id: int | None = None
        self._failure: BaseException | None = None
        # For the state that submitters use.
        self._lock = threading.Lock()
        self._inbox: list[ChoiceRow] = []
        # How many choices have not ended: of each request, and of all requests.
        self._live: dict[str, int] = {}
        self._live_choices = 0
        self._cancelling_all = False
        self._wake = threading.Event()
        # For the table of slots: held during an iteration, and by `stats`.
        self._table_lock = threading.RLock()
        self._stepping = threading.Lock()

    @property
    def has_work(self) -> bool:
        """Whether a choice runs or waits."""
        return bool(self._live)

    def submit(self, requests: Sequence[Request], channels: Channels | None = None) -> list[Handle]:
        """Submit requests. Any thread may call this.

        Args:
            requests: what to generate.
            channels: a channel for each choice of each request, in their order, or None for a
                choice without a reader. Without the argument no choice has a reader.

        Returns:
            For each request, the handle that will have its response.

        Raises:
            StreamingSubmissionError: a request or a channel is at fault; nothing was submitted, and
                fresh channels are ended with the error.
            EngineOverloadedError: too many choices already wait; likewise.
            EngineStateError: the engine takes no more requests; likewise.
            EngineDeadError: the engine has failed; likewise.
        """
        return [submission.handle for submission in self._submit(requests, channels)]

    def step(self) -> bool:
        """Run one iteration; return whether any choice still runs or waits.

        An exception of the model ends every stream with an error, and is raised again here.

        Raises:
            EngineStateError: another thread is running an iteration.
            EngineDeadError: the engine has failed before.
        """
        if not self._stepping.acquire(blocking=False):
            raise EngineStateError("another thread runs an iteration at this moment")
        try:
            self._check_alive()
            self.thread_id = threading.get_ident()
            with self._table_lock:
                try:
                    if self._inbox:
                        self._take_inbox()
                    self._core.iterate(cancel_all=self._cancelling_all)
                except BaseException as error:
                    self._fail(error)
                    raise
            if self.state is _DRAINING:
                with self._lock:
                    if not self._live:
                        self.state = EngineState.CLOSED
                        self._wake.set()
            return self.has_work
        finally:
            self._stepping.release()

    def run_until_idle(self, max_steps: int | None = 10_000) -> bool:
        """Step at most `max_steps` times until every choice has ended; return whether any is left.

        None for `max_steps` sets no limit.
        """
        for _ in itertools.count() if max_steps is None else range(max_steps):
            if not self.step():
                return False
        return self.has_work

    def handle_request(
        self, requests: Sequence[Request], channels: Channels | None = None
    ) -> Response:
        """Submit, step on this thread until these requests have ended; return all their choices.

        Raises:
            StreamingError: as `submit` does.
            BaseException: the model raised it, or it interrupted this call.
        """
        submitted = self._submit(requests, channels)
        rows = [row for submission in submitted for row in submission.rows]
        try:
            while not all(submission.handle.future.done() for submission in submitted):
                self.step()
        except BaseException as error:
            # Another thread may be in the middle of an iteration with them.
            with self._table_lock:
                close_channels(rows, error)
            raise
        return Response(
            tuple(out for submission in submitted for out in submission.handle.result().outputs)
        )

    def drain(self, *, cancel: bool = False) -> None:
        """Take no more requests, and close once all submitted requests have ended. Any thread.

        Args:
            cancel: cancel these requests at the next iteration.
        """
        with self._lock:
            self._cancelling_all = self._cancelling_all or cancel
            if self.state is EngineState.RUNNING:
                self.state = EngineState.DRAINING if self._live else EngineState.CLOSED
        self._wake.set()

    def shutdown(self, drain: bool = True) -> None:
        """Take no more requests, and step on this thread until all submitted requests have ended.

        Args:
            drain: let these requests finish; otherwise they are cancelled.
        """
        self.drain(cancel=not drain)
        while self.state is EngineState.DRAINING:
            self.step()

    def wait_for_work(self, timeout: float | None = None) -> None:
        """Wait until a request was submitted, or `drain` was called, since the last wait.

        It also returns when the engine closes, so that the stepping thread sees that.
        """
        self._wake.wait(timeout)
        self._wake.clear()

    def wait_for_readers(self, seconds: float) -> None:
        """Let the loops of readers run if many chunks are pending or an answer has begun.

        Only the stepping thread may call this.

        Args:
            seconds: the longest wait for each loop.
        """
        slots = self._scheduler.slots
        count = len(slots)
        most_ahead = max(_MOST_AHEAD_EACH * count, min(_MOST_AHEAD, _MOST_AHEAD_ALONE * count))
        if self._core.has_begun:
            # The first text of an answer is sent before more text is made.
            most_ahead = 1
        for row in slots:
            pipe = row.stream.pipe
            waker = None if pipe is None else pipe.waker
            if waker is not None and waker.ahead >= most_ahead:
                waker.wait_for_turn(seconds)

    def stats(self) -> EngineStats:
        """Return the engine's state. Any thread; it waits for an iteration that is running."""
        held: dict[str, int] = {}
        with self._table_lock:
            for row in self._scheduler.slots:
                for layer, text in row.stream.held().items():
                    held[layer] = held.get(layer, 0) + len(text)
            running = self._scheduler.num_running
            waiting = self._live_choices - running
            return EngineStats(running, waiting, self._pool.num_used_blocks, held)

    def _submit(self, requests: Sequence[Request], channels: Channels | None) -> list[Submitted]:
        try:
            validate_streaming_submission(requests, channels)
            places = channels or [None] * sum(request.params.n for request in requests)
            submitted = self.intake.prepare(requests, places)
            with self._lock:
                self._check_takes(submitted)
                rows = [row for submission in submitted for row in submission.rows]
                pipes = attach_all(places, self)
                for row, pipe in zip(rows, pipes, strict=True):
                    row.stream.pipe = pipe
                self._inbox += rows
                self._live.update(
                    {submission.handle.request_id: len(submission.rows) for submission in submitted}
                )
                self._live_choices += len(rows)
        except BaseException as error:
            refuse(channels, self, error)
            raise
        self._wake.set()
        return submitted

    def _check_alive(self) -> None:
        if self.state is EngineState.FAILED:
            raise EngineDeadError(f"the engine has failed: {self._failure!r}") from self._failure

    def _check_takes(self, submitted: Sequence[Submitted]) -> None:
        """Raise if the engine does not take these requests. The caller has the lock."""
        self._check_alive()
        if self.state is not EngineState.RUNNING:
            raise EngineStateError(f"the engine is {self.state.value} and takes no more requests")
        names: set[str] = set()
        choices = self._live_choices
        for index, (handle, rows) in enumerate(submitted):
            if handle.request_id in names or handle.request_id in self._live:
                raise StreamingSubmissionError(
                    index, f"request_id {handle.request_id!r} belongs to a request that runs"
                )
            names.add(handle.request_id)
            choices += len(rows)
            if self._max_waiting is not None and choices > self.max_num_seqs + self._max_waiting:
                raise EngineOverloadedError(
                    index, f"all {self._max_waiting} places to wait are taken: try again later"
                )

    def _take_inbox(self) -> None:
        with self._lock:
            rows, self._inbox = self._inbox, []
        for row in rows:
            self._scheduler.add(row)

    def _ended(self, request_id: str) -> None:
        with self._lock:
            self._live_choices -= 1
            self._live[request_id] -= 1
            if not self._live[request_id]:
                del self._live[request_id]

    def _fail(self, error: BaseException) -> None:
        """End every choice with an error; the engine stays failed."""
        with self._lock:
            self.state, self._failure = EngineState.FAILED, error
            self._live, self._live_choices = {}, 0
        self._take_inbox()
        self._core.fail(error)
