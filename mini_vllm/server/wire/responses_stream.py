"""Answers of `/v1/responses` on the wire: a list of items, streamed event by event, or whole.

An item is a message, reasoning, or a call. In a stream, each item is added, grows by deltas and is
done before the next item is added; every event has a name and a number. The last event has the
whole response, made of the same items, so a streamed and a whole answer cannot disagree. Calls that
break off are the exception: in a whole answer they are text, as in a chat.

Unlike a chat, the stream has no `[DONE]`: its last event is `response.completed`,
`response.incomplete` or `response.failed`.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from time import time
from typing import Any

from mini_vllm.engine import CompletionOutput, FinishReason, StreamChunk
from mini_vllm.engine.whole_calls import of_first_call, without_text
from mini_vllm.server.wire.api_errors import ApiError, broken_off, encode_line
from mini_vllm.server.wire.chat_delta import (
    encodable,
    kind_of,
    new_call_id,
    texts_of,
)
from mini_vllm.server.wire.white_space import WhiteSpaceStrip
from mini_vllm.text.events import CallEnd, CallStart, Event, ReasoningDelta, TextDelta


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The part of a response that is known before its first token.

    Attributes:
        fields: the fields of the response that never change.
        prompt_tokens: how many tokens the prompt has.
        count: returns how many tokens a text has.
        store: stores the items of the finished response, or None.
    """

    fields: Mapping[str, Any]
    prompt_tokens: int
    count: Callable[[str], int]
    store: Callable[[Sequence[dict[str, Any]]], None] | None = None


@dataclass(frozen=True, slots=True)
class _Form:
    """The form in which one kind of item is written.

    Attributes:
        prefix: of the item's ids.
        events: the name of its deltas, before `.delta` and `.done`.
        grows: the field of its text.
        head: its fields that never change.
        part: the fields of its single part, or None for an item without parts.
        delta: further fields of its deltas.
    """

    prefix: str
    events: str
    grows: str
    head: Mapping[str, Any]
    part: Mapping[str, Any] | None = None
    delta: Mapping[str, Any] = field(default_factory=dict)


_MESSAGE = _Form(
    "msg",
    "response.output_text",
    "text",
    {"type": "message", "role": "assistant"},
    {"type": "output_text", "annotations": [], "logprobs": []},
    {"logprobs": []},
)
_REASONING = _Form(
    "rs",
    "response.reasoning_text",
    "text",
    {"type": "reasoning", "summary": []},
    {"type": "reasoning_text"},
)
_FORMS: dict[type[Event], _Form] = {TextDelta: _MESSAGE, ReasoningDelta: _REASONING}


def new_item_id(prefix: str) -> str:
    """Return an id for an item."""
    return f"{prefix}_{secrets.token_hex(12)}"


