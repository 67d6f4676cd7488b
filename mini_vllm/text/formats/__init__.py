"""The tool-call formats, one table each, in files by what a call looks like.

In each table `content` is the text around calls, `broken` the way out of a malformed call.

The marker that closes a call may be missing before the next opener and, unless the text was cut
off, at its end. What the model did write is complete then: a JSON object up to its last brace, or
parameters that are all closed.
"""

import difflib

from mini_vllm.text.formats.elements import (
    GLM45,
    HY_V3,
    IQUEST_Q1,
    K2_HORIZON,
    MIMO,
    MINICPM5,
    MINIMAX_M3,
    QWEN3_CODER,
    SEED_OSS,
)
from mini_vllm.text.formats.gemma import FUNCTIONGEMMA, GEMMA4
from mini_vllm.text.formats.harmony import HARMONY
from mini_vllm.text.formats.headers import DEEPSEEK_V3, DEEPSEEK_V31, KIMI_K2, PLAMO3
from mini_vllm.text.formats.invokes import (
    DEEPSEEK_V4,
    DEEPSEEK_V32,
    DEEPSEEK_V41,
    DOTS,
    GIGACHAT35,
    MINIMAX_M2,
    STEP3,
)
from mini_vllm.text.formats.json_calls import (
    APERTUS,
    COHERE_COMMAND3,
    ERNIE45,
    GIGACHAT3,
    GRANITE,
    GRANITE_20B_FC,
    HERMES,
    INTERNLM,
    JAMBA,
    LLAMA_JSON,
    LONGCAT,
    MISTRAL,
    PHI4_MINI_JSON,
    XLAM,
)
from mini_vllm.text.formats.python_calls import LFM2, OLMO3, PYTHONIC
from mini_vllm.text.formats.xtml import KIMI_K3
from mini_vllm.text.stream_parser import Format

FORMATS = {
    format.name: format
    for format in (
        HERMES,
        MISTRAL,
        LLAMA_JSON,
        PYTHONIC,
        QWEN3_CODER,
        KIMI_K2,
        KIMI_K3,
        HARMONY,
        DEEPSEEK_V3,
        DEEPSEEK_V31,
        PLAMO3,
        GLM45,
        IQUEST_Q1,
        MINIMAX_M2,
        SEED_OSS,
        DEEPSEEK_V32,
        DEEPSEEK_V4,
        DEEPSEEK_V41,
        GIGACHAT35,
        STEP3,
        MIMO,
        HY_V3,
        K2_HORIZON,
        DOTS,
        MINICPM5,
        MINIMAX_M3,
        JAMBA,
        PHI4_MINI_JSON,
        GRANITE,
        COHERE_COMMAND3,
        XLAM,
        APERTUS,
        LONGCAT,
        ERNIE45,
        INTERNLM,
        GRANITE_20B_FC,
        GIGACHAT3,
        LFM2,
        OLMO3,
        GEMMA4,
        FUNCTIONGEMMA,
    )
}
ALIASES = {alias: format.name for format in FORMATS.values() for alias in format.aliases}

# What vLLM 0.33.0 or SGLang 0.5.23 read and we do not, and what it takes.
_ATEM = (
    "its calls count only in messages to a tool, and the header of the first message has no marker "
    "where it begins"
)
_TEMPLATE = "its grammar is in the response_template of each checkpoint, which is not read here"
UNREAD = {
    "hf": _TEMPLATE,
    "response_template": _TEMPLATE,
    "beam": _TEMPLATE,
    "muse": _ATEM,
    "muse_glimmer": _ATEM,
    "musespark1x": _ATEM,
    "inkling": "its text begins inside of a block or of the header of one, as the prompt ended",
}


def is_format(name: str) -> bool:
    """Return whether a name, or an alias, is that of a format."""
    return name in FORMATS or name in ALIASES


def find_format(name: str) -> Format:
    """Return the format of a name or an alias.

    Raises:
        ValueError: the name is unknown, or of a format that we do not read; the message has the
            known ones, or says what reading it takes.
    """
    if name in UNREAD:
        raise ValueError(f"the tool-call format {name!r} is not read: {UNREAD[name]}")
    if not is_format(name):
        near = difflib.get_close_matches(name, [*FORMATS, *ALIASES])
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise ValueError(f"unknown tool-call format {name!r}; {hint}known: {', '.join(FORMATS)}")
    return FORMATS[ALIASES.get(name, name)]
