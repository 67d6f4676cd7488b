"""The common mistakes of this lab, each with a probe that only it answers."""

from labkit.testing import error_of, joined, mistake
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)

OPEN, CLOSE = "<tool_call>", "</tool_call>"
SCANNER, PARSER, SPLITTER = "JsonScanner", "StreamingCallParser", "ReasoningSplitter"
START, END = CallStart(0, None, "f"), CallEnd(0)
NAMED = OPEN + '{"name":"f",'
GOOD = NAMED + '"arguments":{"x":1}}' + CLOSE
CALL = [START, ArgsDelta(0, '{"x":1}'), END]


def scan(lab, *pieces):
    """How many characters of the pieces belong, and then `done` and `failed`."""
    calls = [*(("feed", piece) for piece in pieces), "done", "failed"]
    *counts, done, failed = lab.script(lab.new(SCANNER), calls, watch="").outputs
    return sum(counts), done, failed


def is_whole(lab, text):
    """Whether the scanner takes a text for one whole object, fed at once."""
    return scan(lab, text) == (len(text), True, False)


def fails_at(lab, text):
    """Where the scanner fails in a text that is fed character by character; None if nowhere."""
    belong, _, failed = scan(lab, *text)
    return belong if failed else None


def scans(lab):
    """Whether the scanner is right about plain objects and plain failures."""
    objects = "{}", '{"a": [1, {"b": "c"}], "d": null}', '{"a": "}"}'
    return all(is_whole(lab, text) for text in objects) and fails_at(lab, "{x") == 1


def outputs(lab, *pieces, end=""):
    """What each piece gives, fed to a new parser, with texts joined and reasons left out."""
    trace = lab.stream(lab.new(PARSER), pieces, end=end, watch="")
    return [[*map(told, joined(out))] for out in trace.outputs]


def told(event):
    """An event without the words of its reason."""
    return Malformed(event.index, event.raw, "") if isinstance(event, Malformed) else event


def events(lab, *pieces, end=""):
    """All events of a new parser that is fed the pieces, adjacent texts joined."""
    trace = lab.stream(lab.new(PARSER), pieces, end=end, watch="")
    return [told(event) for event in trace.events]


def arguments(lab, *pieces):
    """All that comes out as arguments."""
    return "".join(e.text for e in events(lab, *pieces) if isinstance(e, ArgsDelta))


def names(lab, *pieces):
    """The names that are announced."""
    return [event.name for event in events(lab, *pieces) if isinstance(event, CallStart)]


def is_text(lab, source):
    """Whether all of a source comes out as text at once."""
    return events(lab, source) == [TextDelta(source)]


def finds_calls(lab):
    """Whether a call comes out right, at once and character by character."""
    return events(lab, GOOD) == CALL == events(lab, *GOOD)


def split(lab, *pieces, inside=False, end=""):
    """All events of a new splitter that is fed the pieces."""
    options = {"starts_inside": True} if inside else {}
    return lab.stream(lab.new(SPLITTER, **options), pieces, end=end, watch="").events


def error(lab, make, *pieces):
    """The kind of the exception that the pieces lead to, or ""."""
    return error_of(lab.stream, lab.new(make), pieces, end="", watch="")[0]


@mistake(task=1)
def no_count(lab):
    """feed of the scanner returns None.

    It returns a number: how many characters of this piece belong to the object.
    """
    return lab.script(lab.new(SCANNER), [("feed", "{}")], watch="").outputs == [None]


@mistake(task=1)
def counts_the_whole_piece(lab):
    """What comes after the object in its piece is counted as well.

    With the last brace the object is done; what follows it belongs to somebody else. Return the
    place where you stopped, not the length of the piece.
    """
    return scan(lab, "{}x") == (3, True, False) and is_whole(lab, '{"a": 1}')


@mistake(task=1)
def counts_from_the_start(lab):
    """feed counts from the beginning of the text, not from the beginning of the piece.

    Each call answers for its own piece: the place where you stopped, less what came before.
    """
    counts = lab.script(lab.new(SCANNER), [("feed", '{"a":'), ("feed", "1}")], watch="").outputs
    return counts == [5, 7]


@mistake(task=1)
def in_one_piece_only(lab):
    """An object is found only if it comes in one piece.

    All that you know at the end of a piece must be in attributes: the state, and the brackets that
    are open.
    """
    return is_whole(lab, '{"a": 1}') and scan(lab, '{"a"', ": 1}")[1] is False


