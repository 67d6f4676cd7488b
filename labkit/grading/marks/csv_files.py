"""Tables that an instructor hands to `grade`, as CSV: as a platform exports them, or made by hand.

The encoding is UTF-8, with or without a byte order mark, or UTF-16 with a mark. Cells are separated
by commas, semicolons or tabs: the separator is the most frequent of these in the first line.
"""

import codecs
import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import UsageError

MOST_BYTES = 16 << 20
# A spreadsheet reads a cell with such a first character as a formula, and students choose file
# names.
_FORMULA = tuple("=+-@\t\r")
_SEPARATORS = ",;\t"


@dataclass(frozen=True, eq=False)
class Row:
    """A line of a table.

    Attributes:
        place: `FILE line N`, for messages.
        cells: by title as `title_of` has it; a cell that the line does not have is empty.
    """

    place: str
    cells: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Table:
    """A file of CSV.

    Attributes:
        path: of the file.
        titles: its first line.
        rows: those that are not empty.
    """

    path: Path
    titles: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def known(self) -> frozenset[str]:
        """The titles as `title_of` has them."""
        return frozenset(map(title_of, self.titles))


def title_of(text: str) -> str:
    """Return a title as tables are searched for it: without capitals and blanks around it."""
    return " ".join(text.casefold().replace("_", " ").split())


def inert(text: str) -> str:
    """Return a text for a cell; a text that looks like a formula gets an apostrophe in front."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def read_csv(path: Path, option: str) -> Table:
    """Return the table in a file.

    Args:
        path: of the file.
        option: that named it, for messages.

    Raises:
        UsageError: the file cannot be read, or is not CSV with a first line of titles.
    """
    text = _read(path, option)
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        titles = tuple(cell.strip() for cell in next(lines, ()))
        if not any(titles):
            raise UsageError(f"{option} {path} is empty; its first line names the columns")
        return Table(path, titles, tuple(_rows(lines, titles, path, option)))
    except csv.Error as error:
        raise UsageError(f"{option} {path} line {lines.line_num} is not CSV: {error}") from None


def _rows(
    lines: Iterator[list[str]], titles: tuple[str, ...], path: Path, option: str
) -> Iterator[Row]:
    names = [*map(title_of, titles)]
    for cells in lines:
        if not any(map(str.strip, cells)):
            continue
        place = f"{option} {path} line {lines.line_num}"  # type: ignore[attr-defined]
        if any(map(str.strip, cells[len(names) :])):
            raise UsageError(
                f"{place} has {len(cells)} cells, and the first line {len(names)}: put a cell that "
                'has a comma in it between "quotes"'
            )
        by_title = dict.fromkeys(names, "")
        # If two columns have the same title, the first counts.
        for name, cell in reversed([*zip(names, cells, strict=False)]):
            by_title[name] = cell.strip()
        yield Row(place, by_title)


def _read(path: Path, option: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise UsageError(f"{option} {path} has more than {MOST_BYTES} bytes; is it the right file?")
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{option} {path} line {line} is not UTF-8; save it as CSV in UTF-8"
        ) from None
    if "\0" in text:
        raise UsageError(f"{option} {path} is not text; export it as CSV")
    return text
