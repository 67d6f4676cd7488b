"""Prometheus metrics of tokenizers and streams, on a registry of the caller's.

Whoever wants them wraps a tokenizer or a stream; what is not wrapped pays nothing. The names are
those of SGLang's gateway.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mini_vllm.tokenizer.encoding import Encoding
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer.streams.decode_stream import AnyDecodeStream
from mini_vllm.tokenizer.wrapper import TokenizerWrapper
from mini_vllm.tokenizer_errors import TokenizerError

_SECONDS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10)
_SIZES = tuple(4**power for power in range(11))


class TokenizerMetrics:
    """The instruments, all named `sgl_tokenizer_...`, on one registry.

    Durations are in seconds; `chars_per_encode` counts characters. `StopSequenceDecoder` fills
    those of stop detection.

    Args:
        registry: where they are registered.

    Raises:
        ValueError: the registry has them already.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"sgl_tokenizer_{name}", what, labels, registry=registry)

        def histogram(name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"sgl_tokenizer_{name}", what, registry=registry, buckets=buckets)

        def seconds(name: str, what: str) -> Histogram:
            return histogram(f"{name}_seconds", what, _SECONDS)

        self.encode_duration = seconds("encode_duration", "Time of one encode")
        self.encode_batch_duration = seconds("encode_batch_duration", "Time of one batch encode")
        self.encode_requests = counter("encode_requests_total", "Texts to encode", "tokenizer_type")
        self.encode_errors = counter("encode_errors_total", "Failed encodes", "error_type")
        self.tokens_per_encode = histogram("tokens_per_encode", "Ids of one text", _SIZES)
        self.chars_per_encode = histogram("chars_per_encode", "Characters of one text", _SIZES)
        self.decode_duration = seconds("decode_duration", "Time of one decode")
        self.decode_requests = counter("decode_requests_total", "Decodes", "tokenizer_type")
        self.decode_errors = counter("decode_errors_total", "Failed decodes", "error_type")
        self.tokens_per_decode = histogram("tokens_per_decode", "Ids of one decode", _SIZES)
        self.vocab_size = Gauge(
            "sgl_tokenizer_vocab_size", "Highest id plus one", ["tokenizer_type"], registry=registry
        )
        self.stream_tokens = counter("stream_tokens_total", "Ids put into streams")
        self.stream_incomplete_utf8 = counter(
            "stream_incomplete_utf8_total", "Steps that ended inside a character"
        )
        self.stream_step_duration = seconds("stream_step_duration", "Time of one step")
        self.factory_loads = counter("factory_loads_total", "Tokenizers loaded", "file_type")
        self.factory_errors = counter("factory_errors_total", "Failed loads", "error_type")
        self.factory_load_duration = seconds("factory_load_duration", "Time of one load")
        self.stop_sequences_detected = counter(
            "stop_sequences_detected_total", "Stops that were found", "type"
        )
        self.partial_matches = counter("partial_matches_total", "Steps that held a possible stop")
        self.stop_detection_duration = seconds("stop_detection_duration", "Time of one search")

    def load(self, load: Callable[[], Tokenizer]) -> "MeteredTokenizer":
        """Return the tokenizer that `load` returns, metered; the load is counted and timed."""
        with _errors(self.factory_errors), self.factory_load_duration.time():
            tokenizer = MeteredTokenizer(load(), self)
        self.factory_loads.labels(tokenizer.tokenizer_type).inc()
        return tokenizer


class MeteredTokenizer(TokenizerWrapper):
    """A tokenizer that counts and times what is asked of it.

    Args:
        inner: the tokenizer.
        metrics: the instruments.

    Attributes:
        tokenizer_type: its label, such as `huggingface`.
    """

    def __init__(self, inner: Tokenizer, metrics: TokenizerMetrics) -> None:
        super().__init__(inner)
        self.tokenizer_type = type(inner).__name__.removesuffix("Tokenizer").lower()
        self._metrics = metrics
        self._encode_requests = metrics.encode_requests.labels(self.tokenizer_type)
        self._decode_requests = metrics.decode_requests.labels(self.tokenizer_type)
        metrics.vocab_size.labels(self.tokenizer_type).set(inner.vocab_size)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Encoding:
        """Encode as the inner tokenizer, counted and timed."""
        with _errors(self._metrics.encode_errors), self._metrics.encode_duration.time():
            encoding = super().encode(text, add_special_tokens=add_special_tokens)
        self._encoded(text, encoding)
        return encoding

    def encode_batch(
        self, texts: Iterable[str], *, add_special_tokens: bool = False
    ) -> list[Encoding]:
        """Encode as the inner tokenizer; each text counts as one request."""
        texts = list(texts)
        with _errors(self._metrics.encode_errors), self._metrics.encode_batch_duration.time():
            encodings = super().encode_batch(texts, add_special_tokens=add_special_tokens)
        for text, encoding in zip(texts, encodings, strict=True):
            self._encoded(text, encoding)
        return encodings

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Decode as the inner tokenizer, counted and timed."""
        ids = list(ids)
        with _errors(self._metrics.decode_errors), self._metrics.decode_duration.time():
            text = super().decode(ids, skip_special_tokens=skip_special_tokens)
        self._decode_requests.inc()
        self._metrics.tokens_per_decode.observe(len(ids))
        return text

    def _encoded(self, text: str, encoding: Encoding) -> None:
        self._encode_requests.inc()
        self._metrics.chars_per_encode.observe(len(text))
        self._metrics.tokens_per_encode.observe(len(encoding))


class MeteredStream:
    """A `DecodeStream` that counts and times its steps, for who streams without the engine.

    Two readings of the clock cost as much as many steps do. The engine therefore counts its ids at
    the end of a choice instead.
    """

    def __init__(self, stream: AnyDecodeStream, metrics: TokenizerMetrics) -> None:
        self._stream = stream
        self._metrics = metrics

    @property
    def held(self) -> bytes:
        """The bytes that wait, as in `DecodeStream`."""
        return self._stream.held

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now."""
        start = time.perf_counter()
        text = self._stream.step(token_id)
        self._metrics.stream_step_duration.observe(time.perf_counter() - start)
        self._metrics.stream_tokens.inc()
        if self._stream.held:
            self._metrics.stream_incomplete_utf8.inc()
        return text

    def flush(self) -> str:
        """End the stream; return what was cut off as U+FFFD, once."""
        return self._stream.flush()


@contextmanager
def _errors(counter: Counter) -> Iterator[None]:
    try:
        yield
    except TokenizerError as error:
        counter.labels(type(error).__name__).inc()
        raise