@mistake(task=1)
def brackets_only(lab):
    """Only brackets are counted: what stands between them may be anything.

    `failed` is true at the first character that JSON does not allow. For that you need to know what
    may come next: a key, a colon, a value, a comma.
    """
    return scan(lab, "{x 1:}")[:2] == (6, True) and is_whole(lab, '{"a": {"b": 1}}')


@mistake(task=1)
def never_fails(lab):
    """`failed` never becomes true.

    It does at the first character that JSON does not allow. For that you need to know what may come
    next: a key, a colon, a value, a comma.
    """
    wrong = ("{x", '{"a" 1', '{"a": 1]')
    return is_whole(lab, '{"a": 1}') and all(fails_at(lab, text) is None for text in wrong)


@mistake(task=1)
def shared(lab):
    """A new scanner knows of what another one was fed.

    State that stands in the class, in a default argument or in a global belongs to all scanners.
    Make it in `__init__`.
    """
    calls = [("flush",), ("feed", "{}"), "done"]
    if lab.script(lab.new(SCANNER), calls, watch="").outputs[1:] != [2, True]:
        return False
    scan(lab, '{"a": [[')
    leaks = not is_whole(lab, "{}")
    return leaks and lab.script(lab.new(SCANNER), calls, watch="").outputs[1:] == [2, True]


@mistake(task=1)
def bracket_in_a_string(lab):
    """A bracket inside a string counts.

    In a string only the quote and the backslash mean anything.
    """
    return is_whole(lab, '{"a": 1}') and not is_whole(lab, '{"a": "}"}')


@mistake(task=1)
def quote_after_backslash(lab):
    r"""An escaped quote ends the string.

    `\"` is a character of the string: after a backslash the next character is looked at in another
    way.
    """
    return is_whole(lab, '{"a": "}"}') and not is_whole(lab, r'{"a": "\""}')


@mistake(task=1)
def backslash_after_backslash(lab):
    r"""The quote after `\\` does not end the string.

    A backslash that is escaped itself escapes nothing. To look at the character before is not
    enough.
    """
    return is_whole(lab, r'{"a": "\""}') and not is_whole(lab, r'{"a": "\\"}')


@mistake(task=1)
def escape_forgotten(lab):
    """A backslash at the end of a piece is forgotten: what begins the next one is not escaped.

    That a character is escaped is part of the state, which lives longer than a piece.
    """
    text = r'{"a": "\""}'
    return is_whole(lab, text) and scan(lab, text[:8], text[8:]) != (len(text), True, False)


@mistake(task=1)
def any_escape(lab):
    r"""Any character may be escaped, and `\u` need not have four digits.

    After a backslash comes one of `"\/bfnrt`, or u and four hexadecimal digits.
    """
    return scans(lab) and any(is_whole(lab, rf'{{"a": "{text}"}}') for text in (r"\x", r"\u12"))


@mistake(task=1)
def control_characters(lab):
    """A line break may stand in a string as it is.

    RFC 8259 has no characters below U+0020 in strings: they must be escaped.
    """
    return scans(lab) and is_whole(lab, '{"a": "\n"}')


@mistake(task=1)
def python_words(lab):
    """NaN and Infinity are taken for JSON.

    Python's `json` reads them, RFC 8259 does not have them.
    """
    return scans(lab) and (is_whole(lab, '{"a": NaN}') or is_whole(lab, '{"a": -Infinity}'))


@mistake(task=1)
def leading_zero(lab):
    """A number may begin with zeros.

    After a 0 at its beginning only a point, an e or the end of the number may come.
    """
    return scans(lab) and is_whole(lab, '{"a": 01}')


@mistake(task=1)
def any_number(lab):
    """Things are taken for numbers that are none, such as `1.` or `-`.

    Write down the states of a number: what may come after the minus, the point, the e? In which of
    them may it end?
    """
    wrong = [text for text in ("1.", "-", "+1", ".5", "1e") if is_whole(lab, f'{{"a": {text}}}')]
    return scans(lab) and bool(wrong)


@mistake(task=1)
def trailing_comma(lab):
    """A comma may stand before a closing bracket.

    After a comma a bracket cannot close: that place needs a state of its own.
    """
    return scans(lab) and (is_whole(lab, '{"a": 1,}') or is_whole(lab, '{"a": [1,]}'))


