"""From requests to rows that can run: ids, limits and text paths, checked before anything runs."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import NamedTuple
from uuid import uuid4

from mini_vllm.engine.channel import StreamChannel
from mini_vllm.engine.engine_errors import StreamingSubmissionError
from mini_vllm.engine.handle import Handle
from mini_vllm.engine.model import SlotView
from mini_vllm.engine.producer import OverflowPolicy
from mini_vllm.engine.request import Request
from mini_vllm.engine.sequence import SequenceState
from mini_vllm.engine.slot_stream import SlotStreamState
from mini_vllm.engine.text_path import MakeTextPath
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer_errors import TokenizerError

Row = tuple[SequenceState, SlotStreamState]


class Submitted(NamedTuple):
    """A request that was checked, with a row for each of its choices."""

    handle: Handle
    rows: list[Row]


class Intake:
    """Makes rows of requests. Any thread.

    Args:
        tokenizer: encodes prompts.
        make_text_path: makes the text path of a choice.
        why_never: says why a choice could never run, or None.
        may_block: whether a channel may hold the engine up.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        make_text_path: MakeTextPath,
        why_never: Callable[[SequenceState], str | None],
        *,
        may_block: bool,
    ) -> None:
        self._tokenizer = tokenizer
        self._make_text_path = make_text_path
        self._why_never = why_never
        self._may_block = may_block
        self._piece_of = _pieces_of(tokenizer)

    def prepare(
        self, requests: Sequence[Request], channels: Sequence[StreamChannel | None]
    ) -> list[Submitted]:
        """Return what can run, for each request. Nothing is attached yet.

        Args:
            requests: what was asked.
            channels: one, or None, for each choice.

        Raises:
            StreamingSubmissionError: a request cannot run; the index is its place.
        """
        places = iter(enumerate(channels))
        return [
            self._prepare(index, request, list(itertools.islice(places, request.params.n)))
            for index, request in enumerate(requests)
        ]

    def _prepare(
        self, index: int, request: Request, places: list[tuple[int, StreamChannel | None]]
    ) -> Submitted:
        try:
            prompt = self._encode(request.prompt)
            handle = Handle(request.request_id or f"request-{uuid4().hex}", len(places))
            rows = [
                self._row(request, prompt, handle, choice, place, channel)
                for choice, (place, channel) in enumerate(places)
            ]
        except (ValueError, TypeError, TokenizerError) as error:
            raise StreamingSubmissionError(index, str(error)) from error
        return Submitted(handle, rows)

    def _row(
        self,
        request: Request,
        prompt: tuple[int, ...],
        handle: Handle,
        choice: int,
        place: int,
        channel: StreamChannel | None,
    ) -> Row:
        params = request.params
        if channel is not None:
            if channel.overflow is OverflowPolicy.BLOCK and not self._may_block:
                raise ValueError(
                    "a channel with the policy BLOCK would hold up the other slots: "
                    "use max_num_seqs=1, or another policy"
                )
            if not channel.skip_special_tokens:
                request = replace(request, params=replace(params, skip_special_tokens=False))
        eos = frozenset() if params.ignore_eos else self._tokenizer.eos_token_ids
        sequence = SequenceState(
            SlotView(handle.request_id, choice, prompt, params),
            end_ids=eos | params.stop_token_ids,
            original_batch_idx=place,
        )
        never = self._why_never(sequence)
        if never is not None:
            raise ValueError(never)
        text_path = self._make_text_path(request, prompt)
        return sequence, SlotStreamState(text_path, handle, params, self._piece_of, monotonic())

    def _encode(self, prompt: str | tuple[int, ...]) -> tuple[int, ...]:
        if isinstance(prompt, str):
            ids = self._tokenizer.encode(prompt, add_special_tokens=True).ids
        else:
            ids = tuple(prompt)
            for token_id in ids:
                if not isinstance(token_id, int) or not 0 <= token_id < self._tokenizer.vocab_size:
                    raise ValueError(
                        f"prompt id {token_id!r} is not in the vocabulary: "
                        f"ids are 0 to {self._tokenizer.vocab_size - 1}"
                    )
        if not ids:
            raise ValueError("the prompt is empty: give it at least one token")
        return ids


def _pieces_of(tokenizer: Tokenizer) -> Callable[[int], bytes]:
    """Return a function from an id to its bytes."""
    table = tokenizer.pieces
    if table is None:
        return lambda token_id: (tokenizer.id_to_token(token_id) or "").encode("utf-8", "replace")

    def piece_of(token_id: int) -> bytes:
        return (table.rest[token_id] or b"") if 0 <= token_id < len(table.rest) else b""

    return piece_of
