"""The common mistakes of this lab, each with a probe that answers for no other mistake."""

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
    """How many characters of the pieces belong, then `done` and `failed`."""
    calls = [*(("feed", piece) for piece in pieces), "done", "failed"]
    *counts, done, failed = lab.script(lab.new(SCANNER), calls, watch="").outputs
    return sum(counts), done, failed


def is_whole(lab, text):
    """Whether a text is accepted as one whole object, fed at once."""
    return scan(lab, text) == (len(text), True, False)


def fails_at(lab, text):
    """Where the scanner fails in a text fed character by character; None if it does not fail."""
    belong, _, failed = scan(lab, *text)
    return belong if failed else None


def scans(lab):
    """Whether the scanner is right about plain objects and plain failures."""
    objects = "{}", '{"a": [1, {"b": "c"}], "d": null}', '{"a": "}"}'
    return all(is_whole(lab, text) for text in objects) and fails_at(lab, "{x") == 1


def outputs(lab, *pieces, end=""):
    """The events of each piece, fed to a new parser, with texts joined and reasons left out."""
    trace = lab.stream(lab.new(PARSER), pieces, end=end, watch="")
    return [[*map(without_reason, joined(out))] for out in trace.outputs]


def without_reason(event):
    """An event without the wording of its reason."""
    return Malformed(event.index, event.raw, "") if isinstance(event, Malformed) else event


def events(lab, *pieces, end=""):
    """All events of a new parser that is fed the pieces, adjacent texts joined."""
    trace = lab.stream(lab.new(PARSER), pieces, end=end, watch="")
    return [without_reason(event) for event in trace.events]


def arguments(lab, *pieces):
    """All text emitted as arguments."""
    return "".join(e.text for e in events(lab, *pieces) if isinstance(e, ArgsDelta))


def names(lab, *pieces):
    """The announced names."""
    return [event.name for event in events(lab, *pieces) if isinstance(event, CallStart)]


def is_text(lab, source):
    """Whether all of a source is emitted as text at once."""
    return events(lab, source) == [TextDelta(source)]


def finds_calls(lab):
    """Whether a call is recognised, at once and character by character."""
    return events(lab, GOOD) == CALL == events(lab, *GOOD)


def breaks_off(lab):
    """Whether a call that breaks is text before its name, and a Malformed after it."""
    *_, last = events(lab, NAMED + "oops" + CLOSE)
    return is_text(lab, OPEN + "no") and isinstance(last, Malformed)


def split(lab, *pieces, inside=False, end=""):
    """All events of a new splitter that is fed the pieces."""
    options = {"starts_inside": True} if inside else {}
    return lab.stream(lab.new(SPLITTER, **options), pieces, end=end, watch="").events


def fed(lab, make, *pieces, end):
    """The output of each call: the pieces are fed, and `end` is called if it is not ""."""
    return lab.stream(lab.new(make), pieces, end=end, watch="").outputs


def strings_for_events(lab, make):
    """Whether text is returned as a string, in a list or alone."""
    (output,) = fed(lab, make, "a", end="")
    return output == "a" or output == ["a"]


def splits(lab):
    """Whether reasoning is separated, at once and character by character."""
    source = "<think>a</think>b"
    right = [ReasoningDelta("a"), TextDelta("b")]
    return split(lab, source) == right == split(lab, *source)


def error(lab, make, *pieces):
    """The kind of exception that the pieces lead to, or ""."""
    return error_of(lab.stream, lab.new(make), pieces, end="", watch="")[0]


@mistake(task=1)
def splitter_returns_none(lab):
    """`feed` of the splitter returns None.

    Every path through `feed` needs a `return` with a list of events.
    """
    return None in fed(lab, SPLITTER, "a", "<think>a", "", end="")


@mistake(task=1)
def splitter_returns_text(lab):
    """The splitter returns strings instead of events.

    Text is emitted as `TextDelta(text)`, and reasoning as `ReasoningDelta(text)`.
    """
    return strings_for_events(lab, SPLITTER)


@mistake(task=1)
def splitter_says_nothing(lab):
    """The splitter emits no event, not even for plain text.

    Begin with a stream without a tag: `a` is the answer, a `TextDelta`, at once.
    """
    return split(lab, "a", end="flush") == split(lab, "<think>a</think>b", end="flush") == []


