"""The engine's UTF-8 sanitizer in the shape of lab 03."""

from mini_vllm.text.utf8 import Utf8Sanitizer, utf8_expected_len

__all__ = ["StreamingDetokenizer", "utf8_expected_len"]


class StreamingDetokenizer:
    """Byte tokens in, text out."""

    def __init__(self) -> None:
        self._sanitizer = Utf8Sanitizer()

    @property
    def held(self) -> bytes:
        """The bytes that wait."""
        return self._sanitizer.pending

    def feed(self, token_id: int) -> str:
        """Take one token."""
        if not 0 <= token_id <= 255:
            return ""
        return self._sanitizer.feed(bytes([token_id]))

    def flush(self) -> str:
        """End the stream."""
        return self._sanitizer.flush()
