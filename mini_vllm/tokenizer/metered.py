"""A tokenizer that counts and times its calls; a tokenizer that is not wrapped has no such cost."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import Counter

from mini_vllm.tokenizer.encoding import NONE, AllowedSpecial, Encoding
from mini_vllm.tokenizer.ids import plain_ids
from mini_vllm.tokenizer.metrics import TokenizerMetrics
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer.wrapper import TokenizerWrapper
from mini_vllm.tokenizer_errors import TokenizerError


def metered_load(load: Callable[[], Tokenizer], metrics: TokenizerMetrics) -> "MeteredTokenizer":
    """Return the tokenizer that `load` returns, metered; the load is counted and timed."""
    with _errors(metrics.factory_errors, "factory_load"), metrics.factory_load_duration.time():
        tokenizer = MeteredTokenizer(load(), metrics)
    metrics.factory_loads.labels(tokenizer.tokenizer_type).inc()
    return tokenizer


class MeteredTokenizer(TokenizerWrapper):
    """A tokenizer that counts and times its calls.

    Its streams, stop decoders and text pipelines find `metrics` here, and also count there.

    Args:
        inner: the tokenizer.
        metrics: the instruments.

    Attributes:
        metrics: the instruments.
        tokenizer_type: the tokenizer's label, such as `huggingface`.
    """

    def __init__(self, inner: Tokenizer, metrics: TokenizerMetrics) -> None:
        super().__init__(inner)
        inner = self.inner
        self.tokenizer_type = type(inner).__name__.removesuffix("Tokenizer").lower()
        self.metrics: TokenizerMetrics = metrics
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
        """Encode like the inner tokenizer, and count and time the call."""
        errors = _errors(self.metrics.encode_errors, "encode")
        with errors, self.metrics.encode_duration.time():
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
        """Encode like the inner tokenizer; each text counts as one request."""
        texts = list(texts)
        errors = _errors(self.metrics.encode_errors, "encode_batch")
        with errors, self.metrics.encode_batch_duration.time():
            encodings = super().encode_batch(
                texts, add_special_tokens=add_special_tokens, allowed_special=allowed_special
            )
        self._batch_requests.inc(len(texts))
        for text, encoding in zip(texts, encodings, strict=True):
            self._encoded(text, encoding)
        return encodings

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Decode like the inner tokenizer, and count and time the call."""
        ids = plain_ids(ids)
        with _errors(self.metrics.decode_errors, "decode"), self.metrics.decode_duration.time():
            text = super().decode(ids, skip_special_tokens=skip_special_tokens)
        self._decode_requests.inc()
        self.metrics.tokens_per_decode.observe(len(ids))
        return text

    def _encoded(self, text: str, encoding: Encoding) -> None:
        self.metrics.chars_per_encode.observe(len(text))
        self.metrics.tokens_per_encode.observe(len(encoding))


@contextmanager
def _errors(counter: Counter, operation: str) -> Iterator[None]:
    try:
        yield
    except TokenizerError as error:
        counter.labels(type(error).__name__, operation).inc()
        raise
