"""Lab 09: streamed arguments. Each docstring states the rule that its test pins.

A test begins with cases to read and goes on with cases drawn from the seed.
"""

import functools
import itertools
import json
import re
from bisect import bisect_left
from dataclasses import dataclass, field, replace

import pytest

from labkit.testing import (
    check,
    cut_at,
    expect,
    expect_long,
    expect_untouched,
    joined,
)
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)

SCANNER, PARSER, SPLITTER = "JsonScanner", "StreamingCallParser", "ReasoningSplitter"
OPEN, CLOSE = "<tool_call>", "</tool_call>"
THINK, ANSWER = "<think>", "</think>"
SPACE = " \t\n\r"
START = CallStart(0, None, "f")
# The characters of a piece in the tests of cost.
SIZE = 80
# Stands for any reason, which is in words.
WHY = "..."
NAMED = '{"name": "f"', START
# Made of the letters of the tags, so that a search cannot skip them.
HOSTILE = "_to_a_local_tool_to_call_all" * 4

# Bits for random texts. No word and no bit continues an incomplete open tag.
LETTERS = "bdefghijkmnpqrsuvwxyz"
# Text that another program might change: normalise, strip, or take for something else.
ODD = [
    "\ufeff",
    "e\u0301",
    "\u212b",
    "\ufb01",
    "\u00a0",
    "\u200b",
    "\r\n",
    "\u2028\x85",
    "\x00",
    "\ud800",
    " ",
]
TEXT_BITS = [
    "<",
    "<<tool_call",
    "<tool<tool",
    CLOSE,
    "\n",
    '"',
    "é🚀",
    "\\",
    "{}",
    OPEN.upper(),
    *ODD,
]
STRING_BITS = ['"', "\\", CLOSE, OPEN, "</tool", "}{", "[]:,", "é🚀", "\n", '\\"', *ODD]
# Digits for `int` and `str.isdigit`, but not for JSON.
DIGITS = "\u0662\u0967\uff12\U0001d7da"
# Keys that only resemble those of a call.
NEAR = [
    "Name", "NAME", " name", "name ", "arguments\n", "Arguments", "parameters", "args", "argument",
    "function", "names", "na\u200bme", "n\u0430me", "\uff4e\uff41\uff4d\uff45", "name\x00", "",
]  # fmt: skip
# Tags are data. Some overlap themselves, are equal, or begin or end with white space.
TAGS = [
    ("[TOOL_CALLS]", "[/TOOL_CALLS]"), ("aab", "aab"), ("ababc", "aab"), ("(.*", "$)"),
    ("§", "\n\n)"), ("\n<t>", "\n</t>\n"), ("<t>\n", "</t> "),
]  # fmt: skip
JUNK = ['"', "\\", "{", "}}", OPEN, "</tool", "<", " ", "é", "1", "\n", '{"name": "g"}']


# The definition of JSON: `judged` asks Python's `json` which continuations of a text are objects.


def is_object(text):
    """Whether a text is a JSON object and nothing else."""

    def refuse(constant):
        raise ValueError(constant)

    try:
        return text[:1] + text[-1:] == "{}" and bool(json.loads(f"[{text}]", parse_constant=refuse))
    except ValueError:
        return False


WORD_ENDS = ["rue", "ue", "e", "alse", "lse", "se", "ull", "ll", "l"]
STRING_ENDS = ['"', 'n"', '0"', '00"', '000"', '0000"']
OUTSIDE = ["", "0", ":0", '"":0', *WORD_ENDS]
INSIDE = [*STRING_ENDS, *(end + ":0" for end in STRING_ENDS)]


@functools.cache
def can_become(text):
    """Whether some continuation makes an object of a text."""
    bare, *string = re.sub(r'"(\\.|[^"\\])*"', "", text).split('"', 1)
    closing = ""
    for char in bare:
        if char in "{[":
            closing = "}]"["{[".index(char)] + closing
        elif char in "}]":
            closing = closing[1:]
    return any(is_object(text + end + closing) for end in (INSIDE if string else OUTSIDE))


def judged(text):
    """How many characters of a text belong to its object, and whether it is then `done` or
    `failed`; neither if the object can go on.
    """
    if is_object(text):
        return len(text), True, False
    fails = bisect_left(range(1, len(text) + 1), True, key=lambda n: not can_become(text[:n]))
    if is_object(text[:fails]):
        return fails, True, False
    return fails, False, fails < len(text)


def ways(r, text, count=1):
    """Draw ways to cut a text: not at all, after every character, and at a few places."""
    size = len(text)
    few = ([*r.choices(range(size + 1), k=r.randint(1, 6))] for _ in range(count))
    return [[], [*range(1, size)], *few]


def scan(lab, pieces):
    """Feed the pieces to a scanner; after each piece read `done` and `failed`."""
    calls = ((("feed", piece), "done", "failed") for piece in pieces)
    return lab.script(lab.new(SCANNER), [*itertools.chain(*calls)], watch="")


def answers(text, places):
    """For each piece of a text: the count that feed returns, then `done` and `failed`."""
    belong, done, failed = judged(text)
    wanted, size = [], 0
    for piece in cut_at(text, places):
        before, size = min(size, belong), size + len(piece)
        ended = size >= belong if done else size > belong
        wanted += [min(size, belong) - before, done and ended, failed and ended]
    return wanted


def check_objects(lab, cases, *, whole=False):
    """Check the scanner's answers for these texts, cut in these ways. With `whole`, each text, and
    the smallest one that a report shows, begins with a whole object.
    """

    def rule(case):
        text, places = case
        if whole and not judged(text)[1]:
            return
        pieces = cut_at(text, places)
        trace = scan(lab, pieces)
        right, size = answers(text, places), 0
        for number, piece in enumerate(pieces):
            here = slice(3 * number, 3 * number + 3)
            words = f"the count, done and failed for {piece!r} after {text[:size]!r}"
            expect(trace.outputs[here], right[here], trace, words, at=3 * number)
            size += len(piece)

    check(rule, cases)


def all_ways(lab, texts):
    """These texts, each cut in several ways."""
    return [(text, places) for text in texts for places in ways(lab.random, text)]


# Random cases; `r` is a `random.Random`.


def any_word(r):
    """Draw 1 to 8 letters."""
    return "".join(r.choices(LETTERS, k=r.randint(1, 8)))


def any_number(r):
    """Draw the source of a JSON number."""
    whole = r.choice(["0", "-0", "-", ""])
    if whole in ("-", ""):
        whole += str(r.randint(1, 10 ** r.randint(1, 9)))
    power = r.choice(["", "e", "E", "e+", "E-"])
    return whole + r.choice(["", ".0", ".250"]) + (power and power + str(r.randint(0, 99)))


def any_string(r, bits=("",)):
    """Draw the source of a JSON string that contains some of these bits."""
    text = any_word(r) + "".join(r.choices(bits, k=r.randint(0, 3)))
    return json.dumps(text, ensure_ascii=r.choice([True, False]))


def any_value(r, bits=("",), depth=2):
    """Draw the source of a JSON value with some of these bits in its strings."""
    kind = r.choice('0""[{' if depth else '0"w')
    if kind == "{":
        return any_object(r, bits, depth - 1)
    if kind == "[":
        values = [any_value(r, bits, depth - 1) for _ in range(r.randint(0, 3))]
        return f"[{','.join(values)}]"
    if kind == "w":
        return r.choice(["true", "false", "null"])
    return any_number(r) if kind == "0" else any_string(r, bits)


def gap(r):
    """Draw white space, often none."""
    return r.choice(["", "", " ", "\n", "\t\r\n "])


def any_object(r, bits=("",), depth=2):
    """Draw the source of a JSON object with some of these bits in its strings."""
    keys = [f'"{any_word(r)}"', '"name"', '"arguments"', any_string(r, bits)]
    members = [
        f"{gap(r)}{r.choice(keys)}{gap(r)}:{gap(r)}{any_value(r, bits, depth)}{gap(r)}"
        for _ in range(r.randint(0, 3))
    ]
    return f"{{{','.join(members) or gap(r)}}}"


