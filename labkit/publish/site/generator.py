"""From the book's Markdown to pages: Zensical's configuration, and a run of it.

Zensical is used for three reasons: the makers of MkDocs Material maintain it as the successor, it
builds this book in three seconds, and without web fonts its pages send no request to another host.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from labkit.errors import LabkitError
from labkit.publish.packing import write_folder
from labkit.publish.site.book import Book

_ASSETS = tuple(Path(__file__).with_name(name) for name in ("book.css", "search.js"))
# GitHub's Markdown, in which the documents are written, and no more.
_MARKDOWN = {
    "toc": {
        "permalink": True,
        "slugify": {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}},
    },
    "tables": {"use_align_attribute": True},
    "sane_lists": {},
    "md_in_html": {},
    "pymdownx.highlight": {"line_spans": "__span", "linenums_style": "pymdownx-inline"},
    "pymdownx.superfences": {},
}
_FEATURES = [
    "navigation.footer", "navigation.indexes", "navigation.sections", "content.code.copy",
    "search.highlight", "toc.follow",
]  # fmt: skip


def configuration(book: Book, name: str) -> dict[str, Any]:
    """Return Zensical's configuration, for a file `mkdocs.yml` beside `docs`; YAML reads JSON.

    Args:
        book: the book.
        name: of the site.
    """
    return {
        "site_name": name,
        "docs_dir": "docs",
        "site_dir": "out",
        "nav": book.nav,
        "theme": {
            "name": "material",
            "font": False,
            "features": _FEATURES,
            "palette": [
                # The system's choice, until the reader makes another.
                _palette("(prefers-color-scheme)", None, "dark", "lucide/sun-moon"),
                _palette("(prefers-color-scheme: dark)", "slate", "light", "lucide/moon"),
                _palette("(prefers-color-scheme: light)", "default", "the system's", "lucide/sun"),
            ],
        },
        "extra_css": ["assets/book.css", "bench/site.css"],
        "extra_javascript": [{"path": "bench/page.js", "type": "module"}],
        "extra": {"generator": False, "polyfills": ["assets/search.js"]},
        "markdown_extensions": [{name: options} for name, options in _MARKDOWN.items()],
    }


def _palette(media: str, scheme: str | None, next_scheme: str, icon: str) -> dict[str, Any]:
    """Return a set of colours, with the button that switches to the next set."""
    return {
        "media": media,
        **({"scheme": scheme, "primary": "indigo", "accent": "indigo"} if scheme else {}),
        "toggle": {"icon": icon, "name": f"Switch to {next_scheme} colours"},
    }


def generate(book: Book, name: str, work: Path) -> Path:
    """Write the book's pages; return the folder that holds them.

    Args:
        book: the book.
        name: of the site.
        work: an empty folder to work in.

    Raises:
        LabkitError: Zensical found a mistake; the message is its own.
    """
    files = {place: text.encode() for place, text in book.pages.items()}
    files |= book.images | {f"assets/{path.name}": path.read_bytes() for path in _ASSETS}
    write_folder(work / "docs", files)
    settings = work / "mkdocs.yml"
    settings.write_text(json.dumps(configuration(book, name), indent=1), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "zensical", "build", "--strict", "-f", settings.name],
        cwd=work,
        env={**os.environ, "NO_COLOR": "1", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise LabkitError(f"zensical could not build the book:\n{ran.stdout}{ran.stderr}")
    return work / "out"
