"""`make serve`: the server on the engine's text path, or with `LAB_IMPL` on that of the labs."""

from pathlib import Path

from labkit.course.lab import find_labs
from labkit.errors import LoadFailure, UsageError
from labkit.running.lab_impl import choose, wanted
from labkit.running.under_test import CodeUnderTest
from labkit.serving.lab_path import LabPathFactory
from labkit.student.progress import Progress
from mini_vllm.engine import Request
from mini_vllm.server.cli import main as serve
from mini_vllm.tokenizer import Tokenizer

_PROGRAM = "make serve"


def run(arguments: list[str], root: Path) -> int:
    """Serve until Ctrl-C; return the exit code.

    Args:
        arguments: of the server's command line.
        root: the repository.

    Raises:
        LabkitError: `LAB_IMPL` names work that cannot serve.
    """
    if not wanted():
        return serve(arguments, program=_PROGRAM)
    make_path, note = _lab_path(root)

    def text_path(tokenizer: Tokenizer) -> LabPathFactory:
        make_path.eos_token_ids = tokenizer.eos_token_ids
        return make_path

    return serve(arguments, text_path=text_path, program=_PROGRAM, note=note)


def _lab_path(root: Path) -> tuple[LabPathFactory, str]:
    lab = next((lab for lab in find_labs(root) if lab.serves is not None), None)
    if lab is None:
        raise UsageError("no lab.toml has [serves], so no lab can serve")
    implementation = choose(wanted(), [lab], Path.cwd())[lab.path]
    code = CodeUnderTest(lab, implementation, root, Progress(root).passes)
    make_path = LabPathFactory(lab, code)
    try:
        path = make_path.build(Request((0,), tools=()))
        path.take(b"AB")
    except LoadFailure:
        raise
    except NotImplementedError as error:
        raise UsageError(
            f"{lab.label} is not ready to serve: {error} is still to do. "
            f"Go on with `make lab N={lab.number}`"
        ) from None
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{lab.label} is not ready to serve: its pipeline raised {type(error).__name__}: "
            f"{error}. See `make lab N={lab.number}`"
        ) from error
    lines = [f"Text path: {implementation.title} of {lab.name}", *code.where_parts_come_from()]
    return make_path, "".join(f"{line}\n" for line in lines) + "\n"
