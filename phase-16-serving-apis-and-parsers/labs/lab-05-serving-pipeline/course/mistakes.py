"""The common mistakes of lab 05. The docstring of a probe says what the code does, and then what to
look at; the probe returns whether the code gives the answers that this mistake gives.
"""

from labkit.testing import error_of, mistake
from mini_vllm.text.events import TextDelta

EOS = 257
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
EMPTY = {"detokenizer": b"", "stop_matcher": "", "tool_parser": ""}
A, B = [TextDelta("A")], [TextDelta("B")]


def pipeline(lab, stops=(), **options):
    """A pipeline of three fresh parts."""
    parts = [
        lab.new("StreamingDetokenizer"),
        lab.new("StopStringMatcher", list(stops)),
        lab.new("StreamingToolParser"),
    ]
    return lab.new("ServingPipeline", *parts, **options)


def fed(lab, ids, stops=(), **options):
    """What each feed returns."""
    return lab.script(pipeline(lab, stops, **options), [("feed", i) for i in ids], "").outputs


def ended(lab, ids, stops=(), end=("feed", EOS), **options):
    """The events of a stream with this end, a call as @ and U+FFFD as ?, and its reason."""
    calls = [*(("feed", i) for i in ids), *([end] if end else []), "finish_reason"]
    trace = lab.script(pipeline(lab, stops, **options), calls, "")
    text = "".join(getattr(event, "text", "@") for event in trace.events)
    return text.replace(CALL[:-2], "~").replace("\ufffd", "?"), trace.outputs[-1]


def reason(lab, text, stops=(), end=("feed", EOS)):
    """The reason at the end of a stream of this text."""
    return ended(lab, text.encode(), stops, end)[1]


def held(lab, ids, stops=(), end=None):
    """The bytes and text that the layers hold after these ids."""
    calls = [*(("feed", i) for i in ids), *([end] if end else [])]
    return lab.script(pipeline(lab, stops), calls).held[-1]


# Streams that end while the layers hold text, and what each of them gives if the layers are flushed
# right, or in one of the wrong ways.
HELD = [
    (b"a<E\xe4", ["E\ufffd"]),
    (b"a\xe4", ["\ufffd!"]),
    (b"a<", ["<!"]),
    (CALL.encode(), ["l>!"]),
    (b"<tE\xe4", ["END"]),
    (CALL.encode() + b"\xe4", ["l>!"]),
    (b"<E\xe4", ["E\ufffd!"]),
]
RIGHT = ["a<", "a?", "a<", "@", "<tE?", "@?", "<E?"]
NOTHING = ["a", "a", "a", "", "", "", ""]
ORDER = [["a<E?", "a", "a<", "@", "<tE?", "@?", "<E?"]]
REVERSED = [
    ["a<E?", "a", "a", "~l>", "<tE?", "~l>?", "<E?"],
    ["a<E?", "a?", "a", "~l>", "<tE?", "~l>?", "<E?"],
    ["a<", "a?", "a", "~l>", "<tE?", "@?", "<E?"],
    ["a<", "a?", "a", "~l>", "<tE?", "~l>?", "<E?"],
]
APART = [
    ["a<E?", "a?", "a<", "~l>", "<tE?", "~l>?", "<E?"],
    ["a?E<", "a?", "a<", "l>~", "?E<t", "?l>~", "?E<"],
]
DETOKENIZER_AROUND = [
    ["a<E?", "a?", "a<", "@", "<tE?", "@?", "<E?"],
    ["a<?E", "a?", "a<", "@", "<t?E", "~?l>", "<?E"],
    ["a?<E", "a?", "a<", "@", "?<tE", "?@", "?<E"],
]
JAIL_AROUND = [
    ["a<", "a?", "a<", "l>~", "<tE?", "@?", "E?<"],
    ["a<", "a?", "a<", "~l>", "<tE?", "@?", "<E?"],
]
NO_DETOKENIZER = [["a<E", "a", "a<", "@", "<tE", "@", "<E"]]
NO_MATCHER = [["a<", "a", "a", "~", "<tE?", "@?", "<"]]
NO_PARSER = [["a", "a?", "a", "@", "<tE?", "@?", "<E?"]]
ONLY_ONE = [
    ["a", "a", "a", "", "<tE?", "@?", ""],
    ["a<E", "a", "a", "@", "<tE", "@", "<E"],
    ["a<", "a", "a", "~", "<t", "~", "<"],
]
WRONG = [
    *(ORDER + REVERSED + APART + DETOKENIZER_AROUND + JAIL_AROUND),
    *(NO_DETOKENIZER + NO_MATCHER + NO_PARSER + ONLY_ONE),
]


