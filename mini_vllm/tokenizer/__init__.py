"""Token ids to text and back."""

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

__all__ = [
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
    "SpecialTokens",
    "Tokenizer",
    "TokenizerError",
    "TokenizerFileNotFound",
    "UnknownModel",
    "UnknownTokenId",
    "UnsupportedFormat",
]