@mistake(task=1)
def splitter_holds_everything(lab):
    """The splitter emits nothing before the end of the stream.

    Text is certain as it arrives, except a possible start of a tag: emit it at once.
    """
    early = split(lab, "a") + split(lab, "<think>a</think>b")
    return early == [] and split(lab, "a", end="flush") != []


@mistake(task=1)
def all_is_reasoning(lab):
    """All text is emitted as reasoning, even without an open tag.

    Only a stream that begins with the open tag begins with reasoning. Other text is the answer.
    """
    return split(lab, "a") == [ReasoningDelta("a")]


@mistake(task=1)
def tags_ignored(lab):
    """Reasoning and its tags are emitted as text.

    If the stream begins with the open tag, everything up to the close tag is reasoning.
    """
    return split(lab, "<think>a</think>b") == [TextDelta("<think>a</think>b")]


@mistake(task=1)
def close_tag_in_one_piece_only(lab):
    """A tag that is split across pieces is not recognised.

    Hold a possible start of the tag, as you do for the tags of calls in lab 01.
    """
    whole = split(lab, "<think>a</think>b") == [ReasoningDelta("a"), TextDelta("b")]
    return whole and not any(
        isinstance(e, TextDelta) for e in split(lab, "<think>a</th", "ink>b", end="")
    )


@mistake(task=1)
def reasoning_at_its_end(lab):
    """Reasoning is emitted only when it is complete.

    It is certain as it arrives, except a possible start of the close tag.
    """
    return split(lab, "<think>a") == [] and ReasoningDelta("a") in split(lab, "<think>a</think>")


@mistake(task=1)
def opener_anywhere(lab):
    """The open tag counts anywhere.

    If the stream begins with other text, it begins with the answer, and a tag in the answer is
    text.
    """
    return ReasoningDelta("b") in split(lab, "a<think>b</think>c")


@mistake(task=1)
def opener_again(lab):
    """After the answer has begun, an open tag begins reasoning again.

    The open tag counts once, at the very start.
    """
    return ReasoningDelta("c") in split(lab, "<think>a</think>b<think>c</think>")


@mistake(task=1)
def space_before_the_opener(lab):
    """White space before the open tag hides the tag.

    Some models begin with a line break. White space before the tag is dropped with it.
    """
    right = split(lab, "<think>a") == [ReasoningDelta("a")]
    return right and split(lab, "\n<think>a") == [TextDelta("\n<think>a")]


@mistake(task=1)
def space_shown(lab):
    """White space before the open tag is emitted.

    Hold it until it is clear whether a tag follows; then drop it with the tag.
    """
    return split(lab, "\n<think>a") in (
        [TextDelta("\n"), ReasoningDelta("a")],
        [ReasoningDelta("\na")],
    )


@mistake(task=1)
def answer_stripped(lab):
    """White space at the beginning of the answer or of the reasoning is lost.

    Both are passed through unchanged.
    """
    kept = split(lab, "<think>\na</think>\n\nb")
    return kept in (
        [ReasoningDelta("\na"), TextDelta("b")],
        [ReasoningDelta("a"), TextDelta("b")],
        [ReasoningDelta("a"), TextDelta("\n\nb")],
    )


@mistake(task=1)
def space_lost(lab):
    """White space at the start is lost if no open tag follows.

    Then it is text. Hold it until you know.
    """
    right = split(lab, "\n<think>a") == [ReasoningDelta("a")]
    return right and split(lab, "\nb") == [TextDelta("b")]


@mistake(task=1)
def starts_inside_ignored(lab):
    """`starts_inside` has no effect.

    With `starts_inside` the stream begins with reasoning.
    """
    return split(lab, "a</think>b", inside=True) == [TextDelta("a</think>b")]


@mistake(task=1)
def opener_inside(lab):
    """With `starts_inside` an open tag at the start is dropped.

    The prompt has the open tag already: a second open tag is part of the reasoning.
    """
    return split(lab, "<think>a", inside=True) == [ReasoningDelta("a")]


@mistake(task=1)
def unclosed_is_text(lab):
    """The held end of unclosed reasoning is emitted as text.

    Without a close tag everything is reasoning, to the end.
    """
    return split(lab, "<think>a</thi", end="flush") == [ReasoningDelta("a"), TextDelta("</thi")]