@mistake(task=1)
def wrong_bracket(lab):
    """A bracket closes one of the other kind.

    A count of open brackets is not enough: keep which ones they are.
    """
    return is_whole(lab, '{"a": [1]}') and fails_at(lab, '{"a": [1}') != 8


@mistake(task=1)
def late_failure(lab):
    """`failed` comes late: only where the wrong word, number or object ends.

    The first character that cannot stand at its place is the one: `tr1` fails at the 1.
    """
    places = [fails_at(lab, text) for text in ('{"a": tr1e}', '{"a": 1.x}', '{"a"=1}')]
    return scans(lab) and places != [8, 8, 4]


@mistake(task=1)
def goes_on(lab):
    """After its end the scanner begins with another object.

    Once it is done or has failed nothing belongs to it any more: return 0, and change nothing.
    """
    return scans(lab) and (scan(lab, "{}", "{") != (2, True, False) or scan(lab, "{x", "}")[0] > 1)


@mistake(task=1)
def begins_with_anything(lab):
    """The scanner begins with white space or with an array.

    The first character of all must be the brace of the object.
    """
    return scans(lab) and (is_whole(lab, " {}") or is_whole(lab, "[]"))


@mistake(task=1)
def shallow(lab):
    """Deep nesting is too much for the scanner.

    A function that calls itself ends at a thousand levels. Keep the open brackets in a list.
    """
    text = '{"a":' + "[" * 1_500 + "]" * 1_500 + "}"
    return scans(lab) and (error(lab, SCANNER, text) != "" or not is_whole(lab, text))


@mistake(task=1)
def scanner_not_new(lab):
    """After a flush the scanner still knows of the old object.

    `flush` starts afresh: go through the attributes of `__init__`.
    """
    calls = [("feed", '{"a": ['), ("flush",), ("feed", "{}"), "done"]
    outputs = lab.script(lab.new(SCANNER), calls, watch="").outputs
    return scans(lab) and outputs[2:] != [2, True]


@mistake(task=2)
def none_for_nothing(lab):
    """feed returns None where it should return `[]`.

    Every way out of `feed` needs a `return` with a list.
    """
    return None in lab.stream(lab.new(PARSER), ["a", "", "<"], end="", watch="").outputs


@mistake(task=2)
def echo(lab):
    """Every piece comes out as text, calls too.

    Look for the open tag, which may be cut in two. Behind it another state begins.
    """
    return outputs(lab, "a <tool", GOOD) == [[TextDelta("a <tool")], [TextDelta(GOOD)]]


@mistake(task=2)
def hold_nothing(lab):
    """A tag that is cut in two is not seen.

    The end of a piece may be the start of a tag: hold it, and put it in front of the next piece.
    Both tags need that.
    """
    return names(lab, GOOD) == ["f"] and names(lab, GOOD[:5], GOOD[5:]) == []


@mistake(task=2)
def empty_delta(lab):
    """An event with an empty text comes out.

    Append an event only if its text is not empty.
    """
    trace = lab.stream(lab.new(PARSER), ["", *GOOD], end="", watch="")
    return "" in [getattr(event, "text", None) for out in trace.outputs for event in out]


@mistake(task=2)
def false_alarm_is_gone(lab):
    """After a false alarm the tag that begins right in it is missed.

    `<<tool` is a `<` and the start of a tag. When the text that waits fails to become the tag, its
    end may still begin one.
    """
    return events(lab, *GOOD) == CALL and events(lab, *("<" + GOOD)) != [TextDelta("<"), *CALL]


@mistake(task=2)
def whole_calls(lab):
    """Nothing of a call comes out before it is complete.

    That was lab-01. The name is certain with the quote that ends it, and each character of the
    arguments with the piece in which it arrives.
    """
    before, events = outputs(lab, GOOD[:-1], ">")
    return before == [] and [*map(type, events)] == [*map(type, CALL)]


@mistake(task=2)
def name_with_the_arguments(lab):
    """The name comes out when the arguments begin.

    It is certain earlier: with the quote that ends it.
    """
    begun = outputs(lab, OPEN + '{"name":"f"', ',"arguments":', "{")
    return begun == [[], [], [START, ArgsDelta(0, "{")]]


@mistake(task=2)
def half_a_name(lab):
    """A name comes out before its last quote is there.

    `"get` may be the beginning of `"get_time"`.
    """
    return len(names(lab, OPEN + '{"name":"f')) == 1


