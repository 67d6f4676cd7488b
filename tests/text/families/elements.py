"""Calls with an element for each parameter: Qwen3-Coder, GLM, MiniMax, DSML, and their kin."""

import re
from functools import partial

from references import LINE, NAME, SHORT, Invalid, S, blocks, element, expect, section, tagged
from renderers import (
    Expected,
    Style,
    calls_in_prose,
    json_value,
    space,
    tagged_call,
    tagged_value,
)


def functions(format, call="tool_call", framed=True, sample=""):
    """The style of a format with `<function=n>`, inside a tag or bare."""
    opener, closer = f"<{call}>", f"</{call}>"
    next_calls = f"{opener}<function=", f"{opener}\n<function="

    def parameter(key, text, layout):
        if framed:
            tags = ("<parameter=", "</function>", *next_calls)
            bare = text.startswith(tags) or layout.random() < 0.2
            before = "\n" if text.startswith("\n") or not bare else ""
            after = "\n" if text.endswith("\n") or layout.random() < 0.8 else ""
            text = before + text + after
        return f"{space(layout, 1)}<parameter={key}>{text}</parameter>{space(layout, 1)}"

    write = tagged_call(
        lambda call, layout: f"{opener}{space(layout, 1)}<function={call.name}>{space(layout, 1)}",
        parameter,
        lambda layout: f"</function>{space(layout, 1)}{closer}",
    )
    inside = (
        rf"<parameter=\s*{LINE}\s*>(.*?)"
        rf"(?:</parameter>|(?=\n<parameter=|\n</function>|\n{opener}\n?<function=)){S}",
        rf"</function>(?:{S}{closer})?|{closer}|(?={opener}|<function=)|\Z",
    )

    def read(text, types):
        expected, place = Expected(), 0
        begin = re.compile(rf"({opener}{S})?<function=")
        while start := begin.search(text, place):
            expected.text(text[place : start.start()])
            header = rf"\s*{LINE if start[1] else NAME}\s*>{S}"
            place = element(text, start.end(), expected, types, header, *inside, framed=framed)
        expected.text(text[place:])
        return expected.events

    markers = (
        opener, "<function=", ">", "<parameter=", "</parameter>", "</function>", closer,
    )  # fmt: skip
    return Style(
        format,
        read,
        calls_in_prose(write),
        markers,
        markers[:2],
        ("</parameter>", "\n<parameter=", "\n</function>", *(f"\n{one}" for one in next_calls)),
        sample=sample,
    )


def typed_by_tag(call, key, value, layout):
    """What K2 writes for a value: (type or "", text), and what a reader gets."""
    if layout.random() < 0.5:
        text, meant = tagged_value(call, key, value, layout)
        return ("", text), meant
    if isinstance(value, str):
        return ("string", value), value
    kinds = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return (kinds.get(type(value), "null"), json_value(value, layout)), value


