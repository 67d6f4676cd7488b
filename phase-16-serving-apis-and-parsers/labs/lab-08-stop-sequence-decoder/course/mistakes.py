"""The common mistakes of lab 08. The docstring of a probe says what the code does, and then what to
look at; the probe returns whether the code gives the answers that this mistake gives.
"""

from labkit.testing import mistake
from mini_vllm.text.events import StopOutput

EOS = 2000
BAD = "\ufffd"
HALF = [0xF0, 0x9F]


def decoder(lab, table=(), **options):
    """A decoder with a detokenizer of its own."""
    return lab.new("StopSequenceDecoder", lab.new("given.Pieces", list(table)), **options)


def outputs(lab, ids, table=(), **options):
    """What each token gives."""
    calls = [("process", token_id) for token_id in ids]
    return lab.script(decoder(lab, table, **options), calls, "").outputs


def texts(lab, ids, table=(), **options):
    """The text of each token."""
    return [output.text for output in outputs(lab, ids, table, **options)]


def reason(lab, ids, table=(), **options):
    """The reason that the last token gives."""
    return outputs(lab, ids, table, **options)[-1].reason


def after(lab, ids, *calls, table=(), **options):
    """What these calls give after the tokens."""
    before = [("process", token_id) for token_id in ids]
    return lab.script(decoder(lab, table, **options), [*before, *calls], "").outputs[len(before) :]


def flushed(lab, ids, **options):
    """What a flush after the tokens gives."""
    return after(lab, ids, ("flush",), **options)[0]


def held(lab, ids, **options):
    """`held` after the tokens."""
    return after(lab, ids, "held", **options)[0]


def ends_at_tokens(lab):
    """Whether stop tokens work."""
    return outputs(lab, [97, EOS], stop_token_ids=[EOS]) == [
        StopOutput("a"), StopOutput("", True, EOS)
    ]  # fmt: skip


def ends_at_strings(lab):
    """Whether a stop string works that fills some tokens."""
    return texts(lab, b"aENDb", stops=["END"]) == ["a", "", "", "", ""]


@mistake(task=1)
def returns_text(lab):
    """`process` returns the text alone.

    A caller has to know whether the text has ended, and why: `StopOutput(text)` as long as it has
    not, and `StopOutput(text, True, reason)` when it has.
    """
    return outputs(lab, b"ab") == ["a", "b"]


@mistake(task=1)
def returns_nothing(lab):
    """`process` returns None.

    Does every way through `process` end in a `return`?
    """
    return None in outputs(lab, b"ab") or None in outputs(lab, [97, EOS], stop_token_ids=[EOS])


@mistake(task=1)
def decodes_here(lab):
    """Ids are made to text here, not by the detokenizer.

    An id is no character and no byte: `self._detokenizer.feed(token_id)` knows what it says.
    """
    alone = (["Ã", "©"], [BAD, BAD])
    return texts(lab, [0xC3, 0xA9]) in alone and texts(lab, [256], [b"ab"]) != ["ab"]


@mistake(task=1)
def holds_everything(lab):
    """Nothing comes out before the text ends.

    A reader waits for each token. Text that can be part of no hidden stop comes out at once.
    """
    ended = texts(lab, [97, 98, EOS], stop_token_ids=[EOS])
    return ended == ["", "", "ab"]


@mistake(task=1)
def flushes_each_token(lab):
    """Half a character is a U+FFFD at once: the detokenizer is flushed after each token.

    A flush ends the stream. When is the rest of the character impossible, and not just late?
    """
    return texts(lab, [97, *"é".encode()]) == ["a", BAD, BAD]


@mistake(task=1)
def stop_tokens_end_nothing(lab):
    """A stop token is one like any other.

    Before the detokenizer gets an id: is it one of those that end the text?
    """
    hidden = outputs(lab, b"a!b", stop_token_ids=[33])
    return hidden == [StopOutput("a"), StopOutput("!"), StopOutput("b")]


@mistake(task=1)
def reason_is_no_id(lab):
    """The reason of a stop token is not its id.

    The reason is what ended the text: the id itself, as an int.
    """
    last = outputs(lab, [97, EOS], stop_token_ids=[EOS])[-1]
    return last.stopped is True and last.reason != EOS