@mistake(task=2)
def arguments_at_their_end(lab):
    """Arguments come out when they are complete.

    The client wants them as they arrive: emit what the scanner says belongs to them, piece by
    piece.
    """
    pieces = outputs(lab, NAMED + '"arguments":{"x"', ":1", "}")
    return pieces == [[START], [], [ArgsDelta(0, '{"x":1}')]]


@mistake(task=2)
def empty_arguments_missing(lab):
    """Arguments that are `{}` do not come out.

    `{}` is the source of an object like any other, and "" is no JSON.
    """
    empty = GOOD.replace('{"x":1}', "{}")
    return events(lab, GOOD) == CALL and arguments(lab, empty) == ""


@mistake(task=2)
def wrapper_brace(lab):
    """The brace of the object around them comes out with the arguments.

    The arguments end with their own last brace: let the scanner say which one that is.
    """
    found = {arguments(lab, GOOD), arguments(lab, *GOOD)}
    return bool(found & {'{"x":1}}', '{"x":1}}\n'})


@mistake(task=2)
def re_serialised(lab):
    """Arguments are parsed and written again: their spaces, escapes or numbers change.

    What the client wants is what the model wrote, character by character.
    """
    source = '{ "x" :1.50,"ü":1 }'
    early = OPEN + f'{{"arguments":{source},"name":"f"}}' + CLOSE
    late = NAMED + f'"arguments":{source}}}' + CLOSE
    got = [arguments(lab, text) for text in (early, late)]
    return any('"x": 1.5' in text for text in got)


@mistake(task=2)
def arguments_before_the_start(lab):
    """Arguments come out before the CallStart of their call.

    Nobody can use arguments without a name: where they come first, they wait for it.
    """
    found = events(lab, OPEN + '{"arguments":{"x":1},"name":"f"}' + CLOSE)
    return isinstance(found[0], ArgsDelta)


@mistake(task=2)
def early_arguments_lost(lab):
    """Arguments that come before the name are lost.

    Keep them until the name is there, then emit them right after the CallStart.
    """
    found = events(lab, OPEN + '{"arguments":{"x":1},"name":"f"}' + CLOSE)
    return events(lab, GOOD) == CALL and found in ([START, END], [START])


@mistake(task=2)
def early_arguments_refused(lab):
    """A call with its arguments before its name is not found.

    The members of an object have no order.
    """
    source = OPEN + '{"arguments":{"x":1},"name":"f"}' + CLOSE
    return events(lab, GOOD) == CALL and names(lab, source) == []


@mistake(task=2)
def nested_name(lab):
    """A name inside the arguments or another member is taken for the call's.

    Members count at the top level only: read the object from its start, and skip values whole.
    """
    return names(lab, OPEN + '{"arguments":{"name":"Ada"},"name":"f"}' + CLOSE)[:1] == ["Ada"]


@mistake(task=2)
def raw_name(lab):
    r"""The name comes out as it is written, escapes and all.

    The name is a JSON string: `\u00e3` in it is ã. (Only the arguments are passed on as they are.)
    """
    return names(lab, OPEN + r'{"name":"\u00e3","arguments":{}}' + CLOSE) == [r"\u00e3"]


@mistake(task=2)
def raw_keys(lab):
    r"""A key with an escape in it is not known.

    Keys are JSON strings: `"n\u0061me"` is `name`.
    """
    source = OPEN + r'{"n\u0061me":"f","arguments":{}}' + CLOSE
    return events(lab, GOOD) == CALL and names(lab, source) == []


@mistake(task=2)
def others_refused(lab):
    """A member that is neither name nor arguments breaks the call, or its value does.

    Others are skipped, with values of any kind: numbers, words, arrays.
    """
    start = [events(lab, OPEN + '{"id":' + v + "," + GOOD[len(OPEN) + 1 :]) for v in ("7", '"a"')]
    return events(lab, GOOD) == CALL and CALL not in start


@mistake(task=2)
def tag_in_string(lab):
    """A close tag inside a string breaks the call.

    In a string the tag is data. Whoever reads the arguments with a scanner needs to look for the
    tag after the object only.
    """
    source = '{"s":"' + CLOSE + '"}'
    found = arguments(lab, NAMED + '"arguments":' + source + "}" + CLOSE)
    return events(lab, GOOD) == CALL and found != source and source.startswith(found)


