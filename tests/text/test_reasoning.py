"""The reasoning splitter: its rows of the catalogue and its properties.

Rows T37 (a call inside the reasoning), T44 (tags and markers in one piece), T53 (line breaks
between reasoning and call), and the traps that production splitters fell into: the opening tag in
the prompt, a closing tag cut in two, none at all. P12 (before a parser) and P13 (streams that run
together) are in `test_pipeline`.
"""

import os
import re
from functools import partial

import pytest
from chunking import chunkings, norm, run, same_under_all, sized
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm.text.events import ReasoningDelta, TextDelta
from mini_vllm.text.formats import FORMATS
from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.stream_parser import StreamParser

# The tags of a family, and whether a text begins in the reasoning.
FAMILIES = {
    "deepseek_r1": ("<think>", "</think>", True),
    "qwen3": ("<think>", "</think>", False),
    "glm45": ("<think>", "</think>", False),
    "kimi_k2": ("<think>", "</think>", False),
    "minimax_m2": ("<think>", "</think>", True),
    "mistral": ("[THINK]", "[/THINK]", False),
}
TAGS = ("<think>", "</think>", "[THINK]", "[/THINK]", "<tool_call>")
PARTS = [
    *TAGS, "<th", "</thi", "nk>", "[/TH", "<", "[", " ", "\n\n", "a", "é", "😀", "\r\n", "word",
    "<tool_",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS), max_size=8).map("".join)
EXAMPLES = settings(max_examples=2_000 if os.environ.get("SOAK") else 25)
every_family = pytest.mark.parametrize("family", FAMILIES)
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'


def r(text):
    return ReasoningDelta(text)


def t(text):
    return TextDelta(text)


def reference(text, opening, closing, *, inside, ends_at=()):
    """By definition, from the whole text."""
    begins = re.match(rf"[ \t\r\n]*{re.escape(opening)}", text)
    if not begins and not inside:
        return [t(text)] if text else []
    text = text[begins.end() :] if begins else text
    ends = "|".join(map(re.escape, (closing, *ends_at)))
    end = re.search(ends, text)
    reasoning = text[: end.start()] if end else text
    answer = text[end.end() if end[0] == closing else end.start() :] if end else ""
    return [*([r(reasoning)] if reasoning else []), *([t(answer)] if answer else [])]


@every_family
@EXAMPLES
@given(text=TEXTS, seeded=st.sampled_from([None, False, True]))
def test_p1_p7_equal_to_the_reference_under_every_cut(family, text, seeded):
    opening, closing, inside = FAMILIES[family]
    events = same_under_all(
        lambda: create_reasoning_splitter(family, in_reasoning=seeded), text, TAGS, every_cut=False
    )
    expected = reference(text, opening, closing, inside=inside if seeded is None else seeded)
    assert events == expected


@EXAMPLES
@given(text=TEXTS, inside=st.booleans())
def test_p1_openers_that_end_the_reasoning(text, inside):
    def make():
        return create_reasoning_splitter("qwen3", in_reasoning=inside, ends_at=["<tool_call>"])

    events = same_under_all(make, text, TAGS, every_cut=False)
    expected = reference(text, "<think>", "</think>", inside=inside, ends_at=["<tool_call>"])
    assert events == expected


@pytest.mark.parametrize("text", ["<think>a</think>b", " <think>a", "</think>b", "a <think> b"])
def test_p1_short_texts_under_every_two_cuts(text):
    assert len(text) <= 24
    for inside in (False, True):
        make = partial(create_reasoning_splitter, "qwen3", in_reasoning=inside)
        same_under_all(make, text, TAGS)


@EXAMPLES
@given(text=TEXTS, inside=st.booleans())
def test_p2_p3_out_at_once_but_for_what_may_be_a_tag(text, inside):
    """Behind the first characters no more is held than may begin the closing tag."""
    text = ("" if inside else "<think>") + "x" + text
    splitter = create_reasoning_splitter("qwen3", in_reasoning=inside)
    whole = run(create_reasoning_splitter("qwen3", in_reasoning=inside), [text])
    seen, shown = [], ""
    for end, char in enumerate(text, start=1):
        new = splitter.feed(char)
        seen = norm([*seen, *new])
        shown += "".join(event.text for event in new)
        for early, late in zip(seen, whole, strict=False):
            assert type(early) is type(late)
            assert late.text.startswith(early.text)
        if shown:
            answering = isinstance(seen[-1], TextDelta)
            tail = text[:end]
            waits = max(size for size in range(8) if tail.endswith("</think>"[:size]))
            # The closing tag itself is done with, and in the answer nothing waits.
            done = answering or tail.removeprefix("<think>").find("</think>") >= 0
            assert len(splitter.held) == (0 if done else waits)


