"""The names of formats: every name that an engine knows is one of ours, or says why it is not."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

from mini_vllm import text
from mini_vllm.text import formats
from mini_vllm.text.formats import ALIASES, FORMATS, UNREAD
from mini_vllm.text.stream_parser import Format
from mini_vllm.text.tool_parsers import create_tool_parser

# `--tool-call-parser` of vLLM 0.33.0, vllm/tool_parsers/__init__.py.
VLLM = [
    "apertus", "beam", "cohere_command3", "cohere_command4", "deepseek_v3", "deepseek_v31",
    "deepseek_v32", "deepseek_v4", "deepseek_v41", "dots", "ernie45", "functiongemma",
    "gemma4", "gigachat3", "glm45", "glm47", "granite", "granite-20b-fc", "granite4", "hermes",
    "hf", "hunyuan_a13b", "hy_v3", "hy_v4", "inkling", "internlm", "jamba", "k2_horizon",
    "kimi_k2", "kimi_k3", "lfm2", "ling3", "llama3_json", "llama4_json", "llama4_pythonic",
    "longcat", "mimo", "minicpm5", "minimax_m2", "minimax_m3", "mistral", "muse",
    "muse_glimmer", "musespark1x", "olmo3", "openai", "phi4_mini_json", "plamo3",
    "poolside_v1", "pythonic", "qwen3_coder", "qwen3_json", "qwen3_xml", "seed_oss", "step3",
    "step3p5", "step5", "xlam",
]  # fmt: skip

# `--tool-call-parser` of SGLang 0.5.23, srt/function_call/parser_names.py.
SGLANG = [
    "apertus2509", "beam", "cohere_command4", "deepseekv3", "deepseekv31", "deepseekv32",
    "deepseekv4", "deepseekv41", "dots", "gemma4", "gigachat3", "gigachat35", "glm", "glm45",
    "glm47", "gpt-oss", "hermes", "hunyuan", "inkling", "interns1", "iquest_q1", "k2_horizon",
    "kimi_k2", "kimi_k3", "lfm2", "ling3", "llama3", "mimo", "minicpm5", "minimax-m2",
    "minimax-m3", "mistral", "muse", "nanbeige", "poolside_v1", "pythonic", "qwen", "qwen25",
    "qwen3_coder", "response_template", "spark25", "step3", "step3p5", "trinity",
]  # fmt: skip


def test_the_page_about_formats_shows_the_table_that_is_used():
    page = (Path(text.__file__).parent / "README.md").read_text(encoding="utf-8")
    table = re.search(r"```python\n(HERMES = .*?)```", page, re.DOTALL)[1]
    assert table in inspect.getsource(formats.json_calls)


@pytest.mark.parametrize("file", [file.name for file in pkgutil.iter_modules(formats.__path__)])
def test_the_formats_of_every_file_are_known(file):
    names = vars(importlib.import_module(f"{formats.__name__}.{file}")).values()
    missing = [one.name for one in names if isinstance(one, Format) and one.name not in FORMATS]
    assert not missing, f"add {file} to _FILES in mini_vllm/text/formats/__init__.py"


def test_every_name_of_an_engine_is_a_format_an_alias_or_says_what_it_takes():
    assert (len(VLLM), len(SGLANG)) == (58, 44)
    assert {*VLLM, *SGLANG} <= {*FORMATS, *ALIASES, *UNREAD}
    assert not set(UNREAD) & {*FORMATS, *ALIASES}
    assert set(UNREAD) <= {*VLLM, *SGLANG}
    assert not set(ALIASES) & set(FORMATS)
    assert len(ALIASES) == sum(len(format.aliases) for format in FORMATS.values())
    for name, reason in UNREAD.items():
        with pytest.raises(ValueError, match=f"{name!r} is not read: {reason}"):
            create_tool_parser(name)
