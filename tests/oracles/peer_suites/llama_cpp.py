"""The texts of llama.cpp's own test of its chat parsers, read out of its source.

`tests/test-chat.cpp` makes each case with a chain of calls on a tester for one chat template:
`tst.test(TEXT).tools({...}).expect(...).run()`. These chains use little of C++: literals, braces,
names of constants, and calls of a few helpers. They are turned into Python and run on `Chain`.
What uses more, such as a loop or a variable, is left out.
"""

import json
import re
from dataclasses import dataclass, field

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
        self.case.tools = tools
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


def read_cases(source):
    """Return (the cases, how many chains could not be read)."""
    names = {**_HELPERS, **_tools(source)}
    for match in re.finditer(r"^const common_chat_msg (\w+)\s*=([^;]*);", source, re.MULTILINE):
        names[match[1]] = _evaluate(match[2], names)
    cases, left_out, template = [], 0, None
    statement = re.compile(r'\("models/templates/([^"]+)"|\btst2?\.test\(')
    for match in statement.finditer(source):
        if match[1]:
            template = match[1]
            continue
        line = source.count("\n", 0, match.start()) + 1
        try:
            end = source.index(".run();", match.start()) + len(".run()")
            first = lambda text: Chain(LlamaCase(template, text, line))  # noqa: B023, E731
            chain = source[match.end() - len("test(") : end]
            case = _evaluate(chain, {**names, "test": first})
            # A template that is a variable is that of a loop over several.
            cases += [case] if isinstance(case, LlamaCase) and template else []
        except (SyntaxError, NameError, TypeError, ValueError):
            left_out += 1
    return cases, left_out


def _tools(source):
    """Return the constants that are tools, by name."""
    found = {}
    for match in re.finditer(r"static common_chat_tool (\w+)\{([\s\S]*?)\n\s*\};", source):
        name, description, parameters = _evaluate(f"({match[2]})", {})[:3]
        function = {"name": name, "description": description, "parameters": json.loads(parameters)}
        found[match[1]] = {"type": "function", "function": function}
    return found


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
