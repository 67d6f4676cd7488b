"""`make serve`: the server on the engine's text path, or with `LAB_IMPL` on that of the labs."""

from pathlib import Path

from labkit.errors import LoadFailure
from labkit.running.lab_impl import wanted
from labkit.serving.composed import find_composed, why_not_ready
from labkit.serving.lab_path import LabPathFactory
from mini_vllm.engine import Request
from mini_vllm.server.cli import main as serve
from mini_vllm.tokenizer import Tokenizer

_PROGRAM = "make serve"
_OURS = "Text path: the engine's own, mini_vllm/pipeline.py. LAB_IMPL=starter serves your labs.\n\n"
_SAMPLE = "aé€🚀"


def run(arguments: list[str], root: Path) -> int:
    """Serve until Ctrl-C; return the exit code.

    Args:
        arguments: of the server's command line.
        root: the repository.

    Raises:
        LabkitError: `LAB_IMPL` names work that cannot serve.
    """
    if not wanted():
        return serve(arguments, program=_PROGRAM, note=_OURS)
    make_path, note = _lab_path(root)

    def text_path(tokenizer: Tokenizer) -> LabPathFactory:
        if list(tokenizer.encode(_SAMPLE).ids) != list(_SAMPLE.encode()):
            raise ValueError(
                "LAB_IMPL serves a model whose ids are bytes, as those of the labs are; this "
                "tokenizer has others. Leave LAB_IMPL out"
            )
        make_path.eos_token_ids = tokenizer.eos_token_ids
        return make_path

    return serve(arguments, text_path=text_path, program=_PROGRAM, note=note)


def _lab_path(root: Path) -> tuple[LabPathFactory, str]:
    composed = find_composed(root, wanted())
    make_path = LabPathFactory(composed)
    try:
        path = make_path.build(Request((0,), tools=()))
        path.take(b"AB")
    except LoadFailure:
        raise
    except (Exception, SystemExit) as error:
        raise why_not_ready(composed, "ready to serve", error) from error
    return make_path, f"{composed.told}\n\n"
