"""A pytest plugin with which vLLM's own tests of its Hermes parser run on a plug-in.

PLUGIN is the plug-in's file, in the current folder; PLUGIN_TEXTS is a file for the texts of the
tests, one JSON string a line; PLUGIN_SOURCES is the folder with vLLM's tests. The tests' requests
have no tools, and vLLM drops the calls in the answers to such requests, so they are given a tool
here.
"""

import json
import os
import sys

import pytest
import vllm.entrypoints.openai.chat_completion.protocol as protocol
import vllm.tokenizers
import vllm.tool_parsers.hermes_tool_parser as hermes
from transformers import AutoTokenizer
from vllm.tool_parsers import ToolParserManager

FILE = os.environ["PLUGIN"]
# For the tests' helpers; the folder has a part of vLLM as well, which must not come first.
sys.path.append(os.environ["PLUGIN_SOURCES"])
ToolParserManager.import_tool_parser(FILE)
plugged = ToolParserManager.get_tool_parser(FILE.removesuffix(".py"))
streams = []


class Recorded(plugged):
    """The plug-in's parser; it notes the texts."""

    def extract_tool_calls(self, model_output, request):
        write(model_output)
        return super().extract_tool_calls(model_output, request)

    def extract_tool_calls_streaming(self, *arguments, **options):
        current = options.get("current_text") or arguments[1]
        if not streams or not current.startswith(streams[-1]):
            streams.append("")
        streams[-1] = current
        return super().extract_tool_calls_streaming(*arguments, **options)


def write(text):
    with open(os.environ["PLUGIN_TEXTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(text) + "\n")


def with_tools(request):
    """Return a class of requests that have a tool."""

    class WithTools(request):
        def __init__(self, **fields):
            tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
            super().__init__(**{"tools": [tool], "tool_choice": "auto", **fields})

    return WithTools


hermes.Hermes2ProToolParser = Recorded
protocol.ChatCompletionRequest = with_tools(protocol.ChatCompletionRequest)
vllm.tokenizers.get_tokenizer = lambda *_, **__: AutoTokenizer.from_pretrained(".")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    for text in streams:
        write(text)
    streams.clear()
