"""The step at which the recording of slow or endless code opens, and why."""

import re
from collections import Counter
from collections.abc import Sequence

from labkit.running.recording.openings import NO_STEPS, Opening
from labkit.running.recording.recorder import Place
from labkit.running.recording.recording import EXCEPTION, LINE, Step
from labkit.running.recording.replay import Replay
from labkit.running.recording.values import size_of

# So often must the same values return to make a loop endless.
_FEWEST_RETURNS = 3
_MOST_NAMES = 4
# Values of libraries are not shown; long lists are shown with their number of items, and long texts
# with their size.
_KNOWN = re.compile(
    r"\(…\)|… [\d,]+ more|^(?:b|bytearray\(b)?['\"].* \([\d,]+ (?:byte|character)s\)$"
)
# If several lines copied about as much as the line that copied most, the last is shown.
_NEARLY_ALL = 0.99


def at_loop(replay: Replay) -> Opening:
    """Open at the loop of a call that did not end: the line whose values return most often."""
    steps = replay.recorder.steps
    if not replay.running and not steps:
        return Opening("nothing", f"{NO_STEPS} before the time limit", None)
    count, names, number = _returning(steps)
    if count >= _FEWEST_RETURNS:
        shown = ", ".join(names[:_MOST_NAMES])
        values = f"the same values ({shown})" if names else "the same state"
        place = steps[number].part, steps[number].line
        why = (
            f"{replay.line_in_words(place)}: {values} return, {count:,} times in {len(steps):,} "
            f"steps; it ran {replay.counter.lines[place]:,} times in all"
        )
        return Opening("loop", why, number)
    return at_cost(replay, "loop")


def _returning(steps: Sequence[Step]) -> tuple[int, list[str], int]:
    """Return how often the values of one line return, for the line whose values return most often;
    the names of the values, and a step of that line.

    Functions that still run at the end are compared, as each call of a function has new values. A
    step counts only if a change of any of its values would be seen.
    """
    values: dict[int, dict[str, str]] = {}
    counts: Counter[tuple[int, int, tuple[tuple[str, str], ...]]] = Counter()
    last: dict[tuple[int, int, tuple[tuple[str, str], ...]], int] = {}
    for number, step in enumerate(steps):
        own = values.setdefault(step.frame, {})
        own.update(step.values)
        if step.event == LINE and not any(map(_hides, own.values())):
            state = (step.frame, step.line, tuple(own.items()))
            counts[state] += 1
            last.setdefault(state, number)
        own.update((name, after) for name, (_, after) in step.changes.items())
    if not counts:
        return 0, [], 0
    state, count = max(counts.items(), key=lambda item: (item[1], -last[item[0]]))
    return count, [name for name, _ in state[2]], last[state]


def _hides(text: str) -> bool:
    """Return whether the text of a value leaves out a part that may change: not the value of a
    library, and not the middle of a text whose size is shown.
    """
    return "…" in _KNOWN.sub("", text)


def at_cost(replay: Replay, kind: str = "cost") -> Opening:
    """Open at the line that ran most, or that copied most."""
    counter, recorder = replay.counter, replay.recorder
    steps = recorder.steps
    places = {(step.part, step.line) for step in steps if step.event != EXCEPTION}
    lines = [place for place, _ in counter.lines.most_common() if place in places]
    if not lines:
        return Opening("nothing", NO_STEPS, None)
    line = lines[0]
    others = "" if counter.lines[line] == max(counter.lines.values()) else " that runs at the end"
    words = [
        f"{replay.line_in_words(line)} ran {counter.lines[line]:,} times, more than any "
        f"other{others}"
    ]
    first, last = _growth(replay)
    if last > 2 * first:
        words.append(f"a call runs {first:,.0f} lines at the start, {last:,.0f} at the end")
    most = max(recorder.copied.values(), default=0)
    if most > len(steps):
        # A line that only reads a value precedes the line that copies the value.
        nearly = [item for item in recorder.copied.items() if item[1] > _NEARLY_ALL * most]
        place, size = max(nearly)
        is_cause = last <= 2 * first and size > 20 * len(steps)
        line = place if is_cause else line
        made = (
            f"in the last {len(steps):,} steps, {replay.line_in_words(place)} made values with "
            f"{size:,} characters, bytes or items"
        )
        words.insert(0 if is_cause else len(words), made)
    return Opening(kind, "; ".join(words), _last(steps, line) or 0)


def _last(steps: Sequence[Step], place: Place) -> int | None:
    """Return the last step of a line, if possible one that changes a value."""
    own = [n for n, step in enumerate(steps)
           if (step.part, step.line) == place and step.event != EXCEPTION]  # fmt: skip
    return max(own, key=lambda n: (bool(steps[n].changes), n), default=None)


def _growth(replay: Replay) -> tuple[float, float]:
    """Return how many lines a call runs on average, among the first and among the last calls, of
    those calls that have the same name and arguments of the same size.
    """
    like: dict[tuple[object, ...], list[int]] = {}
    for number, step in enumerate(replay.trace.steps):
        sizes = map(size_of, step.call.args or ())
        counts = like.setdefault((step.call.object, step.call.name, *sizes), [])
        counts.append(replay.counter.by_call[number])
    counts = max(like.values(), key=len, default=[])
    part = max(1, len(counts) // 10)
    if len(counts) < 2:
        return 1.0, 1.0
    return sum(counts[:part]) / part, sum(counts[-part:]) / part
