"""The common mistakes of this lab, each with a probe that only it answers."""

from labkit.testing import mistake


def run(lab, stops, *calls, include=False, watch=""):
    """Carry out the calls on a new matcher: a str is fed, "!" flushes, "?" reads `matched`, and
    "#stops" reads `_stops`.
    """
    plain = {"!": ("flush",), "?": "matched", "#stops": "_stops"}
    script = [plain.get(call, ("feed", call)) for call in calls]
    return lab.script(lab.new("StopStringMatcher", stops, include_stop=include), script, watch)


def outputs(lab, stops, *calls, include=False):
    """Return what the calls of `run` gave."""
    return run(lab, stops, *calls, include=include).outputs


def accepts(lab, stops):
    """Whether a matcher can be made of these stops."""
    return lab.script(lab.new("StopStringMatcher", stops), []).raised is None


def kept_stops(lab):
    """Return `_stops`, which `__init__` of the starter sets, after the stop `END`."""
    return run(lab, ["END"], "#stops").outputs[0]


def right(lab):
    """Whether short texts are right, so that only the cost can be wrong; a missing `flush` is not
    counted.
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


@mistake(task=1)
def always_none(lab):
    """`feed` returns None, whatever it is fed.

    Is there a `return`? Printing a value does not return it.
    """
    return outputs(lab, ["END"], "x", "yz", "E") == [None] * 3


@mistake(task=1)
def returns_none(lab):
    """`feed` returns None if it has no text to emit.

    Every path through `feed` returns a str; without text to emit it is `""`.
    """
    return None in outputs(lab, ["END"], "x", "E")


@mistake(task=1)
def stops_are_none(lab):
    """`_stops` is None instead of a list.

    `__init__` sets it to the value of a function without a `return`, or to that of `list.sort`.
    """
    return kept_stops(lab) is None


@mistake(task=1)
def drops_all(lab):
    """Every stop is dropped, even a single one.

    A stop contains itself. In which part of it must no other stop end?
    """
    return kept_stops(lab) == [] and outputs(lab, ["END"], "E", "ND") == ["E", "ND"]


@mistake(task=1)
def returns_tuple(lab):
    """`feed` returns a tuple or a list instead of a str.

    The text alone is returned; `matched` says whether a stop has matched.
    """
    return type(outputs(lab, ["END"], "x")[0]) in (tuple, list)


@mistake(task=1)
def shared_text(lab):
    """A new matcher already holds text of an earlier one.

    All matchers share an attribute of the class body. Which attributes must `__init__` make?
    """
    first, second = (outputs(lab, ["END"], piece) for piece in ("E", "x"))
    return first[0] == "" and second[0].endswith("Ex")


@mistake(task=1)
def held_is_a_list(lab):
    """`held` is a list of characters instead of a str.

    How you store the characters is up to you; the property returns a str.
    """
    trace = run(lab, ["END"], "aE", "N", watch="held")
    return trace.outputs == ["a", ""] and trace.held == [["E"], ["E", "N"]]


@mistake(task=1)
def text_in_lower_case(lab):
    """The text is compared in lower case, so a stop with capital letters never begins.

    Stops are compared character by character: `E` begins `END`, and `e` does not. Change the case
    of neither.
    """
    return outputs(lab, ["END"], "xE") == ["xE"] and outputs(lab, ["end"], "xE") == ["x"]


@mistake(task=1)
def holds_other_case(lab):
    """Case is ignored: `e` is held for the stop `END`.

    Stops are compared character by character, exactly as they are.
    """
    return outputs(lab, ["END"], "xE", "b") == ["x", "Eb"] and outputs(lab, ["END"], "xe") == ["x"]


@mistake(task=1)
def echoes(lab):
    """`feed` returns every piece unchanged; no text is held.

    After `the EN`, the next piece may be `D`: which characters cannot be emitted yet?
    """
    pieces = ["E", "N", "x", "aEN", "x", "aENDb"]
    return outputs(lab, ["END"], *pieces) == pieces


@mistake(task=1)
def emits_single_characters(lab):
    """A single character that begins the stop is emitted at once; only longer text is held.

    `E` may become `END`. Which lengths does your loop try? The last is 1.
    """
    return outputs(lab, ["END"], "aEN", "x", "E", "x") == ["a", "ENx", "E", "x"]


@mistake(task=1)
def find_per_piece(lab):
    """Each piece is searched alone, so a stop that is cut in two is emitted.

    The end of this piece may be the beginning of a stop; hold it, and search it together with
    the next piece.
    """
    return outputs(lab, ["END"], "E", "N", "x", "aENDb") == ["E", "N", "x", "a"]


@mistake(task=1)
def minus_zero(lab):
    """If no text should be held, all of it is held, until a stop seems to begin.

    `text[:-n]` and `text[-n:]` do something else when n is 0. Count from the front.
    """
    return outputs(lab, ["END"], "ab", "c", "E") == ["", "", "abc"]


@mistake(task=1)
def collects_all(lab):
    """Everything is held until `flush`.

    The `feed` that rules out a stop must return the text that can no longer be part of it.
    """
    return outputs(lab, ["END"], "hello", "world", "!") == ["", "", "helloworld"]


@mistake(task=1)
def nothing_comes_out(lab):
    """`feed` returns `""` even for text that begins no stop.

    `hello` cannot begin the stop `END`. What does `feed` return when no text is held?
    """
    return outputs(lab, ["END"], "hello", "world") == ["", ""]


@mistake(task=1)
def one_call_late(lab):
    """Each piece is emitted one call late.

    Decide about each piece in the call that brings it; the newest piece needs no delay.
    """
    return outputs(lab, ["END"], "ab", "c", "def") == ["", "ab", "c"]


@mistake(task=1)
def fixed_window(lab):
    """The same number of characters is always held, whatever they are.

    No suffix of `Hello` can begin the stop `END`. Compare the end of the text with the beginnings
    of the stops, not with their lengths.
    """
    found = [outputs(lab, [stop], "abcdef") for stop in ("END", "VWXYZ")]
    return found in ([["abcd"], ["ab"]], [["abc"], ["a"]])


@mistake(task=1)
def hold_piece(lab):
    """A possible stop holds back the text before it as well.

    In `the EN` only `EN` can become a stop; `the ` is emitted at once.
    """
    return outputs(lab, ["END"], "abc", "the EN", "x") == ["abc", "", "the ENx"]


@mistake(task=1)
def forgets_held(lab):
    """Text that was held is lost when the stop does not come.

    A false alarm is text: emit the held text before the new piece.
    """
    return outputs(lab, ["END"], "abE", "x", "EN", "y") == ["ab", "x", "", "y"]


@mistake(task=1)
def restart(lab):
    """After a false alarm matching starts over, so a stop inside the false start is missed.

    With the stop `aab`, which suffix of `aaa` can still become it? Look at the held text again, not
    only at the newest character.
    """
    plain = outputs(lab, ["###"], "#", "#", "c") == ["", "", "##c"]
    return plain and outputs(lab, ["aab"], "a", "a", "a")[2] in ("aa", "aaa")


@mistake(task=1)
def holds_the_shortest(lab):
    """If several suffixes of the text begin a stop, the shortest is held.

    Both `a` and `aa` begin `aab`. If only `a` is held, which part of the stop has been emitted when
    the stop completes?
    """
    return outputs(lab, ["aab"], "a", "a", "a", "c") == ["", "a", "a", "ac"]


@mistake(task=2)
def matched_of_the_class(lab):
    """A new matcher has already matched, because another matcher has.

    `self.name = ...` belongs to one matcher; a name in the class body or the module belongs to all.
    Set the state of a stream in `__init__`.
    """
    outputs(lab, ["END"], "END")
    text, matched = outputs(lab, ["XYZ"], "a", "?")
    return text == "" and type(matched) is str and matched != "XYZ"


@mistake(task=2)
def ignores_case(lab):
    """Case is ignored: `end` completes the stop `END`.

    Stops are compared character by character, exactly as they are.
    """
    return outputs(lab, ["END"], "aendb", "?") in (["a", "END"], ["a", "end"])


@mistake(task=2)
def matched_is_no_stop(lab):
    """`matched` is True or a number instead of the stop.

    It is the stop itself, a str, so that the caller knows which stop it was.
    """
    matched = outputs(lab, ["END"], "END", "?")[1]
    return type(matched) in (bool, int, list, tuple) and bool(matched)


@mistake(task=2)
def matched_stays_none(lab):
    """The stop is hidden, but `matched` stays None.

    When a stop completes, store it.
    """
    return outputs(lab, ["END"], "aEND", "b", "?") == ["a", "", None]


@mistake(task=2)
def only_in_one_piece(lab):
    """A stop is found only if all of it is in one piece.

    Search the held text together with the new piece.
    """
    one = outputs(lab, ["END"], "aENDb", "?") == ["a", "END"]
    return one and outputs(lab, ["END"], "aE", "ND", "?")[::2] == ["a", None]


@mistake(task=2)
def only_at_the_end(lab):
    """A stop is found only at the end of a piece.

    A piece may go on after the stop: search all of the held text and the new piece for a stop.
    """
    return outputs(lab, ["END"], "aENDb", "?") == ["aENDb", None] and outputs(
        lab, ["END"], "aE", "ND", "?"
    ) == ["a", "", "END"]


@mistake(task=2)
def only_the_stop_removed(lab):
    """The stop is taken out of the text, and the rest of its piece is emitted.

    The text ends at the stop: no text after it is emitted.
    """
    return outputs(lab, ["END"], "aENDb") == ["ab"]


@mistake(task=2)
def loses_text_before(lab):
    """When a stop completes, the text before it in the same piece is lost.

    The text ends at the stop, so the text before the stop must still be emitted.
    """
    return outputs(lab, ["END"], "x", "aENDb", "?") == ["x", "", "END"]


@mistake(task=2)
def leaks_after(lab):
    """After a match the stream goes on.

    Once there is a winner, `feed` returns `""`: check that before anything else.
    """
    return outputs(lab, ["END"], "aENDb", "x", "?") == ["a", "x", "END"]


@mistake(task=2)
def stop_is_a_pattern(lab):
    """A stop is read as a regular expression: `a.c` stops at `abc`.

    A stop is compared character by character. Compare strings, or escape the pattern.
    """
    return outputs(lab, ["a.c"], "xabc", "?")[1] is not None


@mistake(task=3)
def first_stop_only(lab):
    """Only the first stop of the list counts.

    Any of the stops may begin at the end of the text, and any may complete. Go through all of them.
    """
    return outputs(lab, ["END", "XYZ"], "aX", "bE", "x") == ["aX", "b", "Ex"]


@mistake(task=3)
def hold_by_list_order(lab):
    """If several stops may have begun, the list's order decides how much is held.

    The longest suffix that begins any stop is held. Compare the lengths of all stops.
    """
    pairs = (["abc", "bd"], ["bd", "abc"])
    return sorted(outputs(lab, stops, "xab") for stops in pairs) == [["x"], ["xa"]]


@mistake(task=3)
def drops_ties(lab):
    """A stop that ends with another stop is dropped: of `b` and `ab`, only `b` is left.

    They end at the same character, so the longer one wins. Only a stop that *ends earlier*
    beats it.
    """
    pairs = (["b", "ab"], ["ab", "b"])
    return [outputs(lab, stops, "xa", "b", "?") for stops in pairs] == [["xa", "", "b"]] * 2


@mistake(task=3)
def keeps_hopeless(lab):
    """Text is held for a stop that a shorter one always beats.

    Wherever `abcd` would complete, `bc` has completed already. Which stops can never win?
    """
    return outputs(lab, ["abcd", "bc"], "x", "a", "x") == ["x", "", "ax"]


@mistake(task=3)
def absent_stop_hides(lab):
    """With several stops, none is found unless all are in the text.

    `index` raises for a stop that is not there, and `find` returns -1. What happens to the others?
    """
    found = [
        outputs(lab, stops, "aENDb", "?")[1] for stops in (["END"], ["X", "END"], ["END", "X"])
    ]
    return found == ["END", None, None]


@mistake(task=3)
def list_order(lab):
    """If two stops are in one piece, the first of the list wins, so text after the other is
    emitted.

    Which stop ends first in the *text*? The order of the list does not matter.
    """
    return outputs(lab, ["b", "a"], "xayb", "?") == ["xay", "b"]


@mistake(task=3)
def shortest_wins(lab):
    """If several stops end at the same character, the shortest wins, so a part of the longest is
    emitted.

    More than one stop may end here. Look at all of them before you choose.
    """
    pairs = (["b", "ab"], ["ab", "b"])
    return [outputs(lab, stops, "xab", "?") for stops in pairs] == [["xa", "b"]] * 2


@mistake(task=3)
def tie_by_list_order(lab):
    """If several stops end at the same character, the list's order decides.

    More than one stop may end here; the longest wins, wherever it is in the list.
    """
    found = [outputs(lab, stops, "xab", "?") for stops in (["b", "ab"], ["ab", "b"])]
    return sorted(found) == [["x", "ab"], ["xa", "b"]]


@mistake(task=3, overdue=["test_property_long_stop", "test_property_linear_with_include_stop"])
def tries_prefixes(lab):
    """The work grows too fast with the length of a stop: in the constructor, or for each piece.

    If the failure names a line, begin there. The prefix at the end of the text depends on the
    prefix that was there one character earlier. Begin with the longest prefix that fits into the
    held text and the new piece, and stop at the first with which the text ends.
    """
    return right(lab)


@mistake(
    task=3,
    overdue=[
        "test_property_linear",
        "test_property_long_stop",
        "test_property_linear_with_include_stop",
    ],
)
def rescan(lab):
    """A long text takes far longer than its parts do.

    Which characters are searched or copied more than once? Emitted text cannot be part of a
    stop any more, and a slice such as `text[1:]` copies all the rest.
    """
    return right(lab)


@mistake(task=4)
def flush_drops(lab):
    """Text that is held when the stream ends is lost.

    No stop can complete any more, so `flush` returns the held text.
    """
    return outputs(lab, ["END"], "xE", "!") == ["x", ""]


@mistake(task=4)
def flush_repeats(lab):
    """A second `flush` returns the same text again.

    After `flush` no text is held: empty `held` before you return.
    """
    return outputs(lab, ["END"], "xE", "!", "!") == ["x", "E", "E"]


@mistake(task=4)
def forgets_match(lab):
    """`flush` forgets the match.

    A stream that a stop has ended stays ended. Which attributes must `flush` reset, and which not?
    """
    return outputs(lab, ["END"], "aEND", "?", "!", "?") == ["a", "END", "", None]


@mistake(task=4)
def swallows_after_flush(lab):
    """Text that is fed after a `flush` is never emitted.

    Text after a `flush` is a new stream; only a match ends it for good.
    """
    return outputs(lab, ["END"], "aE", "!", "b", "c") == ["a", "E", "", ""]


@mistake(task=4)
def joins_across_flush(lab):
    """A stop that began before a `flush` completes after it.

    The flushed text has been emitted. Which other attribute still remembers it?
    """
    return outputs(lab, ["END"], "aE", "!", "NDb", "?")[::3] == ["a", "END"]


@mistake(task=4)
def include_ignored(lab):
    """With `include_stop` the stop is cut off, as without it.

    Emit the text up to the end of the stop; then no text needs to be held.
    """
    return outputs(lab, ["END"], "aE", "NDb", "?", include=True) == ["a", "", "END"]


@mistake(task=4)
def include_holds(lab):
    """With `include_stop` a possible stop is held, though it is emitted in any case.

    No text must be hidden, so no text is held.
    """
    return outputs(lab, ["END"], "aE", "NDb", include=True) == ["a", "END"]


@mistake(task=4)
def include_doubles(lab):
    """With `include_stop` the beginning of the stop is emitted twice.

    It was emitted when it arrived. When the stop completes, only this piece's text is new.
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
    """With `include_stop`, `flush` returns text that was already emitted.

    The tail that you remember in order to recognise a stop is not held text: `flush` returns `""`.
    """
    return outputs(lab, ["END"], "aE", "!", include=True) == ["aE", "E"]


