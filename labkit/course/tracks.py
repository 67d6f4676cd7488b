"""The two tracks of the ladder: at the end of the first, a student may stop with a complete course.

This is a file of its own because the board, the report of a run and `make watch` print this text.
"""

from collections.abc import Sequence

from labkit.course.lab import Lab


def track_done(labs: Sequence[Lab], following: Lab) -> str:
    """Return the text for a student whose next lab begins a later track; otherwise "".

    Args:
        labs: the labs of the ladder, in order.
        following: the first of them that does not pass.
    """
    first = next(lab for lab in labs if lab.track == following.track)
    if following != first or first == labs[0]:
        return ""
    track = labs[labs.index(first) - 1].track
    return (
        f"the {track} track is done, a complete course: see it work with make demo, then "
        "LAB_IMPL=starter make serve"
    )
