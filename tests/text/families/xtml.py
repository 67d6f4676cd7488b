"""XTML: Kimi K3, whose tags have attributes."""

import re

from references import LINE, S, blocks, element, section
from renderers import Style, calls_in_prose, framed_prose, space, tagged_call, with_references

from families.elements import typed_by_tag

_FRAMES = ("<|open|>response<|sep|>", "<|close|>response<|sep|>")
_MARKERS = (
    "<|open|>tools<|sep|>", "<|open|>call ", 'tool="', 'index="', '"<|sep|>',
    "<|open|>argument ", 'key="', 'type="', "<|close|>argument<|sep|>", "<|close|>call<|sep|>",
    "<|close|>tools<|sep|>", *_FRAMES, "<|close|>message<|sep|>",
)  # fmt: skip
_TOOLS, _TOOLS_END = _MARKERS[0], _MARKERS[10]
_ANY = r'(?:\s*\w+="[^"]*")*'


def _header(call, layout):
    index = layout.choice([f'index="{layout.randint(1, 12)}"', 'id="c1" index="1"', ""])
    return _tag("call", f'tool="{with_references(call.name)}"', index, layout) + space(layout, 1)


def _argument(key, text, layout):
    kind, text = text
    kind = f'type="{kind}"' if kind else ""
    head = _tag("argument", f'key="{with_references(key)}"', kind, layout)
    return f"{head}{text}<|close|>argument<|sep|>{space(layout, 1)}"


def _tag(name, attribute, other, layout):
    both = layout.choice([f"{attribute} {other}", f"{other} {attribute}"]) if other else attribute
    return f"<|open|>{name} {both}<|sep|>"


def _without_references(name):
    return re.sub("&(quot|amp);", lambda match: {"quot": '"', "amp": "&"}[match[1]], name)


def read_kimi_k3(text, types):
    open_, close = r"<\|open\|>", r"<\|close\|>"
    name = LINE.replace("<>", '<>"')
    patterns = (
        rf'{S}{open_}call (?={_ANY}?\s*tool="\s*{name}\s*"){_ANY}\s*<\|sep\|>{S}',
        rf'{open_}argument (?={_ANY}?\s*key="\s*{name}\s*")'
        rf'(?!{_ANY}?\s*type="(?![a-z]+"))(?:(?={_ANY}?\s*type="(?P<kind>[a-z]+)"))?{_ANY}\s*<\|sep\|>'
        rf"(?P<value>.*?){close}argument<\|sep\|>{S}",
        rf"{close}call<\|sep\|>|(?={open_}call |{close}tools<\|sep\|>)|\Z",
    )

    def call(text, place, expected):
        return element(text, place, expected, types, *patterns, named=_without_references)

    def read(text, place, expected):
        if any(text.endswith(frame, 0, place) for frame in _MARKERS[11:]):
            return place
        return section(text, place, expected, _TOOLS_END, call)

    return blocks(text, (_TOOLS, *_MARKERS[11:]), read)


_write = tagged_call(_header, _argument, lambda layout: "<|close|>call<|sep|>", typed_by_tag)

STYLES = {
    "kimi_k3": Style(
        "kimi_k3",
        read_kimi_k3,
        framed_prose(calls_in_prose(_write, _TOOLS, _TOOLS_END), _FRAMES),
        _MARKERS,
        (_TOOLS, *_MARKERS[11:]),
        ("<|close|>argument<|sep|>",),
        sample="<|open|>response<|sep|>Ok.<|close|>response<|sep|><|open|>tools<|sep|>"
        '<|open|>call tool="f" index="1"<|sep|>'
        '<|open|>argument key="path" type="string"<|sep|>1<|close|>argument<|sep|>'
        '<|open|>argument key="count" type="number"<|sep|>2<|close|>argument<|sep|>'
        '<|close|>call<|sep|><|open|>call tool="g" index="2"<|sep|><|close|>call<|sep|>'
        "<|close|>tools<|sep|><|close|>message<|sep|>",
        punctuation=r'(?<=index=")\d+|id="c1"|(?<=type=")[a-z]+|"(?=\s|<\|sep|\Z)|<\|sep\|>',
        sections=True,
    ),
}
