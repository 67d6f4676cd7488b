"""Token ids to text and back."""

from mini_vllm.tokenizer.byte import ByteTokenizer

__all__ = ["ByteTokenizer"]
