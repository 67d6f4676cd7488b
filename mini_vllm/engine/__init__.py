"""Requests, slots and channels: the loop that makes tokens, and the streams that deliver them."""

from mini_vllm.engine.async_reading import generate, merge
from mini_vllm.engine.channel import StreamChannel, read_together
from mini_vllm.engine.core import NullMetrics
from mini_vllm.engine.engine import Engine, EngineState, EngineStats
from mini_vllm.engine.engine_errors import (
    ChannelStateError,
    ContextLengthError,
    EngineDeadError,
    EngineOverloadedError,
    EngineStateError,
    ModelContractError,
    RemoteModelError,
    SlowConsumerError,
    StreamError,
    StreamingError,
    StreamingSubmissionError,
    StructuredOutputError,
)
from mini_vllm.engine.model import Burst, Model, SlotView
from mini_vllm.engine.outputs import (
    CompletionOutput,
    Handle,
    LogprobEntry,
    Response,
    StreamChunk,
    TokenLogprobs,
)
from mini_vllm.engine.pipe import OverflowPolicy
from mini_vllm.engine.request import Request, SamplingParams, StructuredOutputsParams
from mini_vllm.engine.structured_output_manager import MissingBackendError
from mini_vllm.engine.text_path import MakeTextPath, TextPath
from mini_vllm.engine.text_path_factory import TextPathFactory
from mini_vllm.engine.thread import EngineThread
from mini_vllm.finish_reason import Ending, FinishReason

__all__ = [
    "Burst",
    "ChannelStateError",
    "CompletionOutput",
    "ContextLengthError",
    "Ending",
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
    "MissingBackendError",
    "Model",
    "ModelContractError",
    "NullMetrics",
    "OverflowPolicy",
    "RemoteModelError",
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
    "StructuredOutputError",
    "StructuredOutputsParams",
    "TextPath",
    "TextPathFactory",
    "TokenLogprobs",
    "generate",
    "merge",
    "read_together",
]
