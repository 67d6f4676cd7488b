"""What a whole text stands for: the parts of oracles that share no code with a parser.

A reader returns the events of a text that is written as its format demands, and raises `Invalid`
for any other. It sees all of the text at once and may go back and forth, so it is short: regular
expressions, `json.JSONDecoder().raw_decode`, `ast`. What readers share is here.
"""

import json
import re
from functools import partial

from renderers import Expected, canonical

SPACE = re.compile(r"[ \t\r\n]*")
NAME = r"([^\s<>\"'{}()\[\]|]{1,200})"
# A name between markers of its own; of names with angle brackets readers have no opinion.
LINE = r"([^\s<>](?:[^<>\n]{0,198}[^\s<>])?)"
# The shortest of them, where what ends a name may be in it too.
SHORT = r"([^\s<>](?:[^<>\n]{0,198}?[^\s<>])??)"


class Invalid(Exception):
    """The text is not as the format demands."""


def _refuse(constant):
    raise ValueError(constant)


DECODER = json.JSONDecoder(parse_constant=_refuse)


def skip(text, place):
    return SPACE.match(text, place).end()


def value_end(text, place):
    try:
        return DECODER.raw_decode(text, place)[1]
    except ValueError:
        raise Invalid from None


def object_at(text, place):
    """Return (the source of the object, its end)."""
    place = skip(text, place)
    end = value_end(text, place)
    if text[place] != "{":
        raise Invalid
    return text[place:end], end


def expect(pattern, text, place):
    match = re.compile(pattern).match(text, place)
    if match is None:
        raise Invalid
    return match


def call_object(text, place, keys=("arguments",), others=None, names=("name", "id")):
    """Read an object with a name and arguments; return (name, arguments, id, end).

    Args:
        text: all of the text.
        place: where the object begins.
        keys: what the member with the arguments may be called.
        others: which members may be there besides, or None for any.
        names: what the members with the name and the id are called.
    """
    renamed = {names[0]: "name", names[1]: "id", **dict.fromkeys(keys, "arguments")}
    source, end = object_at(text, place)
    members, inner = {}, skip(source, 1)
    while source[inner] != "}":
        key, inner = DECODER.raw_decode(source, inner)
        start = skip(source, expect(r"[ \t\r\n]*:", source, inner).end())
        inner = value_end(source, start)
        if key not in renamed and others is not None and key not in others:
            raise Invalid
        key = renamed.get(key, ("other", key))
        if key in members:
            raise Invalid
        members[key] = source[start:inner]
        inner = skip(source, inner)
        if source[inner] == ",":
            inner = skip(source, inner + 1)
    order = list(members)
    if "name" not in order or not members.get("arguments", "").startswith("{"):
        raise Invalid
    name, id = json.loads(members["name"]), None
    if not isinstance(name, str) or not name:
        raise Invalid
    # An id counts if it stands before the call is announced.
    announced = max(order.index("name"), order.index("arguments"))
    if "id" in order[:announced] and members["id"].startswith('"'):
        id = json.loads(members["id"])
    return name, members["arguments"], id, end


def call_end(text, place, closer, *openers):
    """Return where a call's closing marker ends; it may lack at the end and before an opener."""
    place = skip(text, place)
    if text.startswith(closer, place):
        return place + len(closer)
    if place < len(text) and not text.startswith(openers, place):
        raise Invalid
    return place


def call_array(text, place, expected, **members):
    """Read an array of call objects from behind its bracket; return its end."""
    while True:
        name, arguments, id, place = call_object(text, place, **members)
        expected.call(name, arguments, id)
        place = expect(r"[ \t\r\n]*[,\]]", text, place).end()
        if text[place - 1] == "]":
            return place