@mistake(task=1)
def not_stopped(lab):
    """There is a reason, but `stopped` is False.

    Where there is a reason, the text has ended.
    """
    return outputs(lab, [97, EOS], stop_token_ids=[EOS])[-1] == StopOutput("", False, EOS)


@mistake(task=1)
def stop_token_shown(lab):
    """The text of a hidden stop token is shown.

    Hidden means that its text is not part of the answer: the detokenizer never sees the id.
    """
    return texts(lab, b"a!", stop_token_ids=[33]) == ["a", "!"]


@mistake(task=1)
def visible_token_hidden(lab):
    """A visible stop token ends the text, and its own text is missing.

    It ends the text like a hidden one, but is fed to the detokenizer before that.
    """
    last = outputs(lab, b"a!", visible_stop_token_ids=[33])[-1]
    return last == StopOutput("", True, 33)


@mistake(task=1)
def visible_token_alone(lab):
    """A visible stop token is decoded apart from the half character before it.

    What comes first: does its text go on with what the detokenizer holds, or is that cut off?
    """
    shown = texts(lab, [*HALF, 256], [b"\x9a\x80."], visible_stop_token_ids=[256])
    return shown[:2] == ["", ""] and shown[2].startswith(BAD) and shown[2].endswith(".")


@mistake(task=1)
def cut_character_lost(lab):
    """Half a character that waits when the text ends is lost.

    Its bytes are damaged, and the reader should see that: the detokenizer's `flush` gives one
    U+FFFD.
    """
    return ends_at_tokens(lab) and texts(lab, [97, *HALF, EOS], stop_token_ids=[EOS]) == [
        "a", "", "", ""
    ]  # fmt: skip


@mistake(task=1)
def visible_beats_hidden(lab):
    """What is given as hidden and as visible is shown.

    Hidden beats visible, for ids and for strings: which of the two do you ask first?
    """
    both = outputs(lab, b"a!", stop_token_ids=[33], visible_stop_token_ids=[33])
    shown = [StopOutput("a"), StopOutput("!", True, 33)]
    return both == shown and texts(lab, b"a!", stop_token_ids=[33]) == ["a", ""]


@mistake(task=1)
def zero_ends_nothing(lab):
    """After an end by id 0 the stream goes on.

    `if self._reason:` asks for the truth of the reason, and 0 is false. `is not None` is meant.
    """
    goes_on = texts(lab, [97, 0, 98], stop_token_ids=[0]) == ["a", "", "b"]
    return goes_on and texts(lab, [97, EOS, 98], stop_token_ids=[EOS]) == ["a", "", ""]


@mistake(task=1)
def goes_on_after_the_end(lab):
    """After a stop token the stream goes on.

    Remember the reason, and look at it first whenever a token comes.
    """
    return texts(lab, [97, EOS, 98], stop_token_ids=[EOS]) == ["a", "", "b"]


@mistake(task=1)
def forgets_the_reason(lab):
    """After the end the reason is None, or the text counts as going on.

    Whoever asks once more gets the same answer: StopOutput("", True, reason).
    """
    last = outputs(lab, [97, EOS, 98], stop_token_ids=[EOS])[-1]
    return ends_at_tokens(lab) and last != StopOutput("", True, EOS) and last.text == ""


@mistake(task=2)
def strings_end_nothing(lab):
    """Stop strings are not looked for.

    The text of each token, joined to what you held, is searched for all stops, hidden and visible.
    """
    hidden = outputs(lab, b"aENDb", stops=["END"])
    return hidden == [*map(StopOutput, "aENDb")] and texts(lab, [256], [b"#b"], stops=["#"]) == [
        "#b"
    ]


@mistake(task=2)
def only_in_one_token(lab):
    """A stop string is found only if one token has all of it.

    Tokens cut text anywhere. What must be kept of the tokens before?
    """
    one = texts(lab, [256], [b"aENDb"], stops=["END"])
    return one == ["a"] and texts(lab, b"aEND", stops=["END"]) == [*"aEND"]


@mistake(task=2)
def holds_nothing(lab):
    """A stop string is found, but its beginning is out by then: nothing is held for it.

    What a reader has seen cannot be taken back. Which end of the text may still become a hidden
    stop? It waits.
    """
    shown = texts(lab, b"aEND", stops=["END"])
    leaks = shown[:3] == ["a", "E", "N"] and reason(lab, b"aEND", stops=["END"]) == "END"
    return leaks and texts(lab, b"aENx", stops=["END"]) == [*"aENx"]


