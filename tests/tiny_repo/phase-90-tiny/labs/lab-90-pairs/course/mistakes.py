"""The common mistakes of this lab, each with a probe that only it answers."""

from labkit.testing import mistake


def outputs(lab, *calls):
    """Return the results of calls on a new object."""
    return lab.script(lab.new("Pairs"), calls, watch="").outputs


@mistake(task=1)
def triples(lab):
    """Text is emitted in threes.

    A pair is two characters: look at the number that you divide by.
    """
    return outputs(lab, ("feed", "ab"), ("feed", "c")) == ["", "abc"]


@mistake(task=1)
def eager(lab):
    """The odd character is not held.

    How much of the text is whole pairs? The rest has to wait for the next feed.
    """
    return outputs(lab, ("feed", "abc"), ("feed", "d")) == ["abc", "d"]


@mistake(task=1)
def space(lab):
    """An empty piece gives a space.

    What should be emitted when nothing was fed?
    """
    return outputs(lab, ("feed", "")) == [" "]


@mistake(task=2)
def drops(lab):
    """The last character is missing.

    Something still waits when the stream ends: `flush` has to return it.
    """
    return outputs(lab, ("feed", "a"), ("flush",)) == ["", ""]


@mistake(task=2)
def keeps(lab):
    """The last character is emitted twice.

    After `flush` nothing is held: empty the buffer.
    """
    return outputs(lab, ("feed", "a"), ("flush",), ("flush",)) == ["", "a", "a"]


@mistake(task=1, overdue=["test_property_linear"])
def slow(lab):
    """Every piece takes as long as many others.

    Look for work that does not depend on the piece.
    """
    return True