# Rows: (family, seeded, pieces, events).
ROWS = {
    "tool-T37-prose": ("qwen3", None, [f"<think>maybe {CALL} no</think>ok"],
        [r(f"maybe {CALL} no"), t("ok")]),
    "tool-T44-same": ("qwen3", True, ["plan", "</think> xxx<tool_call>"],
        [r("plan"), t(" xxx<tool_call>")]),
    "tool-T44-end": ("qwen3", True, ["</think>", "\n</tool_call>yyy"], [t("\n</tool_call>yyy")]),
    "tool-T44-both": ("qwen3", True, ["a</think></tool_call><tool_call>"],
        [r("a"), t("</tool_call><tool_call>")]),
    "tool-T53": ("qwen3", None, [f"<think>\nhm\n</think>\n\n{CALL}"],
        [r("\nhm\n"), t(f"\n\n{CALL}")]),
    "the tag is in the prompt": ("deepseek_r1", None, ["hm</think>ok"], [r("hm"), t("ok")]),
    "the tag is in both": ("deepseek_r1", None, ["<think>hm</think>ok"], [r("hm"), t("ok")]),
    "seeded from outside": ("qwen3", True, ["hm</think>ok"], [r("hm"), t("ok")]),
    "not seeded": ("deepseek_r1", False, ["hm</think>ok"], [t("hm</think>ok")]),
    "a closing tag in two": ("qwen3", True, ["foo</th", "ink>bar"], [r("foo"), t("bar")]),
    "none closes": ("qwen3", None, ["<think>and on"], [r("and on")]),
    "half a tag closes": ("qwen3", True, ["and on</thin"], [r("and on</thin")]),
    "no reasoning": ("qwen3", None, ["Hello <think>"], [t("Hello <think>")]),
    "an empty one": ("qwen3", None, ["<think>\n\n</think>\n\nok"], [r("\n\n"), t("\n\nok")]),
    "nothing in it": ("qwen3", None, ["<think></think>"], []),
    "tags in the answer": ("qwen3", True, ["a</think>b</think><think>c"],
        [r("a"), t("b</think><think>c")]),
    "a tag in the reasoning": ("qwen3", None, ["<think>a<think>b</think>c"],
        [r("a<think>b"), t("c")]),
    "brackets": ("mistral", None, ["[THINK]a[/THI", "NK]b [/THINK]"], [r("a"), t("b [/THINK]")]),
    "half an opening tag": ("qwen3", None, ["<thi"], [t("<thi")]),
    "half an opening tag, seeded": ("qwen3", True, ["<thi"], [r("<thi")]),
    "white space before the tag": ("qwen3", None, ["\n <think>a"], [r("a")]),
    "white space before none": ("qwen3", None, ["\n a"], [t("\n a")]),
    "only white space": ("deepseek_r1", None, ["\n "], [r("\n ")]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "seeded", "pieces", "expected"),
    [pytest.param(*row, id=id) for id, row in ROWS.items()],
)
def test_rows(family, seeded, pieces, expected):
    def make():
        return create_reasoning_splitter(family, in_reasoning=seeded)

    assert run(make(), pieces) == expected
    assert same_under_all(make, "".join(pieces), TAGS) == expected


# P10, P11.


def test_p10_each_character_is_examined_at_most_twice():
    for text in ("<think>" + "</thin" * 4_000, "<" * 20_000, " " * 20_000, "</think>" * 2_000):
        for size in (1, 7, len(text)):
            splitter = create_reasoning_splitter("qwen3")
            run(splitter, sized(text, size))
            scanners = [
                getattr(state, "scanner", None) for state in splitter.format.states.values()
            ]
            assert sum(one.examined for one in scanners if one) <= 2 * len(text)


@every_family
def test_p11_after_a_flush_at_any_place_the_splitter_is_fresh(family):
    opening, closing, _ = FAMILIES[family]
    text = f"{opening}a{closing}b"
    splitter = create_reasoning_splitter(family)
    expected = run(splitter, [text])
    for end in range(len(text)):
        run(splitter, [text[:end]])
        assert splitter.held == ""
        assert splitter.flush() == []
        assert run(splitter, [text]) == expected


def test_unknown_names_list_the_known_and_the_near():
    with pytest.raises(ValueError, match=r"'qwen33'; did you mean qwen3\?.* known: deepseek_r1"):
        create_reasoning_splitter("qwen33")
    with pytest.raises(ValueError, match="unknown reasoning format 'zzz'; known: ") as error:
        create_reasoning_splitter("zzz")
    assert set(str(error.value).split("known: ")[1].split(", ")) == set(FAMILIES)


def test_harmony_has_its_reasoning_in_the_format():
    text = "<|channel|>analysis<|message|>a</think><|end|><|channel|>final<|message|>b"
    parser = StreamParser(FORMATS["harmony"])
    assert run(parser, [text]) == [r("a</think>"), t("b")]
    assert all(run(parser, pieces) == [r("a</think>"), t("b")] for _, pieces in chunkings(text))
