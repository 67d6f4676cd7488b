"""A file or a folder of the repository as a page of the book: highlighted, with numbered lines."""

import re
from collections.abc import Iterable

from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

_LINES = re.compile(r"L(\d+)(?:-L?\d+)?")


def place_of(name: str) -> str:
    """Return the place in the book of the page of a file or folder, as a path of Markdown.

    Args:
        name: its path in the repository.
    """
    return f"files/{name}.md"


def file_page(name: str, text: str) -> str:
    """Return the page of a text file, in Markdown; it is not searched."""
    fence = "~" * max(3, 1 + max(map(len, re.findall("~+", text)), default=0))
    code = "\n".join([f'{fence} {{.{_language(name)} linenums="1"}}', text.rstrip("\n"), fence])
    return _page(name, code)


def folder_page(name: str, files: Iterable[str]) -> str:
    """Return the page of a folder, in Markdown: links to its files.

    Args:
        name: its path in the repository.
        files: the names of the files in it.
    """
    return _page(f"{name}/", "\n".join(f"- [`{file}`]({file})" for file in files))


def line_anchor(anchor: str) -> str:
    """Return the anchor on a file's page for one like `L12` or `L12-L20`, and "" for any other."""
    match = _LINES.fullmatch(anchor)
    return f"__span-0-{match[1]}" if match else ""


def _page(title: str, body: str) -> str:
    head = f"---\ntitle: {title}\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n"
    return f"{head}\n# `{title}`\n\n{body}\n"


def _language(name: str) -> str:
    try:
        return str(get_lexer_for_filename(name).aliases[0])
    except ClassNotFound:
        return "text"
