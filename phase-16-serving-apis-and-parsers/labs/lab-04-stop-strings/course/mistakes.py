"""The common mistakes of this lab, each with a probe that only it answers."""

from labkit.testing import mistake


def run(lab, stops, *calls, include=False, watch=""):
    """Carry out the calls on a new matcher: a str is fed, "!" flushes, "?" reads `matched`."""
    plain = {"!": ("flush",), "?": "matched"}
    script = [plain.get(call, ("feed", call)) for call in calls]
    return lab.script(lab.new("StopStringMatcher", stops, include_stop=include), script, watch)


def outputs(lab, stops, *calls, include=False):
    """Return what the calls of `run` gave."""
    return run(lab, stops, *calls, include=include).outputs


def accepts(lab, stops):
    """Whether a matcher can be made of these stops; not asked of a mere stub."""
    try:
        stub = outputs(lab, ["END"], "x", "E", "aENDb") in (["x", "E", "aENDb"], ["", "", ""])
    except AssertionError:
        stub = False
    if stub or winnable(lab, "END") is None:
        return False
    return lab.script(lab.new("StopStringMatcher", stops), []).raised is None


def right(lab):
    """Whether short texts come out right, so that the cost is what is left; `flush` is not asked of
    those who have not written it.
    """
    short = run(lab, ["aab", "END", "D"], "a", "aa", "cE", "NDx", "y", "?", watch="held")
    shown, held = ["", "a", "aac", "", "", "END"], ["a", "aa", "E", "", "", ""]
    if (short.outputs, short.held) != (shown, held):
        return False
    for include, wanted in ((False, ["a", "E", "", ""]), (True, ["aE", "", "", ""])):
        trace = run(lab, ["END"], "aE", "!", "END", "!", include=include)
        wanted[2] = "END" * include
        if trace.raised is None and trace.outputs != wanted:
            return False
    cut = run(lab, ["END"], "aE", "NDb", "?", include=True)
    return cut.raised is not None or cut.outputs == ["aE", "ND", "END"]


def winnable(lab, *stops):
    """Return what `_winnable` gives for the stops."""
    return lab.call(lab.new("StopStringMatcher", ["END"]), "_winnable", [*stops])


@mistake(task=1)
def accepts_all(lab):
    """Neither a bare string nor an empty stop is refused.

    A str is a collection of one-letter strings, so it does no harm by itself. Which two questions
    must be asked of `stops` before anything else?
    """
    return accepts(lab, "END") and accepts(lab, ["END", ""])


@mistake(task=1)
def sorts_in_place(lab):
    """The list of stops that the caller gave is changed.

    `sort`, `remove` and `append` work on the caller's own list. Make one of your own first.
    """
    return any(
        lab.script(lab.new("StopStringMatcher", stops), []).changed
        for stops in (["bc", "abcd", "b"], ["b", "ab", "b"], ["END"])
    )


@mistake(task=2)
def winnable_returns_none(lab):
    """`_winnable` returns None instead of a list.

    `__init__` keeps what it returns. Is there a `return` at its end?
    """
    return winnable(lab, "END") is None


@mistake(task=2)
def winnable_drops_all(lab):
    """`_winnable` drops every stop, even a single one.

    A stop contains itself. In which part of it must no other stop be?
    """
    return winnable(lab, "END") == []


@mistake(task=2)
def winnable_drops_ties(lab):
    """A stop that ends with another one is dropped: of `b` and `ab`, only `b` is left.

    They end at the same character, so the longer one wins. Only a stop that *ends before* can beat
    it.
    """
    return [*winnable(lab, "b", "ab")] == [*winnable(lab, "ab", "b")] == ["b"]


@mistake(task=2)
def returns_none(lab):
    """`feed` returns None where nothing is to be shown.

    Every path through `feed` returns a str; nothing to show is `""`.
    """
    return None in outputs(lab, ["END"], "x", "E")


@mistake(task=2)
def returns_tuple(lab):
    """`feed` returns a tuple or a list instead of a str.

    The text alone is returned; whether a stop has matched is told by `matched`.
    """
    return type(outputs(lab, ["END"], "x")[0]) in (tuple, list)


