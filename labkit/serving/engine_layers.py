"""The engine's own layers in the shapes that the labs have, for labs that do not pass yet.

The names of the arguments are those of the values that `labkit.serving.layers.Maker` knows.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from labkit.course.lab import Serves
from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.stop import StopMatcher
from mini_vllm.text.stream_parser import StreamParser
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer import Tokenizer
from mini_vllm.tokenizer.streams.factory import create_plain_stream
from mini_vllm.tokenizer.streams.token_stream import TokenStream

# The formats that the labs know.
TOOL_FORMAT = "hermes"
REASONING_FORMAT = "qwen3"


def tokens(
    tokenizer: Tokenizer, prompt_ids: Sequence[int], skip_special_tokens: bool
) -> TokenStream:
    """Return the layer from ids to text."""
    return create_plain_stream(tokenizer, prompt_ids, skip_special_tokens=skip_special_tokens)


def stops(stops: Iterable[str], visible_stops: Iterable[str]) -> StopMatcher:
    """Return the layer that ends the text at a stop string."""
    return StopMatcher(stops, visible=visible_stops)


def reasoning(starts_inside: bool) -> StreamParser:
    """Return the layer that separates reasoning from the answer."""
    return create_reasoning_splitter(REASONING_FORMAT, in_reasoning=starts_inside)


def calls() -> StreamParser:
    """Return the layer from text to tool calls."""
    return create_tool_parser(TOOL_FORMAT)


class Cascade:
    """The composition: each layer's output is fed to the next layer. It holds nothing of its own.

    `mini_vllm.pipeline` does the same with layers of its own shape.

    Args:
        tokens, stops, calls: the layers, the engine's or those of labs.
        eos_token_id: the id that ends the text.

    Attributes:
        finish_reason: why the text ended, `stop` or `length`; None while it runs.
    """

    def __init__(self, tokens: Any, stops: Any, calls: Any, eos_token_id: int) -> None:
        self._layers = (tokens, stops, calls)
        self._matcher = stops
        self._eos = eos_token_id
        self.finish_reason: str | None = None

    def feed(self, token_id: int) -> list[Any]:
        """Feed an id; return the events that are certain now."""
        if self.finish_reason is not None or token_id == self._eos:
            return self._flushed("stop")
        events: list[Any] = _poured(token_id, self._layers)
        return events if self._matcher.matched is None else [*events, *self._flushed("stop")]

    def finish(self) -> list[Any]:
        """End the text from outside; return the held text as events."""
        return self._flushed("length")

    def _flushed(self, reason: str) -> list[Any]:
        """Flush the layers from the first to the last, once."""
        events: list[Any] = []
        layers = () if self.finish_reason else self._layers
        for place, layer in enumerate(layers, start=1):
            events.extend(_poured(layer.flush(), layers[place:]))
        self.finish_reason = self.finish_reason or reason
        return events


def _poured(value: Any, layers: Iterable[Any]) -> Any:
    for layer in layers:
        value = layer.feed(value)
    return value


_MAKERS: Mapping[str, Callable[..., Any]] = {
    "tokens": tokens, "stops": stops, "reasoning": reasoning, "calls": calls, "pipeline": Cascade,
}  # fmt: skip


def row(role: str, vocabulary: str = "") -> Serves:
    """Return the row of `lab.toml` that would describe the engine's layer of a role.

    Args:
        role: one of the text path's.
        vocabulary: as in `Serves`; the engine's layers read any vocabulary.
    """
    make = _MAKERS[role]
    arguments = {name: name for name in inspect.signature(make).parameters}
    return Serves(
        role, make.__name__, arguments, {"feed": "step"} if role == "tokens" else {}, vocabulary
    )
