"""The numbers behind `/metrics`, in vLLM's names where it has them.

But: nothing is measured here; the engine reports, and is asked for its state at each scrape.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mini_vllm.engine import EngineStats, FinishReason, NullMetrics

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class PrometheusMetrics(NullMetrics):
    """Counts what the engine reports.

    Args:
        registry: where the instruments are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"vllm:{name}", what, labels, registry=registry)

        self._first = Histogram(
            "vllm:time_to_first_token_seconds",
            "From submission to the first token",
            registry=registry,
            buckets=_SECONDS,
        )
        self._next = Histogram(
            "vllm:inter_token_latency_seconds",
            "From one burst of tokens to the next, by token",
            registry=registry,
            buckets=_SECONDS,
        )
        self._prompt_tokens = counter("prompt_tokens", "Tokens of the prompts that have ended")
        self._generation_tokens = counter("generation_tokens", "Tokens that were generated")
        self._unknown_tokens = counter("unknown_tokens", "Tokens that are not in the vocabulary")
        success = counter("request_success", "Choices that have ended", "finished_reason")
        # Bound once, because a look-up by label takes longer than the counting.
        self._ended = {reason: success.labels(reason.label) for reason in FinishReason if reason}
        self._aborted = counter("requests_aborted", "Choices that were cancelled")

    def watch(self, stats: Callable[[], EngineStats]) -> None:
        """Show the state of an engine too."""
        self._registry.register(_EngineState(stats))

    def render(self) -> bytes:
        """Return all numbers in Prometheus' text format. It may wait for the engine's iteration."""
        return generate_latest(self._registry)

    def first_token(self, seconds: float) -> None:
        """See `NullMetrics`."""
        self._first.observe(seconds)
        self._generation_tokens.inc()

    def next_token(self, seconds: float, count: int) -> None:
        """See `NullMetrics`."""
        self._next.observe(seconds / count)
        self._generation_tokens.inc(count)

    def unknown_tokens(self, count: int) -> None:
        """See `NullMetrics`."""
        self._unknown_tokens.inc(count)

    def finished(self, reason: FinishReason, prompt_tokens: int, output_tokens: int) -> None:
        """See `NullMetrics`."""
        self._prompt_tokens.inc(prompt_tokens)
        self._ended[reason].inc()
        if reason is FinishReason.CANCELLED:
            self._aborted.inc()


class _EngineState(Collector):
    def __init__(self, stats: Callable[[], EngineStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterable[GaugeMetricFamily]:
        stats = self._stats()
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