@mistake(task=2)
def shared_text(lab):
    """A new matcher already holds text of an earlier one.

    An attribute in the class body is one for all matchers. What must `__init__` make afresh?
    """
    first, second = (outputs(lab, ["END"], piece) for piece in ("E", "x"))
    return first[0] == "" and second[0].endswith("Ex")


@mistake(task=2)
def held_is_a_list(lab):
    """`held` is a list of characters instead of a str.

    Keep them as you like; what the property returns is text.
    """
    trace = run(lab, ["END"], "aE", "N", watch="held")
    return trace.outputs == ["a", ""] and trace.held == [["E"], ["E", "N"]]


@mistake(task=2)
def echoes(lab):
    """`feed` returns every piece as it is; nothing is held.

    After `the EN`, the next piece may be `D`: which characters can't be shown yet?
    """
    return outputs(lab, ["END"], "E", "N", "x", "aENDb") == ["E", "N", "x", "aENDb"]


@mistake(task=2)
def find_per_piece(lab):
    """Each piece is searched alone, so a stop that is cut in two is shown.

    The end of this piece may be the beginning of a stop; keep it and put the next piece behind it.
    """
    return outputs(lab, ["END"], "E", "N", "x", "aENDb") == ["E", "N", "x", "a"]


@mistake(task=2)
def minus_zero(lab):
    """Where nothing is to be held, all is held, until a stop seems to begin.

    `text[:-n]` and `text[-n:]` do something else when n is 0. Count from the front.
    """
    return outputs(lab, ["END"], "ab", "c", "E") == ["", "", "abc"]


@mistake(task=2)
def collects_all(lab):
    """Everything is held until `flush`.

    Text that cannot belong to a stop any more has to come out of the `feed` that makes this clear.
    """
    return outputs(lab, [], "hello", "world", "!") == ["", "", "helloworld"]


@mistake(task=2)
def nothing_comes_out(lab):
    """`feed` returns `""` even for text that begins no stop.

    With the stops `[]` all text passes at once. What does `feed` return when nothing is held?
    """
    return outputs(lab, [], "hello", "world") == ["", ""]


@mistake(task=2)
def one_call_late(lab):
    """Each piece comes out one call late.

    A piece is not held because it is the newest; decide about it in the call that brings it.
    """
    return outputs(lab, ["END"], "ab", "c", "def") == ["", "ab", "c"]


@mistake(task=2)
def fixed_window(lab):
    """The same number of characters is always held, whatever they are.

    Of `Hello` nothing can begin the stop `END`. Compare the end of the text with the beginnings of
    the stops, not with their lengths.
    """
    found = [outputs(lab, [stop], "abcdef") for stop in ("END", "VWXYZ")]
    return found in ([["abcd"], ["ab"]], [["abc"], ["a"]])


@mistake(task=2)
def hold_piece(lab):
    """A possible stop holds back the text before it as well.

    Of `the EN` only `EN` can become a stop; `the ` comes out at once.
    """
    return outputs(lab, ["END"], "abc", "the EN", "x") == ["abc", "", "the ENx"]


@mistake(task=2)
def forgets_held(lab):
    """Text that was held is lost when the stop does not come.

    A false alarm is text: what was held comes before the new piece.
    """
    return outputs(lab, ["END"], "abE", "x", "EN", "y") == ["ab", "x", "", "y"]


@mistake(task=2)
def restart(lab):
    """After a false alarm matching starts over, so a stop inside the false start is missed.

    With the stop `aab`, what of `aaa` can still become one? Look again at what you held, not only
    at the newest character.
    """
    plain = outputs(lab, ["###"], "#", "#", "c") == ["", "", "##c"]
    return plain and outputs(lab, ["aab"], "a", "a", "a")[2] in ("aa", "aaa")


@mistake(task=2)
def holds_the_shortest(lab):
    """Of the ends of the text that begin a stop, the shortest is held.

    Of `aa` both `a` and `aa` begin `aab`. If the longer one is let go, can the stop still complete
    unseen?
    """
    return outputs(lab, ["aab"], "a", "a", "a", "c") == ["", "a", "a", "ac"]