@mistake(task=2)
def end_without_the_tag(lab):
    """CallEnd comes out with the brace of the object, before the close tag.

    Something else than the close tag may follow; then the call is broken.
    """
    return outputs(lab, GOOD.removesuffix(CLOSE)) == [CALL]


@mistake(task=2)
def space_before_the_tag(lab):
    """White space around the object breaks the call.

    Models put line breaks between the tags and the object.
    """
    source = GOOD.replace(OPEN, OPEN + "\n").replace(CLOSE, "\n" + CLOSE)
    return events(lab, GOOD) == CALL and events(lab, source) != CALL


@mistake(task=2)
def one_call_a_piece(lab):
    """What follows a call in its piece is lost, or waits for the next piece.

    After a call go on with the rest of the piece, in a loop: it may hold text, and more calls.
    """
    found = events(lab, GOOD + GOOD)
    return found == CALL


@mistake(task=2)
def index_stays_0(lab):
    """Every call has index 0.

    `index` counts the calls of a stream.
    """
    return events(lab, GOOD + GOOD) == CALL * 2


@mistake(task=2)
def calls_itself(lab):
    """feed calls itself for what follows a call, until Python gives up.

    One piece may hold more calls than Python nests: use a loop.
    """
    return events(lab, GOOD) == CALL and error(lab, PARSER, GOOD * 1_500) == "RecursionError"


@mistake(task=2)
def made_up_id(lab):
    """A CallStart has an id.

    The model writes none in this format, so it is None; who needs one makes it later.
    """
    found = events(lab, GOOD)
    return isinstance(found[0], CallStart) and found[0].id is not None


@mistake(task=2)
def held_has_it_all(lab):
    """`held` has source that has come out already.

    It is the source since the last event: with a CallStart or an ArgsDelta it becomes empty.
    """
    trace = lab.stream(lab.new(PARSER), [NAMED[:-1], ","], end="")
    return trace.outputs[0] == [START] and trace.held[0].startswith(OPEN)


@mistake(task=2)
def held_without_the_call(lab):
    """`held` is empty in a call, although its source waits.

    Until the name is out, all of a call is held, open tag first.
    """
    trace = lab.stream(lab.new(PARSER), [OPEN + '{"na'], end="")
    return trace.outputs == [[]] and trace.held == [""]


@mistake(task=3)
def second_name(lab):
    """A second name announces the call again.

    A call has one name and one arguments. Note which of them you have seen, and look at that where
    a key ends.
    """
    found = events(lab, NAMED + '"name":"g","arguments":{}}' + CLOSE)
    return [event.name for event in found if isinstance(event, CallStart)] == ["f", "g"]


@mistake(task=3)
def second_arguments(lab):
    """A second `arguments` comes out after the first.

    A call has one name and one arguments. Note which of them you have seen, and look at that where
    a key ends.
    """
    return arguments(lab, NAMED + '"arguments":{},"arguments":{}}' + CLOSE) == "{}{}"


@mistake(task=3)
def missing_is_complete(lab):
    """A call without arguments is complete.

    At the brace that ends the object both members must be there. `{}` is written by the model, or
    not at all.
    """
    return END in events(lab, NAMED[:-1] + "}" + CLOSE)


@mistake(task=3)
def arguments_of_any_type(lab):
    """Arguments may be anything, not only an object.

    Their first character must be a brace.
    """
    return arguments(lab, NAMED + '"arguments":"x"}' + CLOSE) == '"x"'


@mistake(task=3)
def early_malformed(lab):
    """A call that breaks before its name is out becomes a Malformed.

    The client knows of no call yet, so it is text.
    """
    found = events(lab, OPEN + "no" + CLOSE)
    return any(isinstance(event, Malformed) for event in found)


@mistake(task=3)
def text_waits_for_the_tag(lab):
    """A call that breaks before its name is out waits for its close tag before it becomes text.

    It cannot be a call any more, so it is text at once, and reading goes on with the character that
    broke it.
    """
    return is_text(lab, OPEN + "no" + CLOSE) and outputs(lab, OPEN + "no") == [[]]


@mistake(task=3)
def call_after_a_tag_lost(lab):
    """A call right after a stray open tag is not found.

    The second open tag breaks the first call, and is read again: as text, in which a tag begins.
    """
    found = events(lab, OPEN + GOOD)
    return is_text(lab, OPEN + "no" + CLOSE) and found != [TextDelta(OPEN), *CALL]