def poured(lab, end=("feed", EOS)):
    """The text that each of these streams gives."""
    return [ended(lab, ids, stops, end)[0] for ids, stops in HELD]


def is_a_method(lab, name):
    """Whether an attribute of the pipeline is a method, so that its value cannot be read."""
    (step,) = lab.script(pipeline(lab), [name], "").steps
    return getattr(step.result, "kind", "") == "method"


def right(lab):
    """Whether short streams are right, so that only the cost can be wrong."""
    return poured(lab) == RIGHT and reason(lab, "a") == "stop"


@mistake(task=1)
def takes_no_parts(lab):
    """`__init__` does not take the three parts that callers pass in.

    Keep the `def` line of the starter. The pipeline makes no parts: it stores the three that it is
    passed.
    """
    kind, message = error_of(fed, lab, b"A")
    return kind == "TypeError" and "__init__() takes" in message


@mistake(task=1)
def makes_its_parts(lab):
    """The pipeline makes its parts itself, by names that its file does not have.

    The parts are passed in, as `detokenizer`, `stop_matcher` and `tool_parser`: store those three,
    and import nothing from other labs.
    """
    kind, message = error_of(fed, lab, b"A")
    parts = "StreamingDetokenizer", "StopStringMatcher", "StreamingToolParser"
    return kind == "NameError" and any(f"'{part}' is not defined" in message for part in parts)


@mistake(task=1)
def returns_text(lab):
    """`feed` returns text, not events.

    The tool parser makes the events. What does it return, and what do you do with that?
    """
    return fed(lab, b"A")[0] in ("A", ["A"])


@mistake(task=1)
def always_nothing(lab):
    """`feed` returns `[]` for every token, even if its text is certain.

    Pass the id to the detokenizer, its text to the matcher, and the matcher's text to the parser:
    which of these values does `feed` return?
    """
    return fed(lab, b"A B, C.") == [[]] * 7


@mistake(task=1)
def ends_at_once(lab):
    """The stream ends at its first token: for every later token, `feed` returns `[]`.

    Which condition makes `feed` return `[]`, and is it true after the first token?
    """
    return fed(lab, b"ABA") == [A, [], []]


@mistake(task=1)
def none_instead_of_list(lab):
    """`feed` returns `None` when there is no event.

    Return `[]` then. Does every path through `feed` reach a `return`?
    """
    return fed(lab, b"\xc3\xa9") == [None, [TextDelta("é")]]


@mistake(task=1)
def returns_nothing(lab):
    """`feed` does the work and returns nothing.

    `feed` must return the events that the tool parser returns: is there a `return`?
    """
    return fed(lab, b"AB") == [None, None] and held(lab, b"<")["tool_parser"] == "<"


@mistake(task=1)
def goes_around_both(lab):
    """The text goes around the matcher and the parser: the beginnings of stops and tags are shown
    at once.

    Follow the picture in the README: each layer reads the output of the layer before it.
    """
    return fed(lab, b"E<", ["END"]) == [[TextDelta("E")], [TextDelta("<")]]


