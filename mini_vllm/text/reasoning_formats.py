"""How families of models mark their reasoning: `REASONING_FORMATS`, by vLLM's names.

Markers and names are from vLLM 0.33.0, `vllm/reasoning` and `vllm/parser`; the aliases are also
from SGLang 0.5.23, `srt/parser/reasoning_parser.py`.
"""

import difflib
from dataclasses import dataclass, replace

from mini_vllm.text.formats import find_format, is_format
from mini_vllm.text.states.basic import Prose
from mini_vllm.text.stream_parser import Format


@dataclass(frozen=True)
class ReasoningFormat:
    """The markers of a family.

    Attributes:
        name: the name that users write.
        openings: the markers that begin the reasoning, any of them.
        closings: the markers that end the reasoning, any of them.
        inside: whether a text begins inside the reasoning if its prompt does not show that.
        frame: the markers that may precede the answer, then the markers that may end it; they are
            not part of the answer.
        special: whether the markers are special tokens. A text hardly ever quotes these, so they
            are markup anywhere before the first call.
        aliases: other names, including families with the same markers.
        calls: the tool formats of the family's models, if not the format of the same name.
    """

    name: str
    openings: tuple[str, ...]
    closings: tuple[str, ...]
    inside: bool = False
    frame: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    special: bool = False
    aliases: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()

    @property
    def ends_at(self) -> tuple[str, ...]:
        """The openers of calls that end the reasoning, if the tool format in use is unknown."""
        return tuple({o: None for format in self._formats for o in format.ends_reasoning})

    @property
    def call_openers(self) -> tuple[str, ...]:
        """The openers of calls in an answer, if the tool format in use is unknown."""
        states = (format.states[format.home] for format in self._formats)
        ways = (way for state in states if isinstance(state, Prose) for way in state.on.items())
        return tuple({marker: None for marker, on in ways if on.do == "open"})

    @property
    def _formats(self) -> list[Format]:
        return [find_format(name) for name in self.calls or (self.name,) if is_format(name)]


_THINK = (("<think>",), ("</think>",))
_COHERE = (("<|START_THINKING|>",), ("<|END_THINKING|>",))

REASONING_FORMATS = {
    format.name: format
    for format in (
        ReasoningFormat(
            "deepseek_r1",
            *_THINK,
            inside=True,
            aliases=("deepseek-r1", "gigachat35", "iquest_q1", "qwen3-thinking", "step5"),
        ),
        ReasoningFormat(
            "deepseek_v3",
            *_THINK,
            aliases=(
                "deepseek-v3",
                "deepseek_v4",
                "deepseek-v4",
                "deepseek_v41",
                "deepseek-v41",
                "poolside_v1",
            ),
            calls=("deepseek_v31", "deepseek_v32", "deepseek_v4", "deepseek_v41"),
        ),
        ReasoningFormat(
            "qwen3",
            *_THINK,
            aliases=("dots", "interns1", "mimo", "nanbeige"),
            calls=("hermes", "qwen3_coder"),
        ),
        ReasoningFormat("glm45", *_THINK, aliases=("glm47", "ling3")),
        ReasoningFormat("kimi_k2", *_THINK),
        ReasoningFormat("hy_v3", *_THINK, aliases=("hy_v4", "hunyuan")),
        ReasoningFormat("minimax_m2", *_THINK, inside=True, aliases=("minimax",)),
        ReasoningFormat("mistral", ("[THINK]",), ("[/THINK]",), special=True),
        ReasoningFormat(
            "granite_thinking_parser",
            *_THINK,
            inside=True,
            aliases=("granite_thinking",),
            calls=("hermes", "qwen3_coder"),
        ),
        ReasoningFormat("holo2", *_THINK, inside=True, calls=("hermes",)),
        ReasoningFormat(
            "nemotron_v3", *_THINK, inside=True, aliases=("nemotron_3",), calls=("qwen3_coder",)
        ),
        ReasoningFormat("olmo3", *_THINK, inside=True),
        ReasoningFormat("step3", *_THINK, inside=True),
        ReasoningFormat("step3p5", *_THINK, inside=True, calls=("qwen3_coder",)),
        ReasoningFormat("seed_oss", ("<seed:think>",), ("</seed:think>",), special=True),
        ReasoningFormat(
            "minimax_m3", ("<mm:think>",), ("</mm:think>",), aliases=("minimax-m3",), special=True
        ),
        ReasoningFormat("gemma4", ("<|channel>thought\n",), ("<channel|>",), special=True),
        ReasoningFormat("kimi", ("◁think▷",), ("◁/think▷",), special=True),
        ReasoningFormat(
            "plamo3",
            ("<|plamo:begin_think:plamo|>",),
            ("<|plamo:end_think:plamo|>",),
            inside=True,
            special=True,
        ),
        # One pair of markers for each reasoning effort.
        ReasoningFormat(
            "k2_horizon",
            ("<ifm|think>", "<ifm|think_fast>", "<ifm|think_faster>"),
            ("</ifm|think>", "</ifm|think_fast>", "</ifm|think_faster>"),
            inside=True,
            special=True,
        ),
        # Phrases: Granite 3.2 writes no markers, and quantized it writes "Here's".
        ReasoningFormat(
            "granite",
            ("Here is my thought process:", "Here's my thought process:"),
            ("Here is my response:", "Here's my response:"),
        ),
        # From IBM, without a name in vLLM.
        ReasoningFormat("granite_3_3", *_THINK, frame=(("<response>",), ("</response>",))),
        ReasoningFormat("hunyuan_a13b", *_THINK, frame=(("<answer>",), ("</answer>",))),
        ReasoningFormat("ernie45", *_THINK, inside=True, frame=(("<response>",), ("</response>",))),
        ReasoningFormat(
            "cohere_command3",
            *_COHERE,
            frame=(("<|START_RESPONSE|>",), ("<|END_RESPONSE|>",)),
            special=True,
        ),
        ReasoningFormat(
            "cohere_command4",
            *_COHERE,
            frame=(
                ("<|START_RESPONSE|>", "<|START_TEXT|>"),
                ("<|END_RESPONSE|>", "<|END_TEXT|>"),
            ),
            special=True,
        ),
        ReasoningFormat(
            "kimi_k3",
            ("<|open|>think<|sep|>",),
            ("<|close|>think<|sep|>",),
            inside=True,
            frame=(
                ("<|open|>response<|sep|>",),
                ("<|close|>response<|sep|>", "<|close|>message<|sep|>"),
            ),
            special=True,
        ),
    )
}
REASONING_ALIASES = {
    alias: format.name for format in REASONING_FORMATS.values() for alias in format.aliases
}