@mistake(task=1, overdue=["test_property_splitter_linear"])
def splitter_rescans(lab):
    """The splitter scans or copies earlier text again at every piece.

    Emit reasoning as it arrives, and keep only a possible start of a tag. Keep held white space in
    a list of pieces.
    """
    return splits(lab)


@mistake(task=2)
def no_count(lab):
    """`feed` of the scanner returns None.

    It returns a number: how many characters of this piece belong to the object.
    """
    return lab.script(lab.new(SCANNER), [("feed", "{}")], watch="").outputs == [None]


@mistake(task=2)
def counts_the_whole_piece(lab):
    """Characters after the object are counted if they are in the same piece.

    With the last brace the object is done; later characters do not belong to it. Return the place
    where the object ended, not the length of the piece.
    """
    return scan(lab, "{}x") == (3, True, False) and is_whole(lab, '{"a": 1}')


@mistake(task=2)
def counts_from_the_start(lab):
    """`feed` counts from the beginning of the text, not from the beginning of the piece.

    Each call counts its own piece only: the place where the object ended, less the length of all
    earlier pieces.
    """
    counts = lab.script(lab.new(SCANNER), [("feed", '{"a":'), ("feed", "1}")], watch="").outputs
    return counts == [5, 7]


@mistake(task=2)
def in_one_piece_only(lab):
    """An object is recognised only if it is fed in one piece.

    Keep everything that you know at the end of a piece in attributes: the state, and the open
    brackets.
    """
    return is_whole(lab, '{"a": 1}') and scan(lab, '{"a"', ": 1}")[1] is False


@mistake(task=2)
def fails_early(lab):
    """The scanner fails in the middle of an object that is still right.

    A piece may end anywhere, within a word or a number. Only a character that JSON does not allow
    fails the scanner, not an object that has not ended yet.
    """
    objects = ('{"a": true}', '{"a": 10}', '{"a": -1.5e3}', '{"a": "b"}')
    return any(is_whole(lab, text) and fails_at(lab, text) is not None for text in objects)


@mistake(task=2)
def brackets_only(lab):
    """Only brackets are counted: anything may appear between them.

    `failed` is true from the first character that JSON does not allow. For that you need to know
    what may come next: a key, a colon, a value, a comma.
    """
    return scan(lab, "{x 1:}")[:2] == (6, True) and is_whole(lab, '{"a": {"b": 1}}')


@mistake(task=2)
def never_fails(lab):
    """`failed` never becomes true.

    It becomes true at the first character that JSON does not allow. For that you need to know what
    may come next: a key, a colon, a value, a comma.
    """
    wrong = ("{x", '{"a" 1', '{"a": 1]')
    return is_whole(lab, '{"a": 1}') and all(fails_at(lab, text) is None for text in wrong)


@mistake(task=2)
def shared(lab):
    """A new scanner has the state of another scanner.

    State in the class, in a default argument or in a global is shared by all scanners. Create it in
    `__init__`.
    """
    calls = [("flush",), ("feed", "{}"), "done"]
    if lab.script(lab.new(SCANNER), calls, watch="").outputs[1:] != [2, True]:
        return False
    scan(lab, '{"a": [[')
    leaks = not is_whole(lab, "{}")
    return leaks and lab.script(lab.new(SCANNER), calls, watch="").outputs[1:] == [2, True]


@mistake(task=2)
def bracket_in_a_string(lab):
    """A bracket inside a string counts.

    In a string only the quote and the backslash have a meaning.
    """
    return is_whole(lab, '{"a": 1}') and not is_whole(lab, '{"a": "}"}')


@mistake(task=2)
def quote_after_backslash(lab):
    r"""An escaped quote ends the string.

    `\"` is a character of the string: after a backslash the next character needs a state of its
    own.
    """
    return is_whole(lab, '{"a": "}"}') and not is_whole(lab, r'{"a": "\""}')


@mistake(task=2)
def backslash_after_backslash(lab):
    r"""The quote after `\\` does not end the string.

    An escaped backslash escapes nothing. A look at the previous character is not enough.
    """
    return is_whole(lab, r'{"a": "\""}') and not is_whole(lab, r'{"a": "\\"}')