@mistake(task=1)
def decodes_here(lab):
    """Each token is decoded alone, so a character of several bytes falls apart.

    Decode nothing here. Feed the ids to `self._detokenizer`; it returns `""` while it holds bytes.
    """
    alone = ([[TextDelta("Ã")], [TextDelta("©")]], [[TextDelta("\ufffd")]] * 2, [[], []])
    return fed(lab, b"\xc3\xa9") in alone and fed(lab, b"A") == [A]


@mistake(task=1)
def no_stop_layer(lab):
    """The text goes around the stop matcher: the beginning of a stop is shown at once.

    Follow the picture in the README: what do you feed to the matcher, and where does its output go?
    """
    return fed(lab, b"E<", ["END"]) == [[TextDelta("E")], []]


@mistake(task=1)
def no_tool_layer(lab):
    """The text goes around the tool parser: the beginning of a tag is shown at once.

    Follow the picture in the README: the output of the matcher is the input of the parser.
    """
    return fed(lab, b"<E", ["END"]) == [[TextDelta("<")], []]


@mistake(task=1)
def waits_for_words(lab):
    """Text is collected until a word ends.

    Keep no text in the pipeline: the layers already hold all the text that must be held.
    """
    return fed(lab, b"AB C") == [[], [], [TextDelta("AB ")], []]


@mistake(task=1)
def one_call_late(lab):
    """All events are returned one call late.

    An event that a token makes certain belongs in the list of the same `feed`.
    """
    return fed(lab, b"ABC") == [[], A, B]


@mistake(task=1)
def every_special_ends(lab):
    """BOS, PAD or an id out of range ends the stream.

    Only `self._eos_token_id` does. Leave all other ids to the detokenizer, which returns `""`.
    """
    return fed(lab, [258, 65]) == [[], []] and fed(lab, [65, 66]) == [A, B]


@mistake(task=1)
def held_is_a_method(lab):
    """`held` is a method, but callers read it without a call.

    In the starter it has the decorator `@property`: put it back.
    """
    return is_a_method(lab, "held")


@mistake(task=1)
def held_bytes_as_text(lab):
    """`held["detokenizer"]` is text.

    Half a character is not text yet. Pass on the bytes that the detokenizer holds.
    """
    return isinstance(held(lab, b"\xc3")["detokenizer"], str)


@mistake(task=1)
def held_leaves_empty_out(lab):
    """`held` leaves out the layers that hold nothing.

    All three keys are always there. What is the value for a layer that holds nothing?
    """
    return held(lab, b"A") == {} and held(lab, b"<") == {"tool_parser": "<"}


@mistake(task=2)
def reason_is_a_method(lab):
    """`finish_reason` is a method, but callers read it without a call.

    In the starter it has the decorator `@property`: put it back.
    """
    return is_a_method(lab, "finish_reason")


@mistake(task=2)
def outlives_its_stream(lab):
    """A new pipeline has already ended, because another one has.

    `self.name = ...` belongs to one pipeline; a name in the class body or the module, to all.
    """
    lab.script(pipeline(lab), [("feed", EOS)], "")
    reason, events = lab.script(pipeline(lab), ["finish_reason", ("feed", 65)], "").outputs
    return isinstance(reason, str) and events == []


@mistake(task=2)
def eos_ignored(lab):
    """EOS does not end the stream.

    Compare the id with `self._eos_token_id` before any layer sees it.
    """
    return fed(lab, [65, EOS, 66]) == [A, [], B] and reason(lab, "a") is None


@mistake(task=2)
def hard_coded_257(lab):
    """Only the id 257 ends the stream, whatever `eos_token_id` is.

    Which id is EOS depends on the tokenizer: compare with `self._eos_token_id`.
    """
    lines = ended(lab, b"a", end=("feed", 10), eos_token_id=10)
    return lines == ("a\n", None) and reason(lab, "a") == "stop"


@mistake(task=2)
def eos_fed_as_text(lab):
    """EOS ends the stream, but its own text is shown first.

    Ask whether the id is EOS before you feed it to the detokenizer.
    """
    return ended(lab, b"a", end=("feed", 10), eos_token_id=10) == ("a\n", "stop")