@mistake(task=2)
def keeps_hopeless(lab):
    """Text is held for a stop that a shorter one always beats.

    Where `abcd` would complete, `bc` has done so already. Which stops does `_winnable` return?
    """
    return outputs(lab, ["abcd", "bc"], "x", "a", "x") == ["x", "", "ax"]


@mistake(task=3)
def matched_is_no_stop(lab):
    """`matched` is True or a number instead of the stop.

    It is the stop itself, a str, so that the caller can tell which one it was.
    """
    matched = outputs(lab, ["END"], "END", "?")[1]
    return type(matched) in (bool, int, list, tuple) and bool(matched)


@mistake(task=3)
def matched_stays_none(lab):
    """The stop is hidden, but `matched` stays None.

    When a stop completes, remember which one it was.
    """
    return outputs(lab, ["END"], "aEND", "b", "?") == ["a", "", None]


@mistake(task=3)
def only_in_one_piece(lab):
    """A stop is found only if all of it is in one piece.

    Search what was held together with the new piece.
    """
    one = outputs(lab, ["END"], "aENDb", "?") == ["a", "END"]
    return one and outputs(lab, ["END"], "aE", "ND", "?")[::2] == ["a", None]


@mistake(task=3)
def only_at_the_end(lab):
    """A stop is found only where the piece ends.

    A piece may go on after the stop. Is there one that completes at any of its characters?
    """
    return outputs(lab, ["END"], "aENDb", "?") == ["aENDb", None] and outputs(
        lab, ["END"], "aE", "ND", "?"
    ) == ["a", "", "END"]


@mistake(task=3)
def only_the_stop_removed(lab):
    """The stop is taken out of the text, and the rest of its piece is shown.

    A stop is where the text ends: nothing after it is shown.
    """
    return outputs(lab, ["END"], "aENDb") == ["ab"]


@mistake(task=3)
def loses_text_before(lab):
    """When a stop completes, the text before it in the same piece is lost.

    The text ends at the stop, so what is in front of it is still to be shown.
    """
    return outputs(lab, ["END"], "x", "aENDb", "?") == ["x", "", "END"]


@mistake(task=3)
def absent_stop_hides(lab):
    """Of several stops none is found unless all are in the text.

    `index` raises for a stop that is not there, and `find` returns -1. What becomes of the others?
    """
    found = [
        outputs(lab, stops, "aENDb", "?")[1] for stops in (["END"], ["X", "END"], ["END", "X"])
    ]
    return found == ["END", None, None]


@mistake(task=3)
def list_order(lab):
    """Of two stops in one piece the first of the list wins, and text after the other is shown.

    Which of them ends first in the *text*? The order of the list does not matter.
    """
    return outputs(lab, ["b", "a"], "xayb", "?") == ["xay", "b"]


@mistake(task=3)
def shortest_wins(lab):
    """Of stops that end at the same character the shortest wins, so a part of the longer is shown.

    More than one stop may end here. Look at all of them before you choose.
    """
    pairs = (["b", "ab"], ["ab", "b"])
    return [outputs(lab, stops, "xab", "?") for stops in pairs] == [["xa", "b"]] * 2


@mistake(task=3)
def tie_by_list_order(lab):
    """Of stops that end at the same character, the list's order decides.

    More than one stop may end here; the longest wins, wherever it is in the list.
    """
    found = [outputs(lab, stops, "xab", "?") for stops in (["b", "ab"], ["ab", "b"])]
    return sorted(found) == [["x", "ab"], ["xa", "b"]]


@mistake(task=3)
def leaks_after(lab):
    """After a match the stream goes on.

    Once there is a winner, `feed` returns `""`: ask that before anything else.
    """
    return outputs(lab, ["END"], "aENDb", "x", "?") == ["a", "x", "END"]


@mistake(task=3)
def stop_is_a_pattern(lab):
    """A stop is read as a regular expression: `a.c` stops at `abc`.

    Its characters stand for themselves. Compare strings, or escape the pattern.
    """
    return outputs(lab, ["a.c"], "xabc", "?")[1] is not None


