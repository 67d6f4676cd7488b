"""The text path of the engine: token ids in, events for the client out, and why the text ended.

Detokenizer, stop strings, reasoning and tool calls are layers. Each layer holds text back by its
own rule, without knowing the others. Text that a layer emits is fed to the next layer; at the end
the flush runs through all of them.

Together the layers are one machine: their positions are its position, and an id is its piece. The
layers compute the effect of an id in a position once; later it is one lookup in a dictionary
(`mini_vllm.text.memory`). Two kinds of steps are computed each time: the end of a text, and a step
that leads from one place in a call to the next.

The caller that chooses the tokens also counts them, and calls `finish` at `max_tokens`.
"""

from collections.abc import Hashable, Iterable, Sequence
from math import inf
from operator import index
from typing import Any, Literal, NoReturn

from mini_vllm.finish_reason import Ending, FinishReason
from mini_vllm.text.copyable import Copyable
from mini_vllm.text.events import CallEnd, Event, TextDelta
from mini_vllm.text.memory import MEMORY, NOWHERE, UNKNOWN, Node
from mini_vllm.text.stop import StopMatcher
from mini_vllm.text.stream_parser import StreamParser
from mini_vllm.tokenizer.ids import plain_ids
from mini_vllm.tokenizer.protocols import Tokenizer, metrics_of
from mini_vllm.tokenizer.streams.decode_stream import DecodeStream
from mini_vllm.tokenizer.streams.factory import create_plain_stream


