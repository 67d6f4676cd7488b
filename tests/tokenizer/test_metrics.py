"""All twenty metrics, from one scripted session."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from vocabularies import byte_level

from mini_vllm.finish_reason import FinishReason
from mini_vllm.pipeline import TextPipeline
from mini_vllm.tokenizer import (
    AttributedStream,
    ByteTokenizer,
    CachedTokenizer,
    EncodeError,
    HuggingFaceTokenizer,
    IncrementalDetokenizer,
    MockTokenizer,
    Sequence,
    StopSequenceConfig,
    StopSequenceDecoder,
    StopSequenceDecoderBuilder,
    Tokenizer,
    TokenizerFileNotFound,
    TokenizerWrapper,
    UnknownTokenId,
    create_decode_stream,
    create_tokenizer,
    create_tokenizer_async,
)
from mini_vllm.tokenizer.metered import MeteredTokenizer
from mini_vllm.tokenizer.metrics import TokenizerMetrics

EXPECTED = {
    ("encode_duration_seconds_count",): 2, ("encode_batch_duration_seconds_count",): 2,
    ("encode_requests_total", "tokenizer_type huggingface operation encode"): 1,
    ("encode_requests_total", "tokenizer_type huggingface operation encode_batch"): 2,
    ("encode_errors_total", "error_type EncodeError operation encode"): 1,
    ("encode_errors_total", "error_type EncodeError operation encode_batch"): 1,
    ("tokens_per_encode_count",): 3,
    ("chars_per_encode_sum",): 7, ("decode_duration_seconds_count",): 2,
    ("decode_requests_total", "tokenizer_type huggingface operation decode"): 1,
    ("decode_errors_total", "error_type UnknownTokenId operation decode"): 1,
    ("tokens_per_decode_sum",): 1,
    ("stream_tokens_total",): 6, ("stream_incomplete_utf8_total",): 3,
    ("stream_step_duration_seconds_count",): 6,
    ("factory_loads_total", "file_type huggingface"): 1,
    ("factory_errors_total", "error_type TokenizerFileNotFound operation factory_load"): 1,
    ("factory_load_duration_seconds_count",): 2,
    ("stop_sequences_detected_total", "type token"): 1, ("partial_matches_total",): 1,
    ("stop_detection_duration_seconds_count",): 2,
}  # fmt: skip


def test_one_session_has_all_of_them(tmp_path):
    registry = CollectorRegistry()
    metrics = TokenizerMetrics(registry)

    with pytest.raises(TokenizerFileNotFound):
        create_tokenizer(tmp_path / "no", metrics=metrics)
    (tmp_path / "tokenizer.json").write_text(byte_level().to_str(), encoding="utf-8")
    tokenizer = create_tokenizer(tmp_path, metrics=metrics)
    tokenizer.encode("你好!")
    tokenizer.encode_batch(["ab", "cd"])
    with pytest.raises(EncodeError):
        tokenizer.encode("\ud800")
    with pytest.raises(EncodeError):
        tokenizer.encode_batch(["ef", "\ud800"])
    tokenizer.decode([5])
    with pytest.raises(UnknownTokenId):
        tokenizer.decode([10**6])
    stream = create_decode_stream(MeteredTokenizer(ByteTokenizer(), metrics))
    assert "".join(map(stream.step, "🚀!".encode())) == "🚀!"
    assert (stream.held, stream.flush()) == (b"", "")
    config = StopSequenceConfig(frozenset([257]), ("!!",))
    StopSequenceDecoder(MeteredTokenizer(ByteTokenizer(), metrics), config).process_tokens(
        [33, 257]
    )

    for (name, *label), value in EXPECTED.items():
        words = " ".join(label).split()
        labels = dict(zip(words[::2], words[1::2], strict=True))
        assert registry.get_sample_value(f"sgl_tokenizer_{name}", labels) == value, name
    size = {"tokenizer_type": "huggingface"}
    assert registry.get_sample_value("sgl_tokenizer_vocab_size", size) == tokenizer.vocab_size
    assert len({metric.name for metric in registry.collect()}) == 20


class Opaque(TokenizerWrapper):
    """A tokenizer of which only `decode` is known."""

    pieces = None


def pipeline_of(tokenizer):
    pipeline = TextPipeline(tokenizer)

    def step(token_id):
        pipeline.feed((token_id,))
        if pipeline.tokens == len(ROCKET):
            pipeline.finish(FinishReason.LENGTH)

    return step


ROCKET = "🚀!".encode()
# Each takes ids one by one.
STREAMS = {
    "decode_stream": lambda tokenizer: tokenizer.decode_stream().step,
    "create_decode_stream": lambda tokenizer: create_decode_stream(tokenizer).step,
    "window": lambda tokenizer: create_decode_stream(Opaque(tokenizer)).step,
    "attributed": lambda tokenizer: AttributedStream(create_decode_stream(tokenizer)).step,
    "detokenizer": lambda tokenizer: IncrementalDetokenizer(tokenizer, [1]).push,
    "sequence": lambda tokenizer: Sequence(tokenizer).append_token,
    "stops": lambda tokenizer: StopSequenceDecoder(tokenizer, STOPS).process_token,
    "builder": lambda tokenizer: StopSequenceDecoderBuilder(tokenizer).build().process_token,
    "pipeline": pipeline_of,
}
STOPS = StopSequenceConfig(stop_sequences=("!!",))


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("kind", STREAMS)
def test_the_streams_of_a_metered_tokenizer_are_counted(kind, cached):
    registry = CollectorRegistry()
    tokenizer = create_tokenizer("byte", metrics=TokenizerMetrics(registry))
    step = STREAMS[kind](CachedTokenizer(tokenizer) if cached else tokenizer)
    for token_id in ROCKET:
        step(token_id)
    names = "stream_tokens_total", "stream_incomplete_utf8_total", "partial_matches_total"
    values = [registry.get_sample_value(f"sgl_tokenizer_{name}") for name in names]
    assert values == [5, 3, kind == "stops"]
    steps = registry.get_sample_value("sgl_tokenizer_stream_step_duration_seconds_count")
    # The engine measures the steps of a pipeline.
    assert steps == (0 if kind == "pipeline" else 5)


def test_a_metered_tokenizer_has_what_the_wrapped_one_has():
    metrics = TokenizerMetrics(CollectorRegistry())
    inner = HuggingFaceTokenizer.from_tokenizer(byte_level())
    tokenizer = MeteredTokenizer(inner, metrics)
    tokenizer.set_chat_template("{{ messages[0].content }}{{ eos_token }}")
    for one in (tokenizer, CachedTokenizer(tokenizer)):
        assert one.chat_template is inner.chat_template
        assert one.apply_chat_template([{"role": "user", "content": "Hi"}]) == "Hi</s>"
        assert one.pieces is inner.pieces
        assert isinstance(one, Tokenizer)
        assert not hasattr(one, "_ids")
    assert not hasattr(MeteredTokenizer(ByteTokenizer(), metrics), "chat_template")
    # A half-made wrapper, as `copy` makes them, has no attribute to look into.
    assert not hasattr(TokenizerWrapper.__new__(TokenizerWrapper), "anything")


def test_without_metrics_nothing_is_wrapped():
    assert isinstance(create_tokenizer("mock"), MockTokenizer)
    assert isinstance(create_tokenizer("byte"), ByteTokenizer)
    metrics = TokenizerMetrics(CollectorRegistry())
    loaded = asyncio.run(create_tokenizer_async("mock", metrics=metrics))
    assert isinstance(loaded.inner, MockTokenizer)
    assert loaded.tokenizer_type == "mock"


def test_two_registries_do_not_meet():
    one, other = CollectorRegistry(), CollectorRegistry()
    MeteredTokenizer(ByteTokenizer(), TokenizerMetrics(one)).encode("a")
    TokenizerMetrics(other)
    labels = {"tokenizer_type": "byte", "operation": "encode"}
    name = "sgl_tokenizer_encode_requests_total"
    assert one.get_sample_value(name, labels) == 1
    assert other.get_sample_value(name, labels) is None
    with pytest.raises(ValueError, match="Duplicated"):
        TokenizerMetrics(one)
