"""`make serve`: the server on the engine's text path, or with `LAB_IMPL` on that of the labs."""

from functools import partial
from pathlib import Path

from labkit.errors import LoadFailure
from labkit.running.lab_impl import lab_impl
from labkit.serving.composed import Composed, find_composed, wanted_track, why_not_ready
from labkit.serving.lab_channel import ROLE as CHANNEL
from labkit.serving.lab_channel import LabChannels
from labkit.serving.lab_frames import ROLE as FRAMES
from labkit.serving.lab_frames import LabFramesFactory
from labkit.serving.lab_path import LabPathFactory
from labkit.serving.layers import Maker
from mini_vllm.engine import Request
from mini_vllm.server.cli import main as serve
from mini_vllm.server.service import Wire

_PROGRAM = "make serve"
_OURS = (
    "Text path: the engine's own, mini_vllm/pipeline.py.\n"
    "LAB_IMPL=starter make serve puts your layers in it."
)
_WHEN = "This is the state at the server's start. Restart the server after a lab passes."


def run(arguments: list[str], root: Path) -> int:
    """Serve until Ctrl-C; return the exit code.

    Args:
        arguments: the server's command line.
        root: the repository.

    Raises:
        LabkitError: `LAB_IMPL` names code that cannot serve.
    """
    if not lab_impl():
        return serve(arguments, program=_PROGRAM, note=_OURS)
    composed = find_composed(root, lab_impl(), wanted_track())
    _try(composed)
    return serve(
        arguments,
        text_path=partial(LabPathFactory, composed),
        wire=wire_of(composed),
        tokenizer=str(composed.vocabulary or "byte"),
        program=_PROGRAM,
        note=f"{composed.header()}\n{_WHEN}",
    )


def _try(composed: Composed) -> None:
    """Make a path and feed it, so that faulty code is reported before the server starts."""
    try:
        path = LabPathFactory(composed).build(Request((0,), tools=()))
        path.take(b"AB")
    except LoadFailure:
        raise
    except (Exception, SystemExit) as error:
        raise why_not_ready(composed, "ready to serve", error) from error


def wire_of(composed: Composed) -> Wire:
    """Return the labs' wire to the client; layers that they do not build are the server's own."""
    maker, ours = Maker(composed, {}), Wire()
    return Wire(
        read=LabChannels(maker) if CHANNEL in composed.parts else ours.read,
        chat_stream=LabFramesFactory(maker) if FRAMES in composed.parts else ours.chat_stream,
        tells_stop=FRAMES not in composed.parts,
    )