@mistake(task=2)
def held_lost(lab):
    """What is held when the text ends is lost.

    At the end no stop can complete any more: what was held is text, and comes before the U+FFFD
    of a cut character.
    """
    lost = texts(lab, [*b"aEN", EOS], stops=["END"], stop_token_ids=[EOS]) == ["a", "", "", ""]
    return lost and ends_at_strings(lab)


@mistake(task=2)
def rest_of_the_token_shown(lab):
    """The stop is taken out of the text, and what comes after it in the same token is shown.

    The text ends at the stop. What the same token goes on with is not part of it.
    """
    return texts(lab, [256], [b"aENDb"], stops=["END"]) == ["ab"]


@mistake(task=2)
def loses_text_before(lab):
    """Text before a stop string, in the token that completes it, is lost.

    The text ends at the stop, and all before it is still to be shown.
    """
    lost = texts(lab, [256], [b"aENDb"], stops=["END"]) == [""]
    return lost and ends_at_strings(lab)


@mistake(task=2)
def token_boundary(lab):
    """A stop string is found only where a token ends.

    Tokens do not end where stops do. Does one complete at any character of the token?
    """
    missed = reason(lab, [256], [b"aENDb"], stops=["END"]) is None
    return missed and ends_at_strings(lab)


@mistake(task=2)
def restart(lab):
    """After a false alarm the search starts over, so a stop within the false start is missed.

    With the stop `aab`, what of `aaa` can still become one?
    """
    leaks = texts(lab, b"aaab", stops=["aab"])[2] in ("aa", "aaa")
    return leaks and texts(lab, b"##c", stops=["###"]) == ["", "", "##c"]


@mistake(task=2)
def list_order(lab):
    """Of the stop strings in a token, the first in the list wins, and the text of another is shown.

    Which one ends first in the *text*? The order in which they are given does not matter.
    """
    return [reason(lab, [256], [b"xaybz"], stops=stops) for stops in (["b", "a"], ["a", "b"])] == [
        "b", "a"
    ]  # fmt: skip


@mistake(task=2)
def starts_first(lab):
    """Of the stop strings in a token, the one that starts first wins.

    With `abcd` and `bc` that makes a difference between one token and four: token by token, `bc` is
    complete before `abcd` is. Which rule needs no look ahead?
    """
    found = [
        reason(lab, [256], [b"xabcd"], stops=stops) for stops in (["abcd", "bc"], ["bc", "abcd"])
    ]
    return found == ["abcd", "abcd"]


@mistake(task=2)
def shortest_wins(lab):
    """Of stop strings that end together, the shortest wins, and the beginning of a longer is shown.

    Of all that are complete at this character, take the longest.
    """
    found = [reason(lab, [256], [b"xab"], stops=stops) for stops in (["b", "ab"], ["ab", "b"])]
    return found == ["b", "b"]


@mistake(task=2)
def first_of_ties(lab):
    """Of stop strings that end together, the first in the list wins.

    Of all that are complete at this character, take the longest, wherever it is in the list.
    """
    found = [reason(lab, [256], [b"xab"], stops=stops) for stops in (["b", "ab"], ["ab", "b"])]
    return found == ["b", "ab"]


@mistake(task=2)
def visible_held(lab):
    """Text waits that may become a visible stop.

    It will be shown whether the stop comes or not. Only hidden stops have something to hide.
    """
    shown = texts(lab, b"aENDb", visible_stops=["END"])
    return shown == ["a", "", "", "END", ""] and ends_at_strings(lab)


@mistake(task=2)
def visible_is_hidden(lab):
    """A visible stop string is not shown.

    The text runs through its last character. How much of it is in this token, and how much is out?
    """
    return texts(lab, [256], [b"aENDb"], visible_stops=["END"]) == ["a"]


@mistake(task=2)
def visible_misses(lab):
    """A visible stop string is missed where tokens cut it.

    Nothing is held for it, but its beginning must not be forgotten when it is shown.
    """
    missed = reason(lab, b"aEND", visible_stops=["END"]) is None
    return missed and reason(lab, [256], [b"aENDb"], visible_stops=["END"]) == "END"


