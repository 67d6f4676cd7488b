"""The common mistakes of this lab, each with a probe that only it answers."""

from labkit.testing import error_of, mistake
from mini_vllm.text.events import TextDelta, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
PARSER = "StreamingToolParser"
F = '{"name":"f","arguments":{}}'
GOOD, BAD = OPEN + F + CLOSE, OPEN + "no" + CLOSE
CALL = ToolCall(0, "f", "{}")


def length(lab, text, marker=OPEN):
    """Return held_suffix_len of a text."""
    return lab.call("held_suffix_len", text, marker)


def outputs(lab, *pieces, end="", tags=()):
    """What each piece gives, fed to a new parser."""
    return lab.stream(lab.new(PARSER, *tags), pieces, end=end, watch="").outputs


def events(lab, *pieces, end="", tags=()):
    """All events of a new parser that is fed the pieces, adjacent text joined."""
    return lab.stream(lab.new(PARSER, *tags), pieces, end=end, watch="").events


def held(lab, *pieces):
    """What is held after each piece."""
    return lab.stream(lab.new(PARSER), pieces, end="").held


def text(source):
    """The events of a source that is all text."""
    return [TextDelta(source)]


def arguments(lab, source):
    """The arguments of a call that is given these; None unless there is one call and no more."""
    found = events(lab, call_with(source))
    return found[0].arguments if len(found) == 1 and isinstance(found[0], ToolCall) else None


def call_with(source):
    """The source of a call with these arguments."""
    return OPEN + '{"name":"f","arguments":' + source + "}" + CLOSE


def finds_calls(lab):
    """Whether a call in one piece comes out right."""
    return outputs(lab, GOOD) == [[CALL]]


def indexes(lab):
    """The indexes of three calls, the first and the last with the same name."""
    other = GOOD.replace('"f"', '"g"')
    return [event.index for event in events(lab, GOOD, other, GOOD)]


def is_call(lab, body, name="f", source="{}"):
    """Whether the body comes out as this call and nothing else."""
    return events(lab, OPEN + body + CLOSE) == [ToolCall(0, name, source)]


def is_text(lab, body):
    """Whether the body comes out as text and nothing else."""
    return events(lab, OPEN + body + CLOSE) == text(OPEN + body + CLOSE)


def right(lab):
    """Whether short streams are right, so that only the cost can be wrong; a missing `flush` is not
    counted.
    """
    bodies = "no", "[]", '{"name":1,"arguments":{}}', '{"name":"f","arguments":[]}', "{}"
    if not all(is_text(lab, body) for body in bodies):
        return False
    if events(lab, "a" + GOOD, BAD + GOOD) != [
        *(TextDelta("a"), CALL, TextDelta(BAD), ToolCall(1, "f", "{}"))
    ]:
        return False
    inner = '{"s":"\\"' + CLOSE + '"}'
    named = is_call(lab, '{"name":"é","arguments":{}}', "é")
    if not named or arguments(lab, inner) != inner:
        return False
    trace = lab.stream(lab.new(PARSER), [GOOD + "a <tool"], end="flush", watch="")
    return trace.raised is not None or trace.outputs[-1:] == [text("<tool")]


def error(lab, *pieces, end=""):
    """The kind of the exception that the pieces lead to, or ""."""
    return error_of(outputs, lab, *pieces, end=end)[0]


def after_flush(lab, first, second):
    """What the second piece gives if a flush comes between it and the first."""
    calls = [("feed", first), ("flush",), ("feed", second)]
    return lab.script(lab.new(PARSER), calls, watch="").outputs[-1]


def leaks(lab, piece):
    """Whether a parser that was fed nothing holds something, once another was fed the piece."""
    outputs(lab, piece)
    return bool(lab.script(lab.new(PARSER), ["held"], watch="").outputs[0])


@mistake(task=1)
def none_length(lab):
    """`held_suffix_len` returns None.

    Is there a `return`? Every path through the function returns an int.
    """
    return length(lab, "so ") is None or length(lab, "so <") is None