@mistake(task=2)
def escape_forgotten(lab):
    """A backslash at the end of a piece is forgotten: the first character of the next piece is not
    escaped.

    An open escape is part of the state, which outlives a piece.
    """
    text = r'{"a": "\""}'
    return is_whole(lab, text) and scan(lab, text[:8], text[8:]) != (len(text), True, False)


@mistake(task=2)
def any_escape(lab):
    r"""Any character may be escaped, and `\u` need not have four digits.

    After a backslash comes one of `"\/bfnrt`, or u and four hexadecimal digits.
    """
    return scans(lab) and any(is_whole(lab, rf'{{"a": "{text}"}}') for text in (r"\x", r"\u12"))


@mistake(task=2)
def control_characters(lab):
    """A line break may appear unescaped in a string.

    RFC 8259 does not allow characters below U+0020 in strings: they must be escaped.
    """
    return scans(lab) and is_whole(lab, '{"a": "\n"}')


@mistake(task=2)
def python_words(lab):
    """NaN and Infinity are accepted as JSON.

    Python's `json` reads them, but they are not part of RFC 8259.
    """
    return scans(lab) and (is_whole(lab, '{"a": NaN}') or is_whole(lab, '{"a": -Infinity}'))


@mistake(task=2)
def leading_zero(lab):
    """A number may begin with zeros.

    After a leading 0 only a point, an e or the end of the number may come.
    """
    return scans(lab) and is_whole(lab, '{"a": 01}')


@mistake(task=2)
def any_number(lab):
    """Invalid numbers are accepted, such as `1.` or `-`.

    List the states of a number: what may come after the minus, the point, the e? In which of these
    states may the number end?
    """
    wrong = [text for text in ("1.", "-", "+1", ".5", "1e") if is_whole(lab, f'{{"a": {text}}}')]
    return scans(lab) and bool(wrong)


@mistake(task=2)
def trailing_comma(lab):
    """A comma may precede a closing bracket.

    After a comma a bracket cannot close: the place after a comma needs a state of its own.
    """
    return scans(lab) and (is_whole(lab, '{"a": 1,}') or is_whole(lab, '{"a": [1,]}'))


@mistake(task=2)
def wrong_bracket(lab):
    """A bracket closes a bracket of the other kind.

    A count of open brackets is not enough: keep a stack of them.
    """
    return is_whole(lab, '{"a": [1]}') and fails_at(lab, '{"a": [1}') != 8


@mistake(task=2)
def late_failure(lab):
    """`failed` becomes true late: only at the end of the wrong word, number or object.

    It becomes true at the first character that is not allowed at its place: `tr1` fails at the 1.
    """
    places = [fails_at(lab, text) for text in ('{"a": tr1e}', '{"a": 1.x}', '{"a"=1}')]
    return scans(lab) and places != [8, 8, 4]


@mistake(task=2)
def goes_on(lab):
    """After its end the scanner begins another object.

    After the object is done or has failed, no character belongs to it: return 0, and change
    nothing.
    """
    return scans(lab) and (scan(lab, "{}", "{") != (2, True, False) or scan(lab, "{x", "}")[0] > 1)


@mistake(task=2)
def begins_with_anything(lab):
    """The scanner accepts white space or an array at the beginning.

    The first character ever fed must be the brace of the object.
    """
    return scans(lab) and (is_whole(lab, " {}") or is_whole(lab, "[]"))


@mistake(task=2)
def shallow(lab):
    """Deep nesting is too much for the scanner.

    A recursive function ends at a thousand levels. Keep the open brackets in a list.
    """
    text = '{"a":' + "[" * 1_500 + "]" * 1_500 + "}"
    return scans(lab) and (error(lab, SCANNER, text) != "" or not is_whole(lab, text))


@mistake(task=2)
def scanner_not_new(lab):
    """After a flush the scanner still has the state of the old object.

    `flush` restores fresh state: go through the attributes of `__init__`.
    """
    calls = [("feed", '{"a": ['), ("flush",), ("feed", "{}"), "done"]
    outputs = lab.script(lab.new(SCANNER), calls, watch="").outputs
    return scans(lab) and outputs[2:] != [2, True]


@mistake(task=3)
def none_for_nothing(lab):
    """`feed` returns None instead of `[]`.

    Every path through `feed` needs a `return` with a list.
    """
    return None in lab.stream(lab.new(PARSER), ["a", "", "<"], end="", watch="").outputs


