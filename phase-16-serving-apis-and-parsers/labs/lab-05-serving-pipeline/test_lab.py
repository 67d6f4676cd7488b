"""Lab 05: the serving pipeline. Each docstring states the rule that its test pins."""

import itertools
import json
import re
from bisect import bisect_left

import pytest

from labkit.testing import Call, check, decided, decoded, expect, expect_most
from mini_vllm.text.events import TextDelta, ToolCall

BOS, EOS, PAD = 256, 257, 258
OPEN, CLOSE = "<tool_call>", "</tool_call>"
CALL = '<tool_call>{"name": "post", "arguments": {"text": "São 🚀"}}</tool_call>'
POST = ToolCall(0, "post", '{"text": "São 🚀"}')
EMPTY = {"detokenizer": b"", "stop_matcher": "", "tool_parser": ""}
# Characters that are in no tag and in no drawn stop; each of WIDE has several bytes.
PLAIN, WIDE = "bdz 0,", "é你🚀"
# The bytes by which the pipeline itself may grow.
MOST_GROWN = 2_000


def tokens(text):
    """The byte tokens of a text."""
    return list(text.encode())


def pipeline(lab, stops=(), *, words=None, include_stop=False, tags=(), **options):
    """A pipeline of three fresh parts; with `words`, its detokenizer has a word for each id."""
    shown = {"include_stop": True} if include_stop else {}
    return lab.new(
        "ServingPipeline",
        lab.new("StreamingDetokenizer") if words is None else lab.new("given.Words", words),
        lab.new("StopStringMatcher", list(stops), **shown),
        lab.new("StreamingToolParser", *tags),
        **options,
    )


def feeds(lab, ids, stops=()):
    """Feed the ids."""
    return lab.script(pipeline(lab, stops), [("feed", i) for i in ids])


def run(lab, ids, stops=(), **options):
    """Feed the ids, then read `finish_reason`."""
    calls = [*(("feed", i) for i in ids), "finish_reason"]
    return lab.script(pipeline(lab, stops, **options), calls)


def run_to_end(lab, ids, stops=()):
    """Feed the ids, call `finish`, then read `finish_reason`."""
    calls = [*(("feed", i) for i in ids), ("finish",), "finish_reason"]
    return lab.script(pipeline(lab, stops), calls)


def expect_end(trace, events, reason, at=None):
    """The events are these, and the reason, read last, is this one. `at` is the step that ends."""
    expect(trace.events, events, trace, at=at)
    expect(trace.outputs[-1], reason, trace, "finish_reason")


def expect_keeps_no_text(lab, new, rounds):
    """Weigh the pipeline itself after each round of calls: it must be as light as after the first
    round.

    `rounds` has the calls of each round, by their name in the report.
    """
    weigh = Call("weight", None, object=1)
    calls = [call for some in rounds.values() for call in (*some, weigh)]
    trace = lab.script([new, lab.new("given.Scale", new, *new.args)], calls, "")
    first, *weights = [step.result for step in trace.steps if step.call.name == "weight"]
    for fed, weight in zip([*rounds][1:], weights, strict=True):
        expect_most(weight - first, MOST_GROWN, fed, "bytes more in the pipeline itself")


def long_words(lab):
    """Draw long text for each of three ids: plain text, a stop after it, and an open call."""
    text = letters(lab.random, PLAIN, 9_000, 11_000)
    return {1: text, 2: text + "END", 3: OPEN + text}


def in_one_piece(ids, stops):
    """The events of a whole stream that finish ends, and its reason, without any streaming."""
    at_eos = EOS in ids
    text = decoded(data(ids[: ids.index(EOS)] if at_eos else ids))
    stopped = first_stop(text, stops)
    events = split(text[: stopped[0]] if stopped else text)
    if not at_eos and not stopped:
        return events, "length"
    called = any(isinstance(event, ToolCall) for event in events)
    return events, "tool_calls" if called else "stop"


def certain(ids, stops):
    """The events that a stream has emitted before its end, whatever follows."""
    text = decided(data(ids))
    waits = max((may_begin(stop, text) for stop in stops), default=0)
    return split(text[: len(text) - waits], ended=False)


def data(ids):
    """The bytes of these ids, without those that have no text."""
    return bytes(i for i in ids if 0 <= i < 256)


def first_stop(text, stops):
    """Where the stop that ends first begins and ends, the longest of a tie; None without a stop."""
    ends = [(text.index(stop) + len(stop), -len(stop)) for stop in stops if stop in text]
    if not ends:
        return None
    end, size = min(ends)
    return end + size, end


def may_begin(marker, text):
    """How many characters at the end of the text may be the beginning of the marker."""
    return max(n for n in range(len(marker)) if text.endswith(marker[:n]))


