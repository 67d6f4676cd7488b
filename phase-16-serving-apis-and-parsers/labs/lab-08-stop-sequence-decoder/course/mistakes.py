"""The common mistakes of lab 08. The docstring of a probe says what the code does, and then what to
look at; the probe returns whether the code's answers are those of this mistake.
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
    """The output of each token."""
    calls = [("process", token_id) for token_id in ids]
    return lab.script(decoder(lab, table, **options), calls, "").outputs


def texts(lab, ids, table=(), **options):
    """The text of each token."""
    return [output.text for output in outputs(lab, ids, table, **options)]


def reason(lab, ids, table=(), **options):
    """The reason in the last token's output."""
    return outputs(lab, ids, table, **options)[-1].reason


def after(lab, ids, *calls, table=(), **options):
    """The outputs of these calls after the tokens."""
    before = [("process", token_id) for token_id in ids]
    return lab.script(decoder(lab, table, **options), [*before, *calls], "").outputs[len(before) :]


def flushed(lab, ids, **options):
    """The output of a flush after the tokens."""
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
    """Whether a stop string over several tokens works."""
    return texts(lab, b"aENDb", stops=["END"]) == ["a", "", "", "", ""]


@mistake(task=1)
def returns_text(lab):
    """`process` returns only the text.

    The caller must also know whether and why the text has ended: return `StopOutput(text)` while
    the text goes on, and `StopOutput(text, True, reason)` when it ends.
    """
    return outputs(lab, b"ab") == ["a", "b"]


@mistake(task=1)
def returns_nothing(lab):
    """`process` returns None.

    Does every path through `process` end with a `return`?
    """
    return None in outputs(lab, b"ab") or None in outputs(lab, [97, EOS], stop_token_ids=[EOS])


@mistake(task=1)
def decodes_here(lab):
    """Your code turns ids into text itself, without the detokenizer.

    An id is neither a character nor a byte: `self._detokenizer.feed(token_id)` returns its text.
    """
    alone = (["Ã", "©"], [BAD, BAD], ["195", "169"])
    return texts(lab, [0xC3, 0xA9]) in alone and texts(lab, [256], [b"ab"]) != ["ab"]


@mistake(task=1)
def holds_everything(lab):
    """No text is emitted before the text ends.

    The client reads token by token. Emit text at once if it cannot be part of a hidden stop.
    """
    ended = texts(lab, [97, 98, EOS], stop_token_ids=[EOS])
    return ended == ["", "", "ab"]


@mistake(task=1)
def shows_nothing(lab):
    """`process` returns no text, even for a whole character.

    `self._detokenizer.feed(token_id)` returns the text of a token. If no stop is given, return it
    at once.
    """
    return outputs(lab, b"ab") == [StopOutput("")] * 2


@mistake(task=1)
def ends_at_once(lab):
    """The text ends with its first token, although no stop is given.

    `stopped` is True only if a stop has ended the text. Until then, return `StopOutput(text)`.
    """
    return outputs(lab, b"ab")[0].stopped is True


@mistake(task=1)
def all_text_again(lab):
    """Each output has all text so far, not only the new text.

    Emitted text must not be emitted again: remove it from your buffer.
    """
    return texts(lab, b"abc") == ["a", "ab", "abc"]


@mistake(task=1)
def flushes_each_token(lab):
    """Half a character becomes U+FFFD at once: the detokenizer is flushed after each token.

    A flush ends the stream. When is the rest of the character impossible, and not just late?
    """
    return texts(lab, [97, *"é".encode()]) == ["a", BAD, BAD]


@mistake(task=1)
def stop_tokens_end_nothing(lab):
    """A stop token is treated like any other token.

    Before you feed an id to the detokenizer: is it an id that ends the text?
    """
    hidden = outputs(lab, b"a!b", stop_token_ids=[33])
    return hidden == [StopOutput("a"), StopOutput("!"), StopOutput("b")]


@mistake(task=1)
def reason_is_no_id(lab):
    """The reason of a stop token is not its id.

    The reason names the stop that ended the text: here the id itself, as an int.
    """
    last = outputs(lab, [97, EOS], stop_token_ids=[EOS])[-1]
    return last.stopped is True and last.reason != EOS


@mistake(task=1)
def not_stopped(lab):
    """There is a reason, but `stopped` is False.

    If there is a reason, the text has ended.
    """
    return outputs(lab, [97, EOS], stop_token_ids=[EOS])[-1] == StopOutput("", False, EOS)


