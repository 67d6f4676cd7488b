"""Tool parsers by name: `python -m mini_vllm.text.tool_parsers FORMAT < text` shows the events."""

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mini_vllm.text.formats import FORMATS, find_format
from mini_vllm.text.schemas import parameter_types
from mini_vllm.text.stream_parser import StreamParser


def create_tool_parser(
    format: str, *, tools: Iterable[Mapping[str, Any]] | None = None
) -> StreamParser:
    """Return a parser for a family of models.

    Its `feed(text)` returns the events that are certain, `flush()` returns the rest, and `held` is
    the held text.

    Args:
        format: the name or an alias of a format in `FORMATS`.
        tools: the tools of the request. Formats that write arguments as tagged text take the types
            of parameters from the tools' schemas; a parameter without a schema is a string.

    Raises:
        ValueError: the format is unknown, or a schema is invalid; the message says which.
    """
    return StreamParser(find_format(format), types=parameter_types(tools))


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the events of the text on standard input, piece by piece; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m mini_vllm.text.tool_parsers",
        description="Show the events that a text produces as it arrives.",
    )
    parser.add_argument(
        "format", metavar="FORMAT", help=f"{', '.join(sorted(FORMATS))}, or an alias"
    )
    parser.add_argument(
        "--size", type=int, default=16, help="characters in a piece (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.size < 1:
        parser.error(f"--size is {options.size}; it must be at least 1")
    try:
        tool_parser = create_tool_parser(options.format)
    except ValueError as error:
        parser.error(str(error))
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        _show(tool_parser, text, options.size)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has ended, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _show(tool_parser: StreamParser, text: str, size: int) -> None:
    for start in range(0, len(text), size):
        piece = text[start : start + size]
        print(f"{piece!r}")
        for event in tool_parser.feed(piece):
            print(f"    {event}")
        if tool_parser.held:
            print(f"    held: {tool_parser.held!r}")
    print("flush")
    for event in tool_parser.flush():
        print(f"    {event}")


if __name__ == "__main__":
    sys.exit(main())
