"""Look at a tokenizer: `python -m mini_vllm.tokenizer PATH-OR-NAME --text "..."`.

For each token it shows the id, the vocabulary's spelling, the bytes, and the text that a stream
emits and holds at that moment.
"""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mini_vllm.tokenizer.factory import create_tokenizer
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer.streams.factory import create_decode_stream
from mini_vllm.tokenizer_errors import TokenizerError

_SAMPLE = "naïve café — 你好 🚀"


def main(
    arguments: Sequence[str] | None = None, *, program: str = "python -m mini_vllm.tokenizer"
) -> int:
    """Run the command; return the exit code: 0, or 1 if the tokenizer or the text is unusable."""
    options = _parser(program).parse_args(arguments)
    try:
        tokenizer = create_tokenizer(options.tokenizer)
        if options.ids is not None:
            ids: Sequence[int] = options.ids
        else:
            ids = tokenizer.encode(
                options.text,
                add_special_tokens=options.add_special_tokens,
                allowed_special="all",
            ).ids
    except TokenizerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    console = Console()
    console.print(_summary(tokenizer))
    console.print(_stream(tokenizer, ids, skip=options.skip_special_tokens))
    return 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Show the ids, pieces and bytes of a text, and how they stream.",
        epilog="A hub repository needs a network, and HF_TOKEN if it is gated.",
    )
    parser.add_argument(
        "tokenizer",
        metavar="PATH-OR-NAME",
        help="a file or folder, ORGANISATION/MODEL at the hub, a model name such as gpt-4, "
        "or one of: byte, mock",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--text", default=_SAMPLE, help=f"the text to encode (default: {_SAMPLE})")
    what.add_argument("--ids", type=int, nargs="+", metavar="ID", help="stream these ids instead")
    parser.add_argument(
        "--add-special-tokens", action="store_true", help="encode with BOS and the like"
    )
    parser.add_argument(
        "--skip-special-tokens", action="store_true", help="leave special tokens out of the stream"
    )
    return parser


def _summary(tokenizer: Tokenizer) -> Table:
    special = tokenizer.special_tokens
    roles = [f"bos {special.bos}", f"eos {special.eos}"]
    exact = "a table of pieces: exact" if tokenizer.pieces else "a window of ids, see decode_stream"
    table = Table(show_header=False, box=None)
    table.add_row("tokenizer", Text(type(tokenizer).__name__))
    table.add_row("vocabulary", f"{tokenizer.vocab_size:,} ids")
    table.add_row("special", Text(", ".join([*roles, f"{len(special.all())} in all"])))
    table.add_row("streams by", exact)
    return table


def _stream(tokenizer: Tokenizer, ids: Sequence[int], *, skip: bool) -> Table:
    table = Table("id", "piece", "bytes", "emitted", "held", title=f"{len(ids)} tokens")
    stream = create_decode_stream(tokenizer, skip_special_tokens=skip)
    for token_id in ids:
        emitted = stream.step(token_id)
        table.add_row(
            str(token_id),
            Text(repr(tokenizer.id_to_token(token_id) or "")),
            _bytes_of(tokenizer, token_id),
            Text(repr(emitted) if emitted else ""),
            stream.held.hex(" "),
        )
    rest = stream.flush()
    if rest:
        table.add_row("flush", "", "", Text(repr(rest)), "")
    return table


def _bytes_of(tokenizer: Tokenizer, token_id: int) -> str:
    pieces = tokenizer.pieces
    if pieces is None or not 0 <= token_id < len(pieces.rest):
        return ""
    return (pieces.rest[token_id] or b"").hex(" ")


if __name__ == "__main__":
    sys.exit(main())
