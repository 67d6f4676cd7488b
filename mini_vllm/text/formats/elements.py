"""Formats in which each parameter is an element of its own, whose text has no type.

Above each table stands its grammar; NL is a line break.
"""

from mini_vllm.text.parameter_state import Value, read_name, read_parameter
from mini_vllm.text.parser_states import LINE, Broken, Gap, Header, Prose
from mini_vllm.text.stream_parser import Format, On

# (<tool_call>? <function=n> (<parameter=k> NL v NL </parameter>)* </function> </tool_call>?)*
# A line that begins with <parameter= or </function> ends a value that has no </parameter>, as in
# vLLM and SGLang; they take these tags anywhere in a value, this leaves them to text that quotes
# them within a line.
QWEN3_CODER = Format(
    "qwen3_coder",
    {
        "content": Prose(
            {"<tool_call>": On("function", "open"), "<function=": On("bare name", "open")}
        ),
        "function": Gap({"<function=": On("name")}),
        "name": Header(
            {">": On("parameters")},
            forbidden=("<tool_call>", "</function>", "</tool_call>"),
            read=read_name,
            allowed=LINE,
        ),
        # In prose this may be something else, so the name may have no spaces.
        "bare name": Header({">": On("parameters")}, forbidden=("<tool_call>",), read=read_name),
        "parameters": Gap({"<parameter=": On("key"), "</function>": On("close", "end")}),
        "key": Header(
            {">": On("value")},
            forbidden=("<parameter=", "</parameter>", "</function>", "</tool_call>"),
            read=read_parameter,
            allowed=LINE,
        ),
        "value": Value(
            {
                "</parameter>": On("parameters"),
                "\n<parameter=": On("key"),
                "\n</function>": On("close", "end"),
            },
            framed=True,
        ),
        "close": Gap({"</tool_call>": On("content", "close")}, otherwise=On("content", "text")),
        "broken": Broken({"</tool_call>": On("content")}),
    },
    aliases=("qwen3_xml",),
    # vLLM 0.33.0 parser/qwen3.py, SGLang 0.5.23 Qwen3Detector.
    ends_reasoning=("<tool_call>",),
)


# (<tool_call> n NL? (<arg_key> k </arg_key> <arg_value> v </arg_value>)* </tool_call>)*
GLM45 = Format(
    "glm45",
    {
        "content": Prose({"<tool_call>": On("name", "open")}),
        "name": Header(
            {
                "\n": On("keys"),
                "<arg_key>": On("keys", keep=True),
                "</tool_call>": On("keys", keep=True),
            },
            forbidden=("<tool_call>",),
            read=read_name,
        ),
        "keys": Gap(
            {
                "<arg_key>": On("key"),
                "</tool_call>": On("content", "end"),
                "<tool_call>": On("content", "end", keep=True),
            },
            may_end=True,
        ),
        "key": Header(
            {"</arg_key>": On("value tag")},
            forbidden=("<arg_key>", "<arg_value>", "</tool_call>"),
            read=read_parameter,
            allowed=LINE,
        ),
        "value tag": Gap({"<arg_value>": On("value")}),
        "value": Value({"</arg_value>": On("keys")}),
        "broken": Broken({"</tool_call>": On("content")}),
    },
    aliases=(
        "glm47",
        "glm",
    ),
    # vLLM 0.33.0 parser/glm47_moe.py, SGLang 0.5.23 Glm45Detector; only </think> in ollama.
    ends_reasoning=("<tool_call>",),
)


# <minimax:tool_call> (<invoke name="n"> (<parameter name="k">v</parameter>)* </invoke>)*
# </minimax:tool_call>
MINIMAX_M2 = Format(
    "minimax_m2",
    {
        "content": Prose({"<minimax:tool_call>": On("section", "open")}),
        "section": Gap(
            {'<invoke name="': On("name"), "</minimax:tool_call>": On("content", "close")}
        ),
        "name": Header(
            {'">': On("parameters")},
            forbidden=("<minimax:tool_call>", "</invoke>", "</minimax:tool_call>"),
            read=read_name,
            allowed=LINE,
        ),
        "parameters": Gap(
            {
                '<parameter name="': On("key"),
                "</invoke>": On("section", "end"),
                '<invoke name="': On("section", "end", keep=True),
                "</minimax:tool_call>": On("section", "end", keep=True),
            },
            may_end=True,
        ),
        "key": Header(
            {'">': On("value")},
            forbidden=("<parameter", "</parameter>", "</invoke>", "</minimax:tool_call>"),
            read=read_parameter,
            allowed=LINE,
        ),
        "value": Value({"</parameter>": On("parameters")}),
        "broken": Broken({"</invoke>": On("section"), "</minimax:tool_call>": On("content")}),
    },
    # vLLM 0.33.0 parser/minimax_m2.py.
    ends_reasoning=("<minimax:tool_call>",),
)