def split(text, ended=True):
    """A text as events: the body of a call runs to a close tag that is not in a JSON string."""
    events, plain, calls = [], "", 0
    while text:
        before, tag, rest = text.partition(OPEN)
        waits = 0 if ended or tag else may_begin(OPEN, before)
        plain += before[: len(before) - waits]
        body = re.match(r'((?:[^"]|"(?:[^"\\]|\\.)*")*?)' + CLOSE, rest, re.DOTALL) if tag else None
        call = arguments(body[1]) if body else None
        if call is not None:
            events += [TextDelta(plain)] if plain else []
            events.append(ToolCall(calls, *call))
            plain, calls = "", calls + 1
        elif body or ended:
            plain += tag + (body[0] if body else rest)
        text = rest[body.end() :] if body else ""
    return events + ([TextDelta(plain)] if plain else [])


def arguments(body):
    """The name and the source of the arguments of a call, or None; no string here has a brace."""
    try:
        call = json.loads(body)
    except ValueError:
        return None
    is_call = isinstance(call, dict) and isinstance(call.get("name"), str)
    if not is_call or not isinstance(call.get("arguments"), dict):
        return None
    return call["name"], re.search(r"\{[^{}]*\}", body)[0]


def before_end(ids, stops):
    """The ids before the one that ends the stream."""
    ids = ids[: ids.index(EOS)] if EOS in ids else ids

    def has_stop(length):
        return first_stop(decided(data(ids[:length])), stops) is not None

    return ids[: bisect_left(range(1, len(ids) + 1), True, key=has_stop)]


def joined(outputs):
    """The events of several calls as one list, with neighbouring texts joined."""
    events = []
    for event in itertools.chain(*outputs):
        if isinstance(event, TextDelta) and events and isinstance(events[-1], TextDelta):
            event = TextDelta(events.pop().text + event.text)
        events.append(event)
    return events


def expect_eager(trace, ids, stops):
    """Before its end the stream has emitted all that is certain, and nothing else."""
    before = before_end(ids, stops)
    shown = joined(trace.outputs[: len(before)])
    expect(shown, certain(before, stops), trace, "events before the end")


def expect_streams(lab, cases, *, finish=False):
    """Streams emit all certain text, then at their end the rest, and give their reason."""

    def rule(case):
        ids, stops = case
        ids = ids if finish else [*ids, EOS]
        stops = [stop for stop in stops if stop and not any(s in stop[:-1] for s in stops if s)]
        trace = run_to_end(lab, ids, stops) if finish else run(lab, ids, stops)
        expect_end(trace, *in_one_piece(ids, stops))
        expect_eager(trace, ids, stops)

    check(rule, cases)


def drawn(lab, make, number=6):
    """What the seed decides: `LAB_SEED=1 make lab N=05` draws something else."""
    return [make(lab.random) for _ in range(number)]


def letters(random, alphabet, least, most):
    """A word of these letters, between `least` and `most` long."""
    return "".join(random.choices(alphabet, k=random.randint(least, most)))


def a_text(random):
    """A text that no layer holds."""
    return letters(random, PLAIN, 1, 9)


def a_stop(random):
    """A stop string."""
    return letters(random, "XYZ", 2, 6)


def a_call(random):
    """A call as the model writes it."""
    name, key, value = (
        letters(random, alphabet, 1, 7) for alphabet in ("fgh", "ijk", PLAIN + WIDE)
    )
    written = f'{{"{key}": "{value}"}}'
    inside = random.choice(['"name": "{}", "arguments": {}', '"name":"{}","arguments":{}'])
    return f"{OPEN}{{{inside.format(name, written)}}}{CLOSE}"


def part(random, whole):
    """A proper prefix of a text or of bytes, not empty."""
    return whole[: random.randint(1, len(whole) - 1)]


def half(random):
    """The first bytes of a character that is cut off."""
    return part(random, random.choice(WIDE).encode())


def waiting(random):
    """A stream at whose end some layers hold text or bytes."""
    stop = a_stop(random)
    tails = [part(random, OPEN).encode(), part(random, stop).encode(), half(random)]
    kept = [tail for tail in tails if random.random() < 0.7]
    return [*tokens(a_text(random)), *b"".join(kept)], [stop]


@pytest.mark.given
def test_naive_order_of_layers_breaks():
    """A stop cut across tokens is never seen by a check of one token at a time."""
    assert not any("END" in bytes([byte]).decode() for byte in b"the END")


@pytest.mark.given
def test_parts_are_there(lab):
    """The three parts can be made; the header of the run says whose code they are."""
    trace = lab.stream(lab.new("StreamingDetokenizer"), tokens("é"))
    assert trace.text == "é"


