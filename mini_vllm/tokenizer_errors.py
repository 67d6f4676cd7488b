"""The errors of tokenizers and chat templates; each message names the culprit."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

# The largest tokenizer files of models have some 40 million.
_MOST_BYTES = 1 << 29


class TokenizerError(Exception):
    """Base of all errors of tokenizers and chat templates."""


class TokenizerFileNotFound(TokenizerError):
    """A file or folder does not exist."""

    def __init__(self, path: str | PathLike[str]) -> None:
        super().__init__(f"File not found: {path}")
        self.path = path


class MissingLibrary(TokenizerError, ImportError):
    """The library of a backend is not installed. `name` is the library's."""

    def __init__(self, user: str, library: str) -> None:
        super().__init__(
            f"{user} needs the {library} package: `make tokenizer`, or `pip install "
            "--require-hashes -r requirements/tokenizers.txt`, in a checkout; "
            f"`pip install {library}` elsewhere"
        )
        self.name = library


class UnsupportedFormat(TokenizerError):
    """A file is of a kind that we cannot read."""

    def __init__(self, detail: str, supported: Sequence[str] = ()) -> None:
        known = f"; supported: {', '.join(supported)}" if supported else ""
        super().__init__(detail + known)
        self.supported = tuple(supported)


class CorruptModelFile(TokenizerError):
    """A file of a known kind is damaged. `offset` is in bytes, or None if it is unknown."""

    def __init__(self, path: str | PathLike[str], offset: int | None, detail: str) -> None:
        where = "" if offset is None else f" at byte {offset}"
        super().__init__(f"{path}{where}: {detail}")
        self.path = path
        self.offset = offset
        self.detail = detail


class UnknownModel(TokenizerError):
    """A model name is not in any mapping. `near` has the most similar names."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        super().__init__(
            f"unknown model {name!r}{hint} "
            "(a hub repository is written ORGANISATION/MODEL, a file with its path)"
        )
        self.name = name
        self.near = tuple(near)


class UnknownTokenId(TokenizerError):
    """An id is not in the vocabulary."""

    def __init__(self, token_id: int) -> None:
        super().__init__(f"token id {token_id} is not in the vocabulary")
        self.token_id = token_id


class EncodeError(TokenizerError):
    """A text cannot be encoded. `index` is its place in a batch, or None."""

    def __init__(self, detail: str, index: int | None = None) -> None:
        super().__init__(detail if index is None else f"text {index} of the batch: {detail}")
        self.detail = detail
        self.index = index


class DecodeError(TokenizerError):
    """Ids cannot be decoded, for a reason other than an unknown id."""


class ChatTemplateError(TokenizerError):
    """A chat template is invalid, refused, or raised."""


class HubError(TokenizerError):
    """A tokenizer could not be fetched from the hub."""


def checked_file(path: str | PathLike[str]) -> Path:
    """Return the path of a file that can be read whole.

    Raises:
        TokenizerFileNotFound: the file does not exist.
        UnsupportedFormat: the file is far larger than any tokenizer, and too large for memory.
    """
    path = Path(path)
    if not path.is_file():
        raise TokenizerFileNotFound(path)
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise UnsupportedFormat(
            f"{path} has {size:,} bytes; no tokenizer has more than {_MOST_BYTES:,}, so the file "
            "is something else, or damaged"
        )
    return path


def is_library_fault(error: BaseException) -> bool:
    """Return whether a library failed. A panic in Rust code is not even an Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