@mistake(task=2)
def eos_no_flush(lab):
    """EOS sets the reason, and the text that the layers hold is lost.

    What does each layer hold at that moment, and which layers have not seen that text yet?
    """
    return poured(lab) == NOTHING and reason(lab, "a") == "stop"


@mistake(task=2)
def one_layer_flushed_alone(lab):
    """At EOS one layer is flushed, and the text that the two others hold is lost.

    All three may hold text at the end. Where does the text go that one layer's flush releases?
    """
    return poured(lab) in ONLY_ONE


@mistake(task=2)
def no_detokenizer_flush(lab):
    """A character that is cut off by EOS disappears.

    The matcher and the parser are flushed. Which layer holds the bytes of half a character?
    """
    return poured(lab) in NO_DETOKENIZER


@mistake(task=2)
def no_matcher_flush(lab):
    """The possible beginning of a stop string disappears at EOS.

    The detokenizer and the parser are flushed. Which layer holds `EN`, and which must see it then?
    """
    return poured(lab) in NO_MATCHER


@mistake(task=2)
def no_parser_flush(lab):
    """The beginning of a tag, or an unfinished call, disappears at EOS.

    The detokenizer and the matcher are flushed. Which layer holds `<`, and is it flushed?
    """
    return poured(lab) in NO_PARSER


@mistake(task=2)
def flush_order(lab):
    """At the end the matcher is flushed before the detokenizer.

    The U+FFFD of a cut-off character reaches the matcher after its end. Which layer must be flushed
    first?
    """
    return poured(lab) in ORDER


@mistake(task=2)
def flushed_from_the_wrong_side(lab):
    """At the end the parser is flushed while the matcher still holds text.

    Text flows from left to right. The parser must get the text that the matcher releases while it
    still holds the text before it.
    """
    return poured(lab) in REVERSED


@mistake(task=2)
def flushed_apart(lab):
    """At the end each layer is flushed separately, and the three texts are joined.

    Two layers come after the detokenizer, and one after the matcher. They have not seen that text.
    """
    return poured(lab) in APART


@mistake(task=2)
def detokenizer_goes_around_matcher(lab):
    """At the end the text of the detokenizer goes around the matcher.

    A U+FFFD is text like any other: it may complete a stop, or follow text that the matcher holds.
    """
    return poured(lab) in DETOKENIZER_AROUND


@mistake(task=2)
def parser_flushed_too_early(lab):
    """At the end the parser is flushed before it has seen the text that the matcher releases.

    A second flush saves the text, but the call that this text completes is already lost. When can
    no more text reach the parser?
    """
    return poured(lab) in JAIL_AROUND and ended(lab, CALL.encode(), [CALL + "!"])[0] == "@"


@mistake(task=2)
def jail_bypasses_parser(lab):
    """At the end the text that the matcher held goes around the parser.

    It may be the end of a tag. Feed it to the parser, as `feed` does, before you flush the parser.
    """
    return poured(lab) in JAIL_AROUND


@mistake(task=2)
def stop_noticed_late(lab):
    """A stop string ends the stream only at the token after it.

    Look at `self._stop_matcher.matched` after you have fed the matcher, in the same `feed`.
    """
    late = ended(lab, b"aEND ", ["END"], None), ended(lab, b"aEND", ["END"], None)
    return late == (("a", "stop"), ("a", None))


@mistake(task=2)
def stop_needs_text(lab):
    """A stop string ends the stream only if text is emitted with its last token.

    The matcher usually returns `""` there. Do you leave `feed` before you look at `matched`?
    """
    silent = ended(lab, b"END", ["END"], None)[1]
    return silent is None and ended(lab, b"xab?", ["ab!", "b?"], None)[1] == "stop"


@mistake(task=2)
def stop_not_noticed(lab):
    """A stop string completes, and the stream goes on.

    Which layer knows that a stop has completed? Ask it each time after you have fed it.
    """
    return ended(lab, b"aEND ", ["END"], None) == ("a", None) and reason(lab, "a") == "stop"


