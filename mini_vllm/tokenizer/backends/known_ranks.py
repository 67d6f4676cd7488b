"""How well-known files of ranks cut text, and their special tokens, which the files do not contain.

A file is recognised by its name or, since Meta and others name their files `tokenizer.model`, by
its content.
"""

import hashlib
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from mini_vllm.tokenizer.backends import split_patterns
from mini_vllm.tokenizer.model_map import ModelTokenizerMap
from mini_vllm.tokenizer_errors import UnknownModel


class RankFacts(NamedTuple):
    """The pattern and the special tokens of a file of ranks.

    Attributes:
        pattern: the regex that cuts a text into words.
        special_tokens: the ids of the special tokens, unless a configuration says otherwise.
        prefix: the special tokens that `add_special_tokens` puts in front of a text.
        ends: special tokens that end an answer, in addition to those that do so for every model.
    """

    pattern: str
    special_tokens: dict[str, int]
    prefix: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


class TiktokenModel(Enum):
    """The built-in encodings; the value is tiktoken's name."""

    CL100K_BASE = "cl100k_base"
    P50K_BASE = "p50k_base"
    P50K_EDIT = "p50k_edit"
    R50K_BASE = "r50k_base"
    O200K_BASE = "o200k_base"
    O200K_HARMONY = "o200k_harmony"

    @property
    def base_vocab_size(self) -> int:
        """The size that is usually quoted; some of these sizes include special tokens.

        The exact number is `vocab_size` of a loaded tokenizer.
        """
        return _BASE_SIZES[self.value]

    @property
    def pattern(self) -> str:
        """The regex that cuts a text into words."""
        return NAMED[self.value].pattern

    @property
    def special_tokens(self) -> dict[str, int]:
        """The ids of the special tokens."""
        return dict(NAMED[self.value].special_tokens)

    @property
    def file_name(self) -> str:
        """The name of the file of ranks; several encodings may share one."""
        shared = {"p50k_edit": "p50k_base", "o200k_harmony": "o200k_base"}
        return f"{shared.get(self.value, self.value)}.tiktoken"

    @property
    def file_facts(self) -> tuple[int, str]:
        """The size in bytes, and the SHA-256, of the file of ranks."""
        stem = self.file_name.removesuffix(".tiktoken")
        digest = next(digest for digest, name in _CONTENTS.items() if name == stem)
        return _FILE_SIZES[stem], digest

    @classmethod
    def from_model_name(cls, name: str) -> "TiktokenModel":
        """Return the encoding of a model such as `gpt-4`, by the model map.

        Raises:
            UnknownModel: the name is not that of an OpenAI model.
        """
        names = ModelTokenizerMap.load()
        try:
            return cls(names.resolve(name))
        except ValueError:
            raise UnknownModel(name, names.near(name)) from None


def known_ranks(stem: str, data: bytes) -> RankFacts | None:
    """Return the facts of a file of ranks, or None.

    Args:
        stem: the file's name without the suffix. A name of ours counts first, since encodings share
            files.
        data: the file's content.
    """
    return NAMED.get(stem) or NAMED.get(_CONTENTS.get(hashlib.sha256(data).hexdigest(), ""))


def _in_a_row(first: int, tokens: Iterable[str]) -> dict[str, int]:
    return {token: token_id for token_id, token in enumerate(tokens, first)}


def _reserved(kind: str, count: int, start: int = 0) -> list[str]:
    return [f"<|{kind}reserved_special_token_{i}|>" for i in range(start, start + count)]


