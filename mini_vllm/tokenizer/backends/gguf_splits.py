"""How the byte-level vocabularies of GGUF files cut text, by `tokenizer.ggml.pre`.

Source: llama.cpp, whose converter writes these names: src/llama-vocab.cpp of llama-cpp-python
0.3.36. If llama.cpp rewrites a model's regex for its own engine, we use the model's regex.
"""

from typing import NamedTuple

from mini_vllm.tokenizer.backends import split_patterns


class Split(NamedTuple):
    """How a vocabulary cuts text: each regex cuts the parts that the previous regex left.

    Attributes:
        patterns: the regexes, in order.
        whole_words: whether a word that is a token is used whole, without merges.
        add_bos: whether BOS is put in front if the file does not say.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    add_bos: bool = False


# The cased letters of an older Unicode than that of the regex engines. Letters that NFC replaces
# are escaped.
_CASED = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ"
    "ἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ"
    "\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
_HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_KANA_AND_HAN = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_ASCII_MARKS = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"

_GPT2 = Split((split_patterns.GPT2,))
_DIGITS_FIRST = Split((r"\p{N}", split_patterns.GPT2))
_LLAMA3 = Split((split_patterns.LLAMA3,), whole_words=True, add_bos=True)
_LLAMA3_WORDS = Split((split_patterns.LLAMA3,))
_GLM4 = Split((split_patterns.LLAMA3,), whole_words=True)
_QWEN2 = Split((split_patterns.QWEN2,))
_O200K = Split((split_patterns.O200K,))
_DEEPSEEK3 = Split(
    (
        r"\p{N}{1,3}",
        _KANA_AND_HAN,
        _ASCII_MARKS + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    )
)
SPLITS = {
    "default": Split((r"[\p{P}$+<=>^~|]+", split_patterns.GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    **dict.fromkeys(
        ("gpt-2", "mpt", "olmo", "jais", "phi-2", "gigachat", "a.x-4.0", "mellum", "modern-bert",
         "exaone4", "trillion", "granite-docling"),
        _GPT2,
    ),
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
        _LLAMA3,
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe"), _LLAMA3_WORDS),
    **dict.fromkeys(("glm4", "glm5"), _GLM4),
    **dict.fromkeys(
        ("qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "kormo", "solar-open",
         "grok-2"),
        _QWEN2,
    ),
    "qwen35": Split((split_patterns.QWEN35,)),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "minimax-m2"), _O200K),
    "tekken": Split((split_patterns.TEKKEN,), whole_words=True, add_bos=True),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b",
         "mellum2"),
        _DIGITS_FIRST,
    ),
    "deepseek-llm": Split(
        (
            "[\r\n]",
            rf"\s?[{_CASED}]+",
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
            r"\s+$",
            _HAN,
            r"\p{N}+",
        )
    ),
    "deepseek-coder": Split(("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN, r"\p{N}")),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm"), _DEEPSEEK3),
    "falcon": Split((r"[\p{P}$+<=>^~|`]+", split_patterns.GPT2, "[0-9][0-9][0-9]")),
}  # fmt: skip
