"""The gates of `make check`: each is a function from a repository's folder to findings.

A gate that finds nothing returns `[]`. A finding fails the check; a note only informs.
"""

from labkit.gates.arrows import arrows_point_down
from labkit.gates.attempts import attempts_score_as_recorded
from labkit.gates.clients import clients_read_as_recorded
from labkit.gates.diagnoses import mistakes_are_known
from labkit.gates.finding import Finding, Gate
from labkit.gates.kills import bugs_die_as_listed, solution_passes, starter_fails_by_task
from labkit.gates.marks import tests_are_marked
from labkit.gates.order import tasks_pass_in_order
from labkit.gates.pools import pools_are_fair
from labkit.gates.predictions import predictions_are_true
from labkit.gates.promises.gate import promises_are_kept
from labkit.gates.races import races_are_fair
from labkit.gates.starters import starter_is_pristine, starter_matches_solution
from labkit.gates.style import style_is_uniform, types_hold
from labkit.gates.tables import tables_earn_little
from labkit.gates.text.edition import edition_is_true
from labkit.gates.text.names import names_are_nouns
from labkit.gates.text.readmes import readmes_are_true
from labkit.gates.text.wording import wording_improves

GATES: dict[str, Gate] = {
    "style": style_is_uniform,
    "types": types_hold,
    "names": names_are_nouns,
    "marks": tests_are_marked,
    "pristine": starter_is_pristine,
    "signatures": starter_matches_solution,
    "readmes": readmes_are_true,
    "wording": wording_improves,
    "predictions": predictions_are_true,
    "diagnoses": mistakes_are_known,
    "races": races_are_fair,
    "arrows": arrows_point_down,
    "solution": solution_passes,
    "starter": starter_fails_by_task,
    "order": tasks_pass_in_order,
    "bugs": bugs_die_as_listed,
    "attempts": attempts_score_as_recorded,
    "tables": tables_earn_little,
    "pools": pools_are_fair,
    "clients": clients_read_as_recorded,
    "edition": edition_is_true,
    "promises": promises_are_kept,
}

# The gates that request runs of labs, which they share: they work at the same time.
RUNNING = ("solution", "starter", "order", "bugs", "attempts")
# The gates that mostly wait for other programs.
WAITING = ("promises",)
# The long gates that request no runs: each works in another process, a lab at a time. The value is
# about the number of seconds that it takes.
BESIDE = {"pools": 60, "tables": 5}

__all__ = ["BESIDE", "GATES", "RUNNING", "WAITING", "Finding", "Gate"]
