"""XTML: Kimi K3, whose tags have attributes."""

import re

from references import LINE, S, blocks, element, section
from renderers import Style, calls_in_prose, framed_prose, space, tagged_call, with_references

from families.elements import typed_by_tag

_FRAMES = ("<|open|>response<|sep|>", "<|close|>response<|sep|>")
_MARKERS = (
    "<|open|>tools<|sep|>", '<|open|>call tool="', '" index="', '"<|sep|>',
    '<|open|>argument key="', '" type="', "<|close|>argument<|sep|>", "<|close|>call<|sep|>",
    "<|close|>tools<|sep|>", *_FRAMES, "<|close|>message<|sep|>",
)  # fmt: skip
_TOOLS, _TOOLS_END = _MARKERS[0], _MARKERS[8]


def _header(call, layout):
    index = layout.choice([f' index="{layout.randint(1, 12)}"', ""])
    return f'<|open|>call tool="{with_references(call.name)}"{index}<|sep|>{space(layout, 1)}'


def _argument(key, text, layout):
    kind, text = text
    kind = f' type="{kind}"' if kind else ""
    head = f'<|open|>argument key="{with_references(key)}"{kind}<|sep|>'
    return f"{head}{text}<|close|>argument<|sep|>{space(layout, 1)}"


def _without_references(name):
    return re.sub("&(quot|amp);", lambda match: {"quot": '"', "amp": "&"}[match[1]], name)


def read_kimi_k3(text, types):
    open_, close = r"<\|open\|>", r"<\|close\|>"
    name = LINE.replace("<>", '<>"')
    patterns = (
        rf'{S}{open_}call tool="\s*{name}\s*"(?: index="[0-9]*")?<\|sep\|>{S}',
        rf'{open_}argument key="\s*{name}\s*"(?: type="(?P<kind>[a-z]+)")?<\|sep\|>'
        rf"(?P<value>.*?){close}argument<\|sep\|>{S}",
        rf'{close}call<\|sep\|>|(?={open_}call tool="|{close}tools<\|sep\|>)|\Z',
    )

    def call(text, place, expected):
        return element(text, place, expected, types, *patterns, named=_without_references)

    def read(text, place, expected):
        if any(text.endswith(frame, 0, place) for frame in _MARKERS[9:]):
            return place
        return section(text, place, expected, _TOOLS_END, call)

    return blocks(text, (_TOOLS, *_MARKERS[9:]), read)


_write = tagged_call(_header, _argument, lambda layout: "<|close|>call<|sep|>", typed_by_tag)

STYLES = {
    "kimi_k3": Style(
        "kimi_k3",
        read_kimi_k3,
        framed_prose(calls_in_prose(_write, _TOOLS, _TOOLS_END), _FRAMES),
        _MARKERS,
        (_TOOLS, *_MARKERS[9:]),
        ("<|close|>argument<|sep|>",),
        sample="<|open|>response<|sep|>Ok.<|close|>response<|sep|><|open|>tools<|sep|>"
        '<|open|>call tool="f" index="1"<|sep|>'
        '<|open|>argument key="path" type="string"<|sep|>1<|close|>argument<|sep|>'
        '<|open|>argument key="count" type="number"<|sep|>2<|close|>argument<|sep|>'
        '<|close|>call<|sep|><|open|>call tool="g" index="2"<|sep|><|close|>call<|sep|>'
        "<|close|>tools<|sep|><|close|>message<|sep|>",
        punctuation=r'(?<=index=")\d+|(?<=type=")[a-z]+',
        sections=True,
    ),
}