@mistake(task=3)
def broken_is_text(lab):
    """A call that breaks after its name is out becomes text.

    The client knows of the call, so it must be told that it has failed: a Malformed.
    """
    found = events(lab, NAMED + "oops}" + CLOSE)
    return found[:1] == [START] and not any(isinstance(event, Malformed) for event in found)


@mistake(task=3)
def ends_where_it_breaks(lab):
    """A broken call ends where it breaks, and its rest is shown as text.

    Once the name is out, everything up to the next close tag belongs to the call.
    """
    found = events(lab, NAMED + "oops}" + CLOSE)
    return found[:2] in ([START, Malformed(0, ",", "")], [START, Malformed(0, ",o", "")])


@mistake(task=3)
def raw_without_the_tag(lab):
    """The raw text of a Malformed has no close tag.

    It is the source since the last event, so the tag that ends the call is part of it.
    """
    return events(lab, NAMED + "oops" + CLOSE) == [START, Malformed(0, ",oops", "")]


@mistake(task=3)
def raw_without_what_was_held(lab):
    """The raw text of a Malformed begins where the call breaks.

    What was held before belongs to it: it has not come out in any other way.
    """
    return events(lab, NAMED + "oops" + CLOSE) == [START, Malformed(0, "oops" + CLOSE, "")]


@mistake(task=3)
def raw_of_the_whole_call(lab):
    """The raw text of a Malformed is the whole call.

    It is the source since the last event: name and arguments that have come out are not repeated.
    """
    source = NAMED + "oops" + CLOSE
    return events(lab, source) == [START, Malformed(0, source, "")]


@mistake(task=3)
def no_reason(lab):
    """The reason of a Malformed is empty.

    It says in any words why the call is broken, for the people who read the log.
    """
    trace = lab.stream(lab.new(PARSER), [NAMED + "oops" + CLOSE], end="", watch="")
    return Malformed(0, ",oops" + CLOSE, "") in trace.events


@mistake(task=3)
def read_again(lab):
    """What a broken call has given back is searched for tags again.

    Text that has come out is final: go on with the character that broke the call.
    """
    source = OPEN + '{"a":"' + OPEN + '\n{"name":"f","arguments":{}}' + CLOSE
    return is_text(lab, OPEN + "no" + CLOSE) and names(lab, source) == ["f"]


@mistake(task=3)
def quotes_of_a_broken_call(lab):
    """In a broken call a close tag inside quotes is not seen.

    What is broken is no JSON any more, so its quotes mean nothing.
    """
    plain = events(lab, NAMED + "oops" + CLOSE) == [START, Malformed(0, ",oops" + CLOSE, "")]
    return plain and events(lab, NAMED + 'oops"' + CLOSE) == [START]


@mistake(task=3)
def flush_empty(lab):
    """flush returns nothing, although something is held.

    What is held is text; of a call whose name is out it is a Malformed.
    """
    return outputs(lab, "a <tool", end="flush")[-1] == []


@mistake(task=3)
def closed_at_flush(lab):
    """A call that is cut off ends with a CallEnd.

    Half a call must not be executed. It ends in a Malformed, even if nothing of it is held.
    """
    return END in outputs(lab, NAMED + '"arguments":{"x":1', end="flush")[-1]


@mistake(task=3)
def cut_off_unnoticed(lab):
    """A call that is cut off in its arguments ends without an event.

    Nothing of it is held, but the client waits for its end: a Malformed whose raw is "".
    """
    cut = outputs(lab, NAMED + '"arguments":{"x":1', end="flush")[-1]
    return cut == [] and outputs(lab, "a <tool", end="flush")[-1] == [TextDelta("<tool")]


@mistake(task=3)
def cut_off_is_text(lab):
    """A call that is cut off after its name comes out as text.

    The client knows of the call, so it must be told that it has failed: a Malformed.
    """
    return outputs(lab, NAMED, end="flush")[-1] in ([TextDelta(",")], [TextDelta(NAMED)])


@mistake(task=3)
def flush_keeps(lab):
    """A flush leaves the parser in its call.

    Whatever it returns, afterwards the parser is as new.
    """
    calls = [("feed", NAMED), ("flush",), ("flush",), ("feed", "a")]
    outputs = lab.script(lab.new(PARSER), calls, watch="").outputs
    return len(outputs[1]) == 1 and outputs[2:] != [[], [TextDelta("a")]]