def blocks(text, openers, read, bare=None):
    """Prose and blocks: `read(text, place, expected)` reads one from behind its opener.

    Args:
        text: all of the text.
        openers: an opener, or several of which none is the beginning of another.
        read: takes the place behind the opener; returns the place behind the block.
        bare: what needs no opener where the text begins; before an opener there white space is
            dropped then.
    """
    openers = [openers] if isinstance(openers, str) else openers
    opener = re.compile("|".join(map(re.escape, openers)))
    expected, place, first = Expected(), 0, skip(text, 0)
    if bare and text.startswith(bare, first):
        expected.text(text[:first])
        place = read(text, first, expected)
    elif bare and opener.match(text, first):
        place = first
    while found := opener.search(text, place):
        expected.text(text[place : found.start()])
        place = read(text, found.end(), expected)
    expected.text(text[place:])
    return expected.events


def element(text, place, expected, types, header, parameter, closer, framed=False, named=str):
    """Read a call with one element per parameter; the patterns are those of whole elements.

    That of a parameter has groups: the first is its key, `value` or else the second its text,
    `verbatim` one without a frame, `kind` the type that the markup states. `named` makes a name of
    what is written.
    """
    head = expect(header, text, place)
    name = named(head[1])
    place, arguments, allowed = head.end(), {}, types.get(name, {})
    while match := re.compile(parameter, re.DOTALL).match(text, place):
        groups = match.groupdict()
        key, value = named(match[1]), groups.get("value", match[2])
        if framed and value is not None:
            value = value.removeprefix("\n").removesuffix("\n")
        if key in arguments:
            raise Invalid
        value = groups["verbatim"] if value is None else value
        arguments[key] = typed(value, KINDS.get(groups.get("kind"), allowed.get(key)))
        place = match.end()
    place = expect(closer, text, place).end()
    expected.call(name, canonical(arguments))
    return place


KINDS = {
    kind: kind for kind in ("string", "integer", "number", "boolean", "array", "object", "null")
}
# In DSML a parameter is JSON unless it says that it is a string.
KINDS |= {' string="true"': "string", ' string="false"': list(KINDS), "": list(KINDS)}


def typed(text, kind):
    """A parameter as the type of its schema if it is one, else as it is written."""
    bare = text.strip()
    kinds = [kind] if isinstance(kind, str) else kind or []
    words = {} if "string" in kinds else {"True": True, "False": False, "None": None}
    if not bare and "string" not in kinds and {"array", "object"} & set(kinds):
        return [] if "array" in kinds else {}
    try:
        value = words[bare] if bare in words else json.loads(bare, parse_constant=_refuse)
        json.dumps(value, allow_nan=False)
    except ValueError:
        return text
    names = {
        bool: ["boolean"], int: ["integer", "number"], float: ["number"], list: ["array"],
        dict: ["object"], type(None): ["null"],
    }.get(type(value), [])  # fmt: skip
    if value is None and kinds and "string" not in kinds:
        return None
    if isinstance(value, float) and value.is_integer() and "string" not in kinds:
        names += ["integer"]
    return value if set(names) & set(kinds) else text


S = r"[ \t\r\n]*"


def tagged(opener, *patterns, framed=False):
    """A reader of a format with an opener before each call and an element per parameter."""

    def read(text, place, expected, types):
        return element(text, place, expected, types, *patterns, framed=framed)

    return lambda text, types: blocks(text, opener, partial(read, types=types))


def sections(text, opener, closer, call, behind=""):
    """Calls in a section: the opener, header and closing marker of one; the header has names.

    `behind` is what may stand behind the arguments.
    """
    begin, header, end = call

    def read(text, place, expected):
        match = expect(S + re.escape(begin) + header, text, place)
        arguments, place = object_at(text, match.end())
        expected.call(match["name"], arguments, match.groupdict().get("id"))
        if behind and text.startswith(behind, skip(text, place)):
            place = skip(text, place) + len(behind)
        return call_end(text, place, end, begin, closer)

    return blocks(text, opener, partial(section, closer=closer, read=read))


def section(text, place, expected, closer, read):
    """Read one call after the other, up to the closing marker or the end."""
    place = read(text, place, expected)
    while text[place:].strip(" \t\r\n"):
        if stop := re.compile(S + re.escape(closer)).match(text, place):
            return stop.end()
        place = read(text, place, expected)
    return place
