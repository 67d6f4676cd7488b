"""Token ids to text and back.

The backends that need a library of the extra `tokenizers` are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mini_vllm.tokenizer.attributed_stream import AttributedStream
from mini_vllm.tokenizer.byte import ByteTokenizer
from mini_vllm.tokenizer.cache import CacheConfig, CachedTokenizer
from mini_vllm.tokenizer.chat_template import ChatMessage, ChatTemplate, TemplateLimits
from mini_vllm.tokenizer.decode_stream import DecodeStream
from mini_vllm.tokenizer.detect import TokenizerType, get_tokenizer_info
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
from mini_vllm.tokenizer.factory import (
    create_tokenizer,
    create_tokenizer_async,
    create_tokenizer_from_file,
    create_tokenizer_with_chat_template,
)
from mini_vllm.tokenizer.gguf import read_gguf_metadata
from mini_vllm.tokenizer.huggingface import HuggingFaceTokenizer
from mini_vllm.tokenizer.incremental import IncrementalDetokenizer
from mini_vllm.tokenizer.mock import MockTokenizer
from mini_vllm.tokenizer.model_map import ModelTokenizerMap
from mini_vllm.tokenizer.protocols import Decoder, Encoder, SpecialTokens, Tokenizer
from mini_vllm.tokenizer.registry import LoadOutcome, TokenizerRegistry
from mini_vllm.tokenizer.sequence import Sequence
from mini_vllm.tokenizer.stop_sequence import (
    Held,
    SequenceDecoderOutput,
    StopMatch,
    Stopped,
    StoppedWithText,
    StopSequenceConfig,
    StopSequenceDecoder,
    StopSequenceDecoderBuilder,
    Text,
)
from mini_vllm.tokenizer.window_stream import WindowDecodeStream
from mini_vllm.tokenizer.wrapper import TokenizerWrapper

if TYPE_CHECKING:
    from mini_vllm.tokenizer.gguf_tokenizer import GGUFTokenizer
    from mini_vllm.tokenizer.sentencepiece import SentencePieceTokenizer
    from mini_vllm.tokenizer.tiktoken import TiktokenModel, TiktokenTokenizer

_LAZY = {
    "GGUFTokenizer": "gguf_tokenizer",
    "SentencePieceTokenizer": "sentencepiece",
    "TiktokenModel": "tiktoken",
    "TiktokenTokenizer": "tiktoken",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


__all__ = [
    "AttributedStream",
    "ByteTokenizer",
    "CacheConfig",
    "CachedTokenizer",
    "ChatMessage",
    "ChatTemplate",
    "ChatTemplateError",
    "CorruptModelFile",
    "DecodeError",
    "DecodeStream",
    "Decoder",
    "EncodeError",
    "Encoder",
    "Encoding",
    "EncodingKind",
    "GGUFTokenizer",
    "Held",
    "HubError",
    "HuggingFaceTokenizer",
    "IncrementalDetokenizer",
    "LoadOutcome",
    "MockTokenizer",
    "ModelTokenizerMap",
    "SentencePieceTokenizer",
    "Sequence",
    "SequenceDecoderOutput",
    "SpecialTokens",
    "StopMatch",
    "StopSequenceConfig",
    "StopSequenceDecoder",
    "StopSequenceDecoderBuilder",
    "Stopped",
    "StoppedWithText",
    "TemplateLimits",
    "Text",
    "TiktokenModel",
    "TiktokenTokenizer",
    "Tokenizer",
    "TokenizerError",
    "TokenizerFileNotFound",
    "TokenizerRegistry",
    "TokenizerType",
    "TokenizerWrapper",
    "UnknownModel",
    "UnknownTokenId",
    "UnsupportedFormat",
    "WindowDecodeStream",
    "create_tokenizer",
    "create_tokenizer_async",
    "create_tokenizer_from_file",
    "create_tokenizer_with_chat_template",
    "get_tokenizer_info",
    "read_gguf_metadata",
]