def keys(
    format, tag="", around="", after_name=("\n", ""), types=False, sample="", call="tool_call"
):
    """The style of a format with `<arg_key>` and `<arg_value>`, in a section or not."""
    opener, closer = f"<{tag}{call}>", f"</{tag}{call}>"
    first, last = f"<{tag}{around}>", f"</{tag}{around}>"
    marks = tuple(f"<{end}{tag}{name}>" for name in ("arg_key", "arg_value") for end in ("", "/"))
    kinds = tuple(f"<{end}{tag}arg_type>" for end in ("", "/"))

    def parameter(key, text, layout):
        kind, text = text if types else ("", text)
        kind = kind.join(kinds) + space(layout, 1) if kind else ""
        return (
            f"{marks[0]}{key}{marks[1]}{space(layout, 1)}{kind}"
            f"{marks[2]}{text}{marks[3]}{space(layout, 1)}"
        )

    write = tagged_call(
        lambda call, layout: f"{opener}{call.name}" + layout.choice(after_name),
        parameter,
        lambda layout: closer,
        typed_by_tag if types else tagged_value,
    )
    openers = rf"{opener}|{last}" if around else opener
    named = "|".join(re.escape(mark) for mark in after_name if mark)
    kind = rf"(?:{re.escape(kinds[0])}\s*(?P<kind>[a-z]+)\s*{kinds[1]}{S})?" if types else ""
    patterns = tuple(
        pattern.replace("ifm|", r"ifm\|")
        for pattern in (
            rf"{S}{NAME}[^\S\n]*(?:{named}|(?={marks[0]}|{closer})){S}",
            rf"{marks[0]}\s*{LINE}\s*{marks[1]}{S}{kind}{marks[2]}(?P<value>.*?){marks[3]}{S}",
            rf"{closer}|(?={openers})|\Z",
        )
    )

    def read(text, place, expected, types):
        place = expect(S + re.escape(opener), text, place).end() if around else place
        return element(text, place, expected, types, *patterns)

    def read_all(text, types):
        one = partial(read, types=types)
        if not around:
            return blocks(text, opener, one)
        return blocks(text, first, partial(section, closer=last, read=one))

    begin = (first, last) if around else ()
    extra = tuple(mark for mark in after_name if mark.strip()) + (kinds if types else ())
    return Style(
        format,
        read_all,
        calls_in_prose(write, first, last) if around else calls_in_prose(write),
        (*begin[:1], opener, *marks, *extra, closer, *begin[1:]),
        begin[:1] or (opener,),
        (marks[3],),
        sample=sample,
        sections=bool(around),
        punctuation=rf"(?<={kinds[0]})\w+".replace("|", r"\|") if types else "",
    )


# Of a tag with more attributes than its own the references have no opinion.
ALONE = r'(?![^"<>]+"\s+[\w:.-]+=")'
_FLAG = r'string="(?:true|false)"'
_FLAG_ALONE = rf'(?![^"<>]+"(?:\s+{_FLAG})?\s+(?!{_FLAG}>)[\w:.-]+=")'


def _flagged(call, key, value, layout):
    """What DSML writes for a value: (attribute, text), and what a reader gets."""
    if isinstance(value, str):
        return (' string="true"', value), value
    return (layout.choice([' string="false"', ""]), json_value(value, layout)), value


def invokes(
    format, tags, prefix="", closer="", between=("", ""), bare=False, dsml=False, sample=""
):
    """The style of a format with `<invoke name="n">` in a section.

    Args:
        format: its name.
        tags: those of a section: the first has the closing one.
        prefix: what the tags of calls and parameters begin with.
        closer: the end of a section, where it is another.
        between: what stands before and behind each call, without it or with it.
        bare: calls that the request offers also stand without a section.
        dsml: parameters say whether they are strings and end at the next tag too; calls also stand
            without a section.
        sample: a text to be cut in every way.
    """
    first, last = f"<{tags[0]}>", closer or f"</{tags[0]}>"
    opener, end = f'<{prefix}invoke name="', f"</{prefix}invoke>"
    key, key_end = f'<{prefix}parameter name="', f"</{prefix}parameter>"
    marks = tuple(mark for mark in between if mark)

    def parameter(name, text, layout):
        flag, text = text if dsml else ("", text)
        return f'{key}{name}"{flag}>{text}{key_end}{space(layout, 1)}'

    write = tagged_call(
        lambda call, layout: (
            f'{layout.choice(["", between[0]])}{opener}{call.name}">{space(layout, 1)}'
        ),
        parameter,
        lambda layout: end + between[1],
        _flagged if dsml else tagged_value,
    )
    free = rf"(?:{S}(?:{'|'.join(map(re.escape, _split(marks)))}))*" if marks else ""
    flag = r'(?P<kind> string="true"| string="false"|)' if dsml else ""
    # A name does not begin with what ends it: then there is none.
    none = r'(?!" string=")' if dsml else ""
    alone = _FLAG_ALONE if dsml else ALONE
    ends = f"(?={key}|{end})" if dsml else key_end
    patterns = (
        rf'{free}{S}{opener}{ALONE}\s*{SHORT}\s*">{S}',
        rf'{key}{alone}\s*{none}{SHORT}\s*"{flag}>(?P<value>.*?)(?:{key_end}|{ends}){S}',
        rf"(?:{end}{free}|(?={opener}|{last})|\Z{_frame(between[1])})",
    )

    def read(text, place, expected, types):
        if text.endswith(opener, 0, place):
            if bare and expect(rf"\s*{NAME}\s*\"", text, place)[1] not in types:
                raise Invalid
            place -= len(opener)
        return element(text, place, expected, types, *patterns)

    openers = tuple(f"<{tag}>" for tag in tags) + ((opener,) if bare or dsml else ())

    def read_all(text, types):
        return blocks(text, openers, partial(section, closer=last, read=partial(read, types=types)))

    flags = ('" string="true">', '" string="false">') if dsml else ()
    return Style(
        format,
        read_all,
        calls_in_prose(write, first, last),
        (first, *_split(marks), opener, '">', key, *flags, key_end, end, last),
        openers,
        (key_end, key, end) if dsml else (key_end,),
        sample=sample,
        sections=True,
    )