@mistake(task=4)
def accepts_all(lab):
    """Neither a bare string nor an empty stop is refused.

    A str is a collection of one-letter strings, so no error occurs by itself. Which two checks must
    `__init__` make before anything else?
    """
    return accepts(lab, "END") and accepts(lab, ["END", ""])


@mistake(task=4)
def sorts_in_place(lab):
    """The caller's list of stops is changed.

    `sort`, `remove` and `append` change the caller's own list. Copy the list first.
    """
    return any(
        lab.script(lab.new("StopStringMatcher", stops), []).changed
        for stops in (["bc", "abcd", "b"], ["b", "ab", "b"], ["END"])
    )


@mistake(task=4)
def shared(lab):
    """One stream works; of two at once, each sees the other's text or stops.

    `__init__` must make the state of a stream. Do not keep it in a class attribute, a default
    argument or a global.
    """
    new = [lab.new("StopStringMatcher", [stop]) for stop in ("END", "XYZ")]
    alone = [outputs(lab, ["END"], "E", "b", "!"), outputs(lab, ["XYZ"], "a", "X", "!")]
    together = [trace.outputs for trace in lab.interleave(new, [["E", "b"], ["a", "X"]], "flush")]
    return alone == [["", "Eb", ""], ["a", "", "X"]] and together != alone