_END = "<|endoftext|>"
_FILL = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_HARMONY = {
    199998: "<|startoftext|>", 199999: _END, 200002: "<|return|>", 200003: "<|constrain|>",
    200005: "<|channel|>", 200006: "<|start|>", 200007: "<|end|>", 200008: "<|message|>",
    200012: "<|call|>", 200018: "<|endofprompt|>",
}  # fmt: skip
_BOS = "<|begin_of_text|>"
_LLAMA3 = (
    _BOS, "<|end_of_text|>", *_reserved("", 2), "<|finetune_right_pad_id|>", "<|step_id|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
    "<|image|>", *_reserved("", 244, 2),
)  # fmt: skip
_LLAMA4 = (
    _BOS, "<|end_of_text|>", *_FILL,
    "<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>", "<|step|>",
    *_reserved("text_post_train_", 6), "<|python_start|>", "<|python_end|>",
    "<|finetune_right_pad|>", *_reserved("text_post_train_", 61, 8),
    "<|image_start|>", "<|image_end|>", *_reserved("vision_", 2), "<|tile_x_separator|>",
    "<|tile_y_separator|>", *_reserved("vision_", 4, 2), "<|image|>", *_reserved("vision_", 1, 6),
    "<|patch|>", *_reserved("vision_", 1041, 7),
    *_reserved("reasoning_", 8), "<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>",
    *_reserved("", 904),
)  # fmt: skip

_BASE_SIZES = {
    "cl100k_base": 100_256, "p50k_base": 50_281, "p50k_edit": 50_281, "r50k_base": 50_257,
    "o200k_base": 200_019, "o200k_harmony": 201_088,
}  # fmt: skip
_FILE_SIZES = {
    "cl100k_base": 1_681_126, "p50k_base": 836_186, "r50k_base": 835_554, "o200k_base": 3_613_922,
}  # fmt: skip
# Sources: tiktoken_ext/openai_public.py of tiktoken 0.14.0; whisper/tokenizer.py of openai-whisper
# 20250625, whose other special tokens depend on how many languages a model knows;
# tokenization_kimi.py of moonshotai/Kimi-K2-Instruct; qwen_tokenizer.py of dashscope 2.0.2;
# llama3/tokenizer.py and llama4/tokenizer.py of llama-models 0.3.0; tokenization_chatglm.py of
# THUDM/glm-4-9b-chat, whose configuration has the special tokens.
NAMED = {
    "cl100k_base": RankFacts(
        split_patterns.CL100K,
        {_END: 100257, **_in_a_row(100258, _FILL), "<|endofprompt|>": 100276},
    ),
    "p50k_base": RankFacts(split_patterns.GPT2, {_END: 50256}),
    "p50k_edit": RankFacts(split_patterns.GPT2, {_END: 50256, **_in_a_row(50281, _FILL)}),
    "r50k_base": RankFacts(split_patterns.GPT2, {_END: 50256}),
    "o200k_base": RankFacts(split_patterns.O200K, {_END: 199999, "<|endofprompt|>": 200018}),
    "o200k_harmony": RankFacts(
        split_patterns.O200K,
        {
            **{f"<|reserved_{i}|>": i for i in range(200000, 201088) if i not in _HARMONY},
            **{token: token_id for token_id, token in _HARMONY.items()},
        },
    ),
    "gpt2": RankFacts(split_patterns.GPT2, _in_a_row(50256, (_END, "<|startoftranscript|>"))),
    "multilingual": RankFacts(
        split_patterns.GPT2, _in_a_row(50257, (_END, "<|startoftranscript|>"))
    ),
    "tiktoken": RankFacts(split_patterns.KIMI, {}),
    "qwen": RankFacts(
        split_patterns.QWEN2,
        _in_a_row(
            151643, (_END, "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205)))
        ),
    ),
    "llama3": RankFacts(split_patterns.LLAMA3, _in_a_row(128000, _LLAMA3), (_BOS,)),
    "llama4": RankFacts(
        split_patterns.O200K, _in_a_row(200000, _LLAMA4), (_BOS,), ("<|eom|>", "<|eot|>")
    ),
    "glm4": RankFacts(split_patterns.LLAMA3, {}, ("[gMASK]", "<sop>")),
}
# The name of the file with this SHA-256.
_CONTENTS = {
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": "cl100k_base",
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": "p50k_base",
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": "r50k_base",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": "o200k_base",
    "b34b360dbb493e781e479794586d661700670d65564001f23024971d1f2fa126": "multilingual",
    "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186": "qwen",
    "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55": "llama3",
    "d0bdbaf59b0762c8c807617e2d8ea51420eb1b1de266df2495be755c8e0ed6ed": "llama4",
    "5a493598071550244b2ee7f26118f3edec2150b9dfa967929a99052ac83fe716": "glm4",
}