_CHANNELS = "its messages go to channels that a header names, as in harmony"
_TEMPLATE = "its markers are in the response template of each tokenizer"
# Names in vLLM and SGLang that cannot be read as a pair of markers, and the reasons.
UNREAD_REASONING = {
    "openai_gptoss": "the tool format harmony reads it together with the calls",
    "gpt-oss": "the tool format harmony reads it together with the calls",
    "apertus2509": "its calls are inside the reasoning, which continues after each result",
    "beam": _TEMPLATE,
    "hf": _TEMPLATE,
    "response_template": _TEMPLATE,
    "inkling": "it writes typed blocks, any number in any order, that end in the same marker",
    "minicpmv": "its tokenizer spells line breaks with two characters, undone outside of code",
    "minimax_m2_append_think": "it leaves the reasoning in the content: name no format",
    "minimax-append-think": "it leaves the reasoning in the content: name no format",
    "muse": _CHANNELS,
    "muse_glimmer": _CHANNELS,
    "musespark1x": _CHANNELS,
}


def find_reasoning_format(name: str) -> ReasoningFormat:
    """Return the reasoning format of a name or an alias; Hunyuan's may end in a suffix of its tags.

    Raises:
        ValueError: the name is unknown, or the format cannot be read; the message says which.
    """
    if name in UNREAD_REASONING:
        raise ValueError(f"the reasoning format {name} cannot be read: {UNREAD_REASONING[name]}")
    base, _, suffix = name.partition(":")
    if suffix and REASONING_ALIASES.get(base, base) == "hy_v3":
        return _suffixed(suffix)
    if name not in REASONING_FORMATS and name not in REASONING_ALIASES:
        near = difflib.get_close_matches(name, [*REASONING_FORMATS, *REASONING_ALIASES])
        hint = f"did you mean {', '.join(near)}? " if near else ""
        known = ", ".join(REASONING_FORMATS)
        raise ValueError(f"unknown reasoning format {name!r}; {hint}known: {known}")
    return REASONING_FORMATS[REASONING_ALIASES.get(name, name)]


def _suffixed(suffix: str) -> ReasoningFormat:
    think, end = f"<think:{suffix}>", f"</think:{suffix}>"
    return replace(
        REASONING_FORMATS["hy_v3"], name=f"hy_v3:{suffix}", openings=(think,), closings=(end,)
    )
