"""The texts of llama.cpp's own test of its chat parsers, read out of its source.

`tests/test-chat.cpp` makes each case with a chain of calls on a tester for one chat template:
`tst.test(TEXT).tools({...}).expect(...).run()`. These chains use little of C++: literals, braces,
names of constants, and calls of a few helpers. They are turned into Python and run on `Chain`.
What uses more, such as a loop or a variable, is left out.
"""

import functools
import json
import re
from dataclasses import dataclass, field

from peer_suites.cases import SOURCES, told, value

from mini_vllm.chat_template.template import ChatTemplate
from mini_vllm.finish_reason import FinishReason
from mini_vllm.pipeline import TextPipeline
from mini_vllm.text.detect import detect_format
from mini_vllm.text.formats import find_format
from mini_vllm.text.reasoning import create_reasoning_splitter, prompt_in_reasoning
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer.factory import create_tokenizer

LLAMA_CPP = SOURCES / "llama_cpp"

_TOKEN = re.compile(
    r"""
    //[^\n]* | /\*[\s\S]*?\*/ | \#[^\n]*            # comments and directives
    | R"(?P<mark>[^(\s]*)\((?P<raw>[\s\S]*?)\)(?P=mark)"
    | "(?P<text>(?:[^"\\\n]|\\.)*)"
    | (?P<name>[A-Za-z_][\w:]*)
    | (?P<number>-?\d[\w.]*)
    | (?P<sign>[^\s])
    """,
    re.VERBOSE,
)
_WORDS = {"true": "True", "false": "False", "nullptr": "None", "const": "", "static": ""}
_OPENS, _CLOSES = {"(": "(", "{": "[", "[": "["}, {")": ")", "}": "]", "]": "]"}


@dataclass
class Message:
    """What an assistant says, as the test expects it."""

    content: str = ""
    reasoning: str = ""
    calls: list = field(default_factory=list)


@dataclass
class LlamaCase:
    """One case of the test.

    Attributes:
        template: the file name of the chat template.
        text: what a model wrote.
        tools: the tools of the request.
        options: what else the test sets, by the name of the call that does.
        expected: the message.
        line: where in the file the case begins.
    """

    template: str
    text: str
    line: int
    tools: list = field(default_factory=list)
    options: dict = field(default_factory=dict)
    expected: Message = field(default_factory=Message)

    @property
    def test(self):
        """What the case is called."""
        return f"test-chat.cpp:{self.line}"

    @property
    def format(self):
        """The tool format that the template shows, or the template's name."""
        return detected(self.template).tool_format or self.template.removesuffix(".jinja")

    @property
    def is_read(self):
        """Whether the template shows a format of ours."""
        return detected(self.template).tool_format is not None

    @property
    def outcome(self):
        """What llama.cpp makes of the text, to be compared as `Case.outcome` is."""
        calls = [(name, value(text)) for name, text in self.expected.calls]
        return self.expected.content.strip(), self.expected.reasoning.strip(), calls


def _message(content="", reasoning="", name="", arguments="", id=""):
    calls = [(name, arguments)] if name or id else []
    return Message(content, reasoning, calls)


_HELPERS = {
    "simple_assist_msg": _message,
    "message_with_tool_calls": lambda name, arguments: _message("", "", name, arguments),
    "message_with_tool_calls_and_reasoning": lambda name, arguments, reasoning: _message(
        "", reasoning, name, arguments
    ),
    "message_with_reasoning_content_and_multiple_tool_calls": lambda reasoning, content, calls: (
        Message(content, reasoning, [tuple(call[:2]) for call in calls])
    ),
    "message_with_content_and_tool_call": lambda content, name, arguments: _message(
        content, "", name, arguments
    ),
    "message_with_reasoning_and_tool_call": lambda reasoning, name, arguments: _message(
        "", reasoning, name, arguments
    ),
}


class Chain:
    """Stands for the builder of a case."""

    def __init__(self, case):
        self.case = case

    def __getattr__(self, name):
        def take(*values):
            self.case.options[name] = values[0] if values else True
            return self

        return take

    def tools(self, tools):
        self.case.tools = [tool if isinstance(tool, dict) else _tool(*tool[:3]) for tool in tools]
        return self

    def expect(self, message):
        self.case.expected = Message(message.content, message.reasoning, message.calls)
        return self

    def expect_content(self, content):
        self.case.expected.content = content
        return self

    def expect_reasoning(self, reasoning):
        self.case.expected.reasoning = reasoning
        return self

    def expect_tool_calls(self, calls):
        self.case.expected.calls = [tuple(call[:2]) for call in calls]
        return self

    def run(self):
        return self.case


@functools.cache
def template_of(name):
    """Return the text of a chat template."""
    return (LLAMA_CPP / "models" / "templates" / name).read_text("utf-8")


