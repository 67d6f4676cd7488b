"""Each hostile submission earns what its honest work earns, harms no other, and leaves nothing."""

import ast
import os
import time

import pytest
from cheats import CHEATS, handed_in
from cheats_answers import SLOW
from cheats_channels import CHANNELS
from cheats_walls import WALLS
from walled import Grader, hurried

from labkit.isolation import bubblewrap
from labkit.isolation.sandbox import Sandbox

# Those that try the walls which a container has instead of bubblewrap's.
SOME = """
changes_calls eats_disk exit_in_call forks linked_results mounts network own_answer signals
signals_always reads_environment reads_processes reads_solution runs_programs thread_bomb
walks_frames
""".split()  # noqa: SIM905
IN_CONTAINER = {*SOME, *WALLS, *CHANNELS}
# Those that end at a limit, which is short for them: late or not, they earn nothing.
LATE = ("closes_pipe", "sleeps", "spins", *SLOW)
# Where the statements of a cheat say that they run. An empty folder each takes no descriptor, and
# stays whatever becomes of the process.
RAN = "/ran"
SAYS = """
def _ran(place, mkdir=__import__("os").mkdir, said=set()):
    if place not in said:
        said.add(place)
        try:
            mkdir(place)
        except OSError:
            pass
"""
ALL = [(earns, cheat) for earns, found in CHEATS.items() for cheat in found]


@pytest.fixture(scope="module")
def grader_in(need, sandbox_in):
    """A grader in a mode; the grade of the solution is the same before and after all cheats."""
    made = {}

    def grader_in(mode):
        if mode not in made:
            made[mode] = Grader(sandbox_in(need(mode)))
            made[mode].before = made[mode].honest()
        return made[mode]

    yield grader_in
    assert [one.honest() for one in made.values()] == [one.before for one in made.values()]


def test_there_are_enough_of_them():
    assert len(ALL) >= 80
    assert {cheat for _, cheat in ALL} >= {*IN_CONTAINER, *LATE}


@pytest.mark.parametrize("mode", ["sandbox", "container"])
def test_what_honest_work_earns(grader_in, mode):
    grader = grader_in(mode)
    assert b'"score": 100,' in grader.before
    # Of a cheat without its cheat.
    assert grader.grade(handed_in(""))["score"] == 40


@pytest.mark.parametrize(
    ("mode", "earns", "cheat"),
    [
        *(("sandbox", *row) for row in ALL),
        *(("container", *row) for row in ALL if row[1] in IN_CONTAINER),
    ],
)
def test_earns_what_its_honest_work_earns(grader_in, mode, earns, cheat, monkeypatch):
    grader = grader_in(mode)
    # Later, others on this machine may become users that were free again.
    grader.sandbox.users.clear()
    with monkeypatch.context() as patch:
        if cheat in LATE:
            hurried(patch)
        found = grader.grade(handed_in(CHEATS[earns][cheat]))
    assert found["score"] == earns, found["tests"]
    assert len(found["tests"]) == 8
    if os.environ.get("SOAK"):
        # Not only after all of them, in the same slot; here it is known who did the harm.
        assert grader.honest() == grader.before
    # The kernel ends what is left in a sandbox, a moment later.
    deadline = time.monotonic() + 60
    while left := grader.processes():
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


class Saying(ast.NodeTransformer):
    """Has each statement say that it runs, but for those that say that a wall gives way."""

    def __init__(self, cheat):
        self.cheat = cheat
        self.places = {}

    def generic_visit(self, node):
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, name, None), list):
                setattr(node, name, [part for one in statements for part in self.said(one)])
        return node

    def said(self, statement):
        text = ast.unparse(statement)
        if not text.startswith("raise SystemError("):
            name = f"{self.cheat}-{statement.lineno}-{statement.col_offset}"
            self.places[name] = text.partition("\n")[0]
            yield ast.parse(f"_ran({f'{RAN}/{name}'!r})").body[0]
        yield statement


@pytest.fixture(scope="module")
def hearing(need, tmp_path_factory):
    """A grader in a sandbox with one more folder, to which all can write; and that folder."""
    folder = tmp_path_factory.mktemp("ran")
    folder.chmod(0o777)
    with pytest.MonkeyPatch.context() as patch, Sandbox(need("sandbox")) as sandbox:
        walls = bubblewrap.walls

        def with_folder(library):
            words = walls(library)
            place = words.index("--new-session") + 1
            return [*words[:place], "--bind", str(folder), RAN, *words[place:]]

        patch.setattr(bubblewrap, "walls", with_folder)
        yield Grader(sandbox), folder


@pytest.mark.parametrize(("earns", "cheat"), ALL)
def test_all_of_its_attack_runs(hearing, earns, cheat, monkeypatch):
    """A cheat that dies before its attack would look defeated."""
    grader, folder = hearing
    saying = Saying(cheat)
    text = ast.unparse(saying.visit(ast.parse(CHEATS[earns][cheat])))
    if cheat in LATE:
        hurried(monkeypatch)
    grader.grade(handed_in(SAYS + text))
    ran = {path.name for path in folder.iterdir()}
    assert {place: text for place, text in saying.places.items() if place not in ran} == {}
