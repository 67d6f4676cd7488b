"""The two tracks of the ladder: where one ends, a student may stop with a whole course.

Its own file because the board, the report of a run and `make watch` say it alike.
"""

from collections.abc import Sequence

from labkit.course.lab import Lab


def track_done(labs: Sequence[Lab], following: Lab) -> str:
    """Return what to say where the next lab begins another track than the first; else "".

    Args:
        labs: the labs of the ladder, in order.
        following: the first of them that does not pass.
    """
    first = next(lab for lab in labs if lab.track == following.track)
    if following != first or first == labs[0]:
        return ""
    track = labs[labs.index(first) - 1].track
    return (
        f"the {track} track is done, a whole course: see it work with make demo, then "
        "LAB_IMPL=starter make serve"
    )
