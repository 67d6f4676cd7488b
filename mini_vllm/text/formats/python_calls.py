"""Formats in which calls are written as Python writes them.

Above each table stands its grammar.
"""

from mini_vllm.text.parser_states import Broken, Gap, Prose
from mini_vllm.text.pythonic_state import PythonCalls
from mini_vllm.text.stream_parser import Format, On

# <|python_start|>? [f(k=literal, ...), ...] <|python_end|>?   as the whole text
PYTHONIC = Format(
    "pythonic",
    {
        "start": Gap(
            {"<|python_start|>": On("list"), "[": On("list", "open", keep=True)},
            otherwise=On("content", "text"),
        ),
        "list": PythonCalls(On("after", "close")),
        "after": Gap({"<|python_end|>": On("content", "close")}, otherwise=On("content", "text")),
        "content": Prose({}),
        "broken": Broken({}),
    },
    start="start",
)
