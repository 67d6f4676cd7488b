"""The built-in encodings of tiktoken: what is known of them beside their ranks.

But: no ranks. They are files of megabytes, which a user has or fetches.
"""

from enum import Enum
from typing import NamedTuple

from mini_vllm.tokenizer.backends import split_patterns
from mini_vllm.tokenizer.loading.model_map import ModelTokenizerMap
from mini_vllm.tokenizer_errors import UnknownModel


class _Facts(NamedTuple):
    base_vocab_size: int
    pattern: str
    special_tokens: dict[str, int]
    file: str | None = None


class TiktokenModel(Enum):
    """The built-in encodings; the value is tiktoken's name."""

    CL100K_BASE = "cl100k_base"
    P50K_BASE = "p50k_base"
    P50K_EDIT = "p50k_edit"
    R50K_BASE = "r50k_base"
    O200K_BASE = "o200k_base"

    @property
    def base_vocab_size(self) -> int:
        """The size that is usually quoted; some count special tokens, some do not.

        Source: seed 003. The exact number is `vocab_size` of a loaded tokenizer.
        """
        return _FACTS[self].base_vocab_size

    @property
    def pattern(self) -> str:
        """The regex that cuts a text into words."""
        return _FACTS[self].pattern

    @property
    def special_tokens(self) -> dict[str, int]:
        """The ids of the special tokens."""
        return dict(_FACTS[self].special_tokens)

    @property
    def file_name(self) -> str:
        """The name of the file of ranks; two encodings share one."""
        return f"{_FACTS[self].file or self.value}.tiktoken"

    @classmethod
    def from_model_name(cls, name: str) -> "TiktokenModel":
        """Return the encoding of a model such as `gpt-4`, by the model map.

        Raises:
            UnknownModel: it is no model of OpenAI's.
        """
        names = ModelTokenizerMap.load()
        try:
            return cls(names.resolve(name))
        except ValueError:
            raise UnknownModel(name, names.near(name)) from None


_END = "<|endoftext|>"
_FILL = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_FACTS = {
    TiktokenModel.CL100K_BASE: _Facts(
        100_256,
        split_patterns.CL100K,
        {
            _END: 100257,
            **{token: 100258 + number for number, token in enumerate(_FILL)},
            "<|endofprompt|>": 100276,
        },
    ),
    TiktokenModel.P50K_BASE: _Facts(50_281, split_patterns.GPT2, {_END: 50256}),
    TiktokenModel.P50K_EDIT: _Facts(
        50_281,
        split_patterns.GPT2,
        {_END: 50256, **{token: 50281 + number for number, token in enumerate(_FILL)}},
        "p50k_base",
    ),
    TiktokenModel.R50K_BASE: _Facts(50_257, split_patterns.GPT2, {_END: 50256}),
    TiktokenModel.O200K_BASE: _Facts(
        200_019, split_patterns.O200K, {_END: 199999, "<|endofprompt|>": 200018}
    ),
}
