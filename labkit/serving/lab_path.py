"""The labs' layers as the text path of the engine: a student's code serves real clients.

The two shapes meet here: a lab's pipeline takes one id and may return complete calls; the engine's
takes many ids and reports the start, the arguments and the end of a call.

It adds no rules of its own. Requests for features that the labs in use lack are refused.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from labkit.course.lab import PIPELINE
from labkit.serving.composed import Composed, in_words
from labkit.serving.engine_layers import REASONING_FORMAT
from labkit.serving.layers import (
    Maker,
    NoCalls,
    ReasoningFirst,
    Renamed,
    StopsOnIds,
    WithoutSpecials,
)
from labkit.serving.vocabulary import facts_of, is_bytes
from mini_vllm.engine import Ending, FinishReason, Request, SamplingParams
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Event,
    Malformed,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)
from mini_vllm.text.reasoning import prompt_in_reasoning
from mini_vllm.tokenizer import ByteTokenizer, Tokenizer

_LOG = logging.getLogger(__name__)
# The tags of the embedded model's calls.
TAGS = {"open_tag": "<tool_call>", "close_tag": "</tool_call>"}
# More ids than the tag has.
_END_OF_PROMPT = 16
_NO_ID = -1


class LabPathFactory:
    """Makes a text path of the labs' classes for each request.

    Args:
        composed: the labs' code.
        tokenizer: the tokenizer in use; by default ids are bytes.

    Attributes:
        eos_token_ids: those of the tokenizer.

    Raises:
        ValueError: the labs cannot read ids of this tokenizer, or `facts_of` cannot describe it.
    """

    def __init__(self, composed: Composed, tokenizer: Tokenizer | None = None) -> None:
        self._composed = composed
        self._tokenizer = tokenizer or ByteTokenizer()
        tokens = composed.parts["tokens"]
        if tokens.only_bytes and not is_bytes(self._tokenizer):
            raise ValueError(
                f"{tokens.lab.label} reads only ids that are bytes, and this tokenizer has "
                "other ids. Pass a lab that reads any vocabulary, or leave --tokenizer out"
            )
        self.eos_token_ids = self._tokenizer.eos_token_ids
        self._facts = facts_of(self._tokenizer)
        self._maker = Maker(composed, {**self._facts, **TAGS})
        self._refused = self._options_that_nobody_builds()

    def _options_that_nobody_builds(self) -> dict[str, Any]:
        """Return the options of a request that the labs refuse, with their neutral values."""
        values = {
            "include_stop_str_in_output": (("visible_stops", "include_stop"), False),
            "min_tokens": (("min_tokens",), 0),
        }
        takes = self._composed.takes
        refused = {name: none for name, (any_of, none) in values.items()
                   if not any(map(takes, any_of))}  # fmt: skip
        if self._composed.parts["tokens"].only_bytes:
            refused["skip_special_tokens"] = True
        return refused

    def __call__(self, request: Request, prompt_token_ids: Sequence[int]) -> "LabTextPath":
        """Return a new path.

        Raises:
            ValueError: the request needs something that the labs do not build.
            PipelineRaised: the code could not be imported, or raised.
        """
        for name, neutral in self._refused.items():
            value = getattr(request.params, name)
            if value != neutral:
                raise ValueError(f"{name} is {value}; the labs have no such option: leave it out")
        shown, ids = request.params.include_stop_str_in_output, request.params.stop_token_ids
        if shown and ids and not self._composed.takes("visible_stop_token_ids"):
            raise ValueError(
                f"stop_token_ids are {sorted(ids)}, and include_stop_str_in_output is True; these "
                "labs can include stop strings only: leave one of the two out"
            )
        with telling_the_author():
            return self.build(request, prompt_token_ids)

    def build(self, request: Request, prompt_token_ids: Sequence[int] = ()) -> "LabTextPath":
        """Return a new path; exceptions of its code are raised."""
        params = request.params
        eos = frozenset() if params.ignore_eos else self.eos_token_ids
        tokens = self._tokens(prompt_token_ids, skips=params.skip_special_tokens)
        stops = self._stops(tokens, params, eos)
        layers = {"tokens": tokens, "stops": stops}
        events = self._events(request, prompt_token_ids, layers)
        on_ids = isinstance(stops, StopsOnIds)
        end_id = _NO_ID if on_ids else min(eos, default=_NO_ID)
        pipeline = self._maker.make(PIPELINE, {
            "tokens": stops if on_ids else tokens,
            "stops": stops.matcher if on_ids else stops,
            "calls": events,
            "eos_token_id": end_id,
        })  # fmt: skip
        return LabTextPath(
            pipeline,
            layers,
            eos_token_ids=eos,
            end_ids={} if on_ids else dict.fromkeys(eos, end_id),
            stop_ids=frozenset() if on_ids else params.stop_token_ids,
        )

    def _tokens(self, prompt_token_ids: Sequence[int], *, skips: bool) -> Any:
        """Return the layer from ids to text, which skips special ids if the request says so."""
        part = self._composed.parts["tokens"]
        serves = part.serves
        values = {"prompt_ids": list(prompt_token_ids), "skip_special_tokens": skips}
        layer = Renamed(self._maker.make("tokens", values), serves, b"")
        if part.only_bytes or "skip_special_tokens" in serves.arguments.values():
            return layer
        silent = self._facts["special"] if skips else frozenset()
        return WithoutSpecials(layer, silent, len(self._facts["vocabulary"]))

    def _stops(self, tokens: Any, params: SamplingParams, eos: frozenset[int]) -> Any:
        """Return the layer that ends the text; if it is made with the tokens, it takes ids."""
        visible, ends = (
            params.include_stop_str_in_output,
            tuple(sorted(eos | params.stop_token_ids)),
        )
        made = self._maker.make("stops", {
            "tokens": tokens,
            "stops": () if visible else params.stop,
            "visible_stops": params.stop if visible else (),
            "all_stops": params.stop,
            "include_stop": visible,
            "stop_token_ids": () if visible else ends,
            "visible_stop_token_ids": ends if visible else (),
            "min_tokens": params.min_tokens,
        })  # fmt: skip
        serves = self._composed.parts["stops"].serves
        takes_ids = "tokens" in serves.arguments.values()
        return StopsOnIds(Renamed(made, serves, "")) if takes_ids else made

    def _events(
        self, request: Request, prompt_token_ids: Sequence[int], layers: dict[str, Any]
    ) -> Any:
        """Return the layer from text to events; add its parts to `layers`."""
        calls: Any = NoCalls()
        parts = self._composed.parts
        if "reasoning" in parts and request.split_reasoning:
            end = self._tokenizer.decode(prompt_token_ids[-_END_OF_PROMPT:])
            inside = request.thinking or bool(prompt_in_reasoning(REASONING_FORMAT, end))
            reasoning = self._maker.make("reasoning", {"starts_inside": inside})
            layers["reasoning"] = Renamed(reasoning, parts["reasoning"].serves, "")
        if request.tools is not None:
            made = self._maker.make("calls", {})
            calls = layers["calls"] = Renamed(made, parts["calls"].serves, "")
        return ReasoningFirst(layers["reasoning"], calls) if "reasoning" in layers else calls


class PipelineRaised(RuntimeError):
    """A lab's code raised an exception, which is `__cause__`."""