@mistake(task=1)
def always_0(lab):
    """`held_suffix_len` returns 0 even for a text whose end begins the marker.

    The last character of `so <` begins the tag, so the length is 1. Compare each suffix of the text
    with the beginning of the marker.
    """
    ends = "so <", "<tool", "so <tool_call"
    return [length(lab, end) for end in ends] == [0, 0, 0] == [length(lab, "aa", "aab")] * 3


@mistake(task=1)
def any_text_counts(lab):
    """`held_suffix_len` is not 0 for a text whose end does not begin the marker.

    Nothing in `xyz` is in the marker. Compare each suffix of the text with the beginning of the
    marker; if no suffix is equal, the length is 0.
    """
    return length(lab, "xyz") > 0 or length(lab, "") > 0


@mistake(task=1)
def whole_marker(lab):
    """A whole marker counts as one that has begun.

    A *proper* prefix is shorter than the marker: a whole tag is not held.
    """
    return length(lab, OPEN) == 11 and length(lab, "xab", "ab") == 2


@mistake(task=1)
def shortest_match(lab):
    """The shortest suffix of the text that begins the marker is counted, not the longest.

    Several suffixes of `aa` begin `aab`. In which order do you try them, and which do you return?
    """
    return (length(lab, "aa", "aab"), length(lab, "aab", "aabx"), length(lab, "<tool")) == (1, 3, 5)


@mistake(task=1)
def last_first_character(lab):
    """Only the last place of the marker's first character is checked.

    In `aa` the marker `aab` may have begun at the first `a` too. Ask one question for each length.
    """
    return (length(lab, "aa", "aab"), length(lab, "aab", "aabx"), length(lab, "<tool")) == (1, 0, 5)


@mistake(task=1)
def first_first_character(lab):
    """Only the first place of the marker's first character is checked.

    In `a < b <tool` the first `<` is a false alarm. Only the *end* of the text matters.
    """
    return length(lab, "a < b <tool") == 0 and length(lab, "a <tool") == 5


@mistake(task=1)
def off_by_one(lab):
    """The longest possible length is never tried.

    Which length is the longest: for the text `<`, and for a text that ends in all but one character
    of the marker? Is that length in your `range`?
    """
    if length(lab, "so <tool") != 5:
        return False
    return length(lab, "<") == 0 or length(lab, "so <tool_call") == 0


@mistake(task=2)
def shared_text(lab):
    """A new parser already holds text that another parser was fed.

    All parsers share state in the class, in a default argument or in a global. Make it in
    `__init__`.
    """
    return leaks(lab, "<tool")


@mistake(task=2)
def echo(lab):
    """Each piece is emitted unchanged; no text is held, and no tag is searched.

    Start with the end of the piece: `held_suffix_len` says how much of it must be held.
    """
    return outputs(lab, "a <tool", GOOD) == [text("a <tool"), text(GOOD)]


@mistake(task=2)
def none_for_nothing(lab):
    """feed returns None instead of `[]`.

    Every way out of `feed` needs a `return` with a list.
    """
    return None in outputs(lab, "hi ", "", "<")


@mistake(task=2)
def bare_event(lab):
    """feed returns a single event, not a list of events.

    One piece can give several events, and no event at all.
    """
    return outputs(lab, "hi ") == [TextDelta("hi ")]


@mistake(task=2)
def no_events(lab):
    """feed returns strings, tuples or dicts instead of events.

    Import `TextDelta` and `ToolCall` from `mini_vllm.text.events`, and return a list of those.
    """
    (out,) = outputs(lab, "hi ")
    inner = out if isinstance(out, list) else [out]
    return bool(inner) and all(isinstance(event, str | tuple | dict) for event in inner)


@mistake(task=2)
def emits_again(lab):
    """The text of earlier pieces is emitted again with each piece.

    Emitted text is final. Keep only the held text, and search the held text and the new piece.
    """
    found = ["".join(event.text for event in out) for out in outputs(lab, "ab", "cd")]
    return found == ["ab", "abcd"]


@mistake(task=2)
def event_per_character(lab):
    """Each character is emitted as an event of its own.

    The text that a piece makes certain is one `TextDelta`: collect its characters, and append one
    event.
    """
    return outputs(lab, "hi ") == [[TextDelta("h"), TextDelta("i"), TextDelta(" ")]]