def expect_whole(lab, words, stops=()):
    """Each word is emitted whole, with its last token."""
    trace = feeds(lab, tokens("".join(words)), stops)
    wanted = [[[]] * (len(tokens(word)) - 1) + [[TextDelta(word)]] for word in words]
    expect(trace.outputs, [*itertools.chain(*wanted)], trace)


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_text_passes_at_once(lab):
    """Text that cannot begin a stop or a tag passes all layers at once: one token, one event. Text
    that only looked like a stop or a tag is emitted with the token that shows it.
    """
    expect_whole(lab, "Hi!", ["END"])

    def words(random):
        begun = [part(random, random.choice(["XYXYZ", OPEN])) for _ in range(3)]
        words = [random.choice(["", *begun]) + random.choice("bdz 0") for _ in range(5)]
        return [*letters(random, "bdz 0", 1, 5), begun[0] + "b", *words]

    for case in drawn(lab, words):
        expect_whole(lab, case, ["XYXYZ"])


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_characters_arrive_whole(lab):
    """Three bytes of a rocket give [], the fourth one event with the rocket. No event is empty."""
    for text in ("🚀é", *drawn(lab, lambda random: letters(random, PLAIN + WIDE, 5, 9))):
        expect_whole(lab, text)


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_ids_without_text_are_silent(lab):
    """BOS, PAD and ids out of range give [] and change nothing, even inside a character. Which ids
    have text depends on the detokenizer: with another, BOS, PAD, 300 or -1 may be a word.
    """
    ids = [BOS, 0xF0, PAD, 0x9F, -1, 0x9A, 2**32, 0x80]
    trace = feeds(lab, ids)
    expect(trace.outputs, [[]] * 7 + [[TextDelta("🚀")]], trace)

    def silent(random):
        return [random.choice([BOS, PAD, random.randint(259, 2**40), -random.randint(1, 999)])
                for _ in range(random.randint(0, 2))]  # fmt: skip

    for text in drawn(lab, lambda random: letters(random, PLAIN + WIDE, 2, 9)):
        ids, wanted = [], []
        for char in text:
            before = [i for byte in tokens(char) for i in (*silent(lab.random), byte)]
            ids += before
            wanted += [[]] * (len(before) - 1) + [[TextDelta(char)]]
        trace = feeds(lab, ids)
        expect(trace.outputs, wanted, trace)
    ids = [300, -1, 2**40, BOS, PAD, *lab.random.sample(range(301, 2**20), k=4)]
    words = {i: f"word {i} " for i in ids}
    trace = lab.script(pipeline(lab, words=words), [("feed", i) for i in (*ids, 65)])
    expect(trace.outputs, [*([TextDelta(word)] for word in words.values()), []], trace)


