"""The numbers behind `/metrics`, under vLLM's names where it has them.

The engine reports every token, so counting must be a few additions to plain numbers; they become
what Prometheus wants at each scrape. Encodes and decodes are rarer, and use the instruments of
`TokenizerMetrics`, on the same registry.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate
from operator import attrgetter

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mini_vllm.engine import EngineStats, FinishReason, NullMetrics
from mini_vllm.tokenizer import CachedTokenizer
from mini_vllm.tokenizer.cache import CacheStats
from mini_vllm.tokenizer.metrics import TokenizerMetrics

# Upper bounds in seconds; longer times count in the bucket above them all.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class _Histogram:
    """How often a time fell between two bounds."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_SECONDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_SECONDS, seconds)] += 1
        self._sum += seconds

    def family(self, name: str, what: str) -> HistogramMetricFamily:
        bounds = [*map(str, map(float, _SECONDS)), "+Inf"]
        buckets = zip(bounds, accumulate(self._counts), strict=True)
        return HistogramMetricFamily(f"vllm:{name}", what, [*buckets], self._sum)


class PrometheusMetrics(NullMetrics, Collector):
    """Counts what one engine reports; asks the engine and the cache for their state at each scrape.

    Attributes:
        tokenizer: the instruments of the tokenizer, for `create_tokenizer`.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.tokenizer = TokenizerMetrics(self._registry)
        self._stats: Callable[[], EngineStats] | None = None
        self._cached: CachedTokenizer | None = None
        self._first = _Histogram()
        self._next = _Histogram()
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._unknown_tokens = 0
        self._ended = {reason: 0 for reason in FinishReason if reason}
        self._registry.register(self)

    def watch(self, stats: Callable[[], EngineStats], cached: CachedTokenizer) -> None:
        """Set what is asked at each scrape."""
        self._stats = stats
        self._cached = cached

    def render(self) -> bytes:
        """Return everything in Prometheus' text format. May wait for the engine's iteration."""
        return generate_latest(self._registry)

    def first_token(self, seconds: float) -> None:
        """See `NullMetrics`."""
        self._first.observe(seconds)
        self._generation_tokens += 1

    def next_token(self, seconds: float, count: int) -> None:
        """See `NullMetrics`."""
        self._next.observe(seconds / count if count else seconds)
        self._generation_tokens += count

    def unknown_tokens(self, count: int) -> None:
        """See `NullMetrics`."""
        self._unknown_tokens += count

    def finished(self, reason: FinishReason, prompt_tokens: int, output_tokens: int) -> None:
        """See `NullMetrics`."""
        self._prompt_tokens += prompt_tokens
        # Once a choice, not once a step: see `MeteredStream`.
        self.tokenizer.stream_tokens.inc(output_tokens)
        self._ended[reason] += 1

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics for one scrape."""
        yield self._first.family("time_to_first_token_seconds", "From submission to first token")
        yield self._next.family(
            "inter_token_latency_seconds", "From one burst of tokens to the next, by token"
        )
        for name, what, count in (
            ("prompt_tokens", "Prompt tokens of choices that have ended", self._prompt_tokens),
            ("generation_tokens", "Tokens generated", self._generation_tokens),
            ("unknown_tokens", "Generated tokens outside the vocabulary", self._unknown_tokens),
            ("requests_aborted", "Choices cancelled", self._ended[FinishReason.CANCELLED]),
        ):
            yield CounterMetricFamily(f"vllm:{name}", what, value=count)
        ended = CounterMetricFamily(
            "vllm:request_success", "Choices that have ended", labels=["finished_reason"]
        )
        for reason, count in self._ended.items():
            ended.add_metric([reason.label], count)
        yield ended
        if self._stats is not None:
            yield from _state(self._stats())
        if self._cached is not None:
            yield from _cache(self._cached.stats)


def _state(stats: EngineStats) -> Iterable[Metric]:
    for name, what, value in (
        ("num_requests_running", "Choices with a slot", stats.running),
        ("num_requests_waiting", "Choices that wait for a slot", stats.waiting),
        ("kv_blocks_used", "KV blocks in use", stats.used_blocks),
    ):
        yield GaugeMetricFamily(f"vllm:{name}", what, value=value)
    held = GaugeMetricFamily(
        "mini_vllm:held_characters",
        "What each layer of the text path holds back, over all slots (tokens: bytes)",
        labels=["layer"],
    )
    for layer, size in stats.held.items():
        held.add_metric([layer], size)
    yield held


def _cache(stats: CacheStats) -> Iterable[Metric]:
    levels = {"l0": stats.l0, "l1": stats.l1}
    for kind, name, what, value in (
        (CounterMetricFamily, "hits", "Texts (L0) or segments (L1) found", attrgetter("hits")),
        (CounterMetricFamily, "misses", "Texts or segments not found", attrgetter("misses")),
        (GaugeMetricFamily, "hit_rate", "Hits by look-ups", attrgetter("hit_rate")),
        (GaugeMetricFamily, "entries", "Encodings kept", attrgetter("entries")),
        (GaugeMetricFamily, "memory_bytes", "What they take", attrgetter("memory")),
    ):
        family = kind(f"sgl_tokenizer_cache_{name}", what, labels=["level"])
        for level, found in levels.items():
            if found is not None:
                family.add_metric([level], value(found))
        yield family
