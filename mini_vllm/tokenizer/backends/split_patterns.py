"""How byte-pair encoders cut a text into words before they merge: the regexes that models name.

A model is trained with one of these regexes, and any other regex gives wrong ids. The regex engines
of `tiktoken` and `tokenizers` both read them, except CL100K, whose `$` only tiktoken reads. The
regexes are in a file of their own, because the tiktoken backend needs a library that GGUF files do
not need.
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
# Like QWEN2, with combining marks in the words.
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}", r"[^\s\p{L}\p{M}")


def _words(letters_but: str = "") -> tuple[str, str]:
    """Return words that begin with capitals, or are all capitals.

    A new word begins where capitals follow small letters. `letters_but` is removed from the sets of
    letters, in the regex engines' syntax.
    """
    upper = rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{letters_but}]"
    lower = rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{letters_but}]"
    before = r"[^\r\n\p{L}\p{N}]?"
    return f"{before}{upper}*{lower}+", f"{before}{upper}+{lower}*"


_SMALL_WORD, _CAPITAL_WORD = _words()
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
# Chinese text is cut out first, and is never part of another word.
KIMI = "|".join(
    (
        r"\p{Han}+",
        *(f"{word}{_CONTRACTION}?" for word in _words(r"&&[^\p{Han}]")),
        r"\p{N}{1,3}",
        _MARKS,
        _SPACE,
    )
)