class _OpenItem:
    """The item that is growing; its methods return events, without their numbers."""

    def __init__(self, form: _Form, id: str, index: int) -> None:
        self.form = form
        self._id = id
        self._index = index
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """The text of the item so far."""
        return "".join(self._texts)

    def value(self, status: str, *, opening: bool = False) -> dict[str, Any]:
        """Return the item in the API's form; with `opening`, it has no part yet."""
        item = {**self.form.head, "id": self._id, "status": status}
        if self.form.part is None:
            return {**item, self.form.grows: self.text}
        return {**item, "content": [] if opening else [self._part()]}

    def added(self) -> list[dict[str, Any]]:
        """Return the events that open the item."""
        item = self.value("in_progress", opening=True)
        events = [{"type": "response.output_item.added", "output_index": self._index, "item": item}]
        if self.form.part is not None:
            events.append(self._event("response.content_part.added", part=self._part()))
        return events

    def delta(self, text: str) -> dict[str, Any]:
        """Add text to the item; return the event."""
        self._texts.append(text)
        return self._event(f"{self.form.events}.delta", delta=text, **self.form.delta)

    def done(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the events that close the item, with its final value."""
        fields = {self.form.grows: self.text, **self.form.delta}
        if self.form.part is None:
            fields["name"] = self.form.head["name"]
        events = [self._event(f"{self.form.events}.done", **fields)]
        if self.form.part is not None:
            events.append(self._event("response.content_part.done", part=self._part()))
        done = {"type": "response.output_item.done", "output_index": self._index, "item": item}
        return [*events, done]

    def _part(self) -> dict[str, Any]:
        return {**(self.form.part or {}), self.form.grows: self.text}

    def _event(self, type: str, **fields: Any) -> dict[str, Any]:
        event = {"type": type, "item_id": self._id, "output_index": self._index, **fields}
        return event if self.form.part is None else {**event, "content_index": 0}


class ResponseItems:
    """Turns the events of an answer into items, and into the events of a stream.

    A call that breaks off is an incomplete item, and the rest of the model's text becomes a
    message, so nothing is lost.

    Args:
        parallel_tool_calls: false drops all calls but the first.
        only_calls: leave out all text, because a grammar allows only calls.
        strip: leave out the white space around calls; see `WhiteSpaceStrip`.
        new_id: makes ids of items, by their prefix.

    Attributes:
        output: the finished items, in the API's form.
    """

    def __init__(
        self,
        *,
        parallel_tool_calls: bool = True,
        only_calls: bool = False,
        strip: bool = False,
        new_id: Callable[[str], str] = new_item_id,
    ) -> None:
        self._parallel = parallel_tool_calls
        self._only_calls = only_calls
        self._strip = WhiteSpaceStrip() if strip else None
        self._new_id = new_id
        self._open: _OpenItem | None = None
        self.output: list[dict[str, Any]] = []

    def feed(self, events: Iterable[Event], *, finished: bool) -> list[dict[str, Any]]:
        """Return the stream's events for the next events of the answer.

        Args:
            events: the next ones.
            finished: whether they are the last.
        """
        if not self._parallel:
            events = of_first_call(events)
        if self._only_calls:
            events = without_text(events)
        if self._strip is not None:
            events = self._strip.feed(events, finished=finished)
        news: list[dict[str, Any]] = []
        for (kind, _), run in groupby(events, kind_of):
            if kind is CallStart:
                for start in run:
                    news += self._add(_call_form(start))
            elif kind is CallEnd:
                news += self.close("completed")
            elif text := "".join(texts_of(run)):
                form = _FORMS.get(kind)
                if form is not None and (self._open is None or self._open.form is not form):
                    news += self._add(form)
                assert self._open is not None
                news.append(self._open.delta(text))
        return news

    def close(self, status: str = "") -> list[dict[str, Any]]:
        """Close the open item, if there is one.

        Args:
            status: of the item; by default a call is incomplete and any other item is completed.
        """
        item, self._open = self._open, None
        if item is None:
            return []
        default = "incomplete" if item.form.part is None else "completed"
        self.output.append(item.value(status or default))
        return item.done(self.output[-1])

    def reasoning(self) -> str:
        """Return all reasoning."""
        items = [item for item in self.output if item["type"] == "reasoning"]
        return "".join(part["text"] for item in items for part in item["content"])

    def _add(self, form: _Form) -> list[dict[str, Any]]:
        news = self.close()
        self._open = _OpenItem(form, self._new_id(form.prefix), len(self.output))
        return news + self._open.added()


def _call_form(start: Event) -> _Form:
    assert isinstance(start, CallStart)
    head = {
        "type": "function_call",
        "call_id": encodable(start.id) if start.id else new_call_id(),
        "name": encodable(start.name),
    }
    return _Form("fc", "response.function_call_arguments", "arguments", head)


class ResponsesStream:
    """The events of a streamed response; see `Events`, and `ResponseItems` for the options."""

    def __init__(self, head: ResponseHead, **options: Any) -> None:
        self._head = head
        self._items = ResponseItems(**options)
        self._output_tokens = 0
        self._reason = FinishReason.NOT_FINISHED
        self._sent = 0
        self._closed = False

    def start(self) -> bytes:
        """Return the events before any token."""
        response = _response(self._head, "in_progress")
        return self._frames(
            [
                {"type": f"response.{what}", "response": response}
                for what in ("created", "in_progress")
            ]
        )

    def feed(self, index: int, chunk: StreamChunk) -> bytes:
        """Return the events of a chunk; the only choice has the index 0."""
        if self._closed:
            return b""
        self._output_tokens += len(chunk.token_ids)
        frames = self._frames(self._items.feed(chunk.all_events, finished=chunk.finished))
        if not chunk.finished:
            return frames
        if not chunk.reason.is_complete:
            return frames + self.error(broken_off(chunk.reason))
        self._reason = chunk.reason
        return frames + self._frames(_close(self._items, chunk.reason))

    def end(self) -> bytes:
        """Return the last event, with the whole response; `b""` after an error."""
        if self._closed:
            return b""
        if self._reason is FinishReason.NOT_FINISHED:
            return self.error(ApiError(500, "the stream ended before the answer was complete"))
        response = _ended(self._head, self._items, self._reason, self._output_tokens)
        return self._last(response)

    def error(self, error: ApiError) -> bytes:
        """Return the events that end the stream with an error; `b""` if it has ended already."""
        if self._closed:
            return b""
        frames = self._frames(self._items.close("incomplete"))
        response = _response(
            self._head,
            "failed",
            output=self._items.output,
            error={"code": "server_error", "message": error.message},
        )
        return frames + self._last(response)

    def _last(self, response: dict[str, Any]) -> bytes:
        self._closed = True
        return self._frames([{"type": f"response.{response['status']}", "response": response}])

    def _frames(self, events: Sequence[dict[str, Any]]) -> bytes:
        frames = []
        for event in events:
            line = encode_line({**event, "sequence_number": self._sent})
            frames.append(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), line))
            self._sent += 1
        return b"".join(frames)


def whole_response(head: ResponseHead, output: CompletionOutput, **options: Any) -> dict[str, Any]:
    """Return the response made of a finished answer; see `ResponseItems` for the options.

    Raises:
        ApiError: 500 or 502; the answer was cut short.
    """
    if not output.finish_reason.is_complete:
        raise broken_off(output.finish_reason, output.error)
    items = ResponseItems(**options)
    items.feed(output.events, finished=True)
    _close(items, output.finish_reason)
    return _ended(head, items, output.finish_reason, len(output.token_ids))


def _close(items: ResponseItems, reason: FinishReason) -> list[dict[str, Any]]:
    return items.close("incomplete" if reason is FinishReason.LENGTH else "")


def _ended(
    head: ResponseHead, items: ResponseItems, reason: FinishReason, output_tokens: int
) -> dict[str, Any]:
    reasoning = items.reasoning()
    usage = {
        "input_tokens": head.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        # Counted by its text, because no layer records which ids were read as reasoning.
        "output_tokens_details": {
            "reasoning_tokens": min(head.count(reasoning), output_tokens) if reasoning else 0
        },
        "total_tokens": head.prompt_tokens + output_tokens,
    }
    cut = reason is FinishReason.LENGTH
    if head.store is not None:
        head.store(items.output)
    return _response(
        head,
        "incomplete" if cut else "completed",
        output=items.output,
        usage=usage,
        incomplete_details={"reason": "max_output_tokens"} if cut else None,
        completed_at=None if cut else int(time()),
    )


def _response(head: ResponseHead, status: str, **fields: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"error": None, "incomplete_details": None, "output": [], "usage": None}
    return {**head.fields, "status": status, **empty, **fields}
