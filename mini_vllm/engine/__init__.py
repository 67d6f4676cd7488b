"""Requests, slots and channels: the loop that makes tokens, and the streams that carry them out."""

from mini_vllm.engine.channel import StreamChannel
from mini_vllm.engine.chunk import LogprobEntry, StreamChunk, TokenLogprobs
from mini_vllm.engine.engine import Engine, EngineState, EngineStats
from mini_vllm.engine.engine_errors import (
    ChannelStateError,
    EngineDeadError,
    EngineOverloadedError,
    EngineStateError,
    ModelContractError,
    SlowConsumerError,
    StreamError,
    StreamingError,
    StreamingSubmissionError,
)
from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.generate import generate, merge
from mini_vllm.engine.handle import Handle
from mini_vllm.engine.metrics import NullMetrics
from mini_vllm.engine.model import Burst, Model, SlotView
from mini_vllm.engine.params import SamplingParams
from mini_vllm.engine.producer import OverflowPolicy
from mini_vllm.engine.read_together import read_together
from mini_vllm.engine.request import CompletionOutput, Request, Response
from mini_vllm.engine.text_path import MakeTextPath, TextPath, TextPathFactory
from mini_vllm.engine.thread import EngineThread

__all__ = [
    "Burst",
    "ChannelStateError",
    "CompletionOutput",
    "Engine",
    "EngineDeadError",
    "EngineOverloadedError",
    "EngineState",
    "EngineStateError",
    "EngineStats",
    "EngineThread",
    "FinishReason",
    "Handle",
    "LogprobEntry",
    "MakeTextPath",
    "Model",
    "ModelContractError",
    "NullMetrics",
    "OverflowPolicy",
    "Request",
    "Response",
    "SamplingParams",
    "SlotView",
    "SlowConsumerError",
    "StreamChannel",
    "StreamChunk",
    "StreamError",
    "StreamingError",
    "StreamingSubmissionError",
    "TextPath",
    "TextPathFactory",
    "TokenLogprobs",
    "generate",
    "merge",
    "read_together",
]