@mistake(task=3)
def returns_text(lab):
    """`feed` returns strings instead of events.

    Text is emitted as `TextDelta(text)`.
    """
    return strings_for_events(lab, PARSER)


@mistake(task=3)
def echo(lab):
    """Every piece is emitted as text, even calls.

    Look for the open tag, which may be split across pieces. After it another state begins.
    """
    return outputs(lab, "a <tool", GOOD) == [[TextDelta("a <tool")], [TextDelta(GOOD)]]


@mistake(task=3)
def hold_nothing(lab):
    """A tag that is split across pieces is not recognised.

    The end of a piece may be the start of a tag: hold it, and put it before the next piece. Do this
    for both tags.
    """
    return names(lab, GOOD) == ["f"] and names(lab, GOOD[:5], GOOD[5:]) == []


@mistake(task=3)
def empty_delta(lab):
    """An event with an empty text is emitted.

    Append an event only if its text is not empty.
    """
    trace = lab.stream(lab.new(PARSER), ["", *GOOD], end="", watch="")
    return "" in [getattr(event, "text", None) for out in trace.outputs for event in out]


@mistake(task=3)
def false_alarm_is_gone(lab):
    """After a false alarm, a tag that begins inside it is missed.

    `<<tool` is a `<` and the start of a tag. If the held text cannot become the tag, its end may
    still begin a tag.
    """
    return events(lab, *GOOD) == CALL and events(lab, *("<" + GOOD)) != [TextDelta("<"), *CALL]


@mistake(task=3)
def whole_calls(lab):
    """No event of a call is emitted before the call is complete.

    That is the parser of lab 01. The name is certain with the quote that ends it, and each
    character of the arguments as soon as it arrives.
    """
    before, events = outputs(lab, GOOD[:-1], ">")
    return before == [] and [*map(type, events)] == [*map(type, CALL)]


@mistake(task=3)
def name_with_the_arguments(lab):
    """The name is emitted only when the arguments begin.

    It is certain earlier: with the quote that ends it.
    """
    begun = outputs(lab, OPEN + '{"name":"f"', ',"arguments":', "{")
    return begun == [[], [], [START, ArgsDelta(0, "{")]]


@mistake(task=3)
def half_a_name(lab):
    """A name is emitted before its last quote arrives.

    `"get` may be the beginning of `"get_time"`.
    """
    return len(names(lab, OPEN + '{"name":"f')) == 1


@mistake(task=3)
def arguments_at_their_end(lab):
    """Arguments are emitted only when they are complete.

    The client wants them as they arrive: emit the characters that the scanner counts, piece by
    piece.
    """
    pieces = outputs(lab, NAMED + '"arguments":{"x"', ":1", "}")
    return pieces == [[START], [], [ArgsDelta(0, '{"x":1}')]]


@mistake(task=3)
def empty_arguments_missing(lab):
    """Arguments that are `{}` are not emitted.

    `{}` is the source of an object like any other, and "" is not JSON.
    """
    empty = GOOD.replace('{"x":1}', "{}")
    return events(lab, GOOD) == CALL and arguments(lab, empty) == ""


@mistake(task=3)
def wrapper_brace(lab):
    """The brace of the wrapper is emitted with the arguments.

    The arguments end with their own last brace: the scanner knows which brace that is.
    """
    found = {arguments(lab, GOOD), arguments(lab, *GOOD)}
    return bool(found & {'{"x":1}}', '{"x":1}}\n'})


@mistake(task=3)
def re_serialised(lab):
    """Arguments are parsed and serialized again: their spaces, escapes or numbers change.

    The client wants the characters that the model wrote, unchanged.
    """
    source = '{ "x" :1.50,"ü":1 }'
    early = OPEN + f'{{"arguments":{source},"name":"f"}}' + CLOSE
    late = NAMED + f'"arguments":{source}}}' + CLOSE
    got = [arguments(lab, text) for text in (early, late)]
    return any('"x": 1.5' in text for text in got)


