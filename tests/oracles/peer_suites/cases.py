"""The texts of vLLM's own tests of its tool parsers, and what a parser makes of them."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mini_vllm.text.events import ArgsDelta, CallStart, Malformed, ReasoningDelta, TextDelta
from mini_vllm.text.formats import is_format
from mini_vllm.text.tool_parsers import create_tool_parser

HERE = Path(__file__).parent
SOURCES = HERE.parents[2] / "upstream" / ".sources"
FOLDERS = ("tests/tool_parsers", "tests/tool_use")
# They ask xgrammar, the chat server, or a model.
LEFT_OUT = (
    "tests/tool_parsers/test_structural_tag_registry.py", "tests/tool_use/mistral",
    "tests/tool_use/test_chat_completions.py", "tests/tool_use/test_parallel_tool_calls.py",
    "tests/tool_use/test_tool_calls.py", "tests/tool_use/test_gemma4_responses_adjust_request.py",
    "tests/tool_use/test_chat_completion_request_validations.py",
    "tests/tool_use/test_responses_request_validations.py",
    "tests/tool_use/test_tool_choice_required.py",
)  # fmt: skip
# Parsers that register under no name of their own.
ADAPTERS = {"Qwen3ParserToolAdapter": "qwen3_coder", "Glm47MoeParserToolAdapter": "glm47"}


@dataclass(frozen=True)
class Case:
    """One text of a peer's test.

    Attributes:
        test: the test's name, without its folder.
        format: the peer's name of the format.
        text: what a model wrote.
        tools: the tools of the request, as JSON.
        content: what the peer shows of the text.
        calls: (name, arguments) of each call that the peer reads.
    """

    test: str
    format: str
    text: str
    tools: str
    content: str
    calls: tuple

    @property
    def is_read(self):
        """Whether we read the format."""
        return is_format(self.format)

    @property
    def outcome(self):
        """What the peer makes of the text, to be compared.

        White space around the content is not: peers strip it, each in its own way. Arguments are
        compared as values, since peers write them anew.
        """
        return self.content.strip(), [(name, value(text)) for name, text in self.calls]


def value(text):
    """Return the value of JSON, or the text of something else."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def run_vllm(folder):
    """Run vLLM's tests on its own parsers; return their cases, each text of a format once."""
    record = folder / "cases.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(HERE), "PEER_ROOT": str(SOURCES),
                   "PEER_CASES": str(record)}  # fmt: skip
    options = ["-q", "-p", "vllm_plugin", "-p", "no:cacheprovider", "--noconftest",
               "-c", os.devnull, "-W", "ignore", "--tb=no", "--rootdir", str(SOURCES)]  # fmt: skip
    left_out = [f"--ignore={path}" for path in LEFT_OUT]
    command = [sys.executable, "-P", "-m", "pytest", *options, *left_out, *FOLDERS]
    done = subprocess.run(
        command, cwd=SOURCES, env=environment, capture_output=True, text=True, check=False
    )
    if not record.exists():
        raise RuntimeError(f"vLLM's tests did not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return list(_read(record))


def _read(record):
    lines = [json.loads(line) for line in record.read_text("utf-8").splitlines()]
    passed = {line["test"] for line in lines if line.get("outcome") == "passed"}
    names, seen = _names(), set()
    # What a parser makes of a whole text says more than what is left of it in a stream.
    texts = [line for line in lines if "text" in line]
    for line in sorted(texts, key=lambda line: line["kind"] != "whole"):
        if line["test"] not in passed or not isinstance(line["text"], str):
            continue
        format = names.get(line["parser"], line["parser"])
        case = Case(
            _short(line["test"]), format, line["text"],
            json.dumps(_tools(line["tools"]), sort_keys=True), line["content"] or "",
            tuple(map(tuple, line["calls"])),
        )  # fmt: skip
        key = case.format, case.text, case.tools
        if key not in seen:
            seen.add(key)
            yield case


def _short(test):
    """Return the name of a test without its folder; a parameter may have a slash, too."""
    file, _, name = test.partition("::")
    return f"{file.rsplit('/', 1)[-1]}::{name}"


def _names():
    """Return the name of each parser class, as vLLM registers it; of several the first."""
    source = (SOURCES / "vllm/tool_parsers/__init__.py").read_text("utf-8")
    entry = re.compile(
        r'^    "([\w-]+)": \((?:\s*#[^\n]*)?\s*"\w+",(?:\s*#[^\n]*)?\s*"(\w+)"', re.M
    )
    names = dict(ADAPTERS)
    for name, parser in entry.findall(source):
        names.setdefault(parser, name)
    return names


def _tools(tools):
    """The tools as a chat request has them; a request of the responses API has them flat."""
    found = []
    for tool in tools:
        function = tool.get("function", tool) if isinstance(tool, dict) else {}
        if function.get("name"):
            kept = {key: item for key, item in function.items() if item is not None}
            found.append({"type": "function", "function": kept})
    return found


def ours(case, size=None):
    """What our parser makes of a text, in pieces of so many characters; compare with `outcome`."""
    tools = json.loads(case.tools)
    parser = create_tool_parser(case.format, tools=tools or None)
    pieces = range(0, len(case.text), size or len(case.text) or 1)
    size = size or len(case.text)
    events = [event for start in pieces for event in parser.feed(case.text[start : start + size])]
    content, _, calls = told(events + parser.flush())
    return content, calls


def told(events):
    """Return (content, reasoning, [(name, arguments) of each call]) of events, to be compared."""
    content, reasoning, calls = "", "", []
    for event in events:
        if isinstance(event, TextDelta):
            content += event.text
        elif isinstance(event, ReasoningDelta):
            reasoning += event.text
        elif isinstance(event, CallStart):
            calls.append([event.name, ""])
        elif isinstance(event, ArgsDelta):
            calls[-1][1] += event.text
        elif isinstance(event, Malformed):
            calls[-1] = ["malformed", f"{calls[-1][0]} {calls[-1][1]}{event.raw}"]
    return content.strip(), reasoning.strip(), [(name, value(text)) for name, text in calls]