@mistake(task=2)
def empty_delta(lab):
    """An empty TextDelta is emitted if there is no text.

    Append an event only if its text is not empty.
    """
    return TextDelta("") in [event for out in outputs(lab, "", "<", "hi") for event in out]


@mistake(task=2)
def minus_zero(lab):
    """If no text should be held, all of it is held.

    `text[-0:]` is the whole text, and `text[:-0]` is nothing. Count from the front instead:
    `len(text) - n`.
    """
    plain = "plain text, and long"
    return outputs(lab, plain, "<") == [[], text(plain)] and held(lab, plain) == [plain]


@mistake(task=2)
def late(lab):
    """Every piece is emitted one call late.

    A piece that cannot begin a tag is certain at once: emit it in the same call.
    """
    pieces = ["one, which is long", "two, which is long", "three"]
    return outputs(lab, *pieces) == [[], text(pieces[0]), text(pieces[1])]


@mistake(task=2)
def hold_nothing(lab):
    """Half a tag is emitted, and its call is never found.

    The end of a piece may be the start of a tag. Keep that much in an attribute, and put it in
    front of the next piece.
    """
    return finds_calls(lab) and outputs(lab, "a <tool", "_call>") == [
        text("a <tool"),
        text("_call>"),
    ]


@mistake(task=2)
def fixed_window(lab):
    """The last ten characters are always held, whether they may be a tag or not.

    Hold only the start of a tag: how long is it?
    """
    plain = "plain text, and long"
    return outputs(lab, plain, plain) == [text(plain[:-10]), text(plain[-10:] + plain[:-10])]


@mistake(task=2)
def holds_any_bracket(lab):
    """All text from the first `<` on is held, though it can no longer become the tag.

    `< b` does not begin the tag. Check at each piece whether the *end* of the text begins it.
    """
    return outputs(lab, "a < b") == [text("a ")] and held(lab, "a < b") == ["< b"]


@mistake(task=2)
def false_alarm(lab):
    """Held text is lost when it turns out not to be a tag.

    Put the held text in front of the next piece before you search: then a false alarm is just text.
    """
    return events(lab, "a <", "b") == text("a b") and events(lab, "a <b") == text("a <b")


@mistake(task=2)
def false_alarm_is_gone(lab):
    """After a false alarm, a tag that begins inside the false start is missed.

    `<<tool` is a `<` and the start of a tag. If the held text is not the tag, its end may still
    begin a tag.
    """
    found = [list(out) for out in outputs(lab, "<tool", "<tool")]
    return found[0] == [] and "".join(event.text for event in found[1]) == "<tool<tool"


@mistake(task=2)
def stripped_text(lab):
    """Spaces or newlines at the ends of a text are lost.

    Every character of the text is emitted as the model wrote it: no `strip`.
    """
    return outputs(lab, "\n hi\n ") in ([text("hi")], [text("hi\n ")], [text("\n hi")])


@mistake(task=2)
def held_is_empty(lab):
    """`held` is always empty, though a possible tag is held.

    `held` returns the held text.
    """
    trace = lab.stream(lab.new(PARSER), ["a <tool", "box"], end="")
    return trace.outputs == [text("a "), text("<toolbox")] and trace.held == ["", ""]


@mistake(task=3)
def shared_call(lab):
    """A new parser is already in a call that another parser was fed.

    All parsers share a list in the class or in a default argument. Make it in `__init__`.
    """
    return leaks(lab, OPEN + '{"x')


@mistake(task=3)
def call_in_one_piece_only(lab):
    """A call is found only if it is in one piece.

    Once the open tag is complete the parser is *in* a call until the close tag, over any number of
    pieces: keep that in an attribute.
    """
    source = OPEN + F[:8], F[8:] + CLOSE
    return finds_calls(lab) and outputs(lab, *source) == [text(source[0]), text(source[1])]


@mistake(task=3)
def close_tag_in_one_piece_only(lab):
    """A close tag that is cut in two is missed.

    The end of a piece may be the start of the close tag, as with the open tag.
    """
    if outputs(lab, OPEN + F[:8], F[8:] + CLOSE) != [[], [CALL]]:
        return False
    return outputs(lab, OPEN + F + "</tool", "_call>", "x") == [[], [], []]


