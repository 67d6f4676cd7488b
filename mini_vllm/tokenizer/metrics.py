"""Prometheus metrics of tokenizers and streams, on the caller's registry.

The names are those of SGLang's gateway. `metered` wraps a tokenizer to measure it.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10)
_SIZES = tuple(4**power for power in range(11))


class TokenizerMetrics:
    """The instruments, all named `sgl_tokenizer_...`, on one registry.

    Durations are in seconds; `chars_per_encode` counts characters. The label `operation` is
    `encode`, `encode_batch`, `decode` or `factory_load`. Streams count each step at once; a text
    pipeline counts its steps when its text ends.

    Args:
        registry: the registry for the instruments.

    Raises:
        ValueError: the registry already has them.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"sgl_tokenizer_{name}", what, labels, registry=registry)

        def histogram(name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"sgl_tokenizer_{name}", what, registry=registry, buckets=buckets)

        def seconds(name: str, what: str) -> Histogram:
            return histogram(f"{name}_seconds", what, _SECONDS)

        requests, errors = ("tokenizer_type", "operation"), ("error_type", "operation")
        self.encode_duration = seconds("encode_duration", "Time of one encode")
        self.encode_batch_duration = seconds("encode_batch_duration", "Time of one batch encode")
        self.encode_requests = counter("encode_requests_total", "Texts to encode", *requests)
        self.encode_errors = counter("encode_errors_total", "Failed encodes", *errors)
        self.tokens_per_encode = histogram("tokens_per_encode", "Ids of one text", _SIZES)
        self.chars_per_encode = histogram("chars_per_encode", "Characters of one text", _SIZES)
        self.decode_duration = seconds("decode_duration", "Time of one decode")
        self.decode_requests = counter("decode_requests_total", "Decodes", *requests)
        self.decode_errors = counter("decode_errors_total", "Failed decodes", *errors)
        self.tokens_per_decode = histogram("tokens_per_decode", "Ids of one decode", _SIZES)
        self.vocab_size = Gauge(
            "sgl_tokenizer_vocab_size", "Highest id plus one", ["tokenizer_type"], registry=registry
        )
        self.stream_tokens = counter(
            "stream_tokens_total", "Ids put into streams and text pipelines"
        )
        self.stream_incomplete_utf8 = counter(
            "stream_incomplete_utf8_total", "Ids after which a character was incomplete"
        )
        self.stream_step_duration = seconds(
            "stream_step_duration",
            "Time of one id in a stream; in an engine, time of the text of one engine step, "
            "sampled: the first of every 16 engine steps with text",
        )
        self.factory_loads = counter("factory_loads_total", "Tokenizers loaded", "file_type")
        self.factory_errors = counter("factory_errors_total", "Failed loads", *errors)
        self.factory_load_duration = seconds("factory_load_duration", "Time of one load")
        self.stop_sequences_detected = counter(
            "stop_sequences_detected_total",
            "Texts that ended at a stop token or stop string; an EOS token is neither",
            "type",
        )
        for kind in ("token", "visible_token", "string", "visible_string"):
            self.stop_sequences_detected.labels(kind)
        self.partial_matches = counter(
            "partial_matches_total", "Ids after which text was held that may become a stop string"
        )
        self.stop_detection_duration = seconds(
            "stop_detection_duration",
            "Time of one search for stop strings; in a text pipeline sampled: one search of each "
            "text, the first that no earlier text has made",
        )

    def text_ended(
        self,
        tokens: int,
        incomplete: int,
        partial: int,
        stop_reason: str | int | None,
        *,
        visible: bool,
    ) -> None:
        """Count the steps of a text that has ended.

        Args:
            tokens: the number of ids.
            incomplete: the number of ids that ended inside a character.
            partial: the number of ids after which a possible stop string was held.
            stop_reason: the stop string or stop id that ended the text, or None.
            visible: whether that stop is shown.
        """
        self.stream_tokens.inc(tokens)
        self.stream_incomplete_utf8.inc(incomplete)
        self.partial_matches.inc(partial)
        if stop_reason is not None:
            kind = "string" if isinstance(stop_reason, str) else "token"
            self.stop_sequences_detected.labels(f"visible_{kind}" if visible else kind).inc()