@mistake(task=2)
def stop_without_pouring(lab):
    """A stop string ends the stream, and the text that the parser holds is lost.

    The text before the stop is still text. End the stream as EOS does.
    """
    stopped = ended(lab, b"a <END", ["END"], None)
    return stopped == ("a ", "stop") and poured(lab) == RIGHT


@mistake(task=2)
def stop_loses_last_text(lab):
    """The text that is emitted with the last token of a stop is lost.

    `feed` has two lists then, the token's events and those of the end. Return both.
    """
    return ended(lab, b"xab?", ["ab!", "b?"], None) == ("x", "stop")


@mistake(task=2)
def tool_calls_by_tag(lab):
    """A tag in the text makes the reason `tool_calls`, even if no call was emitted.

    A tag that is shown as text is not a call. Look at the events: is one of them a `ToolCall`?
    """
    broken = reason(lab, "<tool_call>no</tool_call>")
    return broken == "tool_calls" and reason(lab, "a") == "stop"


@mistake(task=2)
def tool_calls_without_call(lab):
    """A stream without a call ends with `tool_calls`.

    Each pipeline must remember for itself whether a call was emitted. Can another pipeline change
    that memory? A name in the class body or the module belongs to all pipelines.
    """
    return ended(lab, b"a") == ("a", "tool_calls")


@mistake(task=2)
def tool_calls_only_at_eos(lab):
    """After a stop string the reason is `stop`, even if a call was emitted.

    EOS and a stop string are both normal ends. Do they run the same code?
    """
    return reason(lab, CALL) == "tool_calls" and reason(lab, CALL + "END", ["END"], None) == "stop"


@mistake(task=2)
def never_tool_calls(lab):
    """A call has been emitted, and the reason is `stop`.

    Remember in one boolean that a `ToolCall` was emitted: set it wherever events pass, and never
    unset it.
    """
    return ended(lab, CALL.encode()) == ("@", "stop") and reason(lab, CALL, ["l>!"]) == "stop"


@mistake(task=2)
def tool_calls_of_last_events(lab):
    """Only a call among the last events makes the reason `tool_calls`.

    Earlier calls count too: remember them, without collecting all the events so far.
    """
    earlier = [reason(lab, text) for text in (CALL, CALL + "a<")]
    return earlier == ["stop", "stop"] and reason(lab, CALL, ["l>!"]) == "tool_calls"


@mistake(task=2)
def reason_before_pouring(lab):
    """A call that completes while the layers are flushed does not count for the reason.

    Decide the reason after all layers are flushed. Do you look for a call in the events of all
    three flushes?
    """
    return reason(lab, CALL) == "tool_calls" and ended(lab, *HELD[3]) == ("@", "stop")


@mistake(task=2)
def goes_on_after_end(lab):
    """Text is still emitted after the end.

    What must `feed` look at first?
    """
    return fed(lab, [65, EOS, 66]) == [A, [], B] and reason(lab, "a") == "stop"


@mistake(task=2)
def feeds_after_end(lab):
    """After the end `feed` returns `[]`, but the layers are still fed: `held` changes.

    Ask whether the stream has ended before any layer sees the id.
    """
    refused = fed(lab, [65, EOS, 66]) == [A, [], []]
    return refused and held(lab, [65, EOS]) == EMPTY != held(lab, [65, EOS, 0xE4])


@mistake(task=3)
def shared(lab):
    """With two pipelines at once, the text of one is emitted by the other.

    What do two pipelines share? A mutable default argument, the class, the module?
    """
    new = [pipeline(lab), pipeline(lab)]
    first, second = lab.interleave(new, [b"<", b"A"], "finish")
    return [*first.events, *second.events] == [TextDelta("<A")]