@mistake(task=3)
def call_before_its_close_tag(lab):
    """A call is emitted before its close tag has arrived.

    Complete JSON is not yet a call: more text may follow before the close tag.
    """
    return outputs(lab, OPEN + F) == [[CALL]]


@mistake(task=3)
def late_call(lab):
    """A call is emitted one call of feed after its close tag is complete.

    The last character of the close tag makes the call certain: emit it at once.
    """
    return outputs(lab, GOOD, "x") == [[], [CALL, TextDelta("x")]]


@mistake(task=3)
def one_call_per_piece(lab):
    """If two calls are in one piece, only the first is emitted at once.

    After a call continue with the rest of the piece, to its end.
    """
    second = ToolCall(1, "f", "{}")
    found = outputs(lab, GOOD + GOOD, "x")
    return found in ([[CALL], [second, TextDelta("x")]], [[CALL], [second]])


@mistake(task=3)
def calls_itself(lab):
    """feed calls itself for the text after a call, until Python gives up.

    One piece may hold more calls than Python nests: use a loop.
    """
    return outputs(lab, GOOD) == [[CALL]] and error(lab, GOOD * 1_500) == "RecursionError"


@mistake(task=3)
def empty_refused(lab):
    """A call whose arguments are `{}`, or whose name is empty, is taken for text.

    `{}` and `""` are false in Python. Check the type of a value, not whether it is true.
    """
    full = '{"name":"f","arguments":{"x":1}}'
    return is_call(lab, full, "f", '{"x":1}') and is_text(lab, F)


@mistake(task=3)
def text_waits_for_the_call(lab):
    """The text before an open tag is held until the call ends.

    That text is certain as soon as the tag is complete: emit it in the same call of `feed`.
    """
    complete = events(lab, "a " + GOOD) == [TextDelta("a "), CALL]
    return complete and outputs(lab, "a " + OPEN) == [[]]


@mistake(task=3)
def before_call_lost(lab):
    """Text before a call in the same piece is lost.

    The text before the open tag is emitted before the call.
    """
    return events(lab, "a " + GOOD + "b") in ([CALL, TextDelta("b")], [CALL])


@mistake(task=3)
def after_call_lost(lab):
    """Text after a call in the same piece is lost.

    After the close tag continue with the rest of the piece: it may contain text, and more calls.
    """
    found = events(lab, "a " + GOOD + "b", "c")
    return found in ([TextDelta("a "), CALL], [TextDelta("a "), CALL, TextDelta("c")])


@mistake(task=3)
def text_between_calls_lost(lab):
    """A newline between two calls is lost.

    Everything outside calls is text, whitespace included.
    """
    found = events(lab, GOOD + "\n" + GOOD + "a")
    return found[:1] == [CALL] and found[1:] == [ToolCall(1, "f", "{}"), TextDelta("a")]


@mistake(task=3)
def no_str_in_a_call(lab):
    """A ToolCall is emitted whose name or arguments are not a str.

    `arguments` is text: the slice of the source from { to }, not the parsed value.
    """
    trace = lab.stream(lab.new(PARSER), ["hi", GOOD], end="", watch="")
    result = trace.steps[1].result
    return getattr(result, "kind", "") == "type" and "ToolCall" in result.message


@mistake(task=3)
def no_call_event(lab):
    """A call is emitted as a dict, a tuple or a str, not as an event.

    Import `ToolCall` from `mini_vllm.text.events`, and emit one with the index, the name and the
    source of the arguments.
    """
    (out,) = outputs(lab, GOOD)
    return isinstance(out, list) and len(out) == 1 and isinstance(out[0], dict | tuple | str)


@mistake(task=3)
def re_serialised(lab):
    """The arguments are parsed and serialised again, for example by `json.dumps`.

    Use the parsed value only to judge the call. Emit a slice of the body.
    """
    again = {'{"x":1}': ('{"x": 1}', "{'x': 1}"), '{ "x": 1e2}': ('{"x":100.0}',)}
    for source, wrong in again.items():
        calls = [event for event in events(lab, call_with(source)) if isinstance(event, ToolCall)]
        if any(call.arguments in wrong for call in calls):
            return True
    return False


