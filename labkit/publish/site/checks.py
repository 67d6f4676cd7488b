"""Checks of a built site: every link has a target, pages fetch nothing from other hosts, sizes."""

import gzip
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from labkit.course.markdown import leads_out
from labkit.errors import LabkitError

MOST_BYTES = 25_000_000
MOST_OF_A_PAGE = 300_000
_FETCHED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}
_IMPORT = re.compile(r"""\b(?:from|import)\s*["'](\./[^"']+)["']""")


class Page(HTMLParser):
    """The links of a page, the files that it fetches when opened or scrolled, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.lazy: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links and anchors of one element."""
        attributes = {name: value or "" for name, value in attrs}
        self.anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        target = attributes.get(_FETCHED.get(tag, ""), "")
        if target and attributes.get("rel") not in ("prev", "next"):
            (self.lazy if attributes.get("loading") == "lazy" else self.fetched).append(target)


def check_site(folder: Path) -> None:
    """Check a built site.

    Raises:
        LabkitError: a link has no target, a page fetches from another host, or the site is too
            large. The message names the page and each cause.
    """
    folder = folder.resolve()
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(folder.rglob("*.html"))}
    wrong = [complaint for path in pages for complaint in _complaints(path, pages, folder)]
    if not wrong:
        wrong = [*_too_large(folder), *_too_heavy(folder, pages)]
    if wrong:
        raise LabkitError(
            "the site has faults:\n" + "\n".join(f"  {complaint}" for complaint in wrong)
        )


def _complaints(path: Path, pages: dict[Path, Page], folder: Path) -> list[str]:
    """Return the faults of the links of one page."""
    page, name = pages[path], path.relative_to(folder).as_posix()
    complaints = [
        f"{name}: fetches {target} from another host"
        for target in (*page.fetched, *page.lazy)
        if leads_out(target) and not target.startswith("data:")
    ]
    for target in (*page.links, *page.fetched, *page.lazy):
        if leads_out(target):
            continue
        file, anchor = _where(path, target, folder)
        if file is None or not file.is_file():
            complaints.append(f"{name}: the link to {target} leads to no page")
        elif anchor and file in pages and anchor not in pages[file].anchors:
            complaints.append(f"{name}: the link to {target} leads to no place on that page")
    return complaints


def _where(path: Path, target: str, folder: Path) -> tuple[Path | None, str]:
    """Return the target file of a link (None: outside the site), and the anchor in it."""
    parts = urlsplit(target)
    file = path
    if parts.path:
        file = Path((path.parent / unquote(parts.path)).resolve())
        if file.is_dir():
            file /= "index.html"
    inside = file == path or file.is_relative_to(folder.resolve())
    return (file if inside else None), unquote(parts.fragment)


def _too_large(folder: Path) -> list[str]:
    size = folder_bytes(folder)
    if size <= MOST_BYTES:
        return []
    return [f"the folder has {size:,} bytes, and at most {MOST_BYTES:,} are allowed"]


def folder_bytes(folder: Path) -> int:
    """Return the number of bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _too_heavy(folder: Path, pages: dict[Path, Page]) -> list[str]:
    complaints = []
    for path in pages:
        size = page_bytes(path, pages[path], folder)
        if size > MOST_OF_A_PAGE:
            name = path.relative_to(folder).as_posix()
            complaints.append(
                f"{name}: the first view loads {size:,} bytes, texts with gzip, and at most "
                f"{MOST_OF_A_PAGE:,} are allowed"
            )
    return complaints


def page_bytes(path: Path, page: Page, folder: Path) -> int:
    """Return the bytes that the first view of a page loads, as they are sent: texts with gzip.

    They are the page, its styles, its scripts and their imports, and images: a browser may load
    even images that are marked as lazy.
    """
    targets = (target for target in (*page.fetched, *page.lazy) if not leads_out(target))
    resources = [_where(path, target, folder)[0] for target in targets]
    files = {path, *(file for file in resources if file)}
    waiting = [file for file in files if file.suffix == ".js"]
    while waiting:
        file = waiting.pop()
        for target in _IMPORT.findall(file.read_text("utf-8")):
            imported = (file.parent / target).resolve()
            if imported not in files:
                files.add(imported)
                waiting.append(imported)
    return sum(map(_sent_bytes, files))


@cache
def _sent_bytes(file: Path) -> int:
    data = file.read_bytes()
    return min(len(data), len(gzip.compress(data, 6)))
