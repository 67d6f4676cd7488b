"""A lab's pipeline as the text path of the engine: what a student built, serving real clients.

The two shapes meet here: a lab's pipeline takes one id and returns complete calls; the engine's
takes many ids and reports the start, the arguments and the end of a call.

It adds no rules of its own. What the labs do not build, such as showing the stop, is refused.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from labkit.serving.composed import Composed, make_pipeline
from mini_vllm.engine import Ending, FinishReason, Request
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Event,
    TextDelta,
    ToolCall,
)

_LOG = logging.getLogger(__name__)


class LabPathFactory:
    """Makes a text path of the labs' classes for each request.

    Args:
        composed: the labs' code.

    Attributes:
        eos_token_ids: of the tokenizer in use.
    """

    # Options of a request that the labs do not build, and the value that changes nothing.
    _REFUSED: ClassVar = {
        "include_stop_str_in_output": False,
        "min_tokens": 0,
        "ignore_eos": False,
        "skip_special_tokens": True,
    }

    def __init__(self, composed: Composed) -> None:
        self._composed = composed
        self.eos_token_ids: frozenset[int] = frozenset()

    def __call__(self, request: Request, prompt_token_ids: Sequence[int]) -> "LabTextPath":
        """Return a new pipeline.

        Raises:
            ValueError: the request needs what the labs do not build.
            PipelineRaised: the code could not be imported, or raised.
        """
        for name, neutral in self._REFUSED.items():
            value = getattr(request.params, name)
            if value != neutral:
                raise ValueError(f"{name} is {value}; the labs have no such option: leave it out")
        with _telling_the_author():
            return self.build(request)

    def build(self, request: Request) -> "LabTextPath":
        """Return a new pipeline; raise whatever its code raises."""
        eos = min(self.eos_token_ids, default=None)
        pipeline, stop_matcher = make_pipeline(
            self._composed,
            list(request.params.stop),
            eos_token_id=eos,
            tools=request.tools is not None,
        )
        return LabTextPath(
            pipeline,
            stop_matcher,
            end_ids={} if eos is None else dict.fromkeys(self.eos_token_ids, eos),
            stop_ids=request.params.stop_token_ids,
        )


class PipelineRaised(RuntimeError):
    """A lab's code raised. `__cause__` is what."""


class LabTextPath:
    """The engine's `TextPath` over a lab's pipeline.

    What the pipeline does wrong ends its own request, so its answers are checked here: the engine
    trusts those of a text path.

    Args:
        pipeline: has `feed(token_id)`, `finish()`, `finish_reason` and `held`.
        stop_matcher: one of its layers; its `matched` is the stop string that ended the text.
        end_ids: the tokenizer's EOS ids, each with the one that the pipeline knows for it.
        stop_ids: further ids that end the text. They have none, so the pipeline never sees them.

    Attributes:
        ending: why the text ended, or None while it runs.
        tokens: how many ids were taken.
    """

    def __init__(
        self,
        pipeline: Any,
        stop_matcher: Any,
        *,
        end_ids: Mapping[int, int],
        stop_ids: frozenset[int],
    ) -> None:
        self._pipeline = pipeline
        self._stop_matcher = stop_matcher
        self._end_ids = end_ids
        self._stop_ids = stop_ids
        self._broken = False
        self.ending: Ending | None = None
        self.tokens = 0

    @property
    def held(self) -> dict[str, str | bytes]:
        """What each layer holds, by name; nothing if the pipeline cannot say."""
        if self._broken:
            return {}
        try:
            held = dict(self._pipeline.held)
            for name, text in held.items():
                if not isinstance(name, str) or not isinstance(text, str | bytes):
                    raise TypeError(f"held is by name, str or bytes; it has {name!r}: {text!r}")
        except (Exception, SystemExit):
            _LOG.exception("the pipeline cannot say what it holds")
            return {}
        return held

    def feed(self, token_ids: Iterable[int]) -> list[Event]:
        """Take ids; return what is certain.

        Raises:
            PipelineRaised: once; a pipeline that raised is not asked again.
        """
        return self._guarded(lambda: self.take(token_ids))

    def finish(self, reason: FinishReason) -> list[Event]:
        """End the text; return what was held. It raises what `feed` does."""
        return self._guarded(lambda: self._flush(reason))

    def take(self, token_ids: Iterable[int]) -> list[Event]:
        """Take ids; raise whatever the pipeline raises."""
        events: list[Event] = []
        for token_id in token_ids:
            if self.ending is not None:
                break
            self.tokens += 1
            if token_id in self._stop_ids and token_id not in self._end_ids:
                events += self._flush(FinishReason.END_ID, token_id)
                break
            fed = self._pipeline.feed(self._end_ids.get(token_id, token_id))
            events += self._events(fed, FinishReason.END_ID)
            if self.ending is None and token_id in self._end_ids:
                events += self._flush(FinishReason.END_ID)
        return events

    def _flush(self, reason: FinishReason, stop_id: int | None = None) -> list[Event]:
        events = self._events(self._pipeline.finish(), reason, stop_id)
        if self.ending is None:
            raise ValueError("finish_reason is None after finish(); it must say why")
        return events

    def _events(
        self, items: Iterable[Any], cause: FinishReason, stop_id: int | None = None
    ) -> list[Event]:
        """Return the events of the items; note the end if the pipeline says that it has come."""
        events = [event for item in items for event in _engine_events(item)]
        reason, matched = self._pipeline.finish_reason, self._stop_matcher.matched
        if matched is not None:
            _text(matched, "matched")
        if reason is not None:
            _text(reason, "finish_reason")
            self.ending = Ending.decide(cause, stop_id=stop_id, stop_string=matched)
        return events

    def _guarded(self, call: Callable[[], list[Event]]) -> list[Event]:
        if self._broken:
            return []
        try:
            with _telling_the_author():
                return call()
        except PipelineRaised:
            self._broken = True
            raise


@contextmanager
def _telling_the_author() -> Iterator[None]:
    """Log what the code raises: the client is told only that the answer failed."""
    try:
        yield
    except (Exception, SystemExit) as error:
        _LOG.exception("the pipeline raised")
        raise PipelineRaised(f"the pipeline raised {error!r}") from error


def _engine_events(item: Any) -> list[Event]:
    if isinstance(item, TextDelta):
        return [TextDelta(_text(item.text, "text"))]
    if isinstance(item, ToolCall):
        arguments = _text(item.arguments, "arguments")
        deltas = [ArgsDelta(item.index, arguments)] if arguments else []
        # A name may come from JSON, where a lone surrogate can be written; the server mends it.
        name = _text(item.name, "name", encodable=False)
        return [CallStart(item.index, None, name), *deltas, CallEnd(item.index)]
    raise TypeError(f"a pipeline returns lists of TextDelta and ToolCall, not of {item!r}")


def _text(value: Any, what: str, *, encodable: bool = True) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r}; it must be a str")
    if encodable:
        value.encode()
    return value