@functools.cache
def detected(name):
    """Return the formats that a template shows."""
    return detect_format(template_of(name))


def _compares(case):
    """Whether the message can be compared: not of half a call, nor of reasoning left in the text.

    llama.cpp completes the JSON of a call that is under way, and where it splits no reasoning off,
    its content has the tag that stands in the prompt.
    """
    return not case.options.get("is_partial") and (
        _splits(case) or case.expected.calls or detected(case.template).reasoning_format is None
    )


def _splits(case):
    asked = case.options.get("reasoning_format", "COMMON_REASONING_FORMAT_NONE")
    return not asked.endswith("_NONE")


@functools.cache
def _tokenizer():
    return create_tokenizer("byte")


@functools.cache
def _begins_inside(template, thinking):
    """Whether a prompt of the template ends inside the reasoning; None if it does not show."""
    made = ChatTemplate(template_of(template), bos_token="", eos_token="")
    asked = [{"role": "user", "content": "Hi"}]
    said = {} if thinking is None else {"enable_thinking": thinking, "thinking": thinking}
    prompt = made.apply_chat_template(asked, add_generation_prompt=True, **said)
    return prompt_in_reasoning(detected(template).reasoning_format, prompt)


def ours(case, size=None):
    """What our pipeline makes of a text in pieces of so many bytes; compare with `outcome`."""
    shown, tools, reasoning, ends_at = detected(case.template), None, None, ()
    if shown.tool_format is not None and (case.tools or shown.tool_format == "harmony"):
        tools = create_tool_parser(shown.tool_format, tools=case.tools or None)
        ends_at = find_format(shown.tool_format).ends_reasoning
    if _splits(case) and shown.reasoning_format is not None:
        inside = _begins_inside(case.template, case.options.get("enable_thinking"))
        reasoning = create_reasoning_splitter(
            shown.reasoning_format, in_reasoning=inside, ends_at=ends_at
        )
    pipeline = TextPipeline(_tokenizer(), reasoning=reasoning, tools=tools)
    ids = list(case.text.encode())
    size = size or len(ids) or 1
    events = []
    for start in range(0, len(ids), size):
        events += pipeline.feed(ids[start : start + size])
    return told(events + pipeline.finish(FinishReason.END_ID))


def read_cases():
    """Return the cases whose chains can be read."""
    source = (LLAMA_CPP / "tests" / "test-chat.cpp").read_text("utf-8")
    names = {**_HELPERS, **_tools(source)}
    for match in re.finditer(r"^const common_chat_msg (\w+)\s*=([^;]*);", source, re.MULTILINE):
        names[match[1]] = _evaluate(match[2], names)
    cases, template = [], None
    statement = re.compile(r'\("models/templates/([^"]+)"|\btst2?\.test\(')
    for match in statement.finditer(source):
        if match[1]:
            template = match[1]
            continue
        line = source.count("\n", 0, match.start()) + 1
        try:
            end = source.index(".run();", match.start()) + len(".run()")
            first = functools.partial(_begin, template, line)
            chain = source[match.end() - len("test(") : end]
            case = _evaluate(chain, {**names, "test": first})
            # A template that is a variable is that of a loop over several.
            if isinstance(case, LlamaCase) and template and _compares(case):
                cases.append(case)
        except (SyntaxError, NameError, TypeError, ValueError):
            # It uses more of C++ than is read here.
            continue
    return cases


def _begin(template, line, text):
    return Chain(LlamaCase(template, text, line))


def _tools(source):
    """Return the constants that are tools, by name."""
    found = {}
    for match in re.finditer(r"static common_chat_tool (\w+)\{([\s\S]*?)\n\s*\};", source):
        found[match[1]] = _tool(*_evaluate(f"({match[2]})", {})[:3])
    return found


def _tool(name, description, parameters):
    function = {"name": name, "description": description, "parameters": json.loads(parameters)}
    return {"type": "function", "function": function}


def _evaluate(text, names):
    """Return the value of an expression in C++."""
    written = "".join(_python(text))
    # Names that tests only pass on, such as COMMON_REASONING_FORMAT_AUTO, are their own values.
    constants = {name: name for name in re.findall(r"\bCOMMON_\w+", written)}
    return eval(written, {"__builtins__": {}}, {**constants, **names})


def _python(text):
    """Yield an expression of C++ as Python writes it."""
    for match in _TOKEN.finditer(text):
        if match["raw"] is not None:
            yield f" {match['raw']!r} "
        elif match["text"] is not None:
            yield f' "{match["text"]}" '
        elif match["name"]:
            yield f" {_WORDS.get(match['name'], match['name'].replace('::', '_'))} "
        elif match["number"]:
            yield match["number"]
        elif match["sign"]:
            sign = match["sign"]
            yield _OPENS.get(sign) or _CLOSES.get(sign) or sign