def _frame(mark):
    """What else ends a call: the end of its frame."""
    return f"|{re.escape(mark)}" if mark else ""


def _split(marks):
    """The markers of which marks are made."""
    return tuple(dict.fromkeys(re.findall(r"<[^>]*>|\w+", "".join(marks))))


def _cdata(key, text, layout):
    plain = text == text.strip(" \t\r\n") and not text.startswith("<![CDATA[")
    if plain and layout.random() < 0.5:
        text = f"{space(layout, 1)}{text}{layout.choice(['', chr(10)])}"
    else:
        text = f"{space(layout, 1)}<![CDATA[{text}]]>"
    return f'<param name="{key}">{text}</param>{space(layout, 1)}'


_minicpm_call = tagged_call(
    lambda call, layout: f'<function name="{call.name}">{space(layout, 1)}',
    _cdata,
    lambda layout: "</function>",
)

read_minicpm5 = tagged(
    '<function name="',
    rf'\s*{NAME}\s*">{S}',
    rf'<param name="{ALONE}\s*{SHORT}\s*">[ \t\r\n]*+'
    rf"(?:<!\[CDATA\[(?P<verbatim>.*?)\]\]>|(?!<!\[CDATA\[)(?P<value>.*?))</param>{S}",
    r"</function>|(?=<function name=\")|\Z",
    framed=True,
)

_MINICPM = (
    '<function name="', '">', '<param name="', "<![CDATA[", "]]></param>", "</param>",
    "</function>",
)  # fmt: skip

_QWEN_SAMPLE = (
    "So:\n<tool_call>\n<function=f>\n<parameter=path>\n\n  a <b>\n</parameter>\n"
    "<parameter=count>\n42\n</parameter>\n<parameter=flag>true</parameter></function>\n</tool_call>"
    "\n<tool_call><function=g></function></tool_call>."
)
_GLM_SAMPLE = (
    "A <tool_call>f\n<arg_key>path</arg_key>\n<arg_value> x\n</arg_value>\n"
    "<arg_key>count</arg_key><arg_value>3</arg_value></tool_call><tool_call>g</tool_call> z"
)
_MINIMAX_SAMPLE = (
    '<minimax:tool_call>\n<invoke name="f">\n<parameter name="path">a\n</parameter>\n'
    '<parameter name="items">[1, 2]</parameter>\n</invoke>\n<invoke name="g">\n</invoke>\n'
    "</minimax:tool_call> end"
)
_DSML_SAMPLE = (
    'A\n<|D|calls>\n<|D|invoke name="f">\n<|D|parameter name="path" string="true">42\n'
    '</|D|parameter>\n<|D|parameter name="count" string="false">[1]</|D|parameter>\n</|D|invoke>\n'
    '<|D|invoke name="g">\n</|D|invoke>\n</|D|calls> z'
)


