"""How byte-pair encoders cut a text into words before they merge: the regexes that models name.

A model is trained with one of these, and any other gives wrong ids. The regex engines of `tiktoken`
and `tokenizers` both read them, except CL100K, whose `$` only tiktoken reads. In a file of its own,
because the tiktoken backend needs a library that GGUF files do not.
"""

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACE = r"\s*[\r\n]+|\s+(?!\S)|\s+"

# These differ in white space at the end of a text: it stays whole, or is cut after a newline.
CL100K = f"{_CONTRACTION}|{_WORD}|\\p{{N}}{{1,3}}|{_MARKS}|\\s++$|{_SPACE}"
LLAMA3 = f"{_CONTRACTION}|{_WORD}|\\p{{N}}{{1,3}}|{_MARKS}|{_SPACE}"
QWEN2 = f"{_CONTRACTION}|{_WORD}|\\p{{N}}|{_MARKS}|{_SPACE}"

# A word may begin with capitals; a new one begins where capitals follow small letters.
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SMALL_WORD = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+"
_CAPITAL_WORD = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
_PATH_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"

O200K = "|".join(
    (
        f"{_SMALL_WORD}{_CONTRACTION}?",
        f"{_CAPITAL_WORD}{_CONTRACTION}?",
        r"\p{N}{1,3}",
        _PATH_MARKS,
        _SPACE,
    )
)
TEKKEN = f"{_SMALL_WORD}|{_CAPITAL_WORD}|\\p{{N}}|{_PATH_MARKS}|{_SPACE}"
