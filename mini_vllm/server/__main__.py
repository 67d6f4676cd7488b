"""`python -m mini_vllm.server`."""

import sys
from collections.abc import Sequence


def main(
    arguments: Sequence[str] | None = None, *, program: str = "python -m mini_vllm.server"
) -> int:
    """Run `mini_vllm.server.cli.main`; return its exit code, or 1 if a library is not installed."""
    try:
        from mini_vllm.server import cli
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library == "mini_vllm":
            raise
        print(
            f"error: the server needs {library}: `make serve` installs it in a checkout, "
            "`pip install '.[serve]'` there installs it for another environment",
            file=sys.stderr,
        )
        return 1
    return cli.main(arguments, program=program)


if __name__ == "__main__":
    sys.exit(main())
