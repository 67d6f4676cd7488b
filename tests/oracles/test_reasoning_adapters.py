"""The reasoning adapters in `upstream/`, on the real base classes of vLLM and SGLang.

But: no server is run; they are called as vLLM's `DelegatingParser` and SGLang's `ReasoningParser`
call them.
"""

import functools
import importlib
import logging
from types import SimpleNamespace

import pytest
from test_adapters import load

from benchmarks.peers.text_layers import _package
from mini_vllm.text.events import ReasoningDelta
from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.reasoning_formats import REASONING_FORMATS
from upstream.sources import SOURCES

DETECTOR = "sglang/srt/parser/reasoning_parser.py"
BASE = "vllm/reasoning/abs_reasoning_parsers.py"
pytestmark = pytest.mark.skipif(
    not all((SOURCES / one).is_file() for one in (BASE, DETECTOR)),
    reason="vLLM and SGLang were not fetched: make oracles",
)
QWEN_CALL = "<tool_call>\n<function=f></function></tool_call>"
KIMI_CALL = "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
# Family, prompt, text, and whether the prompt already ends the reasoning.
TEXTS = {
    "inside": ("qwen3", "<think>\n", "Hm <b </thin k>.</think>\n\nSo </think> 🚀", False),
    "a call inside": ("qwen3", "<think>\n", f"I need it.\n{QWEN_CALL} <", False),
    "its own tag": ("kimi_k2", "?", f"<think>I need {KIMI_CALL}", False),
    "none": ("qwen3", "?", "Hello <think>", False),
    "cut off": ("qwen3", "<think>", "and on</thin", False),
    "by default": ("step3", "?", "Hm.</think>Ok", False),
    "switched off": ("qwen3", "<think>\n\n</think>\n\n", "Ok </think>", True),
}


class Characters:
    """A tokenizer of characters."""

    def decode(self, ids):
        return "".join(map(chr, ids))


@functools.cache
def manager(root):
    """Return vLLM's table of reasoning parsers with ours in it."""

    class Message(SimpleNamespace):
        def __init__(self, reasoning=None, content=None):
            super().__init__(reasoning=reasoning, content=content)

    given = {
        "vllm.logger": {"init_logger": logging.getLogger},
        "vllm.entrypoints.generate.base.protocol": {"DeltaMessage": Message},
    }
    with _package(root, "vllm", given):
        base = importlib.import_module("vllm.reasoning.abs_reasoning_parsers")
        load("vllm_reasoning")
    return base.ReasoningParserManager


@pytest.fixture(scope="module")
def parsers(tmp_path_factory):
    """The table, of a tree with nothing of vLLM but the base class: the rest are stubs."""
    root = tmp_path_factory.mktemp("vllm")
    (root / BASE).parent.mkdir(parents=True)
    (root / BASE).write_text((SOURCES / BASE).read_text(encoding="utf-8"))
    return manager(root)


def streamed(parser, prompt, pieces):
    """What a client gets as reasoning, and what the tool parser is given, as in `parse_delta`."""
    parser.set_prompt_token_ids(prompt)
    ended = parser.is_reasoning_end(prompt)
    reasoning, content = [], []

    def take(message):
        if message is not None:
            reasoning.append(message.reasoning or "")
            content.append(message.content or "")

    for piece in pieces:
        if ended:
            content.append(piece)
            continue
        take(parser.extract_reasoning_streaming("", piece, piece, (), (), ()))
        if parser.has_engine_confirmed_reasoning_end():
            ended = True
            take(parser.finish_streaming())
    if not ended:
        take(parser.finish_streaming())
    return "".join(reasoning), "".join(content)


def test_vllm_knows_every_family(parsers):
    assert parsers.list_registered() == sorted(f"mini_{name}" for name in REASONING_FORMATS)


@pytest.mark.parametrize("name", TEXTS)
def test_split_anywhere_it_is_what_our_splitter_says(parsers, name):
    family, prompt, text, over = TEXTS[name]
    prompt = [*map(ord, prompt)]
    splitter = create_reasoning_splitter(
        family,
        in_reasoning={"?": None}.get(TEXTS[name][1], not over),
        ends_at=REASONING_FORMATS[family].ends_at,
    )
    expected = ["", ""]
    for event in splitter.feed(text) + splitter.flush():
        expected[not isinstance(event, ReasoningDelta)] += event.text
    make = functools.partial(parsers.get_reasoning_parser(f"mini_{family}"), Characters())
    assert make().is_reasoning_end(prompt) is over
    whole = make()
    whole.set_prompt_token_ids(prompt)
    assert [one or "" for one in whole.extract_reasoning(text, None)] == expected
    assert [*streamed(make(), prompt, text)] == expected
    for cut in range(len(text) + 1):
        assert [*streamed(make(), prompt, [text[:cut], text[cut:]])] == expected


@pytest.fixture(scope="module")
def detectors(tmp_path_factory):
    """SGLang's table of reasoning parsers with ours in it; all else of SGLang are stubs."""
    root = tmp_path_factory.mktemp("sglang")
    (root / DETECTOR).parent.mkdir(parents=True)
    (root / DETECTOR).write_text((SOURCES / DETECTOR).read_text(encoding="utf-8"))
    given = {"sglang.srt.parser.inkling_tokenizer": {"INKLING_CONTROL_TOKENS": ("",)}}
    with _package(root, "transformers", {}), _package(root, "sglang", given):
        base = importlib.import_module("sglang.srt.parser.reasoning_parser")
        load("sglang_reasoning").register()
    return base.ReasoningParser


@pytest.mark.parametrize("name", TEXTS)
def test_sglang_split_anywhere_it_is_what_our_splitter_says(detectors, name):
    family, prompt, text, over = TEXTS[name]
    force = {"?": None}.get(prompt, not over)
    for active in (True, False):
        ends_at = REASONING_FORMATS[family].ends_at if active else ()
        splitter = create_reasoning_splitter(family, in_reasoning=force, ends_at=ends_at)
        expected = ["", ""]
        for event in splitter.feed(text) + splitter.flush():
            expected[not isinstance(event, ReasoningDelta)] += event.text
        make = functools.partial(
            detectors, f"mini_{family}", force_reasoning=force, tool_call_parser_active=active
        )
        assert [*make().parse_non_stream(text)] == expected
        for cut in range(len(text) + 1):
            one = make()
            parts = [one.parse_stream_chunk(piece) for piece in (text[:cut], text[cut:])]
            parts.append(one.parse_stream_end())
            assert ["".join(part[kind] for part in parts) for kind in (0, 1)] == expected


def test_constrained_generation_learns_of_the_end_when_it_comes(parsers):
    parser = parsers.get_reasoning_parser("mini_qwen3")(Characters())
    ids = [*map(ord, "</think>Hm.</think>Ok")]
    told = [parser.is_reasoning_end_streaming(ids[:end], ids[end - 1 : end]) for end in
            range(9, len(ids) + 1)]  # fmt: skip
    assert told == [end == 19 for end in range(9, len(ids) + 1)]


def test_markers_that_are_special_tokens_are_let_through(parsers):
    parser = parsers.get_reasoning_parser("mini_kimi_k2")(Characters())
    assert (
        parser.adjust_request(SimpleNamespace(skip_special_tokens=True)).skip_special_tokens
        is False
    )
    assert (parser.reasoning_start_str, parser.reasoning_end_str) == ("<think>", "</think>")