@mistake(task=3)
def finish_no_flush(lab):
    """`finish` sets the reason, and the text that the layers hold is lost.

    Every end has the same work to do, whether EOS, a stop string or the engine ends the stream.
    """
    return poured(lab, ("finish",)) == NOTHING and poured(lab) == RIGHT


@mistake(task=3)
def finish_pours_otherwise(lab):
    """EOS flushes the layers in the right way, and `finish` in another way.

    Both ends need the same steps in the same order. Let them share one method.
    """
    return poured(lab) == RIGHT and poured(lab, ("finish",)) in WRONG


@mistake(task=3)
def finish_sets_no_reason(lab):
    """`finish` returns the rest, but the stream has not ended: its reason is `None`.

    Set the reason in `finish` too, after the layers are flushed.
    """
    return reason(lab, "a", end=("finish",)) is None and poured(lab, ("finish",)) == RIGHT


@mistake(task=3)
def finish_says_stop(lab):
    """`finish` gives the reason `stop`, as if the model had ended the answer.

    An end from outside is `length`, so that the client knows that text may be missing.
    """
    return reason(lab, "a", end=("finish",)) == "stop"


@mistake(task=3)
def length_hidden(lab):
    """An answer that was cut off by `finish` is reported as `tool_calls`.

    Only a normal end turns into `tool_calls`. `length` says how the stream ended, not what it
    contained.
    """
    cut = [reason(lab, text, end=("finish",)) for text in (CALL, "a")]
    return cut == ["tool_calls", "length"]


@mistake(task=3)
def stop_in_finish_is_length(lab):
    """A stop string completes while `finish` flushes the layers, and the reason is `length`.

    Then the answer has ended normally. Look at `matched` once more after the layers are flushed.
    """
    return ended(lab, *HELD[0], ("finish",)) == ("a<", "length")


@mistake(task=3)
def late_finish(lab):
    """`finish` changes the reason of a stream that has already ended.

    The first end wins. What must `finish` look at first?
    """
    calls = [("feed", 65), ("feed", EOS), "finish_reason", ("finish",), "finish_reason"]
    return lab.script(pipeline(lab), calls, "").outputs == [A, [], "stop", [], "length"]


@mistake(task=3)
def late_eos(lab):
    """EOS changes the reason of a stream that `finish` has already ended.

    The first end wins: check for it before you look at the id.
    """
    calls = [("feed", 65), ("finish",), "finish_reason", ("feed", EOS), "finish_reason"]
    return lab.script(pipeline(lab), calls, "").outputs == [A, [], "length", [], "stop"]


@mistake(task=3)
def feeds_after_finish(lab):
    """After `finish` the stream goes on.

    `finish` is an end like EOS. What must `feed` look at first?
    """
    calls = [("finish",), ("feed", 65)]
    return lab.script(pipeline(lab), calls, "").outputs == [[], A]


@mistake(task=3)
def same_dictionary(lab):
    """`held` is one dictionary, which each later reading changes.

    A caller that keeps the value of `held` after each token has the same dictionary every time.
    Make a new dictionary in the property.
    """
    calls = [("feed", 0xC3), ("feed", 0xA9), "dictionaries"]
    outputs = lab.script(lab.new("given.Caller", pipeline(lab)), calls, "").outputs
    return outputs[1] == [TextDelta("é")] and outputs[2] == [EMPTY, EMPTY]


# The task is 1 only so that this probe is tried before `recount`, which task 1 may show.
@mistake(task=1, overdue=["test_property_linear_call"])
def copies_held(lab):
    """Each token of a long call takes longer than the one before.

    While a call is open the parser holds all of it, and each read of `held` copies that text. Do
    not read `held` inside `feed`.
    """
    return right(lab)


@mistake(task=1, overdue=["test_property_linear_text", "test_property_linear_call"])
def recount(lab):
    """The pipeline collects text or events, so each token of a long text takes longer than the one
    before.

    What grows as the stream goes on, and is looked through or copied at every token? To know
    whether a call was emitted, one boolean is enough.
    """
    return right(lab)
