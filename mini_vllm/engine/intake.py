"""Accepting a submission: all of it, or nothing.

    validate_streaming_submission -> Intake.prepare -> attach_all, or refuse

A fault of a request or a channel is detected before any choice runs. The channels of a refused
submission are ended with the error, so that a reader that is already waiting returns. A channel
that belongs to another request is left alone.
"""

import itertools
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from secrets import token_hex
from time import monotonic
from typing import NamedTuple

from mini_vllm.engine.channel import StreamChannel, attach
from mini_vllm.engine.core import ChoiceRow
from mini_vllm.engine.engine_errors import (
    ChannelStateError,
    ContextLengthError,
    StreamingSubmissionError,
)
from mini_vllm.engine.model import SlotView
from mini_vllm.engine.outputs import Handle
from mini_vllm.engine.pipe import OverflowPolicy, Owner, Pipe
from mini_vllm.engine.request import Request
from mini_vllm.engine.scheduler import ChoiceState, Row, check_at_least_1
from mini_vllm.engine.slot_stream import SlotStreamState
from mini_vllm.engine.structured_output_manager import CompileGrammar, MissingBackendError
from mini_vllm.engine.text_path import MakeTextPath
from mini_vllm.finish_reason import FinishReason
from mini_vllm.tokenizer.ids import plain_ids
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer_errors import TokenizerError

Channels = Sequence[StreamChannel | None]

# Faults of a request; any other exception is a fault of the engine.
_REFUSALS = ValueError, TypeError, TokenizerError, MissingBackendError, ContextLengthError

# One lock for all engines, because a channel could be given to two engines. Without the lock, each
# of two submissions could take a channel that the other needs.
_LOCK = threading.Lock()


def validate_streaming_submission(requests: Sequence[Request], channels: Channels | None) -> None:
    """Check that there is one channel, or None, for each choice of each request, in their order.

    None instead of a list, or an empty list, means that no choice has a reader.

    Raises:
        StreamingSubmissionError: there are too many or too few channels; or an entry is not a
            channel, is given twice, already belongs to a request, or has ended. The index is the
            first such place.
    """
    if isinstance(channels, StreamChannel):
        raise StreamingSubmissionError(0, "channels is one channel: give a list of channels")
    if not channels:
        return
    choices = sum(request.params.n for request in requests)
    if len(channels) != choices:
        raise StreamingSubmissionError(
            min(len(channels), choices),
            f"{len(channels)} channels for {choices} choices: give a channel or None for each",
        )
    seen: set[int] = set()
    for index, channel in enumerate(channels):
        if channel is None:
            continue
        if not isinstance(channel, StreamChannel):
            raise StreamingSubmissionError(
                index, f"{channel!r} is not a channel: give a StreamChannel, or None"
            )
        if id(channel) in seen:
            raise StreamingSubmissionError(index, "the same channel is given twice")
        if channel.is_finished or channel.is_attached:
            raise StreamingSubmissionError(index, "the channel was used before: make a new one")
        seen.add(id(channel))


def attach_all(channels: Channels, owner: Owner) -> list[Pipe | None]:
    """Attach all channels; if a channel cannot be attached, end those before it with the error.

    Raises:
        StreamingSubmissionError: another submission has attached one of the channels first.
    """
    pipes: list[Pipe | None] = []
    with _LOCK:
        try:
            for index, channel in enumerate(channels):
                pipes.append(None if channel is None else attach(channel, index, owner))
        except BaseException as error:
            refusal = error
            if isinstance(error, ChannelStateError):
                refusal = StreamingSubmissionError(len(pipes), str(error))
            for pipe in pipes:
                if pipe is not None:
                    pipe.finish(FinishReason.ERROR, refusal)
            raise refusal from None
    return pipes


def refuse(channels: Channels | None, owner: Owner, error: BaseException) -> None:
    """End the fresh channels of a refused submission with the error."""
    # A single channel would be iterated, and waited for.
    several = [channels] if isinstance(channels, StreamChannel) else channels or ()
    with _LOCK:
        for index, channel in enumerate(several):
            if isinstance(channel, StreamChannel):
                with suppress(ChannelStateError):
                    attach(channel, index, owner).finish(FinishReason.ERROR, error)


class Submitted(NamedTuple):
    """A checked request, with a row for each of its choices."""

    handle: Handle
    rows: list[ChoiceRow]


