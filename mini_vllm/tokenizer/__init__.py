"""Token ids to text and back.

Backends that need a library are imported when they are first used. So a Python without these
libraries, for example in a browser, can import the other backends.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mini_vllm.chat_template.template import ChatMessage, ChatTemplate, TemplateLimits
from mini_vllm.tokenizer.backends.byte import ByteTokenizer
from mini_vllm.tokenizer.backends.gguf_file import read_gguf_metadata
from mini_vllm.tokenizer.backends.known_ranks import TiktokenModel
from mini_vllm.tokenizer.backends.mock import MockTokenizer
from mini_vllm.tokenizer.cache import CacheConfig, CachedTokenizer
from mini_vllm.tokenizer.encoding import AllowedSpecial, At, Encoding, EncodingKind
from mini_vllm.tokenizer.factory import create_tokenizer, create_tokenizer_async
from mini_vllm.tokenizer.loading.detect import TokenizerType, get_tokenizer_info
from mini_vllm.tokenizer.loading.files import (
    create_tokenizer_from_file,
    create_tokenizer_with_chat_template,
)
from mini_vllm.tokenizer.model_map import ModelTokenizerMap
from mini_vllm.tokenizer.protocols import Decoder, Encoder, SpecialTokens, Tokenizer
from mini_vllm.tokenizer.streams.attributed import AttributedStream
from mini_vllm.tokenizer.streams.decode_stream import DecodeStream, WindowDecodeStream
from mini_vllm.tokenizer.streams.factory import create_decode_stream
from mini_vllm.tokenizer.streams.incremental import IncrementalDetokenizer
from mini_vllm.tokenizer.streams.sequence import Sequence
from mini_vllm.tokenizer.streams.stop_sequence import (
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
from mini_vllm.tokenizer.wrapper import TokenizerWrapper
from mini_vllm.tokenizer_errors import (
    ChatTemplateError,
    CorruptModelFile,
    DecodeError,
    EncodeError,
    HubError,
    MissingLibrary,
    TokenizerError,
    TokenizerFileNotFound,
    UnknownModel,
    UnknownTokenId,
    UnsupportedFormat,
)

if TYPE_CHECKING:
    from mini_vllm.tokenizer.backends.gguf import GGUFTokenizer
    from mini_vllm.tokenizer.backends.huggingface import HuggingFaceTokenizer
    from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer
    from mini_vllm.tokenizer.backends.tiktoken import TiktokenTokenizer

_LAZY = {
    "GGUFTokenizer": "backends.gguf",
    "HuggingFaceTokenizer": "backends.huggingface",
    "SentencePieceTokenizer": "backends.sentencepiece",
    "TiktokenTokenizer": "backends.tiktoken",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


__all__ = [
    "AllowedSpecial",
    "At",
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
    "MissingLibrary",
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
    "TokenizerType",
    "TokenizerWrapper",
    "UnknownModel",
    "UnknownTokenId",
    "UnsupportedFormat",
    "WindowDecodeStream",
    "create_decode_stream",
    "create_tokenizer",
    "create_tokenizer_async",
    "create_tokenizer_from_file",
    "create_tokenizer_with_chat_template",
    "get_tokenizer_info",
    "read_gguf_metadata",
]