@mistake(task=3, overdue=["test_property_long_stop"])
def tries_prefixes(lab):
    """Each piece costs more, the longer a stop is, however little has changed.

    Which prefix the text ends with after a character depends on which it ended with before. Begin
    with the longest that is possible, and stop at the first that fits.
    """
    return right(lab)


@mistake(task=3, overdue=["test_property_linear", "test_property_long_stop"])
def rescan(lab):
    """A long text takes far longer than its parts do.

    Which characters are searched or copied more than once? What has been shown cannot belong to a
    stop any more, and a slice such as `text[1:]` copies all the rest.
    """
    return right(lab)


@mistake(task=4)
def flush_drops(lab):
    """What is held when the text ends is lost.

    No stop can complete any more, so it is text: `flush` returns it.
    """
    return outputs(lab, ["END"], "xE", "!") == ["x", ""]


@mistake(task=4)
def flush_repeats(lab):
    """A second `flush` returns the same text again.

    After `flush` nothing is held: empty it before you return it.
    """
    return outputs(lab, ["END"], "xE", "!", "!") == ["x", "E", "E"]


@mistake(task=4)
def forgets_match(lab):
    """`flush` forgets the match.

    A stream that a stop has ended stays ended. What has to be reset, and what has not?
    """
    return outputs(lab, ["END"], "aEND", "?", "!", "?") == ["a", "END", "", None]


@mistake(task=4)
def swallows_after_flush(lab):
    """What is fed after a `flush` never comes out.

    Text after a `flush` is a new stream; only a match ends it for good.
    """
    return outputs(lab, ["END"], "aE", "!", "b", "c") == ["a", "E", "", ""]


@mistake(task=4)
def joins_across_flush(lab):
    """A stop that began before a `flush` completes after it.

    What was flushed is shown and gone. Is there anything else that remembers it?
    """
    return outputs(lab, ["END"], "aE", "!", "NDb", "?")[::3] == ["a", "END"]


@mistake(task=4)
def include_ignored(lab):
    """With `include_stop` the stop is cut off, as without it.

    The text then goes through the end of the stop, and nothing has to wait for it.
    """
    return outputs(lab, ["END"], "aE", "NDb", "?", include=True) == ["a", "", "END"]


@mistake(task=4)
def include_holds(lab):
    """With `include_stop` a possible stop is held, though it is shown in any case.

    There is nothing to hide, so there is nothing to wait for.
    """
    return outputs(lab, ["END"], "aE", "NDb", include=True) == ["a", "END"]


@mistake(task=4)
def include_doubles(lab):
    """With `include_stop` the beginning of the stop is shown twice.

    It was shown when it arrived. When the stop completes, only what this piece brought is new.
    """
    return outputs(lab, ["END"], "aE", "NDb", include=True) == ["aE", "END"]


@mistake(task=4)
def include_misses(lab):
    """With `include_stop` a stop that is cut in two is no longer found.

    To recognise it you must remember its beginning. Remembering is not holding.
    """
    found = outputs(lab, ["END"], "aE", "NDb", "?")[2] == "END"
    return found and outputs(lab, ["END"], "aE", "NDb", "?", include=True) == ["aE", "NDb", None]


@mistake(task=4)
def include_flushes_again(lab):
    """With `include_stop`, `flush` returns text that was already shown.

    What you remember in order to recognise a stop is not held, so `flush` has nothing to return.
    """
    return outputs(lab, ["END"], "aE", "!", include=True) == ["aE", "E"]


@mistake(task=4)
def shared(lab):
    """One stream works; of two at once, each sees the other's text or stops.

    What belongs to one stream is made in `__init__`, and lives in no class attribute, no default
    argument and no global.
    """
    new = [lab.new("StopStringMatcher", [stop]) for stop in ("END", "XYZ")]
    alone = [outputs(lab, ["END"], "E", "b", "!"), outputs(lab, ["XYZ"], "a", "X", "!")]
    together = [trace.outputs for trace in lab.interleave(new, [["E", "b"], ["a", "X"]], "flush")]
    return alone == [["", "Eb", ""], ["a", "", "X"]] and together != alone
