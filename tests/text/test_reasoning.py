"""The reasoning splitter: its rows of the catalogue and its properties.

Rows T37 (a call inside the reasoning), T44 (tags and markers in one piece), T53 (line breaks
between reasoning and call), and the traps that production splitters fell into: the opening tag in
the prompt, a closing tag cut in two, none at all. P12 (before a parser) and P13 (streams that run
together) are in `test_pipeline`.
"""

import itertools
import os
import re
from functools import partial

import pytest
from chunking import chunkings, norm, run, same_under_all, sized
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm.text.events import ReasoningDelta, TextDelta
from mini_vllm.text.formats import FORMATS
from mini_vllm.text.reasoning import create_reasoning_splitter, prompt_in_reasoning
from mini_vllm.text.reasoning_formats import (
    REASONING_ALIASES,
    REASONING_FORMATS,
    UNREAD_REASONING,
    find_reasoning_format,
)
from mini_vllm.text.stream_parser import StreamParser

THINK = (["<think>"], ["</think>"])
COHERE = (["<|START_THINKING|>"], ["<|END_THINKING|>"])
K3 = "<|{}|>{}<|sep|>".format
# What begins the reasoning of a family and what ends it, whether a text begins in it, and what may
# stand before and after an answer.
FAMILIES = {
    "deepseek_r1": (*THINK, True),
    "deepseek_v3": (*THINK, False),
    "qwen3": (*THINK, False),
    "glm45": (*THINK, False),
    "kimi_k2": (*THINK, False),
    "minimax_m2": (*THINK, True),
    "mistral": (["[THINK]"], ["[/THINK]"], False),
    "granite_thinking_parser": (*THINK, True),
    "holo2": (*THINK, True),
    "nemotron_v3": (*THINK, True),
    "hy_v3": (*THINK, False),
    "olmo3": (*THINK, True),
    "step3": (*THINK, True),
    "step3p5": (*THINK, True),
    "seed_oss": (["<seed:think>"], ["</seed:think>"], False),
    "minimax_m3": (["<mm:think>"], ["</mm:think>"], False),
    "gemma4": (["<|channel>thought\n"], ["<channel|>"], False),
    "kimi": (["◁think▷"], ["◁/think▷"], False),
    "plamo3": (["<|plamo:begin_think:plamo|>"], ["<|plamo:end_think:plamo|>"], True),
    "k2_horizon": (
        ["<ifm|think>", "<ifm|think_fast>", "<ifm|think_faster>"],
        ["</ifm|think>", "</ifm|think_fast>", "</ifm|think_faster>"], True),
    "granite": (
        ["Here is my thought process:", "Here's my thought process:"],
        ["Here is my response:", "Here's my response:"], False),
    "granite_3_3": (*THINK, False, ["<response>"], ["</response>"]),
    "hunyuan_a13b": (*THINK, False, ["<answer>"], ["</answer>"]),
    "ernie45": (*THINK, True, ["<response>"], ["</response>"]),
    "cohere_command3": (*COHERE, False, ["<|START_RESPONSE|>"], ["<|END_RESPONSE|>"]),
    "cohere_command4": (
        *COHERE, False,
        ["<|START_RESPONSE|>", "<|START_TEXT|>"], ["<|END_RESPONSE|>", "<|END_TEXT|>"]),
    "kimi_k3": (
        [K3("open", "think")], [K3("close", "think")], True,
        [K3("open", "response")], [K3("close", "response"), K3("close", "message")]),
}  # fmt: skip
# vLLM 0.33.0, vllm/reasoning/__init__.py, and SGLang 0.5.23, srt/parser/reasoning_parser.py.
PEERS = """
deepseek_r1 deepseek_v3 deepseek_v4 deepseek_v41 poolside_v1 cohere_command3
cohere_command4 ernie45 gemma4 glm45 glm47 ling3 openai_gptoss granite
granite_thinking_parser hf beam holo2 hunyuan_a13b hy_v3 hy_v4 kimi_k2 kimi_k3 k2_horizon
mimo minicpmv minimax_m2 minimax_m2_append_think minimax_m3 mistral nemotron_v3 olmo3
plamo3 muse muse_glimmer musespark1x qwen3 seed_oss step3 step3p5 step5 inkling
apertus2509 deepseek-r1 deepseek-v3 deepseek-v4 deepseek-v41 dots hunyuan gpt-oss kimi
qwen3-thinking minimax minimax-append-think minimax-m3 nanbeige nemotron_3 interns1
gigachat35 iquest_q1 response_template
"""
# One family of each shape: the others differ from one of them only in their markers.
SHAPES = (
    "deepseek_r1", "qwen3", "mistral", "gemma4", "k2_horizon", "granite", "hunyuan_a13b", "kimi_k3",
)  # fmt: skip
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


def markers_of(family):
    opening, closing, _, *frame = FAMILIES[family]
    return [*opening, *closing, *(marker for markers in frame for marker in markers)]


