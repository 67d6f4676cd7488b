"""Run plug-ins and the engines' own parsers on texts, within the environment of the engines.

    .oracles/engines/bin/python tests/oracles/engines/drive.py ENGINE FOLDER < cases.json

ENGINE is `vllm` or `sglang`, FOLDER has a tokenizer and the plug-ins. Standard input has `parsers`,
rows [title, name of the tool parser, name of the reasoning parser or null, file or null], and
`cases`,
rows [text, prompt, tools or null, tool choice]. The output has a row for each parser and case: its
answer to the whole text, and its different answers to the stream under every cut.
"""

import json
import logging
import os
import sys
from pathlib import Path

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ["VLLM_LOGGING_LEVEL"] = "CRITICAL"


def cuts(text):
    """Yield the ways to cut a text: not, everywhere, and once at every place."""
    yield [text]
    for size in (1, 2, 3, 5, 8):
        yield [text[at : at + size] for at in range(0, len(text), size)]
    yield from ([text[:cut], text[cut:]] for cut in range(1, len(text)))


class Vllm:
    def __init__(self, folder, files):
        from transformers import AutoTokenizer
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
        from vllm.parser.abstract_parser import DelegatingParser
        from vllm.reasoning import ReasoningParserManager
        from vllm.tool_parsers import ToolParserManager

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.request, self.base = ChatCompletionRequest, DelegatingParser
        self.tools, self.reasoning = ToolParserManager, ReasoningParserManager
        os.chdir(folder)
        sys.path.insert(0, "")
        for file, reasoning in files:
            ToolParserManager.import_tool_parser(file)
            if reasoning:
                ReasoningParserManager.import_reasoning_parser(file)

    def open(self, names, prompt, tools, choice):
        tool, reasoning = names
        body = {
            "tool_parser_cls": self.tools.get_tool_parser(tool),
            "reasoning_parser_cls": reasoning and self.reasoning.get_reasoning_parser(reasoning),
        }
        fields = {"tools": tools, "tool_choice": choice} if tools else {}
        request = self.request(messages=[{"role": "user", "content": "?"}], **fields)
        parser = type("Parser", (self.base,), body)(self.tokenizer, request.tools)
        return parser, request, self.tokenizer.encode(prompt, add_special_tokens=False)

    def whole(self, text, *options):
        parser, request, ids = self.open(*options)
        parser.set_prompt_token_ids(ids)
        reasoning, content, calls = parser.parse(text, request, enable_auto_tools=True)
        calls = [[call.name, call.arguments] for call in calls or []]
        return [reasoning or "", content or "", calls]

    def streamed(self, pieces, *options):
        parser, request, prompt = self.open(*options)
        reasoning, content, calls = "", "", []
        for number, piece in enumerate(pieces):
            ids = self.tokenizer.encode(piece, add_special_tokens=False)
            end = number == len(pieces) - 1
            delta = parser.parse_delta(piece, ids, request, prompt, finished=end)
            if delta is None:
                continue
            reasoning += delta.reasoning or ""
            content += delta.content or ""
            merge(calls, [(call.index, call.function) for call in delta.tool_calls or ()])
        return [reasoning, content, calls]


def merge(calls, deltas):
    for index, function in deltas:
        calls += [["", ""] for _ in range(index + 1 - len(calls))]
        if function is not None:
            calls[index][0] += function.name or ""
            calls[index][1] += function.arguments or ""


class Sglang:
    def __init__(self, folder, files):
        from sglang.srt.entrypoints.openai.protocol import Tool
        from sglang.srt.function_call.function_call_parser import FunctionCallParser
        from sglang.srt.parser.reasoning_parser import ReasoningParser

        self.tools, self.reasoning, self.tool = FunctionCallParser, ReasoningParser, Tool
        os.chdir(folder)
        sys.path.insert(0, "")
        for file, _ in files:
            __import__(file.removesuffix(".py")).register_in_sglang()

    def open(self, names, prompt, tools, choice):
        tool, reasoning = names
        given = [self.tool(**tool) for tool in tools or ()]
        force = prompt.rstrip().endswith("<think>")
        options = {"stream_reasoning": True, "force_reasoning": force}
        splitter = reasoning and self.reasoning(reasoning, **options)
        return splitter, given and choice != "none" and self.tools(given, tool)

    def whole(self, text, *options):
        splitter, parser = self.open(*options)
        reasoning, content = splitter.parse_non_stream(text) if splitter else ("", text)
        calls = []
        if parser and parser.has_tool_call(content or ""):
            content, calls = parser.parse_non_stream(content or "")
        return [reasoning or "", content or "", [[call.name, call.parameters] for call in calls]]

    def streamed(self, pieces, *options):
        splitter, parser = self.open(*options)
        reasoning, content, calls = "", "", []

        def take(text):
            nonlocal content
            found = []
            if parser and text:
                text, found = parser.parse_stream_chunk(text)
            content += text or ""
            add(found)

        def add(found):
            for item in found:
                calls.extend(["", ""] for _ in range(item.tool_index + 1 - len(calls)))
                calls[item.tool_index][0] += item.name or ""
                calls[item.tool_index][1] += item.parameters or ""

        for piece in pieces:
            new, text = splitter.parse_stream_chunk(piece) if splitter else ("", piece)
            reasoning += new or ""
            take(text)
        if splitter:
            new, text = splitter.parse_stream_end()
            reasoning += new or ""
            take(text)
        if parser:
            text, found = parser.parse_stream_end()
            content += text or ""
            add(found)
        return [reasoning, content, calls]


def main():
    engine, folder = {"vllm": Vllm, "sglang": Sglang}[sys.argv[1]], Path(sys.argv[2]).resolve()
    work = json.load(sys.stdin)
    # What the engines print while they are imported is not our output.
    output, sys.stdout = sys.stdout, sys.stderr
    logging.disable(logging.CRITICAL)
    files = [(row[3], row[2]) for row in work["parsers"] if row[3]]
    runs = engine(folder, files)
    rows = []
    for title, tool, reasoning, _ in work["parsers"]:
        for text, *options in work["cases"]:
            names = (tool, reasoning)
            whole = answer(runs.whole, text, names, *options)
            streams = {
                json.dumps(answer(runs.streamed, pieces, names, *options)) for pieces in cuts(text)
            }
            rows.append({"parser": title, "text": text, "whole": whole,
                         "streams": sorted(map(json.loads, streams))})  # fmt: skip
    json.dump(rows, output)


def answer(run, *arguments):
    """Return an answer, or the exception in its place."""
    try:
        return run(*arguments)
    except Exception as error:
        return ["", f"{type(error).__name__}: {error}", []]


if __name__ == "__main__":
    main()