# Streams: lists of parts; each part knows the events that each of its characters brings out.


@dataclass(frozen=True)
class Part:
    """A part of a stream: text, a call, or a call that breaks and so becomes text.

    Attributes:
        source: its characters.
        at: the events that a character brings out, by the character's place.
        text_from: the source is text from this place on; before it there is a call, open tag first.
    """

    source: str
    at: dict = field(default_factory=dict, compare=False)
    text_from: int = 0


def tagged(*segments, text=""):
    """A call, segment by segment, and the text that follows if the call breaks there.

    A segment has the events that its last character brings out, or ArgsDelta if each character is
    emitted as arguments.
    """
    source, at = OPEN, {}
    for piece, *events in segments:
        if events == [ArgsDelta]:
            at |= {len(source) + n: [ArgsDelta(0, char)] for n, char in enumerate(piece)}
        elif events:
            at[len(source) + len(piece) - 1] = events
        source += piece
    return Part(source + text, at, len(source))


def a_call(name, arguments, *others, names_first=True, r=None):
    """A call with these sources of name and arguments, and other members between them: pairs of
    sources of a key and its value. With `r`, white space is drawn.
    """
    space = (lambda: gap(r)) if r else (lambda: "")
    start = CallStart(0, None, json.loads(name))
    if names_first:
        named, given = [name, start], [arguments, ArgsDelta]
    else:
        named, given = [name, start, ArgsDelta(0, arguments)], [arguments]
    members = [
        ['"name"', *named],
        *([key, value] for key, value in others),
        ['"arguments"', *given],
    ]
    segments, before = [], "{"
    for key, value, *events in members if names_first else reversed(members):
        segments += [[f"{space()}{before}{space()}{key}{space()}:{space()}"], [value, *events]]
        before = ","
    return tagged(*segments, [f"{space()}}}{space()}{CLOSE}", CallEnd(0)])


GOOD = a_call('"f"', "{}")
SAY = a_call('"say"', '{"s": "</tool_call>"}')
QUOTE = a_call('"f"', '{"s": "\\"</tool_call>"}')
UNENDED = Part(QUOTE.source[:-1], QUOTE.at, len(QUOTE.source) - 1)


def any_others(r, bits=("",)):
    """Draw members that do not count; a key may repeat."""
    keys = [any_string(r), json.dumps(r.choice(NEAR), ensure_ascii=r.choice([True, False]))]
    return [(r.choice(keys), any_value(r, bits)) for _ in range(r.choice([0, 0, 1, 2, 3]))]


def any_call(r, bits=STRING_BITS, names_first=None):
    """Draw a call with some of these bits in its strings."""
    first = r.choice([True, True, False]) if names_first is None else names_first
    return a_call(any_string(r), any_object(r, bits), *any_others(r, bits), names_first=first, r=r)


def early_call(r):
    """Draw a call whose arguments precede its name."""
    return any_call(r, names_first=False)


def plain_call(r):
    """Draw a call as `json.dumps` writes it, name first."""
    arguments = json.dumps({any_word(r): r.randrange(1000), any_word(r): any_word(r)})
    return a_call(f'"{any_word(r)}"', arguments)


def broken_call(r):
    """Draw a call that a control character breaks, before or after its name is emitted."""
    call = any_call(r)
    place = r.randrange(len(OPEN), len(call.source))
    source = call.source[:place]
    at = {where: events for where, events in call.at.items() if where < place}
    rest = r.choice("\x00\x07\x1f") + "".join(r.choices(JUNK, k=r.randint(0, 4)))
    if not at:
        return Part(source + rest.replace(OPEN, "") + " ", {}, place)
    source += rest + CLOSE
    return Part(source, {**at, len(source) - 1: [Malformed(0, "", WHY)]}, len(source))


def unclosed_call(r):
    """Draw a call that lacks its last brace, or its last two: its close tag breaks it."""
    call = plain_call(r)
    place = len(call.source.removesuffix("}" + CLOSE)) - r.randint(0, 1)
    at = {where: events for where, events in call.at.items() if where < place}
    source = call.source[:place] + CLOSE
    return Part(source, {**at, len(source) - 1: [Malformed(0, "", WHY)]}, len(source))


def any_tags(r):
    """Draw a pair of tags of a few letters."""
    letters = r.sample("AB(.*$)|^+?<>§\n ", 2)
    return tuple("".join(r.choices(letters, k=r.randint(1, 7))) for _ in range(2))


def start_of(r, tag):
    """Draw one or two incomplete tags."""
    return "".join(tag[: r.randrange(len(tag))] for _ in range(r.randint(1, 2)))


def any_text(r):
    """Draw a text of words, incomplete open tags, and other bits."""
    begun = OPEN[: r.randrange(1, len(OPEN))]
    bits = [*r.choices(TEXT_BITS, k=2), begun, any_word(r) + " "]
    return Part("".join(r.sample(bits, r.randint(1, 4))))


def any_words(r):
    """Draw a text in which no tag begins."""
    return Part(" ".join(any_word(r) for _ in range(r.randint(1, 4))) + r.choice(" \n.>"))


def any_stream(r):
    """Draw 1 to 5 parts of any kind."""
    kinds = [any_text, any_call, any_call, broken_call, unclosed_call]
    return [r.choice(kinds)(r) for _ in range(r.randint(1, 5))]


def drawn(lab, count, *kinds):
    """Draw streams that have a part of each of these kinds."""
    return [[kind(lab.random) for kind in kinds] for _ in range(count)]


def source_of(stream):
    """The characters of a stream."""
    return "".join(part.source for part in stream)


@functools.lru_cache(maxsize=8)
def steps_of(stream):
    """For each character of a tuple of parts: the events that it brings out, the held source then,
    and the index of the announced and open call, if any.
    """
    steps, held, index, announced = [], "", 0, False
    for part in stream:
        for place, char in enumerate(part.source):
            if len(OPEN) <= place < part.text_from:
                held += char
                events = [numbered(event, index, held) for event in part.at.get(place, ())]
                held = "" if events else held
                announced = announced or bool(events)
                if any(isinstance(event, CallEnd | Malformed) for event in events):
                    index, announced = index + 1, False
            else:
                breaks = place == part.text_from > 0
                shown = held if breaks else ""
                waits = held = char if breaks else held + char
                while not OPEN.startswith(held):
                    held = held[1:]
                shown += waits.removesuffix(held)
                events = [TextDelta(shown)] if shown else []
            steps.append((events, held, index if announced else None))
    return steps


def numbered(event, index, held):
    """An event of call number `index`; the end of a broken call gets the held source as `raw`."""
    if isinstance(event, Malformed):
        return Malformed(index, held, WHY)
    return replace(event, index=index)


def merged(events):
    """The events with adjacent texts of one kind joined, and without the reasons."""
    return [
        replace(event, reason=WHY) if isinstance(event, Malformed) else event
        for event in joined(events)
    ]


def expect_reasons(trace):
    """Expect a reason that is not empty in each Malformed."""
    for number, out in enumerate(trace.outputs):
        reasons = [event.reason for event in out if isinstance(event, Malformed)]
        good = [isinstance(reason, str) and bool(reason.strip()) for reason in reasons]
        expect(good, [True] * len(good), trace, "whether each reason has words", at=number)


def cut(r, stream, way):
    """Cut a stream at some places: none for the `whole`, all for `single` characters, or `few`."""
    whole, single, few = ways(r, source_of(stream))
    return stream, {"whole": whole, "single": single, "few": few}[way]


def expected(stream, places):
    """The events of each piece, the held source after it, and the events of a flush at the end."""
    steps = steps_of(tuple(stream))
    ends = [0, *itertools.accumulate(map(len, cut_at(source_of(stream), places)))]
    outs = (steps[start:end] for start, end in itertools.pairwise(ends))
    outputs = [merged(itertools.chain(*(events for events, _, _ in out))) for out in outs]
    held = [steps[end - 1][1] if end else "" for end in ends[1:]]
    _, rest, open_call = steps[-1] if steps else ([], "", None)
    if open_call is not None:
        return outputs, held, [Malformed(open_call, rest, WHY)]
    return outputs, held, [TextDelta(rest)] if rest else []