class TextPipeline(Copyable):
    """One request's text path. A `copy` continues from the same place, independent of the original.

    Args:
        tokenizer: turns ids into text; a metered tokenizer counts the text when it ends.
        prompt_token_ids: the ids of the prompt; only the last few matter.
        skip_special_tokens: leave special tokens out of the text. Set it to False for formats whose
            markers are special tokens.
        stop: stop strings.
        stop_token_ids: ids that end the text and are not shown.
        eos_token_ids: like `stop_token_ids`, but `stop_reason` stays None, as clients expect for
            EOS.
        include_stop_str_in_output: show the stop string or stop id that ended the text.
        min_tokens: stop ids do not count among the first `min_tokens` ids, and neither do stop
            strings that one of these ids completes.
        stop_scope: `all`, or `content` to look for stop strings only after the reasoning.
        reasoning: from `create_reasoning_splitter`, or None.
        tools: from `create_tool_parser`, or None.

    Attributes:
        ending: why the text ended, or None while it runs.
        tokens: how many ids were fed; ids after the end do not count.

    Raises:
        ValueError: `stop` is a single str, or a stop string is empty.
    """

    _shared = frozenset({"_node", "_metrics"})

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
        self._stream = create_plain_stream(
            tokenizer, prompt_token_ids, skip_special_tokens=skip_special_tokens
        )
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
        # How many characters the reasoning splitter took: in total, and for the first `min_tokens`
        # ids.
        self._taken = 0
        self._early = inf
        self._reasoning = reasoning
        self._tools = tools
        self._called = False
        self.ending: Ending | None = None
        self.tokens = 0
        self._metrics = metrics_of(tokenizer)
        # After how many ids a half character was held, and a possible stop string.
        self._incomplete = self._partial = 0
        self._has_searched = False
        # Without a table of pieces, a stream's steps depend on more than a position can express.
        table = isinstance(self._stream, DecodeStream)
        # The last layer first, since it is the most likely to have no position.
        layers = (tools, reasoning, self._stop, self._stream) if table else ()
        self._layers: list[Any] = [layer for layer in layers if layer is not None]
        self._parsers = [parser for parser in (reasoning, tools) if parser is not None]
        for machine in (self._stop, *self._parsers):
            if machine is not None:
                machine.leave()
        # The rest of the position: the ids that end the text, and the layers with their order.
        self._wiring: Any = (self._ends, self._stop_later is None, reasoning is None, tools is None)
        self._node = MEMORY.node(self._position())

    @property
    def finish_reason(self) -> str | None:
        """Why the text ended, in the words of the OpenAI API; None while it runs."""
        return None if self.ending is None else self.ending.reason.openai(called=self._called)

    @property
    def stop_reason(self) -> str | int | None:
        """The stop string or stop id that ended the text, as vLLM reports it."""
        return None if self.ending is None else self.ending.stop_reason

    @property
    def held(self) -> dict[str, str | bytes]:
        """The text or bytes that each layer holds, by the layer's name."""
        self._settle()
        return {
            "tokens": self._stream.held,
            "stops": self._stop.held if self._stop else "",
            "reasoning": self._reasoning.held if self._reasoning else "",
            "calls": self._tools.held if self._tools else "",
        }

    def feed(self, token_ids: Iterable[int]) -> list[Event]:
        """Feed any number of ids; return the events that are certain now.

        A stop ends the text: the events then include the text that the layers still held, and later
        ids are ignored, in this call and in any other.

        Args:
            token_ids: a sequence, another iterable, or an array.

        Raises:
            ValueError: an array of more than one dimension, or of none.
        """
        events: list[Event] = []
        if self.ending is not None:
            return events
        # Nearly all calls feed one id in a tuple or list, and comparing the type is the quickest.
        # Only an array is read at once: nothing is read from a generator after the end.
        kind = type(token_ids)
        if kind is not tuple and kind is not list and hasattr(token_ids, "tolist"):
            token_ids = plain_ids(token_ids)
        for token_id in token_ids:
            self.tokens += 1
            try:
                new, node = self._node[token_id]
            except KeyError:
                self._feed_new(token_id, events)
                if self.ending is not None:
                    break
            else:
                self._node = node
                events += new
                if node.waiting is not None:
                    self._count(node)
        return events

    def _position(self) -> Hashable | None:
        """Return the value that decides the effect of the next id, or None if more decides it.

        The layers are at the positions of the node.
        """
        positions = [self._wiring]
        for layer in self._layers:
            positions.append(layer.position)
            if positions[-1] is None:
                return None
        return tuple(positions) if self._layers else None

    def _leave(self) -> Any:
        """Set the layers to the node's positions, and leave it; return its position, or None."""
        node, self._node = self._node, NOWHERE
        if node is not NOWHERE:
            for layer, part in zip(self._layers, node.position[1:], strict=True):
                layer.position = part
        return node.position

    def _settle(self) -> None:
        """Set the layers to the node's positions, and stay on it."""
        node = self._node
        self._leave()
        self._node = node

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "a TextPipeline cannot be pickled, because it shares remembered steps with the others "
            "in its process; keep the ids, and feed them to a new pipeline in the other process"
        )

    def _feed_new(self, token_id: int, events: list[Event]) -> None:
        """Feed an id that is new in this position, or whose step keeps text."""
        # A scalar of torch hashes by identity, so the set of ends would not contain it.
        token_id = index(token_id)
        known = self._node.keeping.get(token_id)
        if known is not None:
            output, part, self._node = known
            self._parsers[-1].keep(part)
            events += output
            self._count(self._node)
            return
        before = self._leave()
        ends = token_id in self._ends
        if ends and self.tokens > self._min_tokens:
            self._stop_at(token_id, events)
            return
        new: list[Event] = []
        self._pour(self._stream.step(token_id), new)
        events += new
        stop = self._stop
        if stop is not None:
            if stop.matched is not None:
                self._end(FinishReason.STOP_WORDS, events)
                return
            if self.tokens == self._min_tokens:
                stop.min_end = stop.length
                self._early = self._taken
        part = ""
        if ends:
            before = None
        if before is not None:
            for parser in self._parsers:
                # Only the last parser may keep text in a step that is remembered.
                if part or not parser.repeatable:
                    before = None
                part = "".join(parser.new_parts)
        node = MEMORY.learn(before, token_id, (*new,), self._position(), part)
        if self._metrics is not None and node.waiting is not None:
            self._count(node)
        self._node = node

    def _count(self, node: Node) -> None:
        """Count a step to a node if a half character or a possible stop string is held there."""
        waiting = node.waiting
        if waiting is UNKNOWN:
            self._settle()
            incomplete = self._stream.held != b""
            partial = self._stop is not None and self._stop.held != ""
            waiting = (incomplete, partial) if incomplete or partial else None
            if node is not NOWHERE:
                node.waiting = waiting
        if waiting is not None:
            self._incomplete += waiting[0]
            self._partial += waiting[1]

    def finish(self, reason: FinishReason) -> list[Event]:
        """End the text from outside; return the events of the text that the layers still held.

        If the text has already ended, return no events; the first ending stays.

        Args:
            reason: the caller's reason. The last characters may still complete a stop string;
                `Ending.decide` has the rule.
        """
        events: list[Event] = []
        if self.ending is None:
            self._leave()
            self._end(reason, events)
        return events

    def _stop_at(self, token_id: int, events: list[Event]) -> None:
        if self._include:
            self._pour(self._stream.step(token_id), events)
        stop_id = None if token_id in self._eos else token_id
        self._end(FinishReason.END_ID, events, stop_id)

    def _pour(self, text: str, events: list[Event]) -> None:
        """Feed text to the layers after the detokenizer."""
        if self._stop_first is not None:
            text = self._search(self._stop_first, text)
        if text:
            self._parse(text, events)

    def _search(self, stop: StopMatcher, text: str) -> str:
        """Feed text to a stop matcher; for a metered tokenizer, measure the first call."""
        if self._has_searched or self._metrics is None:
            return stop.step(text)
        self._has_searched = True
        with self._metrics.stop_detection_duration.time():
            return stop.step(text)

    def _parse(self, text: str, events: list[Event]) -> None:
        if self._reasoning is None:
            self._answer(text, events)
        else:
            self._taken += len(text)
            parts: list[Event] = []
            self._reasoning.step(text, parts)
            self._sort(parts, events)

    def _sort(self, parts: list[Event], events: list[Event]) -> None:
        """Emit the reasoning unchanged, and feed the answer to the later layers."""
        stop = self._stop_later
        if stop is not None and self._min_tokens:
            self._count_early(stop, parts)
        for event in parts:
            if not isinstance(event, TextDelta):
                events.append(event)
                continue
            text = event.text if stop is None else self._search(stop, event.text)
            if text:
                self._answer(text, events)

    def _count_early(self, stop: StopMatcher, parts: list[Event]) -> None:
        """Let matches count only after the content of the first `min_tokens` ids."""
        content = sum(len(event.text) for event in parts if isinstance(event, TextDelta))
        if content:
            # The splitter may have held some of the content since then. It is the end of the text
            # that the splitter took, behind all reasoning so far.
            stop.min_end = self._early - (self._taken - content - stop.length)

    def _answer(self, text: str, events: list[Event]) -> None:
        if self._tools is None:
            events.append(TextDelta(text))
        else:
            self._tools.step(text, events)

    def _end(self, reason: FinishReason, events: list[Event], stop_id: int | None = None) -> None:
        """Flush the layers, first to last; decide the ending before the tool parser's flush."""
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
        stop_string = None if self._stop is None else self._stop.matched
        self.ending = Ending.decide(reason, stop_id=stop_id, stop_string=stop_string)
        if self._metrics is not None:
            self._metrics.text_ended(
                self.tokens,
                self._incomplete,
                self._partial,
                self.ending.stop_reason,
                visible=self._include,
            )
        if self._tools is not None:
            self._called = self._tools.completed > 0
            rest_of_calls = self._tools.flush(cut=self.ending.reason.cuts)
            self._called |= any(isinstance(event, CallEnd) for event in rest_of_calls)
            events += rest_of_calls