@mistake(task=1)
def stop_token_shown(lab):
    """The text of a hidden stop token is shown.

    A hidden stop token's text is not part of the answer: never feed its id to the detokenizer.
    """
    return texts(lab, b"a!", stop_token_ids=[33]) == ["a", "!"]


@mistake(task=1)
def visible_token_hidden(lab):
    """A visible stop token ends the text, but its own text is missing.

    It ends the text like a hidden stop token, but feed it to the detokenizer first.
    """
    last = outputs(lab, b"a!", visible_stop_token_ids=[33])[-1]
    return last == StopOutput("", True, 33)


@mistake(task=1)
def visible_token_alone(lab):
    """A visible stop token is decoded apart from the half character before it.

    Which comes first: does the token's text complete the held bytes, or are these cut off?
    """
    shown = texts(lab, [*HALF, 256], [b"\x9a\x80."], visible_stop_token_ids=[256])
    return shown[:2] == ["", ""] and shown[2].startswith(BAD) and shown[2].endswith(".")


@mistake(task=1)
def cut_character_lost(lab):
    """Half a character is lost when the text ends.

    Its bytes are damaged, and the reader should see that: the detokenizer's `flush` returns one
    U+FFFD.
    """
    return ends_at_tokens(lab) and texts(lab, [97, *HALF, EOS], stop_token_ids=[EOS]) == [
        "a", "", "", ""
    ]  # fmt: skip


@mistake(task=1)
def visible_beats_hidden(lab):
    """A stop in both lists, hidden and visible, is shown.

    Hidden beats visible, for ids and for strings: which list do you check first?
    """
    both = outputs(lab, b"a!", stop_token_ids=[33], visible_stop_token_ids=[33])
    shown = [StopOutput("a"), StopOutput("!", True, 33)]
    return both == shown and texts(lab, b"a!", stop_token_ids=[33]) == ["a", ""]


@mistake(task=1)
def zero_ends_nothing(lab):
    """After an end by id 0 the stream goes on.

    `if self._reason:` tests the truth of the reason, and 0 is false. Use `is not None`.
    """
    goes_on = texts(lab, [97, 0, 98], stop_token_ids=[0]) == ["a", "", "b"]
    return goes_on and texts(lab, [97, EOS, 98], stop_token_ids=[EOS]) == ["a", "", ""]


@mistake(task=1)
def goes_on_after_the_end(lab):
    """After a stop token the stream goes on.

    Store the reason, and check it first in every call.
    """
    return texts(lab, [97, EOS, 98], stop_token_ids=[EOS]) == ["a", "", "b"]


@mistake(task=1)
def forgets_the_reason(lab):
    """After the end the reason is None, or the text counts as going on.

    Every later call must return the same output: StopOutput("", True, reason).
    """
    last = outputs(lab, [97, EOS, 98], stop_token_ids=[EOS])[-1]
    return ends_at_tokens(lab) and last != StopOutput("", True, EOS) and last.text == ""


@mistake(task=2)
def strings_end_nothing(lab):
    """Stop strings have no effect.

    Search the held text plus each token's text for all stops, hidden and visible.
    """
    hidden = outputs(lab, b"aENDb", stops=["END"])
    return hidden == [*map(StopOutput, "aENDb")] and texts(lab, [256], [b"#b"], stops=["#"]) == [
        "#b"
    ]


@mistake(task=2)
def only_in_one_token(lab):
    """A stop string is recognised only if one token contains all of it.

    Tokens cut text anywhere. What must you remember of the earlier tokens?
    """
    one = texts(lab, [256], [b"aENDb"], stops=["END"])
    return one == ["a"] and texts(lab, b"aEND", stops=["END"]) == [*"aEND"]


@mistake(task=2)
def holds_nothing(lab):
    """A stop string is recognised, but its beginning has been emitted by then: no text is held.

    Emitted text cannot be taken back. Which suffix of the text may still become a hidden stop? Hold
    it.
    """
    shown = texts(lab, b"aEND", stops=["END"])
    leaks = shown[:3] == ["a", "E", "N"] and reason(lab, b"aEND", stops=["END"]) == "END"
    return leaks and texts(lab, b"aENx", stops=["END"]) == [*"aENx"]