@mistake(task=3)
def index_goes_on(lab):
    """After a flush the index goes on.

    `index` is the place of a call in its stream, and flush begins another one.
    """
    calls = [("feed", GOOD), ("flush",), ("feed", GOOD)]
    outputs = lab.script(lab.new(PARSER), calls, watch="").outputs
    return outputs[0][:1] == [START] and outputs[2][:1] == [CallStart(1, None, "f")]


@mistake(task=3)
def malformed_without_an_index(lab):
    """A broken call does not use up its index: the next call has it too.

    The client knows the broken one by that index.
    """
    found = events(lab, NAMED + "oops" + CLOSE + GOOD)
    return found[1:3] == [Malformed(0, ",oops" + CLOSE, ""), START]


@mistake(task=3, overdue=["test_property_linear", "test_property_splitter_linear"])
def rescan(lab):
    """All that has come so far is looked through, or copied, at every piece.

    Keep what waits in a list of pieces, and look at each character once. `self._held += text`
    copies everything.
    """
    return True


@mistake(task=4)
def close_tag_in_one_piece_only(lab):
    """A close tag that is cut in two is not seen.

    Hold what may be its start, as for the tags of calls.
    """
    whole = split(lab, "<think>a</think>b") == [ReasoningDelta("a"), TextDelta("b")]
    return whole and not any(
        isinstance(e, TextDelta) for e in split(lab, "<think>a</th", "ink>b", end="")
    )


@mistake(task=4)
def reasoning_at_its_end(lab):
    """Reasoning comes out when it is complete.

    It is certain as it arrives, but for what may be the start of the close tag.
    """
    return split(lab, "<think>a") == [] and ReasoningDelta("a") in split(lab, "<think>a</think>")


@mistake(task=4)
def opener_anywhere(lab):
    """The open tag counts wherever it stands.

    Once something else has come, the stream has begun with the answer, and a tag in it is text.
    """
    return ReasoningDelta("b") in split(lab, "a<think>b</think>c")


@mistake(task=4)
def opener_again(lab):
    """After the answer has begun an open tag begins the reasoning again.

    It counts once, at the very start.
    """
    return ReasoningDelta("c") in split(lab, "<think>a</think>b<think>c</think>")


@mistake(task=4)
def space_before_the_opener(lab):
    """White space before the open tag hides it.

    Models begin with a line break. White space before the tag is dropped with it.
    """
    right = split(lab, "<think>a") == [ReasoningDelta("a")]
    return right and split(lab, "\n<think>a") == [TextDelta("\n<think>a")]


@mistake(task=4)
def space_shown(lab):
    """White space before the open tag comes out.

    It is dropped with the tag, and held until it is clear whether one follows.
    """
    return split(lab, "\n<think>a") in (
        [TextDelta("\n"), ReasoningDelta("a")],
        [ReasoningDelta("\na")],
    )


@mistake(task=4)
def answer_stripped(lab):
    """White space at the beginning of the answer or the reasoning is lost.

    Both come out as they are written.
    """
    kept = split(lab, "<think>\na</think>\n\nb")
    return kept in (
        [ReasoningDelta("\na"), TextDelta("b")],
        [ReasoningDelta("a"), TextDelta("b")],
        [ReasoningDelta("a"), TextDelta("\n\nb")],
    )


@mistake(task=4)
def space_lost(lab):
    """White space at the start is lost where no open tag follows it.

    Then it is text. Keep it until you know.
    """
    right = split(lab, "\n<think>a") == [ReasoningDelta("a")]
    return right and split(lab, "\nb") == [TextDelta("b")]


@mistake(task=4)
def starts_inside_ignored(lab):
    """`starts_inside` changes nothing.

    With it the stream begins in the reasoning.
    """
    return split(lab, "a</think>b", inside=True) == [TextDelta("a</think>b")]


@mistake(task=4)
def opener_inside(lab):
    """With `starts_inside` an open tag at the start is dropped.

    The prompt has had it: a second one is what the model wrote in its reasoning.
    """
    return split(lab, "<think>a", inside=True) == [ReasoningDelta("a")]


@mistake(task=4)
def unclosed_is_text(lab):
    """What is held of reasoning that was never closed comes out as text.

    Without a close tag all of it is reasoning, to its end.
    """
    return split(lab, "<think>a</thi", end="flush") == [ReasoningDelta("a"), TextDelta("</thi")]