@mistake(task=3)
def tag_in_string(lab):
    """A close tag inside a JSON string ends the call.

    Read the body from its start, and know at each character whether you are in a string.
    """
    bodies = [F[:-3] + '{"s":"' + inner + '"}}' for inner in (CLOSE, "a" + CLOSE + "b")]
    if not finds_calls(lab):
        return False
    return all(is_text(lab, body) for body in bodies) or all(
        error(lab, OPEN + body + CLOSE) == "JSONDecodeError" for body in bodies
    )


@mistake(task=3)
def quote_after_backslash(lab):
    r"""An escaped quote ends the string, so that a close tag after it ends the call.

    `\"` is a character of the string. After a backslash in a string, the next character does not
    count.
    """
    plain, escaped = '{"s":"' + CLOSE + '"}', r'{"s":"\"' + CLOSE + '"}'
    return arguments(lab, plain) == plain and arguments(lab, escaped) is None


@mistake(task=3)
def backslash_after_backslash(lab):
    r"""The quote after `\\` does not end the string, so that the call never ends.

    An escaped backslash escapes nothing. Checking the previous character is not enough.
    """
    one, two = r'{"s":"\"' + CLOSE + '"}', r'{"s":"\\"}'
    source = OPEN + '{"name":"f","arguments":' + two + "}" + CLOSE
    return arguments(lab, one) == one and outputs(lab, source) == [[]]


@mistake(task=3)
def close_tag_starts_over(lab):
    """A close tag that begins in a false start of itself is missed.

    With three newlines, the last two may begin the tag. If a possible tag fails, its end may still
    begin a tag.
    """
    tags = "<", "\n\n)"
    if not finds_calls(lab) or events(lab, "<" + F + "\n\n)", tags=tags) != [CALL]:
        return False
    return events(lab, "<" + F + "\n\n\n)", tags=tags) == []


@mistake(task=3)
def last_key(lab):
    """The last `"arguments"` of the body counts, even inside another value.

    Only keys of the outermost object count. Decode member by member, from the start of the body.
    """
    return is_call(lab, '{"arguments":{"x":1,"arguments":{}},"name":"f"}')


@mistake(task=3)
def braces_in_strings(lab):
    """The arguments end at a brace inside a string.

    Braces count only outside strings. A JSON decoder returns the place where a value ends.
    """
    return arguments(lab, '{"s":"}{"}') == '{"s":"}'


@mistake(task=3)
def nested_key(lab):
    """A key inside another value is taken for one of the call's own.

    Only keys of the outermost object count. Decode member by member, from the start of the body.
    """
    found = events(lab, OPEN + '{"arguments":{"name":"Ada"},"name":"f"}' + CLOSE)
    if found == [ToolCall(0, "Ada", '{"name":"Ada"}')]:
        return True
    inner = '{"arguments":{"no":1}}'
    return any(
        is_call(lab, body, "f", '{"no":1}')
        for body in (
            '{"m":' + inner + ',"name":"f","arguments":{}}',
            '{"name":"f","arguments":{},"m":' + inner + "}",
            '{"name":"f","arguments":' + inner + "}",
        )
    )


@mistake(task=3)
def first_of_equal_keys(lab):
    """If two keys are equal, the first value is emitted, not the last.

    `json.loads` keeps the last. Emit the value that you have checked.
    """
    return is_call(lab, '{"name":"f","arguments":"x","arguments":{}}', "f", '"x"') or is_call(
        lab, '{"name":"f","arguments":{"x":1},"arguments":{}}', "f", '{"x":1}'
    )


@mistake(task=3)
def escaped_name(lab):
    """The name is emitted with its escapes.

    The name is a decoded string; only the arguments stay source.
    """
    return is_call(lab, r'{"name":"a\u0062","arguments":{}}', r"a\u0062")


