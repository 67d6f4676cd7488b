"""Calls whose parameters are elements that hold elements: MiniMax M3."""

import re
from functools import partial

from references import LINE, SPACE, Invalid, S, blocks, expect, section, typed
from renderers import (
    NAMES,
    PARAMETERS,
    Style,
    calls_in_prose,
    canonical,
    space,
    tagged_call,
    tagged_value,
)

from families.elements import ALONE

NS = "]<]minimax[>["
_TAG = re.compile(re.escape(NS) + "<(/?)([^>]*)>")
_MARKERS = (
    f"{NS}<tool_call>", f'{NS}<invoke name="', '">', f"{NS}<", ">", f"{NS}</", f"{NS}</invoke>",
    f"{NS}</tool_call>",
)  # fmt: skip


def _object(members):
    value = {}
    for name, member in members:
        value.setdefault(name, []).append(member)
    return {name: many[0] if len(many) == 1 else many for name, many in value.items()}


# Writing.


def _tagged(name, text):
    return f"{NS}<{name}>{text}{NS}</{name}>"


def _members(value):
    """What elements a value may be written as, or nothing."""
    if isinstance(value, list):
        return [("item", item) for item in value]
    members = value.items() if isinstance(value, dict) else ()
    return list(members) if all(re.fullmatch(r"\w[\w.-]*", name) for name, _ in members) else []


def _inside(value, layout):
    """Elements or text for a value without a schema, and what a reader gets."""
    members = [(name, *_inside(item, layout)) for name, item in _members(value)]
    if not members:
        text = value if isinstance(value, str) else canonical(value)
        return text, text
    text = space(layout, 1).join(["", *(_tagged(name, text) for name, text, _ in members), ""])
    return text, _object([(name, meant) for name, _, meant in members])


def _value(call, key, value, layout):
    if not _members(value) or layout.random() < 0.2:
        return tagged_value(call, key, value, layout)
    text, meant = _inside(value, layout)
    kinds = PARAMETERS.get(key) if call.name in NAMES else None
    if "array" in (kinds or ()):
        meant = [_inside(item, layout)[1] for _, item in _members(value)]
    return text, meant


_call = tagged_call(
    lambda call, layout: f'{NS}<invoke name="{call.name}">{space(layout, 1)}',
    lambda key, text, layout: _tagged(key, text) + space(layout, 1),
    lambda layout: f"{NS}</invoke>",
    _value,
)


# Reading.


def _read_inside(text, place, name):
    """Return the text or members of an element, and the place behind it."""
    texts, members = [], []
    while tag := _TAG.search(text, place):
        texts.append(text[place : tag.start()])
        place = tag.end()
        if tag[1]:
            if tag[2].strip() != name:
                raise Invalid
            break
        if not tag[2].strip():
            raise Invalid
        member, place = _read_inside(text, place, tag[2].strip())
        members.append((tag[2].strip(), member))
    else:
        raise Invalid
    beside = "".join(texts)
    if members and not SPACE.fullmatch(beside):
        field = "$text"
        while field in dict(members):
            field = f"${field}"
        members.append((field, beside))
    return members or beside, place


def _meant(node, kind):
    if isinstance(node, str):
        return typed(node, kind)
    members = [(name, _meant(member, None)) for name, member in node]
    return [member for _, member in members] if "array" in (kind or ()) else _object(members)


def _read_call(text, place, expected, types):
    head = expect(rf'{S}{re.escape(NS)}<invoke name="{ALONE}\s*{LINE}\s*">{S}', text, place)
    place, arguments, allowed = head.end(), {}, types.get(head[1], {})
    while key := re.compile(rf"{re.escape(NS)}<(?!/|invoke name=\")\s*{LINE}\s*>").match(
        text, place
    ):
        node, place = _read_inside(text, key.end(), key[1])
        if key[1] in arguments:
            raise Invalid
        arguments[key[1]] = _meant(node, allowed.get(key[1]))
        place = SPACE.match(text, place).end()
    end = rf'{NS}</invoke>|(?={NS}<invoke name="|{NS}</tool_call>)|\Z'
    place = expect(end.replace("[", r"\["), text, place).end()
    expected.call(head[1], canonical(arguments))
    return place


def read_minimax_m3(text, types):
    read = partial(section, closer=_MARKERS[-1], read=partial(_read_call, types=types))
    return blocks(text, _MARKERS[0], read)


STYLES = {
    "minimax_m3": Style(
        "minimax_m3",
        read_minimax_m3,
        calls_in_prose(_call, _MARKERS[0], _MARKERS[-1]),
        _MARKERS,
        _MARKERS[:1],
        (f"{NS}<",),
        sample='A {<tool_call>\n{<invoke name="f">{<path>a <b>\n{</path>\n{<items>{<item>1{</item> '
        '{<item>{<a>x{</a>{</item>{</items>{<count>3{</count>{</invoke>\n{<invoke name="g">'
        "{</invoke>\n{</tool_call> z".replace("{", NS),
        punctuation=rf"{re.escape(NS)}</[^>]*>",
        reads=tuple(
            lambda text, kind=kind: _meant(_read_inside(f"{text}{NS}</x>", 0, "x")[0], kind)
            for kind in (None, "array")
        ),
        sections=True,
    ),
}