def outputs_of(trace):
    """The events of each call, with adjacent texts joined."""
    return [merged(out) if isinstance(out, list) else out for out in trace.outputs]


def feed(lab, pieces, *tags, end=""):
    """Feed the pieces to a parser; leave the stream open, or end it."""
    return lab.stream(lab.new(PARSER, *tags), pieces, end=end)


def check_streams(lab, what, streams, *ways, end=""):
    """Check streams cut in these ways: all `events`, or `outputs` or `held` piece by piece."""

    def rule(case):
        trace = feed(lab, cut_at(source_of(case[0]), case[1]), end=end)
        outputs, held, last = expected(*case)
        outputs += [last] if end else []
        if what == "events":
            expect(merged(trace.events), merged(itertools.chain(*outputs)), trace)
        elif what == "held":
            expect(trace.held, held, trace, "held")
        else:
            expect(outputs_of(trace), outputs, trace)

    check(rule, [cut(lab.random, stream, way) for stream in streams for way in ways])


# The naive way, and its result.


@pytest.mark.given
def test_naive_repair_and_diff_breaks():
    """If you close the brackets of half an argument, parse it, and send the new part, you send a
    brace that the model did not write there, and it cannot be taken back.
    """
    sent = ""
    for so_far, missing in (('{"code": 1', "}"), ('{"code": 123', "}"), ('{"code": 123}', "")):
        arguments = json.dumps(json.loads(so_far + missing))
        sent += arguments[len(sent) :]
    assert sent == '{"code": 1}3}'


@pytest.mark.given
def test_naive_search_for_the_name_breaks():
    """The first "name" in the source is not always the name of the call."""
    source = '{"arguments": {"name": "Ada"}, "name": "greet"}'
    assert re.search('"name": "(.*?)"', source)[1] == "Ada"


@pytest.mark.given
def test_empty_tags_are_rejected(lab):
    """An empty tag raises ValueError; the starter contains this check."""
    for name in (PARSER, SPLITTER):
        lab.rejects(lab.new(name, ""))
        lab.rejects(lab.new(name, "<a>", ""))


# Task 1


def splits(text, inside, tags=(THINK, ANSWER), ended=False):
    """The certain reasoning of a text, its certain answer, and the held text."""
    first, last = tags
    if not inside:
        starts = range(len(text) - len(text.lstrip(SPACE)) + 1)
        place = next((n for n in starts if text.startswith(first, n)), None)
        if place is None and any(first.startswith(text[n:]) for n in starts):
            return ("", text, "") if ended else ("", "", text)
        if place is None:
            return "", text, ""
        text = text[place + len(first) :]
    reasoning, tag, answer = text.partition(last)
    may_be = max(n for n in range(len(last)) if reasoning.endswith(last[:n]))
    size = len(reasoning) if tag or ended else len(reasoning) - may_be
    return reasoning[:size], answer, reasoning[size:]


def both(reasoning, answer):
    """The events of new reasoning and of new answer text."""
    events = [ReasoningDelta(reasoning)] if reasoning else []
    return events + ([TextDelta(answer)] if answer else [])


def splitter(lab, inside, *tags):
    """A splitter that begins `inside` or not, with these tags or its own."""
    return lab.new(SPLITTER, *tags, **{"starts_inside": True} if inside else {})


def expect_splits(trace, case, end):
    """Expect the events and the held text of a case, in lists that no later call changes."""
    text, places, inside, *tags = case
    sizes = itertools.accumulate(map(len, cut_at(text, places)), initial=0)
    tags = tags or (THINK, ANSWER)
    states = [splits(text[:size], inside, tags) for size in sizes]
    states += [(*splits(text, inside, tags, ended=True)[:2], "")] if end else []
    outputs = [
        both(reasoning[len(before[0]) :], answer[len(before[1]) :])
        for before, (reasoning, answer, _) in itertools.pairwise(states)
    ]
    expect(outputs_of(trace), outputs, trace)
    expect(trace.held, [held for _, _, held in states[1:]], trace, "held")
    # Fails at an empty text, which `outputs_of` joins to its neighbour.
    expect(trace.events, joined(itertools.chain(*outputs)), trace)
    expect_untouched(trace)


def check_splits(lab, cases, *, end="", begin=""):
    """Check the events and the held text of texts that begin `inside` or not, cut in some ways; a
    case may have tags as well. Each text, also the smallest one that a report shows, has this
    beginning.
    """

    def rule(case):
        text, places, *options = case
        assert text.startswith(begin)
        trace = lab.stream(splitter(lab, *options), cut_at(text, places), end=end)
        expect_splits(trace, case, end)

    check(rule, cases)


def in_some_ways(lab, texts, inside=(False,)):
    """These texts, cut in some ways, beginning inside or not."""
    r = lab.random
    return [(text, places, start) for text in texts for places in ways(r, text) for start in inside]


def some_bits(r, *bits):
    """Draw a text of some of these bits and words."""
    return "".join(r.choice([*bits, any_word(r) + " "]) for _ in range(r.randint(1, 5)))


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_reasoning_streams(lab):
    """Text between the open tag and the close tag is emitted as reasoning as it arrives; only a
    possible start of the close tag is held. After the close tag, everything is text. Nothing is
    changed.
    """
    r, bits = lab.random, ["</", "</think", "<", "\n", "é🚀", THINK, ANSWER.upper(), *ODD]
    texts = ["<think>2 and <2</think>\n\n4", "<think>a</thin</think>b"]
    texts += [THINK + some_bits(r, *bits) + ANSWER + some_bits(r, *bits, ANSWER) for _ in range(20)]
    check_splits(lab, in_some_ways(lab, texts), begin=THINK)


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_open_tag_at_the_start_only(lab):
    """The open tag counts only at the start. Without it everything is text, even tags, and is
    emitted as soon as the stream cannot begin with the open tag. Case counts, and so does every
    character before the tag that is not white space.
    """
    r, bits = lab.random, [THINK, ANSWER, "<", "<thi", *ODD]
    texts = ["a<think>b</think>c", "</think>a", "<<think>a", "<thin<think>a</think>"]
    texts += ["<Think>a</think>b", "<THINK>a", "<thinK>", "\ufeff<think>a", "\u200b<think>a"]
    texts += [any_word(r) + some_bits(r, *bits) for _ in range(10)]
    texts += [THINK[: r.randint(1, 6)] + r.choice("x <") + some_bits(r, *bits) for _ in range(10)]
    check_splits(lab, in_some_ways(lab, texts))


@pytest.mark.task(1)
@pytest.mark.points(1)
def test_white_space_before_the_open_tag(lab):
    """White space before the open tag is held until it is certain whether the tag follows. It is
    dropped with the tag; if no tag follows, it is text.
    """
    r = lab.random
    texts = ["\n\n<think>a</think>b", " \t\r\nb", "\u00a0<think>a", "\n <thin"]
    texts += [
        gap(r) + gap(r) + r.choice([THINK, THINK, "<"]) + some_bits(r, ANSWER) for _ in range(15)
    ]
    check_splits(lab, in_some_ways(lab, texts))


