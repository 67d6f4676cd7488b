"""A tokenizer or a stream that counts and times what it does; what is not wrapped pays nothing."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import Counter

from mini_vllm.tokenizer.encoding import NONE, AllowedSpecial, Encoding
from mini_vllm.tokenizer.ids import plain_ids
from mini_vllm.tokenizer.metrics import TokenizerMetrics
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer.streams.decode_stream import AnyDecodeStream
from mini_vllm.tokenizer.streams.token_stream import TokenStream
from mini_vllm.tokenizer.wrapper import TokenizerWrapper
from mini_vllm.tokenizer_errors import TokenizerError


def metered_load(load: Callable[[], Tokenizer], metrics: TokenizerMetrics) -> "MeteredTokenizer":
    """Return the tokenizer that `load` returns, metered; the load is counted and timed."""
    with _errors(metrics.factory_errors, "factory_load"), metrics.factory_load_duration.time():
        tokenizer = MeteredTokenizer(load(), metrics)
    metrics.factory_loads.labels(tokenizer.tokenizer_type).inc()
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
        inner = self.inner
        self.tokenizer_type = type(inner).__name__.removesuffix("Tokenizer").lower()
        self._metrics = metrics
        self._encode_requests = metrics.encode_requests.labels(self.tokenizer_type, "encode")
        self._batch_requests = metrics.encode_requests.labels(self.tokenizer_type, "encode_batch")
        self._decode_requests = metrics.decode_requests.labels(self.tokenizer_type, "decode")
        metrics.vocab_size.labels(self.tokenizer_type).set(inner.vocab_size)

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Encode as the inner tokenizer, counted and timed."""
        errors = _errors(self._metrics.encode_errors, "encode")
        with errors, self._metrics.encode_duration.time():
            encoding = super().encode(
                text, add_special_tokens=add_special_tokens, allowed_special=allowed_special
            )
        self._encode_requests.inc()
        self._encoded(text, encoding)
        return encoding

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> list[Encoding]:
        """Encode as the inner tokenizer; each text counts as one request."""
        texts = list(texts)
        errors = _errors(self._metrics.encode_errors, "encode_batch")
        with errors, self._metrics.encode_batch_duration.time():
            encodings = super().encode_batch(
                texts, add_special_tokens=add_special_tokens, allowed_special=allowed_special
            )
        self._batch_requests.inc(len(texts))
        for text, encoding in zip(texts, encodings, strict=True):
            self._encoded(text, encoding)
        return encodings

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Decode as the inner tokenizer, counted and timed."""
        ids = plain_ids(ids)
        with _errors(self._metrics.decode_errors, "decode"), self._metrics.decode_duration.time():
            text = super().decode(ids, skip_special_tokens=skip_special_tokens)
        self._decode_requests.inc()
        self._metrics.tokens_per_decode.observe(len(ids))
        return text

    def _encoded(self, text: str, encoding: Encoding) -> None:
        self._metrics.chars_per_encode.observe(len(text))
        self._metrics.tokens_per_encode.observe(len(encoding))


class MeteredStream(TokenStream):
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
def _errors(counter: Counter, operation: str) -> Iterator[None]:
    try:
        yield
    except TokenizerError as error:
        counter.labels(type(error).__name__, operation).inc()
        raise