class LabTextPath:
    """The engine's `TextPath` over the labs' layers.

    The engine trusts the results of a text path. So those of the labs' layers are checked here, and
    a fault ends only its own request.

    Args:
        pipeline: has `feed(token_id)`, `finish()` and `finish_reason`.
        layers: by role, the layers that hold text; `matched` of `stops` is the stop that ended it.
        eos_token_ids: the ids that end the text without being reported as a stop.
        end_ids: the end ids that the pipeline detects, each with the id that the pipeline knows.
        stop_ids: further ids that end the text. They have no text, so they are not fed to the
            pipeline.

    Attributes:
        pipeline: the argument.
        ending: why the text ended, or None while it runs.
        tokens: the number of ids that were fed.
    """

    def __init__(
        self,
        pipeline: Any,
        layers: Mapping[str, Any],
        *,
        eos_token_ids: frozenset[int],
        end_ids: Mapping[int, int],
        stop_ids: frozenset[int],
    ) -> None:
        self.pipeline = pipeline
        self._layers = layers
        self._eos_token_ids = eos_token_ids
        self._end_ids = end_ids
        self._stop_ids = stop_ids
        self._broken = False
        self.ending: Ending | None = None
        self.tokens = 0

    @property
    def held(self) -> dict[str, str | bytes]:
        """The held text of each layer, by role; empty if a layer's `held` raises.

        The pipeline itself holds nothing, and is included because it is a layer of the labs.
        """
        if self._broken:
            return {}
        try:
            held = {role: _held(role, layer.held) for role, layer in self._layers.items()}
        except (Exception, SystemExit):
            _LOG.exception("reading `held` of a layer raised an exception")
            return {}
        return {**held, PIPELINE: ""}

    def feed(self, token_ids: Iterable[int]) -> list[Event]:
        """Feed ids; return the events that are certain.

        Raises:
            PipelineRaised: once; a pipeline that raised is not called again.
        """
        return self._guarded(lambda: self.take(token_ids))

    def finish(self, reason: FinishReason) -> list[Event]:
        """End the text; return the held text as events. Raise as `feed` does."""
        return self._guarded(lambda: self._flush(reason))

    def take(self, token_ids: Iterable[int]) -> list[Event]:
        """Feed ids; exceptions of the pipeline are raised."""
        events: list[Event] = []
        for token_id in token_ids:
            if self.ending is not None:
                break
            self.tokens += 1
            if token_id in self._stop_ids and token_id not in self._end_ids:
                events += self._flush(FinishReason.END_ID, token_id)
                break
            fed = self.pipeline.feed(self._end_ids.get(token_id, token_id))
            events += self._events(fed, FinishReason.END_ID)
            if self.ending is None and token_id in self._end_ids:
                events += self._flush(FinishReason.END_ID)
        return events

    def _flush(self, reason: FinishReason, stop_id: int | None = None) -> list[Event]:
        events = self._events(self.pipeline.finish(), reason, stop_id)
        if self.ending is None:
            raise ValueError("finish_reason is None after finish(); it must say why")
        return events

    def _events(
        self, items: Iterable[Any], cause: FinishReason, stop_id: int | None = None
    ) -> list[Event]:
        """Return the events of the items; note the end if the pipeline reports it."""
        events = [event for item in items for event in engine_events(item)]
        if self.pipeline.finish_reason is not None:
            _text(self.pipeline.finish_reason, "finish_reason")
            self.ending = self._decide(cause, stop_id, self._layers["stops"].matched)
        return events

    def _decide(self, cause: FinishReason, stop_id: int | None, matched: Any) -> Ending:
        if isinstance(matched, int):
            # A layer that takes ids detected the end, whatever the pipeline was called for.
            stop_id = None if matched in self._eos_token_ids else matched
            return Ending.decide(FinishReason.END_ID, stop_id=stop_id)
        if matched is not None:
            _text(matched, "matched")
        return Ending.decide(cause, stop_id=stop_id, stop_string=matched)

    def _guarded(self, call: Callable[[], list[Event]]) -> list[Event]:
        if self._broken:
            return []
        try:
            with telling_the_author():
                return call()
        except PipelineRaised:
            self._broken = True
            raise


