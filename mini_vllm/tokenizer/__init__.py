"""Token ids to text and back."""

from mini_vllm.tokenizer.attributed_stream import AttributedStream
from mini_vllm.tokenizer.byte import ByteTokenizer
from mini_vllm.tokenizer.decode_stream import DecodeStream
from mini_vllm.tokenizer.encoding import Encoding, EncodingKind
from mini_vllm.tokenizer.errors import (
    ChatTemplateError,
    CorruptModelFile,
    DecodeError,
    EncodeError,
    HubError,
    TokenizerError,
    TokenizerFileNotFound,
    UnknownModel,
    UnknownTokenId,
    UnsupportedFormat,
)
from mini_vllm.tokenizer.huggingface import HuggingFaceTokenizer
from mini_vllm.tokenizer.incremental import IncrementalDetokenizer
from mini_vllm.tokenizer.mock import MockTokenizer
from mini_vllm.tokenizer.protocols import Decoder, Encoder, SpecialTokens, Tokenizer
from mini_vllm.tokenizer.sequence import Sequence
from mini_vllm.tokenizer.window_stream import WindowDecodeStream
from mini_vllm.tokenizer.wrapper import TokenizerWrapper

__all__ = [
    "AttributedStream",
    "ByteTokenizer",
    "ChatTemplateError",
    "CorruptModelFile",
    "DecodeError",
    "DecodeStream",
    "Decoder",
    "EncodeError",
    "Encoder",
    "Encoding",
    "EncodingKind",
    "HubError",
    "HuggingFaceTokenizer",
    "IncrementalDetokenizer",
    "MockTokenizer",
    "Sequence",
    "SpecialTokens",
    "Tokenizer",
    "TokenizerError",
    "TokenizerFileNotFound",
    "TokenizerWrapper",
    "UnknownModel",
    "UnknownTokenId",
    "UnsupportedFormat",
    "WindowDecodeStream",
]
