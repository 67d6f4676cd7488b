"""The tool-call formats, one table each, in files by what a call looks like.

In each table `content` is the text around calls, `broken` the way out of a malformed call.
"""

from mini_vllm.text.formats.elements import GLM45, MINIMAX_M2, QWEN3_CODER
from mini_vllm.text.formats.harmony import HARMONY
from mini_vllm.text.formats.headers import DEEPSEEK_V31, KIMI_K2
from mini_vllm.text.formats.json_calls import HERMES, LLAMA_JSON, MISTRAL
from mini_vllm.text.formats.python_calls import PYTHONIC

FORMATS = {
    format.name: format
    for format in (
        HERMES,
        MISTRAL,
        LLAMA_JSON,
        PYTHONIC,
        QWEN3_CODER,
        KIMI_K2,
        HARMONY,
        DEEPSEEK_V31,
        GLM45,
        MINIMAX_M2,
    )
}