@mistake(task=2)
def held_shown_twice(lab):
    """Held text is emitted, and later emitted again.

    Text that you return is no longer held: remove it from your buffer in the same step.
    """
    shown = "".join(texts(lab, b"aENxy", stops=["END"]))
    return texts(lab, b"ab") == ["a", "b"] and shown.startswith("aENx") and "EN" in shown[3:]


@mistake(task=2)
def rest_of_the_token_shown(lab):
    """The stop is removed, but the rest of the same token is shown.

    The text ends at the stop. The rest of the token is not part of the text.
    """
    return texts(lab, [256], [b"aENDb"], stops=["END"]) == ["ab"]


@mistake(task=2)
def loses_text_before(lab):
    """The text before a stop string is lost if it is in the token that completes the stop.

    The text ends at the stop; all text before the stop must still be shown.
    """
    lost = texts(lab, [256], [b"aENDb"], stops=["END"]) == [""]
    return lost and ends_at_strings(lab)


@mistake(task=2)
def token_boundary(lab):
    """A stop string is recognised only at the end of a token.

    Tokens do not end where stops end. Does a stop complete at any character of the token?
    """
    missed = reason(lab, [256], [b"aENDb"], stops=["END"]) is None
    return missed and ends_at_strings(lab)


@mistake(task=2)
def restart(lab):
    """After a false alarm the search starts over, so a stop within the false start is missed.

    With the stop `aab`, which part of `aaa` can still become the stop?
    """
    leaks = texts(lab, b"aaab", stops=["aab"])[2] in ("aa", "aaa")
    return leaks and texts(lab, b"##c", stops=["###"]) == ["", "", "##c"]


@mistake(task=2)
def fixed_window(lab):
    """The length of the longest stop, less one, is always held, even if no stop has begun.

    Hold only the suffix of the text that begins a stop. Usually there is none.
    """
    return texts(lab, b"abcd", stops=["END"]) == ["", "", "a", "b"]


@mistake(task=2)
def holds_the_token(lab):
    """If a stop may begin in a token, the whole token is held.

    Of `the E` only the `E` can become part of `END`.
    """
    return texts(lab, [256, 33], [b"the E"], stops=["END"]) == ["", "the E!"]


@mistake(task=2)
def visible_held(lab):
    """Text is held that may become a visible stop.

    It is shown whether the stop completes or not. Only hidden stops have something to hide.
    """
    shown = texts(lab, b"aENDb", visible_stops=["END"])
    return shown == ["a", "", "", "END", ""] and ends_at_strings(lab)


@mistake(task=2)
def visible_is_hidden(lab):
    """A visible stop string is not shown.

    The text runs through the stop's last character. How much of the stop is in this token, and how
    much has been emitted?
    """
    return texts(lab, [256], [b"aENDb"], visible_stops=["END"]) == ["a"]


@mistake(task=2)
def visible_misses(lab):
    """A visible stop string is missed if tokens cut it.

    Nothing is held for a visible stop, but remember its beginning after you have shown it.
    """
    missed = reason(lab, b"aEND", visible_stops=["END"]) is None
    return missed and reason(lab, [256], [b"aENDb"], visible_stops=["END"]) == "END"


@mistake(task=2)
def visible_beats_hidden_string(lab):
    """A string in both lists, hidden and visible, is shown.

    Hidden beats visible. Ask whether the stop is in the hidden list before you ask whether it is in
    the visible list.
    """
    both = outputs(lab, b"aEND", stops=["END"], visible_stops=["END"])
    shown = "".join(output.text for output in both) == "aEND"
    return shown and both[-1].reason == "END" and ends_at_strings(lab)


@mistake(task=2)
def list_order(lab):
    """If a token has several stop strings, the first in the list wins, and the text of another stop
    is shown.

    Which stop ends first in the *text*? The order of the lists does not matter.
    """
    return [reason(lab, [256], [b"xaybz"], stops=stops) for stops in (["b", "a"], ["a", "b"])] == [
        "b", "a"
    ]  # fmt: skip


@mistake(task=2)
def starts_first(lab):
    """If a token has several stop strings, the stop that starts first wins, or the longest of those
    that start together.

    The stop that *ends* first wins. With `abcd` and `bc` one token and four tokens then give
    different answers: token by token, `bc` is complete before `abcd` is. Which rule needs no
    lookahead?
    """
    found = [
        reason(lab, [256], [b"xabcd"], stops=stops) for stops in (["abcd", "bc"], ["bc", "abcd"])
    ]
    return found == ["abcd", "abcd"]