def _dsml(calls, space="", token="｜DSML｜"):
    sample = _DSML_SAMPLE.replace("|D|calls", f"|D|{calls}").replace("|D|", f"{token}{space}")
    return {"prefix": f"{token}{space}", "dsml": True, "sample": sample}


STYLES = {
    style.format: style
    for style in (
        functions("qwen3_coder", sample=_QWEN_SAMPLE),
        functions(
            "seed_oss",
            "seed:tool_call",
            sample=_QWEN_SAMPLE.replace("tool_call", "seed:tool_call"),
        ),
        functions("mimo", framed=False, sample=_QWEN_SAMPLE.replace("42\n", "42")),
        keys("glm45", sample=_GLM_SAMPLE),
        keys(
            "iquest_q1",
            call="iquest_tool_call",
            sample=_GLM_SAMPLE.replace("tool_call", "iquest_tool_call"),
        ),
        keys(
            "hy_v3",
            around="tool_calls",
            after_name=("<tool_sep>", "\n", ""),
            sample="A\n<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>path</arg_key>\n<arg_value> x"
            "</arg_value>\n</tool_call>\n<tool_call>g<tool_sep></tool_call>\n</tool_calls> z",
        ),
        keys(
            "k2_horizon",
            "ifm|",
            around="tool_calls",
            types=True,
            sample="A <ifm|tool_calls>\n<ifm|tool_call>f\n<ifm|arg_key>path</ifm|arg_key>\n"
            "<ifm|arg_value>a\n</ifm|arg_value>\n<ifm|arg_key>x</ifm|arg_key><ifm|arg_type>integer"
            "</ifm|arg_type><ifm|arg_value>3</ifm|arg_value></ifm|tool_call></ifm|tool_calls>z",
        ),
        invokes("minimax_m2", ("minimax:tool_call",), bare=True, sample=_MINIMAX_SAMPLE),
        invokes(
            "dots",
            ("dots_function_call",),
            sample=_MINIMAX_SAMPLE.replace("minimax:tool_call", "dots_function_call"),
        ),
        invokes("deepseek_v32", ("｜DSML｜function_calls",), **_dsml("function_calls")),
        invokes(
            "deepseek_v4",
            ("｜DSML｜tool_calls", "｜DSML｜toolcalls", "｜DSML｜tool"),
            **_dsml("tool_calls"),
        ),
        invokes("deepseek_v41", ("｜DSML｜ calls",), **_dsml("calls", " ")),
        invokes("gigachat35", ("｜GCML｜tool_calls",), **_dsml("tool_calls", token="｜GCML｜")),
        invokes(
            "step3",
            ("｜tool_calls_begin｜",),
            "steptml:",
            "<｜tool_calls_end｜>",
            ("<｜tool_call_begin｜>function<｜tool_sep｜>", "<｜tool_call_end｜>"),
            sample="A<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜>"
            '<steptml:invoke name="f">\n<steptml:parameter name="path">a\n</steptml:parameter>\n'
            '</steptml:invoke><｜tool_call_end｜>\n<｜tool_call_begin｜><steptml:invoke name="g">'
            "</steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜> z",
        ),
        Style(
            "minicpm5",
            read_minicpm5,
            calls_in_prose(_minicpm_call),
            _MINICPM,
            _MINICPM[:1],
            ("</param>", "]]></param>"),
            sample='A <function name="f"><param name="path"><![CDATA[ a\n]]></param>\n'
            '<param name="any"> b\n</param><param name="count">3</param></function>\n'
            '<function name="g"></function> z',
        ),
    )
}