@mistake(task=3)
def escaped_key(lab):
    r"""A key that is written with an escape, such as `n\u0061me`, is not found.

    Compare *decoded* keys: do not search the source for `"arguments"`.
    """
    if not is_call(lab, F):
        return False
    keys = r'{"name":"f","\u0061rguments":{}}', r'{"n\u0061me":"f","arguments":{}}'
    return any(is_text(lab, body) or error(lab, OPEN + body + CLOSE) for body in keys)


@mistake(task=3)
def index_stays_0(lab):
    """Every call has index 0.

    Count the emitted calls in an attribute.
    """
    return indexes(lab) == [0, 0, 0]


@mistake(task=3)
def index_by_name(lab):
    """The index of a call depends on its name: another call of the same name changes it.

    `index` counts all emitted calls of the stream: 0, 1, 2, whatever they call.
    """
    return indexes(lab) in ([0, 1, 0], [0, 0, 1])


@mistake(task=3)
def fixed_tags(lab):
    """The tags of the constructor are ignored.

    Use `self._open_tag` and `self._close_tag` instead of literal tags.
    """
    found = events(lab, "[A]" + F + "[B]", GOOD, tags=("[A]", "[B]"))
    return found == [TextDelta("[A]" + F + "[B]"), CALL]


@mistake(task=3)
def tags_as_patterns(lab):
    """Tags are taken for regular expressions.

    A tag may contain any characters: use `re.escape`, or no pattern at all.
    """
    return events(lab, "axb" + F + "cxd", tags=("a.b", "c.d")) == [CALL]


@mistake(task=3)
def only_default_tags(lab):
    """With other tags than the default tags, no call is found.

    What is made from the tags, such as a pattern, belongs to one parser: make it in `__init__`, not
    once for all parsers.
    """
    tags = "[A]", "[B]"
    found = events(lab, "a[A]" + F + "[B]b", tags=tags)
    return finds_calls(lab) and not any(isinstance(event, ToolCall) for event in found)


@mistake(task=3)
def held_without_the_call(lab):
    """Inside a call `held` is not its whole source: the call or its open tag is missing.

    `held` is all text that was fed and not emitted, open tag first.
    """
    return outputs(lab, OPEN + F, CLOSE) == [[], [CALL]] and held(lab, OPEN + F) in ([""], [F])


@mistake(task=3)
def held_without_the_close_tag(lab):
    """Inside a call `held` lacks the start of the close tag.

    The possible tag at the end is also held: append it to the collected call.
    """
    return outputs(lab, OPEN + F + "</tool", "_call>") == [[], [CALL]] and held(
        lab, OPEN + F + "</tool"
    ) in ([OPEN + F], ["</tool"])


@mistake(task=3)
def tag_in_half_a_string(lab):
    """A close tag in a string ends the call if the rest of the string has not arrived.

    A JSON parser cannot judge half a body. Know at each character whether you are in a string.
    """
    inner = '{"s":"' + CLOSE + '"}'
    first, rest = OPEN + '{"name":"f","arguments":{"s":"' + CLOSE, '"}}' + CLOSE
    return arguments(lab, inner) == inner and outputs(lab, first, rest)[0] == text(first)


@mistake(task=4)
def raises_on_bad_json(lab):
    """A body that is not JSON ends the stream with an exception.

    A model may write anything. If the body cannot be parsed, its source is text.
    """
    return finds_calls(lab) and "Error" in error(lab, BAD)


@mistake(task=4)
def raises_on_other_json(lab):
    """A body that is JSON but not a call ends the stream with an exception.

    It may be a list, a number, or an object without a name. Check a value before you use it.
    """
    if error(lab, BAD) or not finds_calls(lab):
        return False
    return any("Error" in error(lab, OPEN + body + CLOSE) for body in ("{}", "[]", "1", "null"))


@mistake(task=4)
def malformed_goes_on(lab):
    """A body that is not a call does not end at its close tag.

    The first close tag outside a string ends every body. Judge the body then, once.
    """
    return finds_calls(lab) and outputs(lab, BAD + "x") == [[]]