@mistake(task=2)
def fixed_window(lab):
    """The length of the longest stop, less one, is always held, though nothing began.

    Hold only the end of the text that begins a stop. Mostly there is none.
    """
    return texts(lab, b"abcd", stops=["END"]) == ["", "", "a", "b"]


@mistake(task=2)
def holds_the_token(lab):
    """Where a stop may begin, the whole token waits.

    Of `the E` only the `E` can become a part of `END`.
    """
    return texts(lab, [256, 33], [b"the E"], stops=["END"]) == ["", "the E!"]


@mistake(task=2)
def strings_first(lab):
    """A stop string that completes with the last text of a stop token is taken for the reason.

    Stop tokens are looked at before strings: the id is the reason, and the strings decide only how
    much of the last text is shown.
    """
    options = {"stops": ["END"], "visible_stop_token_ids": [68]}
    return outputs(lab, b"aEND", **options)[-1] == StopOutput("", True, "END")


@mistake(task=2)
def goes_around_the_stops(lab):
    """What the detokenizer lets go of at the end goes around the stops.

    The U+FFFD of a cut character may complete a hidden stop. Read it as you read any text.
    """
    shown = texts(lab, [*b"aE", *HALF, EOS], stops=["E" + BAD], stop_token_ids=[EOS])
    return shown == ["a", "", "", "", "E" + BAD]


@mistake(task=2)
def visible_token_around_the_stops(lab):
    """The text of a visible stop token goes around the stop strings.

    It is text like any other, and may complete a hidden stop, which must not leak.
    """
    options = {"stops": ["END"], "visible_stop_token_ids": [68]}
    last = outputs(lab, b"aEND", **options)[-1]
    return last.text in ("D", "END") and last.reason == 68


@mistake(task=2)
def held_of_the_detokenizer(lab):
    """`held` has the bytes that the detokenizer holds.

    They are in `detokenizer.held`. Here it is the text that may become a hidden stop, a str.
    """
    return held(lab, [97, *HALF], stops=["END"]) == bytes(HALF)


@mistake(task=2)
def held_after_the_end(lab):
    """`held` is not empty after an end.

    What was held has come out, or was the beginning of the stop: nothing waits any more.
    """
    left = [held(lab, b"aEND", stops=["END"]),
            held(lab, [*b"aE", EOS], stops=["END"], stop_token_ids=[EOS])]  # fmt: skip
    return any(isinstance(text, str) and text for text in left) and ends_at_strings(lab)


@mistake(task=2)
def keeps_hopeless(lab):
    """Text is held for a stop that a shorter one always beats.

    Where `abcd` would complete, `bc` has done so already.
    """
    return texts(lab, b"xax", stops=["abcd", "bc"]) == ["x", "", "ax"]


def many(lab, *bursts, table=(), **options):
    """What these bursts give."""
    calls = [("process_many", list(ids)) for ids in bursts]
    return lab.script(decoder(lab, table, **options), calls, "").outputs


@mistake(task=3)
def burst_goes_on(lab):
    """All tokens of a burst count, also those after the one that ended the text.

    They were made before anybody knew of the end. Stop at the output that has stopped; after an end
    take nothing.
    """
    (outputs, taken), *_ = many(lab, [97, EOS, 98, 99], stop_token_ids=[EOS])
    return taken == 4 and len(outputs) in (2, 4) and outputs[1] == StopOutput("", True, EOS)


@mistake(task=3)
def returns_a_list(lab):
    """`process_many` returns only the outputs.

    It returns two things: the list of outputs, and how many tokens were taken.
    """
    return many(lab, b"a") == [[StopOutput("a")]]


@mistake(task=3)
def one_output_a_burst(lab):
    """A burst gives one output, with the text of all its tokens.

    Each token has its own output, so that the caller knows what came with which.
    """
    (outputs, taken), *_ = many(lab, b"ab")
    return outputs in (StopOutput("ab"), [StopOutput("ab")]) and taken == 2


@mistake(task=3)
def last_not_counted(lab):
    """The token that ends the text is not counted.

    It is one that the model made, and that the caller pays for: `taken` includes it.
    """
    (_, taken), *_ = many(lab, [97, EOS, 98, 99], stop_token_ids=[EOS])
    return taken == 1


