"""Formats in which calls are written as Python writes them.

Above each table stands its grammar.
"""

from mini_vllm.text.parser_states import Broken, Gap, Prose
from mini_vllm.text.pythonic_state import PythonCalls
from mini_vllm.text.stream_parser import Format, On

# [f(k=literal, ...), ...] <|python_end|>?   where the text begins, or anywhere behind
# <|python_start|>
PYTHONIC = Format(
    "pythonic",
    {
        "start": Gap(
            {"<|python_start|>": On("list"), "[": On("list", "open", keep=True)},
            otherwise=On("content", "text"),
        ),
        "content": Prose({"<|python_start|>": On("list", "open")}),
        "list": PythonCalls(On("after", "close")),
        "after": Gap({"<|python_end|>": On("content", "close")}, otherwise=On("content", "text")),
        "broken": Broken(
            {"<|python_end|>": On("content"), "<|python_start|>": On("content", keep=True)}
        ),
    },
    start="start",
)