@mistake(task=2)
def shortest_wins(lab):
    """If several stop strings end together, the shortest wins, and the beginning of a longer stop
    is shown.

    Of all stops that are complete at this character, take the longest.
    """
    found = [reason(lab, [256], [b"xab"], stops=stops) for stops in (["b", "ab"], ["ab", "b"])]
    return found == ["b", "b"]


@mistake(task=2)
def first_of_ties(lab):
    """If several stop strings end together, the first in the list wins.

    Of all stops that are complete at this character, take the longest, at any place in the list.
    """
    found = [reason(lab, [256], [b"xab"], stops=stops) for stops in (["b", "ab"], ["ab", "b"])]
    return found == ["b", "ab"]


@mistake(task=2)
def held_lost(lab):
    """Held text is lost when the text ends.

    At the end no stop can complete any more: the held text is ordinary text, and precedes the
    U+FFFD of a cut-off character.
    """
    lost = texts(lab, [*b"aEN", EOS], stops=["END"], stop_token_ids=[EOS]) == ["a", "", "", ""]
    return lost and ends_at_strings(lab)


@mistake(task=2)
def strings_first(lab):
    """If a stop string completes with the last text of a stop token, the string becomes the reason.

    Stop tokens are checked before strings: the id is the reason, and the strings decide only how
    much of the last text is shown.
    """
    options = {"stops": ["END"], "visible_stop_token_ids": [68]}
    return outputs(lab, b"aEND", **options)[-1] == StopOutput("", True, "END")


@mistake(task=2)
def held_after_the_end(lab):
    """`held` is not empty after an end.

    The held text was emitted, or it was the beginning of the stop: nothing is held any more.
    """
    left = [held(lab, b"aEND", stops=["END"]),
            held(lab, [*b"aE", EOS], stops=["END"], stop_token_ids=[EOS])]  # fmt: skip
    return any(isinstance(text, str) and text for text in left) and ends_at_strings(lab)


@mistake(task=2)
def goes_around_the_stops(lab):
    """The text that the detokenizer releases at the end bypasses the stops.

    The U+FFFD of a cut-off character may complete a hidden stop. Read it like any other text.
    """
    shown = texts(lab, [*b"aE", *HALF, EOS], stops=["E" + BAD], stop_token_ids=[EOS])
    return shown == ["a", "", "", "", "E" + BAD]


@mistake(task=2)
def visible_token_around_the_stops(lab):
    """The text of a visible stop token bypasses the stop strings.

    It is text like any other, and may complete a hidden stop, which must not leak.
    """
    options = {"stops": ["END"], "visible_stop_token_ids": [68]}
    last = outputs(lab, b"aEND", **options)[-1]
    return last.text in ("D", "END") and last.reason == 68


@mistake(task=2)
def held_is_a_method(lab):
    """`held` is a method, and it is read without a call.

    In the starter it has `@property` above it: put that back.
    """
    try:
        return "is a method" in str(held(lab, b"a", stops=["END"]))
    except AssertionError as failure:
        return "is a method" in str(failure)


@mistake(task=2)
def held_of_the_detokenizer(lab):
    """`held` returns the bytes that the detokenizer holds.

    They are in `detokenizer.held`. Here `held` is the text that may become a hidden stop, a str.
    """
    return held(lab, [97, *HALF], stops=["END"]) == bytes(HALF)


@mistake(task=2)
def keeps_hopeless(lab):
    """Text is held for a stop that a shorter stop always beats.

    Before `abcd` could complete, `bc` has already completed.
    """
    return texts(lab, b"xax", stops=["abcd", "bc"]) == ["x", "", "ax"]


def many(lab, *bursts, table=(), **options):
    """The results of these bursts."""
    calls = [("process_many", list(ids)) for ids in bursts]
    return lab.script(decoder(lab, table, **options), calls, "").outputs


@mistake(task=3)
def burst_goes_on(lab):
    """All tokens of a burst count, even the tokens after the one that ended the text.

    The model produced them before the end was known. Leave the loop at the output that has stopped;
    after an end take no token.
    """
    (outputs, taken), *_ = many(lab, [97, EOS, 98, 99], stop_token_ids=[EOS])
    return taken == 4 and len(outputs) in (2, 4) and outputs[1] == StopOutput("", True, EOS)


@mistake(task=3)
def returns_a_list(lab):
    """`process_many` returns only the outputs.

    It returns two values: the list of outputs, and how many tokens were taken.
    """
    return many(lab, b"a") == [[StopOutput("a")]]