@mistake(task=3)
def silent_after_the_end(lab):
    """A burst after the end gives no output.

    Whoever looks at the last output should see that the text has ended: one StopOutput("", True,
    reason), and no token taken.
    """
    return many(lab, [97, EOS], [98], stop_token_ids=[EOS])[-1] == ([], 0)


@mistake(task=3)
def min_tokens_ignored(lab):
    """`min_tokens` changes nothing.

    Count the tokens, and ask at each whether it may end the text: not the first `min_tokens`.
    """
    ids = reason(lab, b"a!", stop_token_ids=[33], min_tokens=3)
    return ids == 33 and reason(lab, b"a!", stops=["!"], min_tokens=3) == "!"


@mistake(task=3)
def min_tokens_for_ids_only(lab):
    """`min_tokens` delays stop tokens, but a stop string ends the text all the same.

    Let the search go on, and ask where a string completes: does this token count?
    """
    ids = reason(lab, b"a!", stop_token_ids=[33], min_tokens=3)
    return ids is None and reason(lab, b"a!", stops=["!"], min_tokens=3) == "!"


@mistake(task=3)
def min_tokens_for_strings_only(lab):
    """`min_tokens` delays stop strings, but a stop token ends the text all the same.

    Within the first `min_tokens` a stop token is one like any other.
    """
    ids = reason(lab, b"a!", stop_token_ids=[33], min_tokens=3)
    return ids == 33 and reason(lab, b"a!", stops=["!"], min_tokens=3) is None


@mistake(task=3)
def min_tokens_one_more(lab):
    """A stop token counts one token late.

    With `min_tokens=1` the second token may end the text. Do you count this token before you ask?
    """
    options = {"stop_token_ids": [33], "min_tokens": 1}
    return reason(lab, b"!!", **options) is None and reason(lab, b"!!!", **options) == 33


@mistake(task=3)
def min_tokens_one_less(lab):
    """A stop counts one token early.

    With `min_tokens=2` the second token is still one of the first two.
    """
    options = {"stop_token_ids": [33], "min_tokens": 2}
    return reason(lab, b"a!", **options) == 33 and reason(lab, b"!", **options) is None


@mistake(task=3)
def early_token_swallowed(lab):
    """Within the first `min_tokens` a stop token ends nothing, but its text is missing.

    There it is a token like any other, so it is shown.
    """
    return texts(lab, b"!a", stop_token_ids=[33], min_tokens=2) == ["", "a"]


@mistake(task=3)
def early_text_unread(lab):
    """A stop string that begins within the first `min_tokens` and ends after them is missed.

    What decides is where it *ends*. So the text of the first tokens is read too, and what may
    become a hidden stop is held.
    """
    missed = reason(lab, b"aEND", stops=["END"], min_tokens=2) is None
    return missed and reason(lab, b"abEND", stops=["END"], min_tokens=2) == "END"


@mistake(task=3)
def ends_late(lab):
    """A stop string that ended too early to count ends the text with the next token.

    It was text, and is out. What may end the text is only what completes with the new token.
    """
    late = outputs(lab, b"a#bc", stops=["#"], min_tokens=2)
    return late[2].stopped and ends_at_strings(lab)


@mistake(task=3)
def drops_the_longer(lab):
    """With `min_tokens`, a stop leaks that has another one in it.

    The inner one may end too early to count, and then the outer one wins. Is it dropped, or does
    the search forget it when the inner one is complete?
    """
    case = {"table": [b"xabc", b"d"], "stops": ["bc", "abcd"]}
    lost = outputs(lab, [256, 257], min_tokens=1, **case)[-1] != StopOutput("", True, "abcd")
    late = texts(lab, b"aEND", stops=["END"], min_tokens=2) == ["a", "", "", ""]
    return lost and late and ends_at_strings(lab)


@mistake(task=3)
def counts_tokens_with_text(lab):
    """Tokens without text are not counted for `min_tokens`.

    It is a minimum of tokens, whatever they say: half a character and an unknown id are one each.
    """
    options = {"stop_token_ids": [33], "min_tokens": 2}
    counted = reason(lab, b"ab!", **options) == 33
    return counted and reason(lab, [EOS, EOS, 33], **options) is None


