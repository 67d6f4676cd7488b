"""The numbers of `/metrics`: vLLM 0.33.0's metrics, under its names and labels, and our own.

The engine reports every token, so counting must be a few additions to plain numbers; a scrape
converts them to Prometheus' types. Encodes, decodes and ends of texts are rarer, and use the
instruments of `TokenizerMetrics`, on the same registry.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mini_vllm.engine import EngineStats, FinishReason, NullMetrics
from mini_vllm.tokenizer import CachedTokenizer
from mini_vllm.tokenizer.cache import CacheStats
from mini_vllm.tokenizer.metrics import TokenizerMetrics

# Upper bounds; a value above all of them counts in a further bucket. The bounds of times are
# vLLM's.
_TO_FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20),
    *(40, 80, 160, 640, 2560),
)
_INTER_TOKEN = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40),
    80,
)
_REQUEST = (
    *(0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920),
    7680,
)
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
# The labels of vLLM's metrics, and the label of the only engine.
_LABELS = ("model_name", "engine")
_ENGINE = "0"
_REASONS = {
    FinishReason.END_ID: "stop",
    FinishReason.STOP_WORDS: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.CANCELLED: "abort",
    FinishReason.ERROR: "error",
}
Family = TypeVar("Family", CounterMetricFamily, GaugeMetricFamily)


class _Histogram:
    """How often a value fell between two bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def family(self, name: str, what: str, labels: Sequence[str]) -> HistogramMetricFamily:
        bounds = [*map(str, map(float, self._bounds)), "+Inf"]
        buckets = zip(bounds, accumulate(self._counts), strict=True)
        family = HistogramMetricFamily(f"vllm:{name}", what, labels=_LABELS)
        family.add_metric(labels, [*buckets], self._sum)
        return family


class PrometheusMetrics(NullMetrics, Collector):
    """Counts the reports of one engine; reads the state of engine and cache at each scrape.

    Attributes:
        tokenizer: the instruments of the tokenizer, for `create_tokenizer`.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.tokenizer = TokenizerMetrics(self._registry)
        self._stats: Callable[[], EngineStats] | None = None
        self._cached: CachedTokenizer | None = None
        self._labels = ["", _ENGINE]
        self._num_blocks = 1
        self._first = _Histogram(_TO_FIRST_TOKEN)
        self._next = _Histogram(_INTER_TOKEN)
        self._whole = _Histogram(_REQUEST)
        self._prompts = _Histogram(_TOKENS)
        self._outputs = _Histogram(_TOKENS)
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._unknown_tokens = 0
        self._ended = dict.fromkeys(_REASONS.values(), 0)
        self._registry.register(self)

    def watch(
        self,
        stats: Callable[[], EngineStats],
        cached: CachedTokenizer,
        *,
        model_name: str,
        num_blocks: int,
    ) -> None:
        """Set the sources to read at each scrape, and their labels.

        Args:
            stats: returns the engine's state.
            cached: the model's tokenizer.
            model_name: the name by which clients ask for the model.
            num_blocks: how many KV blocks the engine has.
        """
        self._stats = stats
        self._cached = cached
        self._labels = [model_name, _ENGINE]
        self._num_blocks = num_blocks

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format. May wait for the engine's iteration."""
        return generate_latest(self._registry)

    def first_token(self, seconds: float, count: int) -> None:
        """See `NullMetrics`."""
        self._first.observe(seconds)
        self._generation_tokens += count

    def next_token(self, seconds: float, count: int) -> None:
        """See `NullMetrics`."""
        self._next.observe(seconds / count if count else seconds)
        self._generation_tokens += count

    def unknown_tokens(self, count: int) -> None:
        """See `NullMetrics`."""
        self._unknown_tokens += count

    def text_made(self, seconds: float) -> None:
        """See `NullMetrics`."""
        self.tokenizer.stream_step_duration.observe(seconds)

    def finished(
        self, reason: FinishReason, prompt_tokens: int, output_tokens: int, seconds: float
    ) -> None:
        """See `NullMetrics`."""
        self._whole.observe(seconds)
        self._prompt_tokens += prompt_tokens
        self._prompts.observe(prompt_tokens)
        self._outputs.observe(output_tokens)
        self._ended[_REASONS[reason]] += 1

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics for one scrape."""
        for histogram, name, what in (
            (self._first, "time_to_first_token_seconds", "From submission to first token"),
            (self._next, "inter_token_latency_seconds", "From burst to burst of tokens, by token"),
            (self._whole, "e2e_request_latency_seconds", "From submission to the end of a choice"),
            (self._prompts, "request_prompt_tokens", "Prompt tokens of a choice"),
            (self._outputs, "request_generation_tokens", "Tokens generated for a choice"),
        ):
            yield histogram.family(name, what, self._labels)
        for name, what, count in (
            ("prompt_tokens", "Prompt tokens of choices that have ended", self._prompt_tokens),
            ("generation_tokens", "Tokens generated", self._generation_tokens),
        ):
            yield self._of_engine(CounterMetricFamily, name, what, count)
        ended = CounterMetricFamily(
            "vllm:request_success",
            "Choices that have ended, by reason",
            labels=[*_LABELS, "finished_reason"],
        )
        for reason, count in self._ended.items():
            ended.add_metric([*self._labels, reason], count)
        yield ended
        yield CounterMetricFamily(
            "mini_vllm:unknown_tokens",
            "Generated tokens outside the vocabulary",
            value=self._unknown_tokens,
        )
        if self._stats is not None:
            yield from self._state(self._stats())
        if self._cached is not None:
            yield from _cache(self._cached.stats)

    def _state(self, stats: EngineStats) -> Iterable[Metric]:
        used = stats.used_blocks / self._num_blocks
        for name, what, value in (
            ("num_requests_running", "Choices with a slot", stats.running),
            ("num_requests_waiting", "Choices that wait for a slot", stats.waiting),
            ("kv_cache_usage_perc", "KV blocks in use; 1 is all", used),
        ):
            yield self._of_engine(GaugeMetricFamily, name, what, value)
        held = GaugeMetricFamily(
            "mini_vllm:held_characters",
            "Characters that each layer of the text path holds, over all slots (tokens: bytes)",
            labels=["layer"],
        )
        for layer, size in stats.held.items():
            held.add_metric([layer], size)
        yield held

    def _of_engine(self, kind: type[Family], name: str, what: str, value: float) -> Family:
        family = kind(f"vllm:{name}", what, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family


def _cache(stats: CacheStats) -> Iterable[Metric]:
    levels = {"l0": stats.l0, "l1": stats.l1}
    for kind, name, what, value in (
        (CounterMetricFamily, "hits", "Texts (L0) or segments (L1) found", attrgetter("hits")),
        (CounterMetricFamily, "misses", "Texts or segments not found", attrgetter("misses")),
        (GaugeMetricFamily, "hit_rate", "Hits by look-ups", attrgetter("hit_rate")),
        (GaugeMetricFamily, "entries", "Encodings kept", attrgetter("entries")),
        (GaugeMetricFamily, "memory_bytes", "Memory of these encodings", attrgetter("memory")),
    ):
        family = kind(f"sgl_tokenizer_cache_{name}", what, labels=["level"])
        for level, level_stats in levels.items():
            if level_stats is not None:
                family.add_metric([level], value(level_stats))
        yield family
