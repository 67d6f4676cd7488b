"""The program `mini-vllm`, also `python -m mini_vllm`: the engine outside the course.

Each verb is also a module that can be run by itself: `python -m mini_vllm.server`.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

from mini_vllm import __version__

_VERBS = {
    "serve": ("mini_vllm.server.__main__", "an OpenAI-compatible server, with a page to watch it"),
    "stream": ("mini_vllm.stream", "requests of a file, streamed side by side in a terminal"),
    "tokenizer": ("mini_vllm.tokenizer.__main__", "the ids, pieces and bytes of a text"),
}
_USAGE = "\n".join(
    [
        "usage: mini-vllm VERB ...    (mini-vllm VERB --help lists its options)\n",
        *(f"  {verb:10} {what}" for verb, (_, what) in _VERBS.items()),
    ]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; return its exit code, or 2 for an unknown verb."""
    verb, *rest = [*(sys.argv[1:] if arguments is None else arguments)] or ["--help"]
    if verb in ("-h", "--help"):
        print(_USAGE)
        return 0
    if verb == "--version":
        print(f"mini-vllm {__version__}")
        return 0
    if verb not in _VERBS:
        print(f"mini-vllm: {verb} is not a verb\n{_USAGE}", file=sys.stderr)
        return 2
    module, _ = _VERBS[verb]
    code: int = import_module(module).main(rest, program=f"mini-vllm {verb}")
    return code


if __name__ == "__main__":
    sys.exit(main())