@mistake(task=3, overdue=["test_property_linear", "test_property_long_stop"])
def reads_all_again(lab):
    """The answers are right, but a token costs more the more text came before it.

    What is out is never needed again. What of the past does the search need, and what the next
    output? For a long stop, do you try each of its beginnings?
    """
    return ends_at_strings(lab) and texts(lab, b"aaab", stops=["aab"]) == ["", "", "a", ""]


@mistake(task=4)
def flush_says_stopped(lab):
    """`flush` says that the text has stopped, though no stop did that.

    The end comes from outside, so there is no reason: StopOutput(text).
    """
    return flushed(lab, b"aE", stops=["END"]).stopped is True


@mistake(task=4)
def flush_returns_text(lab):
    """`flush` returns the text alone.

    It returns a StopOutput: a stop may complete even now.
    """
    return flushed(lab, b"aE", stops=["END"]) == "E"


@mistake(task=4)
def flush_forgets_half(lab):
    """`flush` gives what is held, and leaves half a character in the detokenizer.

    Both wait, and both come out: what is held first, then the U+FFFD.
    """
    return flushed(lab, [*b"aE", *HALF], stops=["END"]) == StopOutput("E")


@mistake(task=4)
def flush_around_the_stops(lab):
    """At a flush the U+FFFD of a cut character goes around the stops.

    Read it as you read any text: it may complete one, and then the text has stopped.
    """
    return flushed(lab, [*b"aE", *HALF], stops=["E" + BAD]) == StopOutput("E" + BAD)


@mistake(task=4)
def flush_revives(lab):
    """After an end a flush makes the decoder as new.

    Only `reset` does. A text that has ended at a stop stays ended.
    """
    return after(lab, b"a#", ("flush",), ("process", 98), stops=["#"])[-1] == StopOutput("b")


@mistake(task=4)
def stops_go_on(lab):
    """After a flush or a reset the search for stops goes on where it was.

    The next token is the first of another stream. Everything that remembers text must forget it.
    """
    first = after(lab, b"aEN", ("flush",), ("process", 68), stops=["END"])[-1]
    second = after(lab, b"aEN", ("reset",), ("process", 68), stops=["END"])[-1]
    return StopOutput("", True, "END") in (first, second) or "END" in (first.reason, second.reason)


@mistake(task=4)
def counts_on(lab):
    """After a flush or a reset `min_tokens` are not counted anew.

    Another stream has a beginning of its own.
    """
    calls = [("flush",), ("process", 33)], [("reset",), ("process", 33)]
    ends = [after(lab, b"a", *each, stop_token_ids=[33], min_tokens=1)[-1] for each in calls]
    return StopOutput("", True, 33) in ends


@mistake(task=4)
def reset_keeps_the_end(lab):
    """After a reset the text is still ended.

    `reset` forgets the reason too.
    """
    return after(lab, b"a#", ("reset",), ("process", 98), stops=["#"])[-1].stopped is True


@mistake(task=4)
def reset_keeps_half(lab):
    """After a reset half a character is still in the detokenizer.

    `flush` empties a detokenizer. What it returns here is nobody's text any more.
    """
    return after(lab, [0xC3], ("reset",), ("process", 0xA9))[-1] == StopOutput("é")


@mistake(task=4)
def reset_keeps_held(lab):
    """After a reset held text comes out with the next token.

    It belongs to a stream that is over. Forget it.
    """
    return after(lab, b"aE", ("reset",), ("process", 98), stops=["END"])[-1] == StopOutput("Eb")


@mistake(task=4)
def shared(lab):
    """Decoders that are fed in turns disturb each other.

    What remembers text belongs to one decoder: make it in `__init__`, on `self`. A module, a class
    and a default argument have one for all.
    """
    news = [decoder(lab, stops=["END"]), decoder(lab, stops=["END"])]
    one, other = lab.interleave(news, [b"aENx", b"bbbb"], "flush", "process")
    alone = ["a", "", "", "ENx", ""], [*"bbbb", ""]
    both = [[output.text for output in trace.outputs] for trace in (one, other)]
    return both != [*alone] and texts(lab, b"aENx", stops=["END"]) == [*alone[0][:4]]