@mistake(task=4)
def strings_of_json_only(lab):
    """In a body that is not JSON, a close tag inside a string ends it.

    The places of strings do not depend on the text between them: two bits are enough. The errors of
    a JSON parser are not needed.
    """
    inside, source = '{"s":"' + CLOSE + '"}', OPEN + 'no "' + CLOSE
    return arguments(lab, inside) == inside and outputs(lab, source) == [text(source)]


@mistake(task=4)
def malformed_lost(lab):
    """A body that is not a call is lost.

    It is text: emit the source that the model wrote, tags included.
    """
    return events(lab, "a" + BAD + "b") == text("ab")


@mistake(task=4)
def malformed_without_tags(lab):
    """A body that is not a call is emitted without its tags.

    The text is the whole source, from the open tag to the close tag.
    """
    return events(lab, "a" + BAD + "b") in (text("anob"), text("a" + OPEN + "nob"))


@mistake(task=4)
def malformed_takes_an_index(lab):
    """A body that is not a call takes an index.

    Raise the count only when a call is emitted.
    """
    return events(lab, BAD, GOOD) == [TextDelta(BAD), ToolCall(1, "f", "{}")]


@mistake(task=4)
def any_shape(lab):
    """JSON of the wrong shape is emitted as a call.

    A call is an object whose name is a string and whose arguments are an object. Check all three.
    """
    if is_call(lab, '{"name":"f","arguments":[]}', "f", "[]") or is_call(
        lab, '{"name":"f","arguments":"{}"}', "f", '"{}"'
    ):
        return True
    if not finds_calls(lab):
        return False
    # A name that is no str is refused as the field of a ToolCall by the driver.
    body = OPEN + '{"name":1,"arguments":{}}' + CLOSE
    result = lab.stream(lab.new(PARSER), [body], end="", watch="").steps[0].result
    return getattr(result, "kind", "") == "type" and "ToolCall" in result.message


@mistake(task=4)
def stripped_body(lab):
    """A body with a no-break space around it counts as JSON.

    JSON has four kinds of whitespace, and `json.loads` skips them; `str.strip` removes many more.
    """
    return is_call(lab, "\u00a0" + F) and is_text(lab, "{\u00a0" + F[1:])


@mistake(task=4)
def nan(lab):
    """NaN or Infinity in the arguments counts as JSON.

    Python reads them, RFC 8259 does not have them. Look at `parse_constant` of `json.loads`.
    """
    return any(arguments(lab, f'{{"x":{value}}}') for value in ("NaN", "Infinity", "-Infinity"))


@mistake(task=4)
def rescanned(lab):
    """A body that was not a call is searched for calls.

    Emitted text is final. Continue after the close tag.
    """
    source = OPEN + "oops " + GOOD
    return finds_calls(lab) and events(lab, source) == [TextDelta(OPEN + "oops "), CALL]


@mistake(task=4)
def escapes_outside_strings(lab):
    """A backslash outside strings escapes a quote.

    A backslash escapes only inside a string. Elsewhere the next quote opens a string.
    """
    if outputs(lab, OPEN + 'no "' + CLOSE) != [[]]:
        return False
    first = OPEN + '\\"' + CLOSE
    return events(lab, first + GOOD + '"' + CLOSE) == [
        TextDelta(first),
        CALL,
        TextDelta('"' + CLOSE),
    ]


@mistake(task=4)
def not_all_errors(lab):
    """A body that is nested too deep, or has a huge number, ends the stream with an exception.

    `json.loads` raises more than `JSONDecodeError`: try `"[" * 100_000`, and a number of 5,000
    digits.
    """
    if error(lab, BAD) or not finds_calls(lab):
        return False
    values = "1" + "0" * 5_000, "[" * 100_000
    kinds = [error(lab, OPEN + '{"x":' + value + "}" + CLOSE) for value in values]
    return "RecursionError" in kinds or "ValueError" in kinds


@mistake(task=4)
def no_flush(lab):
    """flush throws away the held text.

    At the end the held text can no longer become a call, so it is text.
    """
    return outputs(lab, "a <tool", end="flush") == [text("a "), []] and events(
        lab, GOOD, end="flush"
    ) == [CALL]