@mistake(task=3)
def one_output_a_burst(lab):
    """A burst returns one output, with the text of all its tokens.

    Each token has its own output, so that the caller knows which text belongs to which token.
    """
    (outputs, taken), *_ = many(lab, b"ab")
    return outputs in (StopOutput("ab"), [StopOutput("ab")]) and taken == 2


@mistake(task=3)
def last_not_counted(lab):
    """The token that ends the text is not counted.

    The model produced it, and the client pays for it: `taken` includes it.
    """
    (_, taken), *_ = many(lab, [97, EOS, 98, 99], stop_token_ids=[EOS])
    return taken == 1


@mistake(task=3)
def silent_after_the_end(lab):
    """A burst after the end returns no output.

    The last output must always say that the text has ended: return one StopOutput("", True,
    reason), and take no token.
    """
    ended = many(lab, [97, EOS], [98], stop_token_ids=[EOS])[-1]
    return ends_at_tokens(lab) and ended == ([], 0)


@mistake(task=3)
def min_tokens_ignored(lab):
    """`min_tokens` has no effect.

    Count the tokens, and check for each whether it may end the text: not the first `min_tokens`.
    """
    ids = reason(lab, b"a!", stop_token_ids=[33], min_tokens=3)
    return ids == 33 and reason(lab, b"a!", stops=["!"], min_tokens=3) == "!"


@mistake(task=3)
def min_tokens_for_ids_only(lab):
    """`min_tokens` delays stop tokens, but a stop string still ends the text early.

    Let the search go on, and when a string completes, check whether this token counts.
    """
    ids = reason(lab, b"a!", stop_token_ids=[33], min_tokens=3)
    return ids is None and reason(lab, b"a!", stops=["!"], min_tokens=3) == "!"


@mistake(task=3)
def min_tokens_for_strings_only(lab):
    """`min_tokens` delays stop strings, but a stop token still ends the text early.

    Within the first `min_tokens` a stop token is a token like any other.
    """
    ids = reason(lab, b"a!", stop_token_ids=[33], min_tokens=3)
    return ids == 33 and reason(lab, b"a!", stops=["!"], min_tokens=3) is None


@mistake(task=3)
def min_tokens_one_more(lab):
    """A stop token counts one token late.

    With `min_tokens=1` the second token may end the text. Do you count this token before you
    compare?
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

    There it is a token like any other, so its text is shown.
    """
    return texts(lab, b"!a", stop_token_ids=[33], min_tokens=2) == ["", "a"]


@mistake(task=3)
def early_text_unread(lab):
    """A stop string that begins within the first `min_tokens` and ends after them is missed.

    The *end* of the string decides. So also read the text of the first tokens, and hold text that
    may become a hidden stop.
    """
    missed = reason(lab, b"aEND", stops=["END"], min_tokens=2) is None
    return missed and reason(lab, b"abEND", stops=["END"], min_tokens=2) == "END"


@mistake(task=3)
def ends_late(lab):
    """A stop string that ended too early to count ends the text with the next token.

    It was text, and has been emitted. Only a string that completes with the new token may end the
    text.
    """
    late = outputs(lab, b"a#bc", stops=["#"], min_tokens=2)
    return late[2].stopped and ends_at_strings(lab)


@mistake(task=3)
def drops_the_longer(lab):
    """With `min_tokens`, a stop leaks that contains another stop.

    The inner stop may end too early to count, and then the outer stop wins. Do you drop the outer
    stop, or does the search forget it when the inner stop is complete?
    """
    case = {"table": [b"xabc", b"d"], "stops": ["bc", "abcd"]}
    right = [StopOutput("x"), StopOutput("", True, "abcd")]
    lost = outputs(lab, [256, 257], min_tokens=1, **case) != right
    late = texts(lab, b"aEND", stops=["END"], min_tokens=2) == ["a", "", "", ""]
    return lost and late and ends_at_strings(lab)


@mistake(task=3)
def counts_tokens_with_text(lab):
    """`min_tokens` does not count tokens without text.

    It is a minimum of tokens, whatever their text: half a character counts as a token, and so does
    an unknown id.
    """
    options = {"stop_token_ids": [33], "min_tokens": 2}
    counted = reason(lab, b"ab!", **options) == 33
    return counted and reason(lab, [EOS, EOS, 33], **options) is None