class Intake:
    """Makes rows of requests. Any thread.

    Args:
        tokenizer: encodes prompts.
        make_text_path: makes the text path of a choice.
        max_model_len: most tokens of a prompt and its answer together.
        max_num_batched_tokens: most prompt tokens that one iteration takes in.
        may_block: whether a channel may make the engine wait.
        compile_grammar: compiles structured outputs; None if the model enforces them itself.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        make_text_path: MakeTextPath,
        *,
        max_model_len: int,
        max_num_batched_tokens: int,
        may_block: bool,
        compile_grammar: CompileGrammar | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._compile_grammar = compile_grammar
        self._make_text_path = make_text_path
        check_at_least_1(max_model_len=max_model_len)
        self._max_model_len = max_model_len
        self._max_num_batched_tokens = max_num_batched_tokens
        self._may_block = may_block
        self._piece_of = pieces_of(tokenizer)

    def room_after(self, prompt_tokens: int, max_tokens: int = 1) -> int:
        """Return how many tokens the answer to a prompt may have.

        Args:
            prompt_tokens: the tokens of the prompt.
            max_tokens: the tokens that the answer must have room for.

        Raises:
            ContextLengthError: prompt and answer do not fit together; `prepare` refuses them.
        """
        room = self._max_model_len - prompt_tokens
        if room < max_tokens:
            raise ContextLengthError(self._max_model_len, prompt_tokens, max_tokens)
        return room

    def prepare(self, requests: Sequence[Request], channels: Channels) -> list[Submitted]:
        """Return each request with its rows, ready to run. No channel is attached yet.

        Args:
            requests: the requests of the submission.
            channels: a channel, or None, for each choice.

        Raises:
            StreamingSubmissionError: a request cannot run; the index is its place.
        """
        left = iter(channels)
        return [
            self._prepare(index, request, list(itertools.islice(left, request.params.n)))
            for index, request in enumerate(requests)
        ]

    def _prepare(self, index: int, request: Request, channels: Channels) -> Submitted:
        try:
            prompt = self._encode(request.prompt)
            self._check_length(len(prompt), request.params.max_tokens)
            handle = Handle(request.request_id or f"request-{token_hex(16)}", len(channels))
            rows = [
                self._row(request, prompt, handle, place, channel)
                for place, channel in enumerate(channels)
            ]
        except _REFUSALS as error:
            raise StreamingSubmissionError(index, str(error)) from error
        return Submitted(handle, rows)

    def _row(
        self,
        request: Request,
        prompt: tuple[int, ...],
        handle: Handle,
        place: int,
        channel: StreamChannel | None,
    ) -> ChoiceRow:
        params = request.params
        if channel is not None:
            if channel.overflow is OverflowPolicy.BLOCK and not self._may_block:
                raise ValueError(
                    "a channel with the policy BLOCK would delay the other slots: "
                    "use max_num_seqs=1, or another policy"
                )
            if not channel.skip_special_tokens:
                request = replace(request, params=replace(params, skip_special_tokens=False))
        eos = frozenset() if params.ignore_eos else self._tokenizer.eos_token_ids
        view = SlotView(handle.request_id, place, prompt, params)
        if params.structured_outputs is not None and self._compile_grammar is not None:
            view.grammar = self._compile_grammar(params.structured_outputs)
        choice = ChoiceState(view, eos | params.stop_token_ids)
        text_path = self._make_text_path(request, prompt)
        stream = SlotStreamState(text_path, handle, request, self._piece_of, monotonic())
        return Row(choice, stream)

    def _check_length(self, prompt_tokens: int, max_tokens: int) -> None:
        """Refuse a request that could never run, however many slots and blocks are free."""
        if prompt_tokens > self._max_num_batched_tokens:
            raise ValueError(
                f"the prompt has {prompt_tokens} tokens; an iteration takes in at most "
                f"max_num_batched_tokens, {self._max_num_batched_tokens}"
            )
        self.room_after(prompt_tokens, max_tokens)

    def _encode(self, prompt: str | tuple[int, ...]) -> tuple[int, ...]:
        if isinstance(prompt, str):
            ids = self._tokenizer.encode(prompt, add_special_tokens=True, allowed_special="all").ids
        else:
            ids = tuple(plain_ids(prompt))
            for token_id in ids:
                if not isinstance(token_id, int) or not 0 <= token_id < self._tokenizer.vocab_size:
                    raise ValueError(
                        f"prompt id {token_id!r} is not in the vocabulary: "
                        f"ids are 0 to {self._tokenizer.vocab_size - 1}"
                    )
        if not ids:
            raise ValueError("the prompt is empty: give it at least one token")
        return ids


def pieces_of(tokenizer: Tokenizer) -> Callable[[int], bytes]:
    """Return a function from an id to its bytes."""
    table = tokenizer.pieces
    if table is None:
        return lambda token_id: (tokenizer.id_to_token(token_id) or "").encode("utf-8", "replace")

    def piece_of(token_id: int) -> bytes:
        return (table.rest[token_id] or b"") if 0 <= token_id < len(table.rest) else b""

    return piece_of
