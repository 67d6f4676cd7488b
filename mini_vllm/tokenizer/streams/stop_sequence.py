"""A decoder that stops: ids in, text out, until a stop token or a stop string.

A stop token ends the text before any stop string can. Only text that may become a stop string is
held, in the *jail*. For callers that need only text; `TextPipeline` adds reasoning and tool calls.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mini_vllm.text.copyable import Copyable
from mini_vllm.text.stop import StopMatcher
from mini_vllm.tokenizer.adapter import as_tokenizer
from mini_vllm.tokenizer.ids import plain_ids
from mini_vllm.tokenizer.protocols import Tokenizer, metrics_of
from mini_vllm.tokenizer.streams.factory import create_decode_stream


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is certain, never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Held:
    """Nothing is certain yet."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The text has ended, and this step added nothing."""


@dataclass(frozen=True, slots=True)
class StoppedWithText:
    """The text has ended with this text, which is never empty."""

    text: str


SequenceDecoderOutput = Text | Held | Stopped | StoppedWithText


@dataclass(frozen=True, slots=True)
class StopMatch:
    """The stop that ended the text: an id or a string, and whether it is shown."""

    kind: Literal["token", "visible_token", "string", "visible_string"]
    value: int | str


@dataclass(frozen=True)
class StopSequenceConfig:
    """Stop tokens and stop strings; visible stops are shown. Empty strings are ignored."""

    stop_tokens: frozenset[int] = frozenset()
    stop_sequences: tuple[str, ...] = ()
    visible_stop_tokens: frozenset[int] = frozenset()
    visible_stop_sequences: tuple[str, ...] = ()

    def with_stop_token(self, token_id: int) -> "StopSequenceConfig":
        """Return the configuration with one more stop token."""
        return replace(self, stop_tokens=self.stop_tokens | {token_id})

    def with_stop_sequence(self, sequence: str) -> "StopSequenceConfig":
        """Return the configuration with one more stop string."""
        return replace(self, stop_sequences=(*self.stop_sequences, sequence))

    def with_visible_stop_token(self, token_id: int) -> "StopSequenceConfig":
        """Return the configuration with one more stop token that is shown."""
        return replace(self, visible_stop_tokens=self.visible_stop_tokens | {token_id})

    def with_visible_stop_sequence(self, sequence: str) -> "StopSequenceConfig":
        """Return the configuration with one more stop string that is shown."""
        return replace(self, visible_stop_sequences=(*self.visible_stop_sequences, sequence))