@mistake(task=3, overdue=["test_property_long_stop"])
def tries_every_prefix(lab):
    """A token costs more, the longer the stops or the held text are.

    Do you try each prefix of a stop, or search the held text from its beginning? The search needs
    to remember only how much of each stop the text ends with.
    """
    return ends_at_strings(lab) and texts(lab, b"aaab", stops=["aab"]) == ["", "", "a", ""]


@mistake(task=3, overdue=["test_property_linear", "test_property_long_stop"])
def reads_all_again(lab):
    """A token costs more, the more text came before it.

    Emitted text is never needed again. How much of the past does the search need, and how much the
    next output?
    """
    return ends_at_strings(lab) and texts(lab, b"aaab", stops=["aab"]) == ["", "", "a", ""]


@mistake(task=4)
def flush_says_stopped(lab):
    """`flush` says that the text has stopped, although no stop ended it.

    The end comes from outside, so there is no reason: StopOutput(text).
    """
    return flushed(lab, b"aE", stops=["END"]).stopped is True


@mistake(task=4)
def flush_returns_text(lab):
    """`flush` returns only the text.

    It returns a StopOutput: a stop may complete even now.
    """
    return flushed(lab, b"aE", stops=["END"]) == "E"


@mistake(task=4)
def flush_forgets_half(lab):
    """`flush` returns the held text, but leaves half a character in the detokenizer.

    Release the held text first, then the U+FFFD.
    """
    return flushed(lab, [*b"aE", *HALF], stops=["END"]) == StopOutput("E")


@mistake(task=4)
def flush_around_the_stops(lab):
    """In `flush`, the U+FFFD of a cut-off character bypasses the stops.

    Read it like any other text: it may complete a stop, and then the text has stopped.
    """
    return flushed(lab, [*b"aE", *HALF], stops=["E" + BAD]) == StopOutput("E" + BAD)


@mistake(task=4)
def flush_revives(lab):
    """After an end, `flush` resets the decoder.

    Only `reset` does. A text that has ended at a stop stays ended.
    """
    return after(lab, b"a#", ("flush",), ("process", 98), stops=["#"])[-1] == StopOutput("b")


@mistake(task=4)
def stops_go_on(lab):
    """After a flush or a reset the search for stops continues in the old stream.

    The next token is the first of another stream. Clear all state that remembers text.
    """
    first = after(lab, b"aEN", ("flush",), ("process", 68), stops=["END"])[-1]
    second = after(lab, b"aEN", ("reset",), ("process", 68), stops=["END"])[-1]
    return StopOutput("", True, "END") in (first, second) or "END" in (first.reason, second.reason)


@mistake(task=4)
def counts_on(lab):
    """After a flush or a reset `min_tokens` is not counted from 0.

    The next stream has a beginning of its own.
    """
    calls = [("flush",), ("process", 33)], [("reset",), ("process", 33)]
    ends = [after(lab, b"a", *each, stop_token_ids=[33], min_tokens=1)[-1] for each in calls]
    return StopOutput("", True, 33) in ends


@mistake(task=4)
def reset_keeps_the_end(lab):
    """After a reset the text is still ended.

    `reset` also clears the reason.
    """
    return after(lab, b"a#", ("reset",), ("process", 98), stops=["#"])[-1].stopped is True


@mistake(task=4)
def reset_keeps_half(lab):
    """After a reset half a character is still in the detokenizer.

    `flush` empties a detokenizer. Drop the text that it returns here.
    """
    return after(lab, [0xC3], ("reset",), ("process", 0xA9))[-1] == StopOutput("é")


@mistake(task=4)
def reset_keeps_held(lab):
    """After a reset held text is emitted with the next token.

    It belongs to the stream that is over. Drop it.
    """
    return after(lab, b"aE", ("reset",), ("process", 98), stops=["END"])[-1] == StopOutput("Eb")


@mistake(task=4)
def shared(lab):
    """Decoders that are fed in turns disturb each other.

    State that remembers text belongs to one decoder: create it in `__init__`, on `self`. State in a
    module, a class or a default argument is shared by all decoders.
    """
    news = [decoder(lab, stops=["END"]), decoder(lab, stops=["END"])]
    one, other = lab.interleave(news, [b"aENx", b"bbbb"], "flush", "process")
    alone = ["a", "", "", "ENx", ""], [*"bbbb", ""]
    both = [[output.text for output in trace.outputs] for trace in (one, other)]
    return both != [*alone] and texts(lab, b"aENx", stops=["END"]) == [*alone[0][:4]]