@pytest.mark.task(1)
@pytest.mark.points(1)
def test_starts_inside(lab):
    """With `starts_inside` the prompt has the open tag: reasoning begins with the first character,
    even with white space, and an open tag is reasoning like any other text.
    """
    r = lab.random
    texts = ["\nso</think>4", "<think>so</think>4", ANSWER + "4", "</think", " "]
    texts += [some_bits(r, "\n", THINK, "</") + r.choice(["", ANSWER + "b"]) for _ in range(15)]
    check_splits(lab, in_some_ways(lab, texts, (True,)))


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_splitter_flush(lab):
    """flush returns the held text: as reasoning inside, because unclosed reasoning runs to the end;
    otherwise as text. Then the splitter has fresh state, with the arguments of its constructor; a
    second flush returns [].
    """
    r, own = lab.random, [THINK, ANSWER]

    def rule(case):
        texts, inside, *tags = case
        calls = [(("feed", text), ("flush",), ("flush",)) for text in texts]
        trace = lab.script(splitter(lab, inside, *tags), [*itertools.chain(*calls)])
        wanted, held, tags = [], [], tags or own
        for text in texts:
            reasoning, answer, rest = splits(text, inside, tags)
            last = splits(text, inside, tags, ended=True)
            events = both(last[0][len(reasoning) :], last[1][len(answer) :])
            wanted += [both(reasoning, answer), events, []]
            held += [rest, "", ""]
        expect(outputs_of(trace), wanted, trace)
        expect(trace.held, held, trace, "held")

    texts = ["<think>a</th", " <thi", "\n", "<think>a</think>b", "</think"]
    cases = [(texts, inside) for inside in (False, True)]
    for _ in range(15):
        texts = [some_bits(r, *own)[: r.randint(1, 12)] for _ in range(3)]
        cases.append(([r.choice(["", THINK]) + text for text in texts], r.choice([False, True])))
    for tags in TAGS:
        texts = [r.choice(["", tags[0]]) + some_bits(r, *tags) for _ in range(3)]
        cases.append(([tags[0], *texts], r.choice([False, True]), *tags))
    check(rule, cases)


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_property_splitter(lab):
    """complete, eager, chunk-invariant: for all texts of up to three bits of tags, white space and
    text, inside or not, each piece emits all certain text, and flush the rest; no text is empty.
    The tags are the constructor's arguments: any two non-empty strings, even equal, overlapping
    themselves, or beginning or ending with white space. isolated: splitters fed in turns return
    the same texts as alone.
    """
    bits = [THINK, ANSWER, "<think", "</think", ">", " ", "a"]
    texts = ["".join(some) for n in range(4) for some in itertools.product(bits, repeat=n)]
    cases = [(text, [*range(1, len(text), 1 + n % 3)], n % 5 == 0) for n, text in enumerate(texts)]
    texts = [some_bits(lab.random, *bits, "\n") for _ in range(30)]
    check_splits(lab, cases + in_some_ways(lab, texts, (False, True)), end="flush")

    r, cases = lab.random, [("<a>x</a>y", [], False, "<a>", "</a>")]
    for first, last in [*TAGS, *(any_tags(r) for _ in range(8))]:
        bits = [first, last, "\n", " ", "x"]
        for _ in range(4):
            text = r.choice(["", "\n", " "]) + r.choice(["", start_of(r, first)])
            text += first + start_of(r, last) + some_bits(r, *bits, start_of(r, last)) + last
            for places in ways(r, text):
                cases.append((text, places, r.choice([False, False, True]), first, last))
    check_splits(lab, cases, end="flush")

    def rule(cases):
        new = [splitter(lab, *options) for _, _, *options in cases]
        pieces = [cut_at(text, places) for text, places, *_ in cases]
        for trace, case in zip(lab.interleave(new, pieces, "flush"), cases, strict=True):
            expect_splits(trace, case, "flush")

    check(rule, [r.sample(cases, r.randint(2, 3)) for _ in range(15)])


# Task 2


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_scanner_ends_with_the_object(lab):
    """feed returns how many of its characters belong to the object. `done` is true as soon as the
    last `}` has been fed; later characters do not belong to the object.
    """
    texts = ['{"a": 1}}', "{}{}", '{"a": {"b": [{}, []]}} ]']
    texts += (any_object(lab.random) + lab.random.choice(["", " x", "}"]) for _ in range(25))
    check_objects(lab, all_ways(lab, texts), whole=True)


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_scanner_strings(lab):
    r"""In a string brackets do not count, \" does not end the string, and \\ does not escape the
    next character, wherever the text is cut. Control characters and unknown escapes are not
    allowed, nor hexadecimal digits of other scripts.
    """
    strings = ["}", "\\u007D{", r"\\\"}", r"\\", r"\ud83d\ude00\n\/\b", "\x7f\u2028🚀"]
    strings += [
        "a\nb",
        "\t",
        r"\x41",
        r"\u12g4",
        "\\\x00",
        r"\U0041",
        "\x1f",
        r"\'",
        r"\u 041",
        r"\u+041",
    ]
    strings += [f"\\u00{digit}0" for digit in DIGITS] + [f"\\{char}" for char in "aevx0\n{}"]
    texts = ['{"a": "' + string + '", "b\\"}": 2}' for string in strings]
    texts += (f'{{"k": {any_string(lab.random, STRING_BITS)}}}}}' for _ in range(20))
    check_objects(lab, all_ways(lab, texts))


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_scanner_numbers_and_words(lab):
    """Numbers and words are those of RFC 8259: no leading zero or plus, a digit on both sides of
    the point, no digits but 0 to 9, exactly `true`, `false` and `null`, and no NaN or Infinity.
    """
    values = [
        "0", "-0", "10", "-1.50", "1e5", "1E-05", "2.0e+10", "true", "false", "null", "01", "+1",
        ".5", "1.", "1.e5", "1e", "1e+", "-", "-a", "0x1", "1.2.3", "NaN", "Infinity", "-Infinity",
        "True", "nul", "nulll", "1 2", "tru e", "1_0", "TRUE", "nan", "None", "undefined",
    ]  # fmt: skip
    values += [before + digit for digit in DIGITS for before in ("", "1", "-", "1.", "1e", "0")]
    for _ in range(20):
        number = any_number(lab.random)
        place = lab.random.randrange(len(number))
        values += [number, number[:place] + lab.random.choice("0.e-+x " + DIGITS) + number[place:]]
    texts = [text for value in values for text in (f'{{"a":{value}}}', f'{{"a":[{value} ,1]}}')]
    check_objects(lab, [(text, lab.random.choice(ways(lab.random, text))) for text in texts])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_scanner_fails_at_the_first_wrong_character(lab):
    """`failed` is true from the first character that JSON does not allow at its place. The
    characters before it belong to the object, this character does not.
    """
    texts = ["[]", " {}", "x", "{,}", "{'a': 1}", '{"a" 1}', '{"a": 1,}', '{"a": [1,]}', '{"a": ]}']
    texts += ['{"a"::1}', "{1: 2}", '{"a": 1 "b": 2}', '{"a": [1}', '{"a": "b" "c"}', '{"a":,}']
    texts += [f"{char}{{}}" for char in "\ufeff\n\u200b"]
    texts += ['{"a": {]}', '{"a": 1\u00a0}', "{\x0c}", '{"a": [1:2]}', '{"a": //\n1}']
    for _ in range(30):
        text = any_object(lab.random)
        place = lab.random.randrange(len(text))
        texts.append(text[:place] + lab.random.choice('{}[]",:x1\\\x00') + text[place:])
    check_objects(lab, all_ways(lab, texts))