@mistake(task=3)
def arguments_before_the_start(lab):
    """Arguments are emitted before the CallStart of their call.

    A client cannot use arguments without a name: if they precede the name, hold them until the
    CallStart.
    """
    found = events(lab, OPEN + '{"arguments":{"x":1},"name":"f"}' + CLOSE)
    return isinstance(found[0], ArgsDelta)


@mistake(task=3)
def early_arguments_lost(lab):
    """Arguments that precede the name are lost.

    Hold them until the name is certain, then emit them right after the CallStart.
    """
    found = events(lab, OPEN + '{"arguments":{"x":1},"name":"f"}' + CLOSE)
    return events(lab, GOOD) == CALL and found in ([START, END], [START])


@mistake(task=3)
def early_arguments_refused(lab):
    """A call whose arguments precede its name is not recognised.

    The members of an object have no order.
    """
    source = OPEN + '{"arguments":{"x":1},"name":"f"}' + CLOSE
    return events(lab, GOOD) == CALL and names(lab, source) == []


@mistake(task=3)
def nested_name(lab):
    """A name inside the arguments or another member is taken for the name of the call.

    Members count at the top level only: read the object from its start, and skip whole values.
    """
    return names(lab, OPEN + '{"arguments":{"name":"Ada"},"name":"f"}' + CLOSE)[:1] == ["Ada"]


@mistake(task=3)
def raw_name(lab):
    r"""The name is emitted with its escapes.

    The name is a JSON string: `\u00e3` in it is ã. (Only the arguments are passed through
    unchanged.)
    """
    return names(lab, OPEN + r'{"name":"\u00e3","arguments":{}}' + CLOSE) == [r"\u00e3"]


@mistake(task=3)
def raw_keys(lab):
    r"""A key that contains an escape is not recognised.

    Keys are JSON strings: `"n\u0061me"` is `name`.
    """
    source = OPEN + r'{"n\u0061me":"f","arguments":{}}' + CLOSE
    return events(lab, GOOD) == CALL and names(lab, source) == []


@mistake(task=3)
def others_refused(lab):
    """A member other than name and arguments breaks the call, or its value does.

    Skip other members, with values of any kind: numbers, words, arrays.
    """
    start = [events(lab, OPEN + '{"id":' + v + "," + GOOD[len(OPEN) + 1 :]) for v in ("7", '"a"')]
    return events(lab, GOOD) == CALL and CALL not in start


@mistake(task=2)
def tag_in_string(lab):
    """A close tag inside a string breaks the call.

    In a string the tag is data. If a scanner reads the arguments, you need to look for the tag only
    after the object.
    """
    source = '{"s":"' + CLOSE + '"}'
    found = arguments(lab, NAMED + '"arguments":' + source + "}" + CLOSE)
    return events(lab, GOOD) == CALL and found != source and source.startswith(found)


@mistake(task=3)
def end_without_the_tag(lab):
    """CallEnd is emitted with the brace of the object, before the close tag.

    Text other than the close tag may follow; then the call is broken.
    """
    return outputs(lab, GOOD.removesuffix(CLOSE)) == [CALL]


@mistake(task=3)
def space_before_the_tag(lab):
    """White space around the object breaks the call.

    Models write line breaks between the tags and the object.
    """
    source = GOOD.replace(OPEN, OPEN + "\n").replace(CLOSE, "\n" + CLOSE)
    return events(lab, GOOD) == CALL and events(lab, source) != CALL


@mistake(task=3)
def one_call_a_piece(lab):
    """Source after a call in the same piece is lost, or read only with the next piece.

    After a call go on with the rest of the piece, in a loop: it may contain text and more calls.
    """
    found = events(lab, GOOD + GOOD)
    return found == CALL


@mistake(task=3)
def index_stays_0(lab):
    """Every call has index 0.

    `index` counts the calls of a stream.
    """
    return events(lab, GOOD + GOOD) == CALL * 2


@mistake(task=3)
def calls_itself(lab):
    """`feed` calls itself for the source after a call, until Python gives up.

    A piece may contain more calls than Python's recursion limit: use a loop.
    """
    return events(lab, GOOD) == CALL and error(lab, PARSER, GOOD * 1_500) == "RecursionError"


@mistake(task=3)
def made_up_id(lab):
    """A CallStart has an id.

    The model writes no id in this format, so it is None; a later layer makes one if needed.
    """
    found = events(lab, GOOD)
    return isinstance(found[0], CallStart) and found[0].id is not None