class StopSequenceDecoder(Copyable):
    """The decoder.

    Args:
        tokenizer: turns ids into text.
        config: the stop tokens and stop strings.
        skip_special_tokens: leave special tokens out; a visible stop token is still shown.
        prompt_token_ids: the ids of the prompt.
        resolve_special_stops: if a stop string is the text of a special token, also stop at that
            token's id, because a skipped token never reaches the text.
    """

    _shared = frozenset({"_tokenizer", "_metrics"})

    def __init__(
        self,
        tokenizer: Tokenizer,
        config: StopSequenceConfig,
        *,
        skip_special_tokens: bool = True,
        prompt_token_ids: Sequence[int] = (),
        resolve_special_stops: bool = True,
    ) -> None:
        self._tokenizer = tokenizer = as_tokenizer(tokenizer)
        self._skip = skip_special_tokens
        self._prompt = plain_ids(prompt_token_ids)
        self._metrics = metrics_of(tokenizer)
        self._config = _resolved(config, tokenizer) if resolve_special_stops else config
        self.reset()

    def reset(self) -> None:
        """Start a new text after the same prompt."""
        config = self._config
        self._stream = create_decode_stream(
            self._tokenizer, self._prompt, skip_special_tokens=self._skip
        )
        self._matcher = StopMatcher(
            _non_empty(config.stop_sequences), visible=_non_empty(config.visible_stop_sequences)
        )
        self._matched: StopMatch | None = None
        self.tokens_consumed = 0

    @property
    def is_stopped(self) -> bool:
        """Whether the text has ended at a stop."""
        return self._matched is not None

    @property
    def matched_stop(self) -> StopMatch | None:
        """The stop that ended the text, or None."""
        return self._matched

    @property
    def jail(self) -> str:
        """The text that may become a stop string."""
        return self._matcher.held

    def process_token(self, token_id: int) -> SequenceDecoderOutput:
        """Feed one id."""
        if self._matched is not None:
            return Stopped()
        self.tokens_consumed += 1
        if token_id in self._config.stop_tokens:
            return self._stop(StopMatch("token", token_id), self._rest())
        if token_id in self._config.visible_stop_tokens:
            text = self._search(self._shown(token_id)) + self._rest()
            return self._stop(StopMatch("visible_token", token_id), text)
        text = self._search(self._stream.step(token_id))
        if self._matcher.matched is not None:
            return self._stop(self._string(), text)
        if self._metrics and self._matcher.held:
            self._metrics.partial_matches.inc()
        return Text(text) if text else Held()

    def process_tokens(self, token_ids: Iterable[int]) -> list[SequenceDecoderOutput]:
        """Feed ids up to the first stop; return the output of each id that was fed."""
        outputs: list[SequenceDecoderOutput] = []
        for output in map(self.process_token, plain_ids(token_ids)):
            outputs.append(output)
            if self._matched is not None:
                break
        return outputs

    def flush(self) -> SequenceDecoderOutput:
        """End the text; return the held text, or `Held` if there is none."""
        if self._matched is not None:
            return Stopped()
        text = self._rest()
        if self._matcher.matched is not None:
            return self._stop(self._string(), text)
        return Text(text) if text else Held()

    def _search(self, text: str) -> str:
        if self._metrics is None:
            return self._matcher.feed(text)
        with self._metrics.stop_detection_duration.time():
            return self._matcher.feed(text)

    def _rest(self) -> str:
        """Return the jail, and U+FFFD for a cut-off character."""
        text = self._search(self._stream.flush())
        return text if self._matcher.matched is not None else text + self._matcher.flush()

    def _shown(self, token_id: int) -> str:
        """Return the text of a visible stop token in its context, special or not."""
        spelling = self._tokenizer.id_to_token(token_id)
        if self._skip and spelling in self._tokenizer.special_tokens.all():
            return self._stream.flush() + spelling
        return self._stream.step(token_id)

    def _string(self) -> StopMatch:
        matched = self._matcher.matched or ""
        visible = matched not in self._config.stop_sequences
        return StopMatch("visible_string" if visible else "string", matched)

    def _stop(self, match: StopMatch, text: str) -> SequenceDecoderOutput:
        self._matched = match
        if self._metrics:
            self._metrics.stop_sequences_detected.labels(match.kind).inc()
        return StoppedWithText(text) if text else Stopped()


@dataclass
class StopSequenceDecoderBuilder:
    """Makes a decoder step by step: `StopSequenceDecoderBuilder(tok).stop_sequence("END").build()`.

    Attributes:
        tokenizer: turns ids into text.
        config: the configuration so far.
        skips: whether special tokens are left out.
    """

    tokenizer: Tokenizer
    config: StopSequenceConfig = field(default_factory=StopSequenceConfig)
    skips: bool = True

    def stop_token(self, token_id: int) -> "StopSequenceDecoderBuilder":
        """Stop at an id."""
        self.config = self.config.with_stop_token(token_id)
        return self

    def stop_sequence(self, sequence: str) -> "StopSequenceDecoderBuilder":
        """Stop at a string."""
        self.config = self.config.with_stop_sequence(sequence)
        return self

    def visible_stop_token(self, token_id: int) -> "StopSequenceDecoderBuilder":
        """Stop at an id, and show its text."""
        self.config = self.config.with_visible_stop_token(token_id)
        return self

    def visible_stop_sequence(self, sequence: str) -> "StopSequenceDecoderBuilder":
        """Stop at a string, and show it."""
        self.config = self.config.with_visible_stop_sequence(sequence)
        return self

    def skip_special_tokens(self, skip: bool) -> "StopSequenceDecoderBuilder":
        """Leave special tokens out, or not."""
        self.skips = skip
        return self

    def build(self) -> StopSequenceDecoder:
        """Return the decoder."""
        return StopSequenceDecoder(self.tokenizer, self.config, skip_special_tokens=self.skips)


def _non_empty(sequences: tuple[str, ...]) -> Iterable[str]:
    # A bare str is an error, which the matcher reports.
    return sequences if isinstance(sequences, str) else filter(None, sequences)


def _resolved(config: StopSequenceConfig, tokenizer: Tokenizer) -> StopSequenceConfig:
    """Return the configuration with the ids of stop strings that are special tokens."""
    special = set(tokenizer.special_tokens.all())
    for sequence in special.intersection(config.stop_sequences):
        token_id = tokenizer.token_to_id(sequence)
        if token_id is not None:
            config = config.with_stop_token(token_id)
    for sequence in special.intersection(config.visible_stop_sequences):
        token_id = tokenizer.token_to_id(sequence)
        if token_id is not None:
            config = config.with_visible_stop_token(token_id)
    return config
