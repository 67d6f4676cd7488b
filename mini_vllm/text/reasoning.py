"""Separates a model's reasoning from its answer: `<think> ... </think> ...`.

The opening tag is often part of the prompt already, so the caller says whether a text begins inside
the reasoning. Without an end tag all of the text is reasoning. The text after the end tag is the
answer, unchanged, line breaks included, and tags in it are text. If a family frames its answers, as
in `<answer> ... </answer>`, the frame is not part of the answer. Such a tag is a frame only at the
beginning and, if the answer has a frame, at the end of the text; anywhere else it is text. Markers
that are special tokens are markup anywhere before the first call: reasoning may follow an answer.

But: harmony has reasoning and calls in one format; `create_tool_parser("harmony")` reads both.
"""

from collections.abc import Iterable
from functools import lru_cache

from mini_vllm.text.events import ReasoningDelta
from mini_vllm.text.reasoning_formats import ReasoningFormat, find_reasoning_format
from mini_vllm.text.states.basic import Gap, Prose
from mini_vllm.text.stream_parser import Format, On, State, StreamParser

# The states in the answer.
ANSWER = ("answer", "calls", "framed", "end of frame")


def create_reasoning_splitter(
    name: str, *, in_reasoning: bool | None = None, ends_at: Iterable[str] = ()
) -> StreamParser:
    """Return a parser whose events are `ReasoningDelta` and `TextDelta`.

    Args:
        name: the name or an alias of a model family in `REASONING_FORMATS`.
        in_reasoning: whether the text begins inside the reasoning, because the prompt has the
            opening tag; the default is the usual case of the family. If False, the prompt may also
            have the opening of the answer's frame.
        ends_at: markers that also end the reasoning and stay part of the answer: the
            `Format.ends_reasoning` of the model's tool format, if the request has tools. By
            default a call inside the reasoning is prose.

    Raises:
        ValueError: the name is unknown; the message lists the known ones.
    """
    format = find_reasoning_format(name)
    usual = "inside" if format.inside else "start"
    start = {None: usual, True: "inside", False: "prompted"}[in_reasoning]
    return StreamParser(_table(format, tuple(ends_at)), start=start)


@lru_cache(maxsize=64)
def _table(format: ReasoningFormat, ends_at: tuple[str, ...]) -> Format:
    """Return a format's table; splitters share its states, and their remembered steps."""
    frame, frame_end = format.frame
    openings = {marker: On("reasoning", "close") for marker in format.openings}
    closings = {marker: On("after" if frame else "answer", "close") for marker in format.closings}
    enders = {marker: On("calls", keep=True) for marker in ends_at}
    frames = {marker: On("framed", "close") for marker in frame}
    states: dict[str, State] = {
        "start": Gap({**openings, **frames}, otherwise=On("answer", "text")),
        "prompted": Gap({**openings, **frames}, otherwise=On("framed", "text")),
        "inside": Gap(openings, otherwise=On("reasoning", "reasoning")),
        "reasoning": Prose({**enders, **closings}, kind=ReasoningDelta),
        "after": Gap(frames, otherwise=On("answer", "text")),
        "answer": Prose({}),
        "calls": Prose({}),
        "framed": Prose(dict.fromkeys(frame_end, On("end of frame"))),
        "end of frame": Gap({}, otherwise=On("framed", "text"), last=On("framed", "close")),
    }
    if format.special:
        frames = dict.fromkeys([*frame, *frame_end], On("answer", "close"))
        markup = {**openings, **frames}
        # The arguments of a call may quote the markers.
        calls = {opener: On("calls", keep=True) for opener in (*format.call_openers, *ends_at)}
        states |= {
            "inside": Gap(markup, otherwise=On("reasoning", "reasoning")),
            "reasoning": Prose({**enders, **closings, **markup}, kind=ReasoningDelta),
            "answer": Prose({**markup, **calls}),
            "framed": Prose({**markup, **calls}),
        }
    return Format(format.name, states, start="start", home="answer")


def prompt_in_reasoning(name: str, prompt: str) -> bool | None:
    """Return whether a prompt ends inside the reasoning, or None if the prompt does not show it.

    A prompt shows it by ending with a marker. Templates put the opening marker there, or the
    opening of the answer's frame, or an empty pair of markers if the model is to answer at once.

    Raises:
        ValueError: the name is unknown.
    """
    format = find_reasoning_format(name)
    end = prompt.rstrip()
    if end.endswith(_bare(format.openings)):
        return True
    return False if end.endswith(_bare((*format.closings, *format.frame[0]))) else None


def _bare(markers: Iterable[str]) -> tuple[str, ...]:
    return tuple(marker.rstrip() for marker in markers)