@contextmanager
def telling_the_author() -> Iterator[None]:
    """Log an exception of the code with its place; the client sees only that the answer failed."""
    try:
        yield
    except (Exception, SystemExit) as error:
        message = f"the pipeline raised {in_words(error)}"
        _LOG.exception(message)
        raise PipelineRaised(message) from error


def _held(role: str, held: Any) -> str | bytes:
    if not isinstance(held, str | bytes):
        raise TypeError(f"held of {role} is {held!r}; it must be str or bytes")
    return held


def engine_events(item: Any) -> list[Event]:
    """Return an event of the labs as those of the engine, each value checked."""
    # Names may be read from JSON, which can have lone surrogates; the server replaces these.
    if isinstance(item, TextDelta | ReasoningDelta):
        return [type(item)(_text(item.text, "text"))]
    if isinstance(item, ToolCall):
        arguments = _text(item.arguments, "arguments")
        deltas = [ArgsDelta(_index(item), arguments)] if arguments else []
        name = _text(item.name, "name", encodable=False)
        return [CallStart(_index(item), None, name), *deltas, CallEnd(item.index)]
    if isinstance(item, CallStart):
        made = None if item.id is None else _text(item.id, "id", encodable=False)
        return [CallStart(_index(item), made, _text(item.name, "name", encodable=False))]
    if isinstance(item, ArgsDelta):
        return [ArgsDelta(_index(item), _text(item.text, "text"))]
    if isinstance(item, CallEnd):
        return [CallEnd(_index(item))]
    if isinstance(item, Malformed):
        return [Malformed(_index(item), _text(item.raw, "raw"), _text(item.reason, "reason"))]
    raise TypeError(f"a pipeline must return lists of events; {item!r} is not an event")


def _index(item: Any) -> int:
    if not isinstance(item.index, int):
        raise TypeError(f"index is {item.index!r}; it must be an int")
    return item.index


def _text(value: Any, what: str, *, encodable: bool = True) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r}; it must be a str")
    if encodable:
        value.encode()
    return value