def long_texts(r):
    """Draw texts of 3,800 to 4,200 pieces: hostile text, letters, and white space."""
    count = r.randint(3_800, 4_200)
    hostile = '"call(</tool_cal' + HOSTILE[: SIZE - 17] + "\\"
    return [hostile] * count, ["n" * SIZE] * count, [" \n" * (SIZE // 2)] * count


@pytest.mark.task(2)
@pytest.mark.points(2)
@pytest.mark.timeout(10)
def test_scanner_of_any_depth(lab):
    """Nesting has no limit: 30,000 brackets are scanned like three, without recursion. Length has
    none either: an object with a long string, long white space and a long number, each in 3,800 to
    4,200 pieces, finishes well within the time limit.
    """

    def rule(depth):
        text = '{"a":' + '[{"a":' * depth + "1" + "}]" * depth + "}"
        trace = scan(lab, [text[:-1], "]", text[-1]])
        wanted = [len(text) - 1, False, False, 0, False, True, 0, False, True]
        expect(trace.outputs, wanted, trace)
        trace = scan(lab, [text + "]"])
        expect(trace.outputs, [len(text), True, False], trace)

    check(rule, [1, lab.random.randint(20, 90), lab.random.randint(15_000, 20_000)])
    hostile, _, space = long_texts(lab.random)
    short = [piece[: SIZE // 5] for piece in space]
    pieces = ['{"\\', *hostile, '"":[', *short, *["1234567890"] * len(space), "]", "}"]
    calls = [*(("feed", piece) for piece in pieces), "done"]
    trace = lab.script(lab.new(SCANNER), calls, watch="")
    fed = f"an object in {len(pieces):,} pieces, then done: the result of each"
    expect_long(trace.outputs, [*map(len, pieces), True], fed)


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_scanner_stays_ended(lab):
    """After the object is done or has failed, feed returns 0 and nothing changes."""
    texts = ["{}", "{x", '{"a": 1}', '{"a": 1]', *(any_object(lab.random) for _ in range(9))]
    texts += [text[:-1] + "\x01" for text in texts[4:]]
    rests = ["{", '"}', "", "}", "}}"]
    check_objects(
        lab,
        [(text + "".join(rests), [*itertools.accumulate(map(len, [text, *rests]))])
         for text in texts],
    )  # fmt: skip


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_scanner_flush(lab):
    """flush returns whether the object was done. Then, after a single flush, the scanner has fresh
    state, wherever it was: the next piece begins another text, and a second flush returns False.
    """

    def rule(case):
        twice, texts = case
        again = [("flush",)] if twice else []
        calls = [[("feed", t), "failed", ("flush",), "done", "failed", *again] for t in texts]
        trace = lab.script(lab.new(SCANNER), [*itertools.chain(*calls)], watch="")
        wanted = []
        for belong, done, failed in map(judged, texts):
            wanted += [belong, failed, done, False, False, *[False] * len(again)]
        expect(trace.outputs, wanted, trace)

    r = lab.random
    texts = ["{}", '{"a": "', "{}", "x", '{"a": [{"b"', '{"a": 1}', '{"a": 1', '{"a": 1]', "{}"]
    cases = [(twice, texts) for twice in (False, True)]
    for number in range(24):
        texts = [any_object(r) for _ in range(r.randint(2, 5))]
        ends = ["", "", "x", "]", "}", "\x00"]
        texts = [text[: r.randint(1, len(text))] + r.choice(ends) for text in texts]
        cases.append((number % 2 == 0, texts))
    check(rule, cases)


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_property_scanner_on_all_small_objects(lab):
    """complete, eager: for every object of up to five tokens of twelve kinds, and for every text
    that is not an object, the count, `done` and `failed` are right after every character. isolated:
    scanners fed in turns return the same counts as alone.
    """
    tokens = ["{", "}", "[", "]", ",", ":", '"a"', '"', "\\", "-", "1", " "]
    texts, longer = [], ["{"]
    for _ in range(4):
        texts += [text + token for text in longer for token in tokens]
        last = texts[-len(longer) * len(tokens) :]
        longer = [text for text in last if judged(text) == (len(text), False, False)]
    # Cutting before the last token is enough: shorter texts have been checked.
    check_objects(lab, [(text, [len(text) - 1]) for text in ["x", *texts]])
    texts = [any_object(lab.random, STRING_BITS, 3) for _ in range(15)]
    cases = [(text, [*range(1, len(text))]) for text in texts]
    check_objects(lab, cases)

    def rule(cases):
        new, pieces = [lab.new(SCANNER) for _ in cases], [cut_at(*case) for case in cases]
        for trace, case in zip(lab.interleave(new, pieces, "flush", watch=""), cases, strict=True):
            expect(trace.outputs, [*answers(*case)[::3], judged(case[0])[1]], trace)

    check(rule, [cases[n : n + 2] for n in range(0, 14, 2)])


# Task 3


@pytest.mark.task(3)
@pytest.mark.points(1)
def test_text_streams_at_once(lab):
    """Outside calls all text is emitted at once, unchanged, except a possible start of an open tag.
    That start is held until it cannot become a tag. A close tag outside calls is text, and so is an
    open tag in capitals.
    """
    trace = feed(lab, ["so <to", "", "ol", "box </tool_call> <"])
    wanted = [[TextDelta("so ")], [], [], [TextDelta("<toolbox </tool_call> ")]]
    expect(outputs_of(trace), wanted, trace)
    expect(trace.held, ["<to", "<to", "<tool", "<"], trace, "held")
    streams = [[Part(text + any_word(lab.random))] for text in [*ODD, OPEN.upper()]]
    streams += drawn(lab, 8, any_text, any_words, any_text)
    check_streams(lab, "outputs", streams, "single", "few")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_name_comes_with_its_last_quote(lab):
    """The quote that ends the name makes it certain: CallStart is emitted with exactly that
    character. Its id is None.
    """
    trace = feed(lab, ["a ", OPEN + '{"name": "ge', "t", '"', ",", ' "argu'])
    wanted = [[TextDelta("a ")], [], [], [CallStart(0, None, "get")], [], []]
    expect(outputs_of(trace), wanted, trace)

    def begun(r):
        call = plain_call(r)
        size = min(place for place, events in call.at.items() if events != [CallEnd(0)]) + 1
        return Part(call.source[:size], call.at, size)

    check_streams(lab, "outputs", drawn(lab, 10, any_words, begun), "whole", "single", "few")


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_arguments_stream(lab):
    """Every character of the arguments is emitted with the piece in which it arrives, even half of
    an escape or of a number; no character of the arguments is held.
    """
    more = [": [1", "2", ', "\\', "u00", 'e9"]}']
    trace = feed(lab, [OPEN + '{"name":"f","arguments": {"x"', *more])
    wanted = [[START, ArgsDelta(0, '{"x"')], *([ArgsDelta(0, text)] for text in more)]
    expect(outputs_of(trace), wanted, trace)
    streams = drawn(lab, 12, any_words, lambda r: any_call(r, names_first=True))
    check_streams(lab, "outputs", streams, "single", "few", "few")


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_no_brace_of_the_wrapper(lab):
    """The arguments end with their own last brace. The rest of the object around them is never
    emitted: its brace, white space and other members, in whatever piece they arrive.
    """
    for end in ("}}}" + CLOSE, "}} }\n" + CLOSE, '}}, "id": "}}"}' + CLOSE):
        trace = feed(lab, [OPEN + '{"name":"f","arguments":{"a":{', end])
        wanted = [[START, ArgsDelta(0, '{"a":{')], [ArgsDelta(0, "}}"), CallEnd(0)]]
        expect(outputs_of(trace), wanted, trace)
    check_streams(lab, "events", drawn(lab, 12, plain_call), "whole", "single", "few")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_arguments_before_the_name(lab):
    """Arguments that precede the name are held, and follow all together after the CallStart."""
    trace = feed(lab, [OPEN + '{"arguments": {"x": 1}', ', "name": "f', '"', "}" + CLOSE])
    wanted = [[], [], [START, ArgsDelta(0, '{"x": 1}')], [CallEnd(0)]]
    expect(outputs_of(trace), wanted, trace)
    check_streams(lab, "outputs", drawn(lab, 10, any_words, early_call), "whole", "single", "few")


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_arguments_are_the_source(lab):
    """Joined, the arguments are the model's own characters from { to }, unchanged: white space,
    escapes, the order of keys, repeated keys, numbers of any length, surrogate pairs.
    """
    sources = ["{ }", '{"a" : 1.50,\r\n"a":1e5 }', r'{"u": "\ud83d\ude00\u5317 \ud800 \/"}']
    sources += ['{"北京": "🚀\u2028\x7f\ud83d"}', '{"s": "</tool_call>\\"}}", "t": [{}, []]}']
    streams = [[a_call('"f"', source)] for source in sources]
    streams += drawn(lab, 12, any_call)
    check_streams(lab, "events", streams, "whole", "single", "few")
    # Longer than the numbers that `json.loads` reads.
    number = str(lab.random.randint(1, 9)) * lab.random.randint(4_500, 5_500)
    calls = [a_call('"f"', f'{{"x":{number}}}', names_first=first) for first in (True, False)]
    check_streams(lab, "events", [calls], "few")


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_which_member_is_the_name(lab):
    """Members count at the top level only, whatever the keys further inside are called. Others are
    skipped, with values of any kind, even if their key resembles `name` or `arguments`, or repeats.
    """
    inner = '{"name": "Ada", "arguments": {"name": "x"}}'
    calls = [
        a_call('"f"', inner), a_call('"f"', inner, names_first=False),
        a_call('"arguments"', "{}", ('"id"', "7"), ('"m"', inner), ('"ok"', "true")),
        a_call('"f"', "{}", ('"index"', "-0.5e1"), ('"id"', '"name"'), names_first=False),
        a_call('""', "{}", ('"function"', '{"name": "no"}')),
        a_call('"f"', "{}", ('"id"', "1"), ('"id"', "2")),
    ]  # fmt: skip
    for number, key in enumerate(NEAR):
        calls.append(a_call('"f"', "{}", (json.dumps(key), "1"), names_first=number % 2 == 0))
    streams = [[call] for call in calls]
    for _ in range(20):
        r = lab.random
        streams.append([a_call('"f"', any_object(r), *any_others(r), *any_others(r))])
    check_streams(lab, "outputs", streams, "whole", "single", "few")


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_names_and_keys_are_decoded(lab):
    """The name and the keys are JSON strings: their escapes are decoded, a surrogate pair as one
    character, wherever it is cut, and a surrogate alone as `json.loads` does. Otherwise the name
    stays as it is, with its spaces and combining marks.
    """
    names = [
        r'"S\u00e3o \"1\""',
        r'"\ud83d\ude80\n"',
        '"🚀"',
        r'"\ud83d"',
        r'"\ude80\ud83d."',
        '" f "',
    ]
    names += (any_string(lab.random, ["é🚀", '"', "\n", "\\", *ODD]) for _ in range(12))
    streams = []
    for name in names:
        start, early = CallStart(0, None, json.loads(name)), ArgsDelta(0, "{}")
        first = [r'{"n\u0061me":'], [name, start], [r',"\u0061rguments":'], ["{}", ArgsDelta]
        last = [r'{"argument\u0073": {}, "\u006eame":'], [name, start, early]
        end = ["}" + CLOSE, CallEnd(0)]
        streams += [tagged(*first, end)], [tagged(*last, end)]
    check_streams(lab, "outputs", streams, "whole", "single")


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_call_ends_with_its_close_tag(lab):
    """CallEnd is emitted with the last character of the close tag, which white space may precede;
    only then is the call certain to be complete.
    """
    trace = feed(lab, [OPEN + '\n{"name":"f","arguments":{}}', "\n", "</tool_call", "> <"])
    wanted = [[START, ArgsDelta(0, "{}")], [], [], [CallEnd(0), TextDelta(" ")]]
    expect(outputs_of(trace), wanted, trace)
    check_streams(lab, "outputs", drawn(lab, 8, plain_call, any_words, plain_call), "single", "few")


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_many_calls_in_one_piece(lab):
    """A piece may contain several calls, and text between them; `index` counts the calls from 0."""
    streams = [[GOOD, SAY], [GOOD, Part("\n"), GOOD, Part("a"), SAY]]
    streams += drawn(lab, 6, plain_call, any_words, early_call, plain_call)
    check_streams(lab, "events", streams, "whole", "few")
    count = lab.random.randint(1_100, 1_300)
    found = feed(lab, [GOOD.source * count]).events
    ends = [event.index for event in found if isinstance(event, CallEnd)]
    expect_long(
        ends, [*range(count)], f"feed({count:,} calls in one piece): the index of each CallEnd"
    )


@pytest.mark.task(3)
@pytest.mark.points(1)
def test_other_tags(lab):
    """The tags are the constructor's arguments: any two non-empty strings, with special characters,
    equal, overlapping themselves, or beginning or ending with white space. An incomplete tag before
    the tag is text.
    """
    r = lab.random
    for first, last in [*TAGS, *(any_tags(r) for _ in range(8))]:
        texts = ["-", *(start_of(r, first) for _ in range(4))]
        for text in (text for text in texts if (text + first).index(first) == len(text)):
            source = f'{{"x":{r.randrange(10**9)}}}'
            space = "\n" if ("\n" + last).index(last) else ""
            sent = text + first + '{"name":"f","arguments":' + source + "}" + space + last + "-"
            wanted = [START, ArgsDelta(0, source), CallEnd(0), TextDelta("-")]
            wanted = [TextDelta(text), *wanted] if text else wanted
            for pieces in ([sent], list(sent)):
                trace = feed(lab, pieces, first, last)
                expect(trace.events, wanted, trace)


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_held_is_the_source_since_the_last_event(lab):
    """`held` is the possible start of a tag; in a call, the source since the last event: the whole
    call before the name is emitted, and "" while the arguments arrive.
    """
    pieces = ["a <tool", '_call>{"name":', ' "f"', ', "arguments": ', '{"x":', "1}", "}</t"]
    held = ["<tool", OPEN + '{"name":', "", ', "arguments": ', "", "", "}</t", ""]
    trace = feed(lab, [*pieces, CLOSE[3:]])
    expect(trace.held, held, trace, "held")
    streams = [[UNENDED], *drawn(lab, 6, any_words, any_call, any_text)]
    check_streams(lab, "held", streams, "whole", "single", "few")


# Task 4

# Bodies that break before the name is emitted: the held source, and the text from the break on.
BEFORE = [
    ("", "no"), ("\n", "[]"), ("", CLOSE), ("{", "}"), ("{", "'name': 'f'}"), ('{"name" ', '"f"}'),
    ('{"name": ', "1}"), ('{"name": ', "null}"), ('{"name": ', '{"name": "f"}}'),
    ('{"name": "f', '\n"}'), ('{"arguments": ', '"{}"}'), ('{"arguments": ', "[]}"),
    ('{"arguments": {"x": ', "NaN}}"), ('{"arguments": {"x": 1', "]"), ('{"arguments": {}', "}"),
    ('{"arguments": {}, "arguments', '": {}}'), ('{"id": 0', "1}"),
    ('{"arguments": {}', OPEN[:-1] + " "), ("", OPEN[:-1] + " "), (" ", "\u00a0{"),
    ('{"id": "' + OPEN, '\n{"name": "f", "arguments": {}}' + CLOSE), ('{"arguments": {}, ', "}"),
    ('{"id": 1, ', "}"), ('{"id": 1', CLOSE), ("{", CLOSE), ('{"name"', CLOSE), ("", "\ufeff"),
    ('{"arguments": {"x": 1}', CLOSE), ('{"arguments": {"x": 1', CLOSE), ("{", ',"name": 1}'),
]  # fmt: skip

# Sources after `{"name": "f"` that break the call: segments before the break, and the rest.
AFTER = [
    ([], "}"), ([], ' "arguments": {}}'), ([", "], "}"), ([', "arguments": '], '"{}"}'),
    ([', "arguments": '], "[{}]}"), ([', "arguments": '], "null}"), ([', "name'], '": "g"}'),
    ([', "arguments": ', '{"x": 1 '], "2}}"), ([', "arguments": ', '{"x": "'], '\n"}}'),
    ([', "arguments": ', "{}", ', "arguments'], '": {}}'), ([', "arguments": ', "{}"], "]"),
    ([], ""), ([", "], ""), ([', "id"'], ""), ([', "id": 1'], ""), ([', "id": tr'], ""),
    ([', "arguments": '], ""), ([', "arguments": ', "{"], ""), ([', "arguments": ', '{"x": 1'], ""),
    ([', "arguments": ', '{"s": "\\"</tool_call>'], "\n"), ([', "arguments": ', "{}"], ""),
    ([', "arguments": ', "{}", ", "], ""),
    ([', "arguments": ', "{}", ", "], "}"), ([', "arguments": ', "{}"], ",,"), ([" "], "\u00a0"),
    ([', "arguments": ', "{}", "} "], "x"), ([', "arguments": ', "{}", "}"], "}"),
    ([', "arguments": ', "{}", "}</tool"], ">"), ([', "arguments": ', "{}", "}"], GOOD.source[:-1]),
]  # fmt: skip


def breaks_after(before, rest):
    """A call that breaks after its name; the second item of `before` is arguments."""
    segments = [[text, *[ArgsDelta][: number == 1]] for number, text in enumerate(before)]
    return tagged(NAMED, *segments, [rest + CLOSE, Malformed(0, "", WHY)])


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_break_before_the_name_is_text(lab):
    """A call that breaks before its name is emitted becomes text at the first character after which
    it cannot be a call; a second `arguments` breaks it with the quote that ends the key. Reading
    goes on at that character, and the emitted text is not searched again, not even for a tag that
    begins in it. A piece may contain more than a thousand such calls.
    """
    streams = [[tagged([kept], text=rest), Part(" "), GOOD] for kept, rest in BEFORE]
    for _ in range(8):
        kept, rest = lab.random.choice(BEFORE)
        kept = kept.replace("{", "{" + f'"{any_word(lab.random)}": {any_number(lab.random)}, ', 1)
        call = plain_call(lab.random)
        streams.append([tagged([kept], text=rest), any_words(lab.random), call])
    check_streams(lab, "outputs", streams, "whole", "single", "few")
    for _ in range(4):
        tag = any_word(lab.random) + "\n" + any_word(lab.random)
        source = tag + '{"' + tag + '{"name":"f","arguments":{}}' + CLOSE
        for pieces in ([source], list(source)):
            trace = feed(lab, pieces, tag, CLOSE, end="flush")
            expect(trace.events, [TextDelta(source)], trace)
    source = (OPEN + "x") * lab.random.randint(1_100, 1_300)
    trace = feed(lab, [source])
    expect_long(trace.events, [TextDelta(source)], f"feed({len(source):,} characters)")


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_break_after_the_name_is_malformed(lab):
    """A call that breaks after its name is emitted ends in a Malformed. `raw` is its source since
    the last event, up to and including the next close tag, whose first character may be the one
    that breaks the call. The call uses up its index, and after it text goes on. A piece may contain
    more than a thousand such calls.
    """
    trace = feed(lab, [OPEN + '{"name":"f","arguments":{"x":1 ', "oops}", CLOSE + " <"])
    end = [Malformed(0, "oops}" + CLOSE, WHY), TextDelta(" ")]
    wanted = [[START, ArgsDelta(0, '{"x":1 ')], [], end]
    expect(outputs_of(trace), wanted, trace)
    streams = [[breaks_after(*case), Part("a"), GOOD] for case in AFTER]
    streams += drawn(lab, 12, plain_call, broken_call, any_words, plain_call)
    streams += drawn(lab, 6, unclosed_call, any_words, plain_call)
    check_streams(lab, "outputs", streams, "whole", "single", "few")
    count = lab.random.randint(1_100, 1_300)
    found = feed(lab, [(OPEN + '{"name":"f"x' + CLOSE) * count]).events
    ends = [event.index for event in found if isinstance(event, Malformed)]
    expect_long(ends, [*range(count)], f"feed({count:,} broken calls): the index of each Malformed")


@pytest.mark.task(4)
@pytest.mark.points(1)
def test_second_name_or_arguments(lab):
    """A second `name` or `arguments` breaks the call with the quote that ends the key, however the
    key is spelled: a call has one name.
    """
    streams = []
    for _ in range(8):
        name, source = any_word(lab.random), any_object(lab.random)
        for key in ("name", r"n\u0061me", "arguments", r"argument\u0073"):
            value = any_value(lab.random)
            first = [f'{{"name":"{name}"', CallStart(0, None, name)], [',"arguments":']
            rest = [f',"{key}":{value}}}{CLOSE}', Malformed(0, "", WHY)]
            streams.append([tagged(*first, [source, ArgsDelta], rest), any_words(lab.random)])
    check_streams(lab, "outputs", streams, "whole", "single")
    kept = [f'{{"arguments":{any_object(lab.random)},"arguments' for _ in range(8)]
    streams = [[tagged([text], text='":{},"name":"f"}'), GOOD] for text in kept]
    check_streams(lab, "outputs", streams, "single")


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_malformed_ends_at_the_next_close_tag(lab):
    """In a broken call quotes mean nothing: the next close tag ends the call, even inside a string,
    and even if it begins inside text that only looked like a close tag, whatever the tags are. The
    wording of `reason` is up to you; it is not empty.
    """
    trace = feed(lab, [*'<t>{"name":"f","arguments":{}}aaab x'], "<t>", "aab")
    wanted = [START, ArgsDelta(0, "{}"), Malformed(0, "}aaab", WHY), TextDelta(" x")]
    expect(merged(trace.events), wanted, trace)
    expect_reasons(trace)
    for first, last in [*TAGS, *(any_tags(lab.random) for _ in range(8))]:
        texts = ["!" + start_of(lab.random, last) + last for _ in range(4)]
        texts += [last] if last[0] not in SPACE + ",}" else []
        for raw in (text for text in texts if text.index(last) == len(text) - len(last)):
            for pieces in ([f'{first}{{"name":"f"{raw}x'], [*f'{first}{{"name":"f"{raw}x']):
                trace = feed(lab, pieces, first, last, end="flush")
                expect(merged(trace.events)[:2], [START, Malformed(0, raw, WHY)], trace)
    ends = ['"', '{"s": "', "</tool", "<</tool_cal", OPEN + '{"name": "g", "arguments": {"s": "']
    streams = [[breaks_after([', "arguments": ', '{"x": 1'], "oops" + end), GOOD] for end in ends]
    for _ in range(8):
        junk = "".join(lab.random.choices(JUNK, k=lab.random.randint(1, 6)))
        streams.append([breaks_after([', "arguments": ', '{"x": '], "?" + junk), GOOD])
        streams.append([breaks_after([', "arguments": ', "{}", "}</tool"], "</" + junk), GOOD])
    check_streams(lab, "outputs", streams, "whole", "single", "few")


@pytest.mark.task(4)
@pytest.mark.points(1)
def test_held_of_a_broken_call(lab):
    """A broken call whose name has been emitted is held until its close tag; nothing is held of a
    call that became text.
    """
    trace = feed(lab, [OPEN + '{"name":"f",', "oops", "</tool", "_call>", OPEN + "no", "<"])
    held = [",", ",oops", ",oops</tool", "", "", "<"]
    expect(trace.held, held, trace, "held")
    trace = feed(lab, [OPEN + '{"name":"f","arguments":{}', "}", "x", CLOSE])
    expect(trace.held, ["", "}", "}x", ""], trace, "held")
    streams = [[breaks_after([', "arguments": ', '{"s": "\\"</tool_call>'], "\n")]]
    streams += drawn(lab, 8, broken_call, any_text)
    check_streams(lab, "held", streams, "single", "few")


def stopped(r, call):
    """Draw a prefix of a call: the open tag, and all of the call but its last character at most."""
    size = r.randrange(len(OPEN), len(call.source))
    return Part(call.source[:size], call.at, size)


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_flush_in_a_call(lab):
    """At flush a call whose name has not been emitted is text, open tag included. A call whose name
    has been emitted is a Malformed with the held source as `raw`, even if that is "". Nothing is
    closed or added.
    """
    for source, last in (
        (OPEN + '{"name": "f', [TextDelta(OPEN + '{"name": "f')]),
        (OPEN + '{"name": "f", "ar', [Malformed(0, ', "ar', WHY)]),
        (OPEN + '{"name": "f", "arguments": {"x": 1', [Malformed(0, "", WHY)]),
        (OPEN + '{"name": "f", "arguments": {}}</tool', [Malformed(0, "}</tool", WHY)]),
        (OPEN + '{"name": "f" oops', [Malformed(0, " oops", WHY)]),
        ("a <tool", [TextDelta("<tool")]),
    ):
        trace = feed(lab, [source], end="flush")
        expect(outputs_of(trace)[-1], last, trace)
    r = lab.random
    streams = [[UNENDED]]
    streams += [[plain_call(r), stopped(r, any_call(r))] for _ in range(20)]
    check_streams(lab, "outputs", streams, "whole", "single", end="flush")


@pytest.mark.task(4)
@pytest.mark.points(1)
def test_flush_once(lab):
    """A second flush returns [], and after any flush nothing is held. The reason of a Malformed is
    not empty.
    """

    def rule(source):
        calls = [("feed", source), ("flush",), ("flush",)]
        trace = lab.script(lab.new(PARSER), calls)
        expect(trace.outputs[2], [], trace)
        expect(trace.held[1:], ["", ""], trace, "held")
        expect_reasons(trace)

    streams = drawn(lab, 12, any_words, lambda r: stopped(r, any_call(r)))
    check(rule, ["a <tool", OPEN + '{"name":"f","x', *map(source_of, streams)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_flush_ends_the_stream(lab):
    """After flush a new stream begins with fresh state and the same tags, wherever the last stream
    ended, and calls count from 0 again.
    """

    def rule(case):
        first, second = case
        calls = [("feed", source_of(first)), ("flush",), ("feed", source_of(second)), ("flush",)]
        trace = lab.script(lab.new(PARSER), calls, watch="")
        outputs, _, last = expected(second, [])
        expect(outputs_of(trace)[2:], [*outputs, last], trace)

    r = lab.random
    places = range(len(OPEN), len(SAY.source), 3)
    cases = [([GOOD, Part(SAY.source[:n], SAY.at, n)], [Part("_call>"), SAY]) for n in places]
    cases += [([GOOD, Part("<tool")], [Part("_call>"), GOOD, Part("a <tool")])]
    cases += [([GOOD, stopped(r, broken_call(r))], any_stream(r)) for _ in range(10)]
    check(rule, cases)
    for first, last in TAGS:
        calls = [("feed", first + '{"na'), ("flush",), ("feed", first + '{"name":"f"'), ("flush",)]
        trace = lab.script(lab.new(PARSER, first, last), calls, watch="")
        wanted = [[], [TextDelta(first + '{"na')], [START], [Malformed(0, "", WHY)]]
        expect(outputs_of(trace), wanted, trace)


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_property_chunk_invariant(lab):
    """complete, chunk-invariant: however a stream is cut, its events are the same once texts are
    joined.
    """
    streams = [any_stream(lab.random) for _ in range(24)]
    check_streams(lab, "events", streams, "whole", "single", *["few"] * 3, end="flush")


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_property_eager(lab):
    """eager, append-only: after each character all certain text and events have been emitted."""
    streams = [any_stream(lab.random) for _ in range(16)]
    check_streams(lab, "outputs", streams, "single", "few", end="flush")


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_property_isolated(lab):
    """isolated: parsers fed in turns, whatever their tags, return the same events as alone,
    piece by piece; each list is new, and no later call changes it.
    """

    def rule(cases):
        pieces = [cut_at(source_of(stream), places) for stream, places in cases]
        new = [lab.new(PARSER) for _ in cases]
        for trace, case in zip(lab.interleave(new, pieces, "flush"), cases, strict=True):
            outputs, held, last = expected(*case)
            expect(outputs_of(trace), [*outputs, last], trace)
            expect(trace.held, [*held, ""], trace, "held")
            expect_untouched(trace)

    r = lab.random
    cases = [[cut(r, stream, "single") for stream in ([SAY, Part("b")], [GOOD, QUOTE])]]
    for _ in range(15):
        streams = drawn(lab, r.randint(2, 3), any_words, any_call, broken_call)
        cases.append([cut(r, stream, "few") for stream in streams])
    check(rule, cases)
    new = [lab.new(PARSER, *tags) for tags in TAGS]
    pieces = [[*f'{first}{{"name":"f","arguments":{{}}}}{last}-'] for first, last in TAGS]
    for trace in lab.interleave(new, pieces, "flush"):
        wanted = [START, ArgsDelta(0, "{}"), CallEnd(0), TextDelta("-")]
        expect(merged(trace.events), wanted, trace)


# Cost comes last, so that slow code delays no other test.


@pytest.mark.task(1)
@pytest.mark.points(2)
@pytest.mark.timeout(10)
def test_property_splitter_linear(lab):
    """linear: 5,500 to 6,500 pieces of white space, then as many of reasoning, then as many of an
    answer finish well within the time limit.
    """
    count = lab.random.randint(5_500, 6_500)
    thought, answer = "<<" + "</thin" * 8, THINK * 6
    pieces = [*["\n " * 40] * count, THINK, *[thought] * count, ANSWER, *[answer] * count]
    trace = lab.stream(lab.new(SPLITTER), pieces, watch="")
    wanted = [ReasoningDelta(thought * count), TextDelta(answer * count)]
    fed = f"{count:,} pieces of white space, {count:,} of reasoning, {count:,} of an answer"
    expect_long(merged(trace.events), wanted, fed)


@pytest.mark.task(4)
@pytest.mark.points(4)
@pytest.mark.timeout(8)
def test_property_linear(lab):
    """linear: the work for a piece does not grow with earlier text. These finish well within the
    time limit: a call with its name first and arguments in 3,800 to 4,200 pieces; a call with its
    name last and three times as many; two broken calls as long as the first; and 100,000 characters
    of text with 800 to 1,000 calls in it.
    """
    hostile, _, _ = long_texts(lab.random)
    start, end = '{"code": "é\\', '""}'
    source = start + "".join(hostile) + end
    pieces = [OPEN + '{"name": "f", "arguments": ' + start, *hostile, end + "}" + CLOSE]
    pieces += [OPEN + '{"arguments": ' + start, *hostile * 3, end + ', "name": "f"}' + CLOSE]
    wanted = [START, ArgsDelta(0, source), CallEnd(0)]
    source = start + "".join(hostile) * 3 + end
    wanted += [CallStart(1, None, "f"), ArgsDelta(1, source), CallEnd(1)]

    early, late = OPEN + '{"id": "\\', OPEN + '{"name": "f" oops'
    pieces += [early, *hostile, '""}', late, *hostile, CLOSE]
    wanted += [TextDelta(early + "".join(hostile) + '""}'), CallStart(2, None, "f")]
    wanted.append(Malformed(2, " oops" + "".join(hostile) + CLOSE, WHY))

    calls = lab.random.randint(800, 1_000)
    texts = ["é", *["call(<tool_cal" + HOSTILE[:2] + "<tool"] * (5_000 // calls)]
    pieces += [*texts, GOOD.source] * calls
    for index in range(3, calls + 3):
        wanted += [TextDelta("".join(texts)), CallStart(index, None, "f")]
        wanted += [ArgsDelta(index, "{}"), CallEnd(index)]
    trace = lab.stream(lab.new(PARSER), pieces, watch="")
    fed = f"long calls in {6 * len(hostile):,} pieces, then {calls:,} calls"
    expect_long(merged(trace.events), wanted, fed)
    expect_long(trace.outputs[-1], [], f"{fed}: the events of flush")


@pytest.mark.task(4)
@pytest.mark.points(2)
@pytest.mark.timeout(10)
def test_property_linear_around_the_arguments(lab):
    """linear: the work for a piece does not grow with earlier text, whatever is long. Six calls, in
    each of which another thing arrives in 3,800 to 4,200 pieces, or in twice as many, finish well
    within the time limit: the name, a key, the value of another member, and white space before, in
    and after the object.
    """
    hostile, letters, space = long_texts(lab.random)
    named, empty, end = OPEN + '{"name": "f"', ', "arguments": {}', "}" + CLOSE
    calls = [
        ("".join(letters), [OPEN + '{"name": "', *letters, '"' + empty + end]),
        ("f", [OPEN + '{"', *letters * 2, '": 1, "name": "f"' + empty + end]),
        ("f", [named + ', "id": "\\', *hostile * 2, '""' + empty + end]),
        ("f", [OPEN, *space * 2, '{"name": "f"' + empty + end]),
        ("f", [named, *space, empty + end]),
        ("f", [named + empty + "}", *space * 2, CLOSE]),
    ]
    pieces, wanted = [], []
    for index, (name, some) in enumerate(calls):
        pieces += some
        wanted += [CallStart(index, None, name), ArgsDelta(index, "{}"), CallEnd(index)]
    trace = lab.stream(lab.new(PARSER), pieces, watch="")
    expect_long(trace.events, wanted, f"six long calls in {len(pieces):,} pieces")