@mistake(task=4)
def flush_without_the_call(lab):
    """flush returns a possible tag, but not the whole source of an open call.

    At the end all held source is text: the call from its open tag on, and the possible tag after
    the call.
    """
    if outputs(lab, "a <tool", end="flush")[-1] != text("<tool"):
        return False
    whole = OPEN + F + "</tool"
    last = outputs(lab, whole, end="flush")[-1]
    return last == [] or (last[0].text != whole and whole.endswith(last[0].text))


@mistake(task=4)
def repaired(lab):
    """flush completes a call that the model did not finish.

    An unfinished call is text; never complete it.
    """
    for source in (OPEN + F, OPEN + F + "</tool", OPEN + F[:-1]):
        if outputs(lab, source, end="flush") == [[], [CALL]]:
            return True
    return False


@mistake(task=4)
def flush_returns_none(lab):
    """flush returns None instead of a list.

    Every way out of `flush` needs a `return` with a list, even if no text is held.
    """
    return None in (outputs(lab, end="flush")[0], outputs(lab, "<", end="flush")[1])


@mistake(task=4)
def flush_repeats(lab):
    """A second flush returns the same text as the first.

    Empty the attributes with held text before you return.
    """
    calls = [("feed", "<tool"), ("flush",), ("flush",)]
    trace = lab.script(lab.new(PARSER), calls, watch="")
    return trace.outputs == [[], text("<tool"), text("<tool")]


@mistake(task=4)
def ended_by_flush(lab):
    """After a flush no event is emitted any more.

    flush ends the stream, not the parser: the next `feed` begins another stream.
    """
    if outputs(lab, "a ", GOOD) != [text("a "), [CALL]]:
        return False
    return after_flush(lab, "a ", "b ") in ([], None) and after_flush(lab, "a ", GOOD) in ([], None)


@mistake(task=4)
def string_outlives_flush(lab):
    """A stream that ended inside a string leaves the next stream inside it.

    After flush a new stream begins. Which attributes say where in a call the parser is, and which
    does flush reset?
    """
    broken = OPEN + '{"name":"'
    if after_flush(lab, OPEN + "{", GOOD + "x") != [CALL, TextDelta("x")]:
        return False
    return after_flush(lab, broken, GOOD + "x") != [CALL, TextDelta("x")]


@mistake(task=4)
def index_goes_on(lab):
    """Calls after a flush continue the count.

    `index` is the position in the stream, and after a flush another stream begins.
    """
    return after_flush(lab, GOOD, GOOD) == [ToolCall(1, "f", "{}")]


@mistake(task=4)
def shared(lab):
    """One parser works alone; if two are fed in turns, one emits text of the other.

    All parsers share state in the class or in a default argument. Make it in `__init__`.
    """
    if leaks(lab, OPEN + '{"x'):
        return True
    pieces = ["<tool", "_call>x"], ["a", GOOD]
    both = lab.interleave([lab.new(PARSER)] * 2, pieces, "flush")
    alone = [outputs(lab, *own, end="flush") for own in pieces]
    return alone[1] == [text("a"), [CALL], []] and both[1].outputs != alone[1]


@mistake(task=4, overdue=["test_property_linear_in_a_piece"])
def copies_the_piece(lab):
    """The longer a piece is, the longer each tag, string or key in it takes.

    Look for a copy of the rest of a text, such as `text[end:]`, or a join of all text so far, after
    each part. Keep the place at which to read on, and join at the end.
    """
    return right(lab)


@mistake(task=4, overdue=["test_property_linear_in_a_call", "test_property_linear_in_a_piece"])
def reparse(lab):
    """The longer the open call is, the longer each piece of it takes.

    Look for work on the whole collected text: a `+=` on a long text, a search from its start, a
    join or a parse at each piece. Look at each new character once, and join at the close tag.
    """
    return right(lab)


@mistake(
    task=4,
    overdue=[
        "test_property_linear_in_a_stream",
        "test_property_linear_in_a_call",
        "test_property_linear_in_a_piece",
    ],
)
def keeps_the_stream(lab):
    """The longer the stream is, the longer each piece of its text takes.

    Emitted text is never needed again: keep only the held text.
    """
    return right(lab)
