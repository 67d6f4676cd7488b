"""Telling a model's reasoning from its answer: `<think> ... </think> ...`.

The opening tag is often part of the prompt already, so the caller says whether a text begins inside
the reasoning. Without an end tag all of it is reasoning. What follows the end tag is the answer as
it is written, line breaks included, and tags in it are text.

But: harmony has reasoning and calls in one format; `create_tool_parser("harmony")` reads both.
"""

import difflib
from collections.abc import Iterable

from mini_vllm.text.events import ReasoningDelta
from mini_vllm.text.parser_states import Gap, Prose
from mini_vllm.text.stream_parser import Format, On, State, StreamParser

# The tags, and whether a text begins inside by default.
_TAGS = {
    "deepseek_r1": ("<think>", "</think>", True),
    "qwen3": ("<think>", "</think>", False),
    "glm45": ("<think>", "</think>", False),
    "kimi_k2": ("<think>", "</think>", False),
    "minimax_m2": ("<think>", "</think>", True),
    "mistral": ("[THINK]", "[/THINK]", False),
}


def create_reasoning_splitter(
    name: str, *, in_reasoning: bool | None = None, ends_at: Iterable[str] = ()
) -> StreamParser:
    """Return a parser whose events are `ReasoningDelta` and `TextDelta`.

    Args:
        name: of the model family.
        in_reasoning: whether the text begins inside, because the prompt has the opening tag; by
            default what is usual for the family.
        ends_at: markers that also end the reasoning and stay part of the answer: the openers of
            tool calls, for models that call without closing their reasoning. By default a call
            inside the reasoning is prose.

    Raises:
        ValueError: the name is unknown; the message lists the known ones.
    """
    if name not in _TAGS:
        near = difflib.get_close_matches(name, _TAGS)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise ValueError(f"unknown reasoning format {name!r}; {hint}known: {', '.join(_TAGS)}")
    opening, closing, inside = _TAGS[name]
    enders = {marker: On("answer", keep=True) for marker in ends_at}
    states: dict[str, State] = {
        "start": Gap({opening: On("reasoning", "close")}, otherwise=On("answer", "text")),
        "inside": Gap({opening: On("reasoning", "close")}, otherwise=On("reasoning", "reasoning")),
        "reasoning": Prose({closing: On("answer", "close"), **enders}, kind=ReasoningDelta),
        "answer": Prose({}),
    }
    start = "inside" if (inside if in_reasoning is None else in_reasoning) else "start"
    return StreamParser(Format(name, states, start=start, home="answer"))


def prompt_in_reasoning(name: str, prompt: str) -> bool | None:
    """Return whether a prompt ends inside the reasoning, or None if it does not show.

    A prompt shows it by ending with a tag: templates put the opening one there, or an empty pair
    where the model is to answer at once.

    Raises:
        KeyError: the name is unknown.
    """
    opening, closing, _ = _TAGS[name]
    end = prompt.rstrip()
    if end.endswith((opening, closing)):
        return end.endswith(opening)
    return None
