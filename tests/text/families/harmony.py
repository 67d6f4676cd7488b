"""Harmony: calls, reasoning and answers in channels."""

import re

from references import Invalid, S, expect, object_at
from renderers import Expected, Style, json_value, space

from mini_vllm.text.events import ReasoningDelta, TextDelta


def write(calls, prose, layout):
    """Prose as messages to the reader, to itself or to a built-in tool, before each call."""
    expected, text = Expected(), ""
    for call, before in zip([*calls, None], prose, strict=True):
        start = "<|start|>assistant" if text or layout.random() < 0.5 else ""
        if before:
            channel = layout.choice(["final", "commentary", "analysis"])
            end = layout.choice(["<|end|>", "<|return|>"])
            tool = layout.choice(["", "", " to=python code", " to=browser.open", " to=assistant"])
            text += f"{start}<|channel|>{channel}{tool}<|message|>{before}{end}"
            thought = channel != "final" and (tool or channel == "analysis")
            expected.text(before, ReasoningDelta if thought else TextDelta)
            start = "<|start|>assistant"
        if call is not None:
            arguments = json_value(call.arguments, layout)
            recipient = f" to=functions.{call.name}"
            kind = layout.choice(["", " <|constrain|>json", "<|constrain|>json"])
            header = f"<|channel|>commentary{recipient}{kind}"
            if (start or not text) and layout.random() < 0.3:
                header = f"{recipient}<|channel|>commentary{kind}"
            text += f"{start}{header}<|message|>{space(layout, 1)}{arguments}{space(layout, 1)}"
            text += layout.choice(["<|call|>", "<|call|>", "<|end|>"])
            expected.call(call.name, arguments)
    return text, expected.events


_HARMONY = (
    "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>", "<|constrain|>",
)  # fmt: skip


def read_harmony(text, types):
    expected, place = Expected(), 0
    header = re.compile(
        rf"(?:<\|start\|>(?:assistant)?(?: to=(?P<first>[\w.-]+))?|\A{S}to=(?P<begun>[\w.-]+)|)"
        r"<\|channel\|>(?P<channel>analysis|commentary|final)(?: to=(?P<second>[\w.-]+))?"
        r"(?: code)?\s*(?:<\|constrain\|>json)?\s*<\|message\|>"
    )
    opener = re.compile(rf"<\|start\|>|<\|channel\|>|\A{S}to=")
    body = re.compile(r"(.*?)(<\|end\|>|<\|return\|>|<\|call\|>|(?=<\|start\|>)|\Z)", re.DOTALL)
    while place < len(text):
        start = opener.search(text, place)
        expected.text(text[place : start.start() if start else len(text)])
        if not start:
            break
        head = header.match(text, start.start())
        if head is None:
            raise Invalid
        recipient = head["first"] or head["begun"] or head["second"] or ""
        if recipient == "functions.":
            raise Invalid
        tool = recipient.split(".")[0] in ("python", "browser", "container", "assistant")
        if recipient and not tool:
            name = recipient.removeprefix("functions.")
            arguments, end = object_at(text, head.end())
            expected.call(name, arguments)
            done = r"<\|call\|>|<\|end\|>|<\|return\|>|(?=<\|start\|>|<\|channel\|>)|\Z"
            place = expect(f"{S}(?:{done})", text, end).end()
        else:
            message = body.match(text, head.end())
            channel = head["channel"]
            thought = channel != "final" and (tool or channel == "analysis")
            kind = (ReasoningDelta,) if thought else ()
            expected.text(message[1], *kind)
            place = message.end()
    return expected.events


STYLES = {
    "harmony": Style(
        "harmony",
        read_harmony,
        write,
        _HARMONY,
        _HARMONY,
        sample="<|channel|>analysis<|message|>Hm <|end|><|start|>assistant<|channel|>commentary "
        'to=functions.f <|constrain|>json<|message|>{"a": "<|call|>"}<|call|>'
        "<|start|>assistant<|channel|>final<|message|>Done.",
        sections=True,
    ),
}
