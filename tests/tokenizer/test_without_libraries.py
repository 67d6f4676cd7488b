"""The tokenizer's room without the libraries of its backends, as in a browser's Python."""

import subprocess
import sys

from labkit.course.lab import ROOT

_BARE = """
import sys
sys.modules.update(dict.fromkeys(("tokenizers", "tiktoken", "sentencepiece", "jinja2")))
from mini_vllm.tokenizer import ByteTokenizer, create_tokenizer
from mini_vllm.tokenizer.backends.huggingface_pieces import byte_level
import mini_vllm.pipeline
print(create_tokenizer("byte").decode([240, 159, 154, 128]), byte_level("Ġ"))
"""


def test_ids_that_are_bytes_need_no_library():
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", _BARE],
        cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("🚀 b' '\n", "")