@pytest.mark.task(1)
@pytest.mark.points(1)
def test_keeps_no_text(lab):
    """The layers hold all that must be held: the pipeline emits all certain text, and itself
    does not grow while it is fed, by text or by calls, in many tokens or in one.
    """
    for text in ("a <b", CALL, a_text(lab.random) + a_call(lab.random)):
        trace = feeds(lab, tokens(text), ["END"])
        expect(trace.events, certain(tokens(text), ["END"]), trace)
        some = [("feed", i) for i in tokens(text)]
        fed = f"{text!r}, fed token by token, again and again, 5,000 bytes of text"
        rounds = {"once": some, fed: some * (5_000 // len(some))}
        expect_keeps_no_text(lab, pipeline(lab, ["END"]), rounds)
    words = long_words(lab)
    rounds = {
        "an id without text": [("feed", 0)],
        f"a token of {len(words[1]):,} characters": [("feed", 1)],
        f"a token that begins a call, of {len(words[3]):,} characters": [("feed", 3)],
    }
    expect_keeps_no_text(lab, pipeline(lab, ["END"], words=words), rounds)


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_layers_hold_in_turn(lab):
    """Each layer holds by its own rule, all at once: bytes, a possible stop, a possible tag. The
    layers are the parts that were passed in, not copies.
    """

    def case(random):
        stop = a_stop(random)
        return a_text(random), part(random, OPEN), part(random, stop), half(random), stop

    for text, tag, begun, cut, stop in [("", "<", "E", b"\xc3", "END"), *drawn(lab, case)]:
        new, fed = pipeline(lab, [stop]), [*tokens(text + tag + begun), *cut]
        parts = [Call("held", None, object=part) for part in (1, 2, 3)]
        trace = lab.script([new, *new.args], [*(("feed", i) for i in fed), *parts])
        wanted = [(b"", "", "")] * len(text)
        wanted += [(b"", "", tag[: n + 1]) for n in range(len(tag))]
        wanted += [(b"", begun[: n + 1], tag) for n in range(len(begun))]
        wanted += [(cut[: n + 1], begun, tag) for n in range(len(cut))]
        held = [dict(zip(EMPTY, row, strict=True)) for row in wanted]
        expect(trace.held[: len(fed)], held, trace, "held")
        shown = [[TextDelta(char)] for char in text] + [[]] * (len(fed) - len(text))
        expect(trace.outputs[: len(fed)], shown, trace)
        expect(trace.outputs[len(fed) :], [cut, begun, tag], trace, "`held` of each part")


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_emoji_in_arguments_survives(lab):
    """A call with an emoji passes all layers unchanged and is emitted with its last token."""
    drawn_cases = drawn(lab, lambda random: (a_text(random), a_call(random)))
    for text, call in [("ok ", CALL), *drawn_cases]:
        trace = feeds(lab, tokens(text + call), ["END"])
        events = [TextDelta(text), *split(call)]
        expect(trace.events, events, trace)
        expect(trace.outputs[-1], events[1:], trace, "the last token")


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_eos_ends_the_stream(lab):
    """EOS ends the stream inside feed. The reason is None before it and stop after it. EOS itself
    has no text, and later ids are ignored.
    """
    for text, later in [("H", "I"), *drawn(lab, lambda random: (a_text(random), a_text(random)))]:
        before = [("feed", i) for i in tokens(text)]
        after = [("feed", i) for i in tokens(later)]
        calls = ["finish_reason", *before, "finish_reason", ("feed", EOS), *after, "finish_reason"]
        trace = lab.script(pipeline(lab), calls)
        expect(trace.events, [TextDelta(text)], trace)
        expect(trace.outputs[0], None, trace, "finish_reason at the beginning")
        _, last, reason, *rest = trace.outputs[len(before) - 1 :]
        expect(last, [TextDelta(text[-1])], trace, "before the end")
        expect([reason, *rest], [None, *[[]] * (len(after) + 1), "stop"], trace, "from EOS on")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_eos_token_id_is_a_parameter(lab):
    """Which id is EOS depends on the tokenizer, so it is a parameter of the pipeline. It may be an
    id that would have text, or 0; 257 is then an id like any other, and has text if the detokenizer
    has text for it. The text of EOS completes no character.
    """

    def case(random):
        eos = random.choice([random.randint(0, 31), random.randint(258, 2**20), ord("A")])
        return a_text(random), a_text(random), eos

    for text, more, eos in [("Hi", "!", 10), ("Hi", "!", 0), *drawn(lab, case)]:
        trace = run(lab, [*tokens(text), EOS, *tokens(more), eos, *b"more"], eos_token_id=eos)
        expect_end(trace, [TextDelta(text + more)], "stop")
        shown = joined(trace.outputs[: len(tokens(text))])
        expect(shown, [TextDelta(text)], trace, "events before id 257")
    for char in ("é", "你", "🚀", lab.random.choice(WIDE)):
        *held, last = tokens(char)
        for eos in (last, ord("A")):
            trace = run(lab, [*b"a", *held, eos, *b"more"], eos_token_id=eos)
            expect_end(trace, [TextDelta("a\ufffd")], "stop")
    words = {i: f"word {i} " for i in (BOS, EOS, PAD, 300)}
    new = pipeline(lab, words=words, eos_token_id=lab.random.randint(301, 2**20))
    calls = [("feed", i) for i in (*words, new.kwargs["eos_token_id"], EOS)]
    trace = lab.script(new, calls)
    expect(trace.outputs, [*([TextDelta(word)] for word in words.values()), [], []], trace)


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_stop_string_ends_the_stream(lab):
    """A stop string ends the stream inside feed. No part of the stop is shown, unless the matcher
    shows stops, and no later text. Other text that is emitted with its last token is not lost, and
    stays before the text that the layers still held. The matcher that was passed in is the one
    that is used, not a copy.
    """
    for text, stops, shown, include in (
        ("a STOP", ["STOP", "#"], "a ", False),
        ("a STOP b", ["STOP", "#"], "a ", False),
        ("a<Q", ["a<Z", "Q"], "a<", False),
        ("xab?y", ["ab!", "b?"], "xa", False),
        ("a STOP", ["STOP", "#"], "a STOP", True),
        ("a STOP b", ["STOP", "#"], "a STOP", True),
        ("a#b", ["STOP", "#"], "a#", True),
    ):
        trace = run(lab, tokens(text), stops, include_stop=include)
        expect_end(trace, [TextDelta(shown)], "stop")
    new = pipeline(lab, ["STOP"])
    calls = [*(Call("feed", (i,)) for i in tokens("a STOP")), Call("matched", None, object=1)]
    trace = lab.script([new, new.args[1]], calls, watch="")
    expect(trace.outputs[-1], "STOP", trace, "matched of the matcher")
    for text, stop in drawn(lab, lambda random: (a_text(random), a_stop(random))):
        trace = run(lab, tokens(text + stop + text), [stop], include_stop=True)
        expect_end(trace, [TextDelta(text + stop)], "stop")

    def case(random):
        size = random.randint(1, 3)
        stops = [letters(random, "XYZ", size, size) for _ in range(2)]
        text = letters(random, "XYZb", 2, 6) + random.choice(["", "<", "<t"])
        text += random.choice(stops) + a_text(random)
        return tokens(a_text(random) + text), [*stops, a_text(random) + "<!"]

    expect_streams(lab, drawn(lab, case))


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_stop_inside_a_call(lab):
    """A stop inside a call cuts it like any text: the unfinished call is emitted as text."""
    begun = CALL.partition("São")[0]
    trace = run(lab, tokens(CALL), ["São"])
    expect_end(trace, [TextDelta(begun)], "stop", at=len(tokens(begun + "São")) - 1)

    def case(random):
        call, stop = a_call(random), a_stop(random)
        begun = part(random, call)
        return tokens(a_text(random) + begun + stop + call.removeprefix(begun)), [stop]

    expect_streams(lab, drawn(lab, case))


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_reason_tool_calls(lab):
    """After a normal end the reason is tool_calls if a call was emitted at any time, otherwise
    stop; before the end it is None. A call may follow text in one list of events. If the parser
    returns a broken call as text, that is not a call.
    """
    for text, stops, options, reason in (
        (CALL, (), {}, "tool_calls"),
        (CALL + " and STOP", ("STOP",), {}, "tool_calls"),
        (CALL + "<tool_call>no</tool_call>", (), {}, "tool_calls"),
        (CALL, (CLOSE,), {"include_stop": True}, "tool_calls"),
        (CALL, ("call>!",), {}, "tool_calls"),
        ("a" + CALL, ("a" + CALL + "!",), {}, "tool_calls"),
        ("a" + CALL + "b" + CALL, ("a" + CALL + "b" + CALL + "!",), {}, "tool_calls"),
        (CALL, (CLOSE,), {}, "stop"),
        ("<tool_call>no</tool_call>", (), {}, "stop"),
        ("<tool_call>", (), {}, "stop"),
        ('[{"name":"f","arguments":{}}]', (), {"tags": ("[", "]")}, "tool_calls"),
    ):
        calls = [*(("feed", i) for i in tokens(text)), "finish_reason", ("feed", EOS)]
        trace = lab.script(pipeline(lab, stops, **options), [*calls, "finish_reason"])
        before = reason if first_stop(text, stops) else None
        expect(trace.outputs[-3], before, trace, "finish_reason before EOS")
        expect(trace.outputs[-1], reason, trace, "finish_reason")

    def case(random):
        broken = OPEN + a_text(random) + CLOSE
        words = random.choices([a_call(random), broken, a_text(random)], k=random.randint(1, 4))
        return tokens("".join(words)), ()

    expect_streams(lab, drawn(lab, case))


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_stays_ended(lab):
    """After an end inside feed every layer is empty. Every later feed returns [] and changes
    nothing, neither the held text nor the reason.
    """

    def case(random):
        ids, (stop,) = waiting(random)
        return [*ids, *random.choice([[EOS], tokens(stop)])], [stop]

    for ids, stops in (
        ([*b"<tool_E", 0xC3, EOS], ["END"]),
        ([*b"a <toolEND"], ["END"]),
        ([0xE4, 0xE4], ["\ufffd"]),
        *drawn(lab, case),
    ):
        later = [*lab.random.choices([65, 0xE4, *b"<EX"], k=lab.random.randint(4, 8)), EOS]
        trace = run(lab, [*ids, *later], stops)
        after = [[]] * len(later)
        expect(trace.outputs[len(ids) :], [*after, "stop"], trace, "after the end")
        expect(trace.held[len(ids) - 1 :], [EMPTY] * (len(later) + 2), trace, "held from the end")
        expect(trace.events, in_one_piece(ids, stops)[0], trace)
        expect_eager(trace, ids, stops)


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_eos_flushes_every_layer(lab):
    """At EOS the same feed returns all held text, in the order in which it was fed."""
    for held, text in (
        (b"a <tool", "a <tool"),
        (b"a EN", "a EN"),
        (b"a \xe4\xbd", "a \ufffd"),
        (b"a <tool_EN", "a <tool_EN"),
        (b"a <tool_EN\xe4\xbd", "a <tool_EN\ufffd"),
    ):
        expect_end(run(lab, [*held, EOS], ["END"]), [TextDelta(text)], "stop")
    expect_streams(lab, drawn(lab, waiting))


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_eos_inside_a_character(lab):
    """EOS inside a character leaves one U+FFFD, whether one, two or three bytes were held."""
    for held in (b"\xf0", b"\xf0\x9f", b"\xf0\x9f\x9a"):
        expect_end(run(lab, [*b"a", *held, EOS]), [TextDelta("a\ufffd")], "stop")

    def case(random):
        return [*tokens(a_text(random)), *half(random)], []

    expect_streams(lab, drawn(lab, case))


def ends_in_a_stop(random):
    """A stream whose last character is cut off; as U+FFFD it may complete a stop."""
    begun = letters(random, "XYZ", 0, 4)
    held = random.choice([begun, begun, letters(random, "XYZ", 1, 4)])
    return [*tokens(a_text(random) + held), *half(random)], [begun + "\ufffd"]


@pytest.mark.task(2)
@pytest.mark.points(6)
def test_flush_completes_a_stop(lab):
    """The U+FFFD of a cut-off character passes through the matcher like any text. There it may
    complete a stop, together with the text that the matcher holds.
    """
    for held, stop, text in (
        (b"a \xe4", " \ufffd", "a"),
        (b"<E\xe4\xbd", "E\ufffd", "<"),
        (b"a\xf0\x9f\x9a", "\ufffd", "a"),
    ):
        expect_end(run(lab, [*held, EOS], [stop]), [TextDelta(text)], "stop")
    expect_streams(lab, drawn(lab, ends_in_a_stop))


@pytest.mark.task(2)
@pytest.mark.points(6)
def test_flushed_text_may_be_held_again(lab):
    """Text that one layer releases, the next may hold: U+FFFD may begin a stop, and the last text
    of the matcher may begin a tag. The same feed returns that text too.
    """
    for held, stop, text in (
        (b"a\xe4", "\ufffd!", "a\ufffd"),
        (b"a <", "<|end|>", "a <"),
        (b"<E\xe4", "E\ufffd!", "<E\ufffd"),
    ):
        expect_end(run(lab, [*held, EOS], [stop]), [TextDelta(text)], "stop")

    def bytes_then_stop(random):
        ids, (stop,) = ends_in_a_stop(random)
        return ids, [stop + a_stop(random)]

    def stop_then_tag(random):
        tag = part(random, OPEN)
        return tokens(a_text(random) + random.choice([tag, tag[:-1]])), [tag + a_stop(random)]

    expect_streams(lab, drawn(lab, bytes_then_stop))
    expect_streams(lab, drawn(lab, stop_then_tag))


@pytest.mark.task(2)
@pytest.mark.points(7)
def test_call_completed_by_the_flush(lab):
    """A call whose last characters the matcher held is still a call: it is emitted at EOS, and the
    reason is tool_calls. If a stop takes its last character, it is text.
    """
    end = TextDelta("\ufffd")
    for tail, stop, events, reason in (
        (b"", "call>!", [POST], "tool_calls"),
        (b"\xe4", "call>!", [POST, end], "tool_calls"),
        (b"\xe4", "call>\ufffd!", [POST, end], "tool_calls"),
        (b"\xe4", ">\ufffd", [TextDelta(CALL[:-1])], "stop"),
    ):
        expect_end(run(lab, [*tokens(CALL), *tail, EOS], [stop]), events, reason)

    def case(random):
        stop = CLOSE[random.randint(2, len(CLOSE) - 1) :] + random.choice(
            ["!", "\ufffd", "\ufffd!"]
        )
        tail = random.choice([b"", half(random)])
        return [*tokens(a_text(random) + a_call(random)), *tail], [stop]

    expect_streams(lab, drawn(lab, case))


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_finish_is_length(lab):
    """finish ends the stream from outside: the reason is length, even after a call, and even if
    finish itself returns the call.
    """
    for text, stops in (("Hi", ()), ("", ()), (CALL, ()), (CALL + " ok", ())):
        trace = run_to_end(lab, tokens(text), stops)
        expect(trace.outputs[-1], "length", trace, "finish_reason")
    expect_end(run_to_end(lab, tokens(CALL), ["call>!"]), [POST], "length")

    def case(random):
        words = random.choices([a_call(random), a_text(random)], k=random.randint(1, 4))
        return tokens("".join(words)), random.choice([["call>!"], []])

    expect_streams(lab, drawn(lab, case), finish=True)


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_finish_flushes_every_layer(lab):
    """finish releases the text that the layers hold, as EOS does: no text is lost."""
    for held, text in (
        (b"a <tool", "a <tool"),
        (b"a EN", "a EN"),
        (b"a \xe4\xbd", "a \ufffd"),
        (b"a <tool_EN", "a <tool_EN"),
        (b'a <tool_call>{"na EN\xe4', 'a <tool_call>{"na EN\ufffd'),
    ):
        expect_end(run_to_end(lab, held, ["END"]), [TextDelta(text)], "length")
    expect_end(run_to_end(lab, tokens("a " + CALL), [">!"]), [TextDelta("a "), POST], "length")
    expect_streams(lab, drawn(lab, waiting), finish=True)


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_finish_may_complete_a_stop(lab):
    """If text that finish releases completes a stop string, the end is normal after all: the stop
    is not shown, and the reason is stop, or tool_calls if a call was emitted.
    """
    for held, stops, events, reason in (
        (b"a!\xe4", ["!\ufffd"], [TextDelta("a")], "stop"),
        (b"<E\xe4", ["E\ufffd"], [TextDelta("<")], "stop"),
        (CALL.encode() + b"!\xe4", ["!\ufffd"], [POST], "tool_calls"),
        (CALL.encode() + b"\xe4", ["call>!", "\ufffd"], [POST], "tool_calls"),
    ):
        expect_end(run_to_end(lab, held, stops), events, reason)

    def case(random):
        ids, stops = ends_in_a_stop(random)
        return [*tokens(random.choice(["", a_call(random)])), *ids], stops

    expect_streams(lab, drawn(lab, case), finish=True)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_first_end_wins(lab):
    """The first end wins: every later call returns [], and the reason does not change."""

    def case(random):
        ids, (stop,) = waiting(random)
        return ids, stop, random.choices([("feed", 65), ("feed", EOS), ("finish",)], k=4)

    calls = [("feed", 65), ("feed", 0xE4), ("finish",), ("feed", EOS), ("finish",)]
    ends = [("stop", ("feed", EOS)), ("stop", ("feed", 33)), ("length", ("finish",))]
    cases = [([*b"<E", 0xC3], "END", calls), *drawn(lab, case, 3)]
    for (reason, end), (ids, stop, later) in itertools.product(ends, cases):
        begin = [*(("feed", i) for i in ids), "finish_reason", end]
        trace = lab.script(pipeline(lab, [stop, "!"]), [*begin, *later, "finish_reason"])
        expect(trace.outputs[len(ids)], None, trace, "finish_reason before the end")
        after = [*[[]] * len(later), reason]
        expect(trace.outputs[len(begin) :], after, trace, "after the end")
        shown = joined(trace.outputs[: len(ids)])
        expect(shown, certain(ids, [stop]), trace, "events before the end")


@pytest.mark.task(3)
@pytest.mark.points(1)
def test_nothing_held_after_finish(lab):
    """After finish every layer is empty, and stays empty when ids are fed later. However
    a stream ends, the pipeline itself keeps no text and no ids.
    """
    for tag, cut in [
        ("<", b"\xc3"),
        *drawn(lab, lambda random: (part(random, OPEN), half(random))),
    ]:
        trace = run_to_end(lab, [*tokens(tag), *cut], ["END"])
        held = {**EMPTY, "detokenizer": cut, "tool_parser": tag}
        expect(trace.held[-3:], [held, EMPTY, EMPTY], trace, "held before and after finish")
        later = [("feed", i) for i in (*cut, *tokens(tag))]
        trace = lab.script(pipeline(lab), [("finish",), *later])
        expect(trace.held, [EMPTY] * (len(later) + 1), trace, "held from the end")
    # With `long_words`, id 2 completes a stop.
    for end in [("finish",), ("feed", EOS), ("feed", 2)]:
        later = [("feed", i) for i in lab.random.sample(range(259, 2**20), k=500)]
        rounds = {
            "an open call of some 10,000 characters": [("feed", 3)],
            "the end, which shows the open call": [end],
            "500 ids after the end": later,
            "a long text after the end": [("feed", 1)],
        }
        expect_keeps_no_text(lab, pipeline(lab, ["END"], words=long_words(lab)), rounds)


WORDS = [
    *(word.encode() for word in ("Hello, ", "你好 🚀 ", "a <tool b", "STO", "##", CALL, CALL)),
    b'<tool_call>{"arguments":{},"name":"now"}</tool_call>',
    b'<tool_call>{"name": "broken"}</tool_call>',
    b"\xf0\x9f",
    b"E\xe4",
]
STOPS = ["STOP", "##", "E\ufffd", "\ufffd!", "\ufffd<", "call>!", ">\ufffd", "<|end|>", "o 🚀 ?"]


@pytest.mark.task(3)
@pytest.mark.points(7)
def test_property_composition(lab):
    """complete: every stream, however it ends, gives the events of its whole text, the reason of
    its end, and nothing more.
    """

    def cases():
        for length in range(5):
            for ids in itertools.product([*b"<E", 0xE4, EOS], repeat=length):
                yield list(ids), ["E\ufffd", "\ufffd<", "<EE"]
        for _ in range(150):
            own = a_text(lab.random).encode(), a_call(lab.random).encode()
            words = lab.random.choices([*WORDS, *own], k=lab.random.randint(0, 5))
            end = lab.random.choice([[], [EOS], [EOS, *b"more"]])
            yield [*b"".join(words), *end], lab.random.choices(STOPS, k=2)

    expect_streams(lab, cases(), finish=True)


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_property_display_delay(lab):
    """eager: outside calls, at most 3 bytes and (longest stop - 1) + (open tag - 1) characters are
    held.
    """
    stops = ["Observation:", "\n\nUser:"]
    bound = max(map(len, stops)) - 1 + len(OPEN) - 1
    words = ["<tool_call", "Observation", "\n\nUser", "你好" * 15, "🚀", "é ", "<", "plain text "]

    def rule(case):
        text = " ".join(case)
        trace = feeds(lab, tokens(text), stops)
        expect(trace.events, certain(tokens(text), stops), trace)
        shown, received = 0, b""
        for step, byte in zip(trace.steps, text.encode(), strict=True):
            shown += sum(len(event.text) for event in step.result)
            received += bytes([byte])
            waits = len(received.decode("utf-8", "ignore")) - shown
            expect_most(waits, bound, trace, "characters are held")

    def case(random):
        return [*random.choices([*words, a_text(random)], k=random.randint(9, 14)), "Obs"]

    check(rule, drawn(lab, case, 40))


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_property_isolated(lab):
    """isolated: two streams fed in turns give what each gives alone, whether they have the same EOS
    or not. Each call returns a new list, and `held` is a new dictionary: what the caller adds to a
    list or a dictionary is in no other, and no later call changes them.
    """

    def pair(random):
        return [waiting(random), ([*tokens(a_text(random) + a_call(random))], [a_stop(random)])]

    fixed = [(tokens("你 " + CALL), ["##"]), (tokens("a STO b <tool"), ["STOP"])]
    pairs = [fixed, *drawn(lab, pair)]
    ended = [[([*ids, EOS, *b"more"], stops) for ids, stops in streams] for streams in pairs[:3]]
    for streams in [*pairs[:1], *ended, *pairs[3:]]:
        ends = lab.random.sample([0, 1, BOS, PAD, lab.random.randint(259, 2**20)], k=2)
        new = [
            pipeline(lab, stops, eos_token_id=end)
            for (_, stops), end in zip(streams, ends, strict=True)
        ]
        fed = [
            [end if i == EOS else i for i in ids]
            for (ids, _), end in zip(streams, ends, strict=True)
        ]
        traces = lab.interleave(new, fed, "finish")
        for trace, (ids, stops) in zip(traces, streams, strict=True):
            expect(trace.events, in_one_piece(ids, stops)[0], trace)
            expect_eager(trace, ids, stops)
    for ids, stops in [([*b"a <E", 0xC3], ["END"]), *drawn(lab, waiting)]:
        calls = [*(("feed", i) for i in ids), ("finish",), ("feed", 65), ("finish",), ("feed", EOS)]
        expected = lab.script(pipeline(lab, stops), calls)
        expect(expected.events, in_one_piece(ids, stops)[0], expected)
        new = lab.new("given.Caller", pipeline(lab, stops))
        trace = lab.script(new, [*calls, "lists", "dictionaries"], watch="")
        *outputs, lists, dictionaries = trace.outputs
        expect(outputs, expected.outputs, trace, "the events of each call")
        after = [[*events, "the caller's"] for events in outputs]
        expect(lists, after, trace, "the lists, to each of which the caller added a str")
        held = [{**held, "the caller's": n} for n, held in enumerate(expected.held)]
        expect(dictionaries, held, trace, "`held` after each call, to which the caller added")


@pytest.mark.task(3)
@pytest.mark.points(5)
@pytest.mark.timeout(11)
def test_property_linear_text(lab):
    """linear: in a long text, ill-formed and full of possible stops and tags, a token takes as long
    at the end as at the start.
    """
    text, call = b"\xff\xff\xffE<\xff\xff\xff" * lab.random.randint(9500, 9900), a_call(lab.random)
    ids = [*text, *tokens(call)]
    trace = lab.stream(pipeline(lab, ["END"]), ids, end="finish", watch="")
    fed = f"{len(ids)} tokens fed one by one"
    expect(trace.events, [TextDelta(decoded(text)), *split(call)], fed)
    expect(trace.outputs[-2], split(call), fed, "the last token")


@pytest.mark.task(3)
@pytest.mark.points(5)
@pytest.mark.timeout(7)
def test_property_linear_call(lab):
    """linear: in a call with long arguments, which the parser must hold, a token costs no more than
    in any other text.
    """
    text = a_text(lab.random)
    written = f'{{"text": "{text}' + "E" * lab.random.randint(65_000, 69_000) + '"}'
    ids = tokens(f'{text}{OPEN}{{"name": "post", "arguments": {written}}}{CLOSE}')
    trace = lab.stream(pipeline(lab, ["END"]), ids, end="finish", watch="")
    call, fed = ToolCall(0, "post", written), f"{len(ids)} tokens of one call fed one by one"
    expect(trace.events, [TextDelta(text), call], fed)
    expect(trace.outputs[-2], [call], fed, "the call")
