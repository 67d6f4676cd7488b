"""The numbers behind `/metrics`, in vLLM's names where it has them.

The engine reports every token, so counting is additions to plain numbers; what Prometheus wants is
made of them at each scrape.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mini_vllm.engine import EngineStats, FinishReason, NullMetrics

# Upper bounds in seconds; what is above all of them counts too.
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
    """Counts what one engine reports, and asks it for its state when somebody looks."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._stats: Callable[[], EngineStats] | None = None
        self._first = _Histogram()
        self._next = _Histogram()
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._unknown_tokens = 0
        self._ended = {reason: 0 for reason in FinishReason if reason}
        self._registry.register(self)

    def watch(self, stats: Callable[[], EngineStats]) -> None:
        """Say how to ask the engine."""
        self._stats = stats

    def render(self) -> bytes:
        """Return all numbers in Prometheus' text format. It may wait for the engine's iteration."""
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
        self._ended[reason] += 1

    def collect(self) -> Iterable[Metric]:
        """Yield what Prometheus wants to know."""
        yield self._first.family("time_to_first_token_seconds", "From submission to first token")
        yield self._next.family(
            "inter_token_latency_seconds", "From one burst of tokens to the next, by token"
        )
        for name, what, count in (
            ("prompt_tokens", "Tokens of the prompts that have ended", self._prompt_tokens),
            ("generation_tokens", "Tokens that were generated", self._generation_tokens),
            ("unknown_tokens", "Tokens that are not in the vocabulary", self._unknown_tokens),
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


def _state(stats: EngineStats) -> Iterable[Metric]:
    for name, what, value in (
        ("num_requests_running", "Choices with a slot", stats.running),
        ("num_requests_waiting", "Choices that wait for a slot", stats.waiting),
        ("kv_blocks_used", "KV blocks that somebody has", stats.used_blocks),
    ):
        yield GaugeMetricFamily(f"vllm:{name}", what, value=value)
    held = GaugeMetricFamily(
        "mini_vllm:held_characters",
        "What each layer of the text path holds back, over all slots (detokenizer: bytes)",
        labels=["layer"],
    )
    for layer, size in stats.held.items():
        held.add_metric([layer], size)
    yield held
