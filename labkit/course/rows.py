"""The TOML files of a course: reading them, rows as objects, and rows that are edits."""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from labkit.errors import LabFolderError

_T = TypeVar("_T")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a lab's TOML file.

    Raises:
        LabFolderError: it is missing, or is not valid TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise LabFolderError(f"{path} is missing: every lab has one") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LabFolderError(f"{path}: {error}") from None


def build(kind: type[_T], row: dict[str, Any], file: Path, **convert: Any) -> _T:
    """Return a row of a TOML file as an object.

    Args:
        kind: its dataclass.
        row: the row.
        file: the file of the row, for messages.
        convert: by field, the function that converts TOML's value.

    Raises:
        LabFolderError: a field is missing, unknown, or not of its type.
    """
    where = f"{file}: {kind.__name__} {row.get('name', '')}".rstrip()
    try:
        built = kind(**{key: convert.get(key, _as_it_is)(value) for key, value in row.items()})
    except TypeError as error:
        raise LabFolderError(f"{where}: {error}") from None
    for field in fields(built):  # type: ignore[arg-type]
        value = getattr(built, field.name)
        if field.type in (str, int) and type(value) is not field.type:
            type_name = {str: "text", int: "a whole number"}[field.type]
            raise LabFolderError(f"{where}: {field.name} is {value!r}, but must be {type_name}")
    return built


def _as_it_is(value: Any) -> Any:
    return value


def edited(text: str, find: str, replace: str, where: str) -> str:
    """Return a text with the one occurrence of `find` replaced.

    Raises:
        ValueError: `find` does not occur once; the message begins with `where`.
    """
    if text.count(find) != 1:
        raise ValueError(f"{where}: `find` occurs {text.count(find)} times; it must occur once")
    return text.replace(find, replace)