@mistake(task=3)
def held_has_it_all(lab):
    """`held` contains source that has been emitted already.

    It is the source since the last event: a CallStart or an ArgsDelta empties it.
    """
    trace = lab.stream(lab.new(PARSER), [NAMED[:-1], ","], end="")
    return trace.outputs[0] == [START] and trace.held[0].startswith(OPEN)


@mistake(task=3)
def held_without_the_call(lab):
    """`held` is empty in a call, although source of the call is held back.

    Until the name is emitted, `held` is the whole call, open tag first.
    """
    trace = lab.stream(lab.new(PARSER), [OPEN + '{"na'], end="")
    return trace.outputs == [[]] and trace.held == [""]


@mistake(task=4)
def second_name(lab):
    """A second name announces the call again.

    A call has one name and one `arguments`. Record which of them you have seen, and check that at
    the end of each key.
    """
    found = events(lab, NAMED + '"name":"g","arguments":{}}' + CLOSE)
    return [event.name for event in found if isinstance(event, CallStart)] == ["f", "g"]


@mistake(task=4)
def second_arguments(lab):
    """A second `arguments` is emitted after the first.

    A call has one name and one `arguments`. Record which of them you have seen, and check that at
    the end of each key.
    """
    return arguments(lab, NAMED + '"arguments":{},"arguments":{}}' + CLOSE) == "{}{}"


@mistake(task=4)
def missing_is_complete(lab):
    """A call without arguments is accepted as complete.

    At the brace that ends the object both members must have been read. Only the model writes `{}`;
    do not add it.
    """
    return END in events(lab, NAMED[:-1] + "}" + CLOSE)


@mistake(task=4)
def arguments_of_any_type(lab):
    """Arguments may be anything, not only an object.

    Their first character must be a brace.
    """
    return arguments(lab, NAMED + '"arguments":"x"}' + CLOSE) == '"x"'


@mistake(task=4)
def early_malformed(lab):
    """A call that breaks before its name is emitted becomes a Malformed.

    The client knows of no call yet, so the source is text.
    """
    found = events(lab, OPEN + "no" + CLOSE)
    return any(isinstance(event, Malformed) for event in found)


@mistake(task=4)
def text_waits_for_the_tag(lab):
    """A call that breaks before its name is emitted is held until its close tag.

    It cannot be a call any more, so it is text at once, and reading goes on with the character that
    broke it.
    """
    return is_text(lab, OPEN + "no" + CLOSE) and outputs(lab, OPEN + "no") == [[]]


@mistake(task=4)
def call_after_a_tag_lost(lab):
    """A call right after a stray open tag is not recognised.

    The second open tag breaks the first call. Read it again as text, in which a tag may begin.
    """
    found = events(lab, OPEN + GOOD)
    return is_text(lab, OPEN + "no" + CLOSE) and found != [TextDelta(OPEN), *CALL]


@mistake(task=4)
def broken_is_text(lab):
    """A call that breaks after its name is emitted becomes text.

    The client knows of the call, so report its failure: a Malformed.
    """
    found = events(lab, NAMED + "oops}" + CLOSE)
    return found[:1] == [START] and not any(isinstance(event, Malformed) for event in found)


@mistake(task=4)
def ends_where_it_breaks(lab):
    """A broken call ends where it breaks, and the rest of it is emitted as text.

    After the name has been emitted, everything up to the next close tag belongs to the call.
    """
    found = events(lab, NAMED + "oops}" + CLOSE)
    return found[:2] in ([START, Malformed(0, ",", "")], [START, Malformed(0, ",o", "")])


@mistake(task=4)
def raw_without_the_tag(lab):
    """The `raw` of a Malformed has no close tag.

    It is the source since the last event, so it includes the tag that ends the call.
    """
    return events(lab, NAMED + "oops" + CLOSE) == [START, Malformed(0, ",oops", "")]


@mistake(task=4)
def raw_without_what_was_held(lab):
    """The `raw` of a Malformed begins where the call breaks.

    It also includes the source that was held before the break, which was never emitted.
    """
    return events(lab, NAMED + "oops" + CLOSE) == [START, Malformed(0, "oops" + CLOSE, "")]


