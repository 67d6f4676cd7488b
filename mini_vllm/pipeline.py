"""The text path of the engine: token ids in, events for the client out.

Detokenizer, stop strings, reasoning and tool calls, each a layer with a hold of its own and none
knowing the others. What one lets go the next takes in, and at the end the flush runs through all.

But:
- It chooses no tokens and has no clock; whoever does calls `finish`.
- It keeps no ids and no text.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Literal

from mini_vllm.text.events import CallEnd, Event, TextDelta
from mini_vllm.text.stop import StopMatcher
from mini_vllm.text.stream_parser import StreamParser
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer.streams.decode_stream import create_decode_stream

FinishReason = Literal["stop", "length", "tool_calls", "abort", "error"]


class TextPipeline:
    """One request's text path.

    Args:
        tokenizer: makes text of ids.
        prompt_token_ids: what came before; only its end is looked at.
        skip_special_tokens: leave special tokens out. Formats whose markers are special tokens need
            them.
        stop: stop strings.
        stop_token_ids: ids that end the text and are no text themselves.
        eos_token_ids: the same, but `stop_reason` stays None, as clients expect of EOS.
        include_stop_str_in_output: show what stopped.
        min_tokens: a stop whose last character comes with one of the first so many ids does not
            count, and neither do stop ids among them.
        stop_scope: `all`, or `content` to look for stop strings behind the reasoning only.
        reasoning: from `create_reasoning_splitter`, or None.
        tools: from `create_tool_parser`, or None.

    Attributes:
        finish_reason: why the text ended, or None while it runs.
        stop_reason: the stop string or id that ended it, as vLLM reports it.
        tokens: how many ids were taken; those of a burst behind its end are not.

    Raises:
        ValueError: `stop` is a bare str, or a stop string is empty.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        prompt_token_ids: Sequence[int] = (),
        skip_special_tokens: bool = True,
        stop: Iterable[str] = (),
        stop_token_ids: Iterable[int] = (),
        eos_token_ids: Iterable[int] = (),
        include_stop_str_in_output: bool = False,
        min_tokens: int = 0,
        stop_scope: Literal["all", "content"] = "all",
        reasoning: StreamParser | None = None,
        tools: StreamParser | None = None,
    ) -> None:
        self._stream = create_decode_stream(
            tokenizer, prompt_token_ids, skip_special_tokens=skip_special_tokens
        )
        self._step = self._stream.step
        stops = stop if isinstance(stop, str) else tuple(stop)
        self._stop = StopMatcher(
            stops,
            include_stop_str_in_output=include_stop_str_in_output,
            min_end=inf if min_tokens > 0 else 0,
        ) if stops else None  # fmt: skip
        self._stop_first = self._stop if stop_scope == "all" or reasoning is None else None
        self._stop_later = None if self._stop_first else self._stop
        self._eos = frozenset(eos_token_ids)
        self._ends = self._eos | frozenset(stop_token_ids)
        self._include = include_stop_str_in_output
        self._min_tokens = min_tokens
        # How many characters the reasoning splitter took, and how many of the first ids.
        self._taken = 0
        self._early = inf
        self._reasoning = reasoning
        self._tools = tools
        self.finish_reason: FinishReason | None = None
        self.stop_reason: str | int | None = None
        self.tokens = 0

    @property
    def held(self) -> dict[str, str | bytes]:
        """What each layer holds, by name."""
        return {
            "detokenizer": self._stream.held,
            "stop": self._stop.held if self._stop else "",
            "reasoning": self._reasoning.held if self._reasoning else "",
            "tools": self._tools.held if self._tools else "",
        }

    def feed(self, token_ids: Iterable[int]) -> list[Event]:
        """Take ids, any number of them; return the events that are certain now.

        At a stop the text ends: the events then have what the layers still held, later ids of the
        burst are not taken, and every later call returns none.
        """
        events: list[Event] = []
        if self.finish_reason is not None:
            return events
        stop, first = self._stop, self._stop_first
        # The usual request has no reasoning to be split off: its text goes straight to the tools.
        tools = self._tools if self._reasoning is None else None
        for token_id in token_ids:
            self.tokens += 1
            if token_id in self._ends and self.tokens > self._min_tokens:
                self._stop_at(token_id, events)
                break
            text = self._step(token_id)
            if first is not None:
                text = first.feed(text)
            if text:
                if tools is not None:
                    tools.feed_into(text, events)
                else:
                    self._parse(text, events)
            if stop is not None:
                if stop.matched is not None:
                    self._end("stop", events)
                    break
                if self.tokens == self._min_tokens:
                    stop.min_end = stop.length
                    self._early = self._taken
        return events

    def finish(self, reason: FinishReason) -> list[Event]:
        """End the text from outside; return what the layers still held.

        A stop string that the last characters complete makes the reason `stop`. After an end it
        returns no events, and the first reason stays.

        Args:
            reason: why. `stop` becomes `tool_calls` where a call was completed.
        """
        events: list[Event] = []
        if self.finish_reason is None:
            self._end(reason, events)
        return events

    def _stop_at(self, token_id: int, events: list[Event]) -> None:
        self.stop_reason = None if token_id in self._eos else token_id
        if self._include:
            self._pour(self._step(token_id), events)
        self._end("stop", events)

    def _pour(self, text: str, events: list[Event]) -> None:
        """Let text run through the layers behind the detokenizer."""
        if self._stop_first is not None:
            text = self._stop_first.feed(text)
        if text:
            self._parse(text, events)

    def _parse(self, text: str, events: list[Event]) -> None:
        if self._reasoning is None:
            self._answer(text, events)
        else:
            self._taken += len(text)
            self._sort(self._reasoning.feed(text), events)

    def _sort(self, parts: list[Event], events: list[Event]) -> None:
        """Let the answer among the parts run on."""
        stop = self._stop_later
        if stop is not None and self._min_tokens:
            self._count_early(stop, parts)
        for event in parts:
            if not isinstance(event, TextDelta):
                events.append(event)
                continue
            text = event.text if stop is None else stop.feed(event.text)
            if text:
                self._answer(text, events)

    def _count_early(self, stop: StopMatcher, parts: list[Event]) -> None:
        """Say how much of the content came with the first ids; some may have been held so far."""
        content = sum(len(event.text) for event in parts if isinstance(event, TextDelta))
        if content:
            # Reasoning comes first, so the content is the end of what was taken.
            stop.min_end = self._early - (self._taken - content - stop.length)

    def _answer(self, text: str, events: list[Event]) -> None:
        tools = self._tools
        if tools is None:
            events.append(TextDelta(text))
            return
        tools.feed_into(text, events)

    def _end(self, reason: FinishReason, events: list[Event]) -> None:
        """Flush the layers, first to last."""
        self._pour(self._stream.flush(), events)
        if self._stop_first is not None:
            rest = self._stop_first.flush()
            if rest:
                self._parse(rest, events)
        if self._reasoning is not None:
            self._sort(self._reasoning.flush(), events)
        if self._stop_later is not None:
            rest = self._stop_later.flush()
            if rest:
                self._answer(rest, events)
        called = False
        if self._tools is not None:
            called = self._tools.completed > 0
            rest_of_calls = self._tools.flush()
            called = called or any(isinstance(event, CallEnd) for event in rest_of_calls)
            events += rest_of_calls
        if self._stop is not None and self._stop.matched is not None:
            reason, self.stop_reason = "stop", self._stop.matched
        self.finish_reason = "tool_calls" if reason == "stop" and called else reason


def feed_batch(
    pipelines: Sequence[TextPipeline], bursts: Iterable[Iterable[int]]
) -> list[list[Event]]:
    """Let many streams take their ids of one step; return the events of each."""
    return [pipeline.feed(burst) for pipeline, burst in zip(pipelines, bursts, strict=True)]