def texts_of(family):
    """Texts of a family's markers, their halves, and what may stand around them."""
    markers = markers_of(family)
    markers += SPECIAL.get(family, [])
    halves = [half for one in markers for half in (one[: len(one) // 2], one[len(one) // 2 :])]
    parts = st.sampled_from([*markers * 2, *halves, *PARTS])
    return st.lists(parts, max_size=8).map("".join)


# Families whose markers are special tokens, and what begins a call in their answers.
SPECIAL = {
    "mistral": ["[TOOL_CALLS]"],
    "seed_oss": ["<seed:tool_call>", "<function="],
    "minimax_m3": ["]<]minimax[>[<tool_call>"],
    "gemma4": ["<|tool_call>"],
    "kimi": [],
    "plamo3": ["<|plamo:begin_tool_requests:plamo|>"],
    "k2_horizon": ["<ifm|tool_calls>"],
    "cohere_command3": ["<|START_ACTION|>"],
    "cohere_command4": ["<|START_ACTION|>"],
    "kimi_k3": [K3("open", "tools")],
}


def special_reference(text, family, inside, ends_at):
    """By definition, for families of special tokens: marker after marker."""
    openings, closings, usual, *frame = FAMILIES[family]
    before, behind = frame or ([], [])
    calls, events = [*SPECIAL[family], *ends_at], []
    kind = r if (usual if inside is None else inside) else t
    first = [*openings, *before, *(behind if kind is r else [])]
    while text:
        text = re.sub(rf"\A[ \t\r\n]*(?={one_of(first)})", "", text)
        markup = [*openings, *before, *behind]
        markers = [*markup, *([*closings, *ends_at] if kind is r else calls)]
        found = re.search(rf"(?s)(.*?)({one_of(markers)}|\Z)", text)
        prose, marker = found.groups()
        events += [kind(prose)] if prose else []
        if marker in calls:
            return norm([*events, t(text[len(prose) :])])
        text = text[found.end() :]
        first = before if marker in closings else []
        kind = r if marker in openings else t
    return norm(events)


def reference(text, family, *, inside=None, ends_at=()):
    """By definition, from the whole text."""
    if family in SPECIAL:
        return special_reference(text, family, inside, ends_at)
    openings, closings, usual, *frame = FAMILIES[family]
    before, behind = frame or ([], [])
    begins = re.match(rf"[ \t\r\n]*{one_of(openings)}", text)
    ended = "" if begins or (usual if inside is None else inside) else "none"
    text = text[begins.end() :] if begins else text
    if not ended:
        end = re.search(one_of([*closings, *ends_at]), text)
        reasoning, ended = (text[: end.start()], end[0]) if end else (text, "")
        text = text[end.start() if ended in ends_at else end.end() :] if end else ""
    else:
        reasoning = ""
    answer, framed = text, 0
    if ended not in ends_at:
        answer, framed = re.subn(rf"\A[ \t\r\n]*{one_of(before)}", "", text)
    if framed or (inside is False and ended == "none"):
        answer = re.sub(rf"{one_of(behind)}[ \t\r\n]*\Z", "", answer)
    return [*([r(reasoning)] if reasoning else []), *([t(answer)] if answer else [])]


def one_of(markers):
    return f"(?:{'|'.join(map(re.escape, markers)) or '(?!)'})"


@pytest.mark.parametrize("family", SHAPES)
@EXAMPLES
@given(data=st.data(), seeded=st.sampled_from([None, False, True]))
def test_p1_p7_equal_to_the_reference_under_every_cut(family, data, seeded):
    text, markers = data.draw(texts_of(family)), markers_of(family)
    events = same_under_all(
        lambda: create_reasoning_splitter(family, in_reasoning=seeded),
        text, markers, every_cut=False,
    )  # fmt: skip
    assert events == reference(text, family, inside=seeded)


@every_family
def test_p1_p7_every_marker_of_every_family(family):
    openings, closings, _, *frame = FAMILIES[family]
    before, behind = frame or ([""], [""])
    for opening, closing in itertools.product(openings, closings):
        for begin, end in itertools.product(before, behind):
            for text in (
                f"\n{opening}a{closing}\n{begin}b{end}", f"a{opening}{closing}\n b{end}{end}",
                f"{closing}{begin}a{end} {begin}", f" {begin}b{end}{opening}", closing[:-1], "a",
            ):  # fmt: skip
                expected = reference(text, family)
                make = partial(create_reasoning_splitter, family)
                for size in (1, 4, 99):
                    assert run(make(), sized(text, size)) == expected, text


@EXAMPLES
@given(text=TEXTS, inside=st.booleans())
def test_p1_openers_that_end_the_reasoning(text, inside):
    def make():
        return create_reasoning_splitter("qwen3", in_reasoning=inside, ends_at=["<tool_call>"])

    events = same_under_all(make, text, TAGS, every_cut=False)
    expected = reference(text, "qwen3", inside=inside, ends_at=["<tool_call>"])
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
    "an answer without thoughts": ("kimi_k3", None,
        [f" {K3('open', 'response')}Hi", K3("close", "response") + K3("close", "message")],
        [t("Hi")]),
    "thoughts that do not close": ("kimi_k3", None,
        [f"Hm{K3('open', 'response')}Hi{K3('close', 'response')}"], [r("Hm"), t("Hi")]),
    "thoughts of special tokens that do not close": ("cohere_command3", None,
        ["<|START_THINKING|>Hm<|START_RESPONSE|>Hi<|END_RESPONSE|>"], [r("Hm"), t("Hi")]),
    "thoughts with tags of a frame": ("ernie45", None, ["Hm <response>"], [r("Hm <response>")]),
    "only white space": ("deepseek_r1", None, ["\n "], [r("\n ")]),
    "thoughts behind an answer": ("gemma4", None,
        ["Hi <|channel>thought\nsecret<channel|>A <|channel>thought\nmore<channel|>", "B"],
        [t("Hi "), r("secret"), t("A "), r("more"), t("B")]),
    "thoughts behind an answer, Mistral": ("mistral", None, ["Before. [THI", "NK]a[/THINK]b"],
        [t("Before. "), r("a"), t("b")]),
    "a marker in the arguments of a call": ("minimax_m3", None,
        ["Hi ]<]minimax[>[<tool_call>a <mm:think>b</mm:think>"],
        [t("Hi ]<]minimax[>[<tool_call>a <mm:think>b</mm:think>")]),
    "a second opener of special tokens": ("mistral", True, ["a [THINK]b[/THINK]c"],
        [r("a b"), t("c")]),
    "the end of a frame in the answer": ("granite_3_3", None,
        ["<think>a</think><response>The tag </response> ends it.</respon", "se>\n"],
        [r("a"), t("The tag </response> ends it.")]),
    "tags with a suffix": ("hunyuan:opensource", None,
        ["<think:open", "source>a</think>b</think:opensource>c"], [r("a</think>b"), t("c")]),
    "two ends of a frame": ("hunyuan_a13b", None,
        ["<think>a</think>\n<answer>\n</answer> ends it.\n</answer></answer>"],
        [r("a"), t("\n</answer> ends it.\n</answer>")]),
    "the end of a frame that does not begin": ("ernie45", None, ["a</think>b</response>"],
        [r("a"), t("b</response>")]),
    "a frame that begins in the prompt": ("hunyuan_a13b", False, ["b\n</answer>"], [t("b\n")]),
    "a frame that begins in the prompt, or none": ("hunyuan_a13b", False,
        ["<think>a</think>b</answer>"], [r("a"), t("b</answer>")]),
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
            states = splitter.format.states.values()
            scanners = [state.scanner for state in states if hasattr(state, "scanner")]
            before = sum(one.examined for one in scanners)
            run(splitter, sized(text, size))
            assert sum(one.examined for one in scanners) - before <= 2 * len(text)


@every_family
def test_p11_after_a_flush_at_any_place_the_splitter_is_fresh(family):
    openings, closings, *_ = FAMILIES[family]
    text = f"{openings[0]}a{closings[0]}b"
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
    with pytest.raises(ValueError, match="muse cannot be read: its messages go to channels"):
        create_reasoning_splitter("muse")
    for name in ("hy_v3:", "qwen3:opensource"):
        with pytest.raises(ValueError, match=f"unknown reasoning format {name!r}"):
            create_reasoning_splitter(name)


@pytest.mark.parametrize(
    ("family", "prompt", "inside"),
    [
        ("qwen3", "<|im_start|>assistant\n", None),
        ("qwen3", "<|im_start|>assistant\n<think>\n", True),
        ("qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("qwen3", "<think>a</think>b<|im_end|>", None),
        ("glm47", "<|assistant|></think>", False),
        ("k2_horizon", "<ifm|think_fast>", True),
        ("gemma4", "<|turn>model\n<|channel>thought\n<channel|>", False),
        ("gemma4", "<|turn>model\n<|channel>thought\n", True),
        ("cohere_command3", "<|CHATBOT_TOKEN|><|START_THINKING|>", True),
        ("kimi_k3", "<|open|>response<|sep|>", False),
    ],
)
def test_a_prompt_shows_whether_it_ends_inside(family, prompt, inside):
    assert prompt_in_reasoning(family, prompt) is inside


def test_every_name_of_a_peer_is_read_or_said_to_be_unread():
    names = [*REASONING_FORMATS, *REASONING_ALIASES, *UNREAD_REASONING]
    assert len(names) == len(set(names))
    for alias, name in REASONING_ALIASES.items():
        assert find_reasoning_format(alias) is REASONING_FORMATS[name]
    assert set(names) >= set(PEERS.split())


def test_harmony_has_its_reasoning_in_the_format():
    text = "<|channel|>analysis<|message|>a</think><|end|><|channel|>final<|message|>b"
    parser = StreamParser(FORMATS["harmony"])
    assert run(parser, [text]) == [r("a</think>"), t("b")]
    assert all(run(parser, pieces) == [r("a</think>"), t("b")] for _, pieces in chunkings(text))