@mistake(task=4)
def raw_of_the_whole_call(lab):
    """The `raw` of a Malformed is the whole call.

    It is the source since the last event: do not repeat the emitted name and arguments.
    """
    source = NAMED + "oops" + CLOSE
    return events(lab, source) == [START, Malformed(0, source, "")]


@mistake(task=4)
def no_reason(lab):
    """The reason of a Malformed is empty.

    It says in any words why the call is broken, for the people who read the log.
    """
    trace = lab.stream(lab.new(PARSER), [NAMED + "oops" + CLOSE], end="", watch="")
    return Malformed(0, ",oops" + CLOSE, "") in trace.events


@mistake(task=4)
def read_again(lab):
    """The text of a broken call is searched for tags again.

    Emitted text is final: go on with the character that broke the call.
    """
    source = OPEN + '{"a":"' + OPEN + '\n{"name":"f","arguments":{}}' + CLOSE
    return is_text(lab, OPEN + "no" + CLOSE) and names(lab, source) == ["f"]


@mistake(task=4)
def quotes_of_a_broken_call(lab):
    """In a broken call a close tag inside quotes is not recognised.

    A broken call is not JSON any more, so its quotes mean nothing.
    """
    plain = events(lab, NAMED + "oops" + CLOSE) == [START, Malformed(0, ",oops" + CLOSE, "")]
    return plain and events(lab, NAMED + 'oops"' + CLOSE) == [START]


@mistake(task=4)
def flush_empty(lab):
    """`flush` returns [], although source is held.

    Held source is text; in a call whose name has been emitted, it is a Malformed.
    """
    return outputs(lab, "a <tool", end="flush")[-1] == []


@mistake(task=4)
def closed_at_flush(lab):
    """A call that is cut off ends with a CallEnd.

    Half a call must not be executed. It ends in a Malformed, even if no source is held.
    """
    return END in outputs(lab, NAMED + '"arguments":{"x":1', end="flush")[-1]


@mistake(task=4)
def cut_off_unnoticed(lab):
    """A call that is cut off in its arguments ends without an event.

    No source is held, but the client needs to know that the call is over: emit a Malformed with raw
    "".
    """
    cut = outputs(lab, NAMED + '"arguments":{"x":1', end="flush")[-1]
    return cut == [] and outputs(lab, "a <tool", end="flush")[-1] == [TextDelta("<tool")]


@mistake(task=4)
def cut_off_is_text(lab):
    """A call that is cut off after its name is emitted as text.

    The client knows of the call, so report its failure: a Malformed.
    """
    return outputs(lab, NAMED, end="flush")[-1] in ([TextDelta(",")], [TextDelta(NAMED)])


@mistake(task=4)
def flush_keeps(lab):
    """A flush leaves the parser in its call.

    Whatever `flush` returns, afterwards the parser has fresh state.
    """
    calls = [("feed", NAMED), ("flush",), ("flush",), ("feed", "a")]
    outputs = lab.script(lab.new(PARSER), calls, watch="").outputs
    return len(outputs[1]) == 1 and outputs[2:] != [[], [TextDelta("a")]]


@mistake(task=4)
def index_goes_on(lab):
    """After a flush the index does not start at 0 again.

    `index` is the place of a call in its stream, and flush begins another stream.
    """
    calls = [("feed", GOOD), ("flush",), ("feed", GOOD)]
    outputs = lab.script(lab.new(PARSER), calls, watch="").outputs
    return outputs[0][:1] == [START] and outputs[2][:1] == [CallStart(1, None, "f")]


@mistake(task=4)
def malformed_without_an_index(lab):
    """A broken call does not use up its index: the next call has the same index.

    The client knows the broken call by that index.
    """
    found = events(lab, NAMED + "oops" + CLOSE + GOOD)
    return found[1:3] == [Malformed(0, ",oops" + CLOSE, ""), START]


@mistake(
    task=1,
    overdue=[
        "test_property_linear",
        "test_property_linear_around_the_arguments",
        "test_property_splitter_linear",
    ],
)
def rescan(lab):
    """Every piece scans or copies all earlier text again.

    Keep held text in a list of pieces, and read each character once. `self._held += text` copies
    everything.
    """
    is_right = finds_calls(lab) and breaks_off(lab) and not whole_calls(lab)
    return scans(lab) and is_right and splits(lab)
