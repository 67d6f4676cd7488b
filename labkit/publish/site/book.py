"""The book: the Markdown of the repository as the generator's input, from one text.

Each document becomes a page; a link to another file of the repository leads to a page of that file.
A section after a line `<!-- page -->` becomes a page of its own, between the tracks of its phase;
text between `<!-- site` and `-->`, elsewhere a comment, is shown, and text between
`<!-- checkout -->` and `<!-- /checkout -->` is left out.
"""

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from labkit.course.lab import Lab, find_labs
from labkit.course.markdown import headings, leads_out, relink, slug, without_code
from labkit.errors import UsageError
from labkit.publish.site.files import file_page, folder_page, line_anchor, place_of
from labkit.serving.showable import shown_of

_START = "README.md"
_MAP = "upstream/README.md"
# The folder of a phase with pages that belong to no lab.
_GUIDE = "guide"
_FOR_INSTRUCTORS = ("INSTRUCTORS.md", "KILL_MATRIX.md")
# Text for the student edition only, and comments such as the markers of generated parts.
_COMMENT = re.compile(r"^<!--(?! page -->).*?-->\n", re.MULTILINE | re.DOTALL)
_SITE = re.compile(r"^<!-- site\n(.*?)^-->\n", re.MULTILINE | re.DOTALL)
_CHECKOUT = re.compile(r"^<!-- checkout -->\n.*?^<!-- /checkout -->\n", re.MULTILINE | re.DOTALL)
# A line that begins with an issue's number: the generator takes it for a heading.
_NO_HEADING = re.compile(r"^(?=#+[^#\s])", re.MULTILINE)
_OWN_PAGE = re.compile(r"^<!-- page -->\n+(?=## )", re.MULTILINE)
# The bench's folder is beside `labs`. The generator turns the path of the script, as seen from the
# document `labs/03.md`, into that of its page, `labs/03/`; `data-base` is as the page sees it.
_TOP = """
Write and run your code on this page, without installing anything. Commands such as `make lab` are
for the course on your own machine.
"""
# In place of the commands of a checkout.
_RUN_HEADING = "## Run\n"
_RUN = """
**Run**, or Ctrl+Enter in the editor, tests your code in this browser; **Run this task** tests one
task only. The report covers this text until you close it.
"""
_BENCH = """
<div id="bench" data-lab="{number}" data-base="../../bench/"></div>
<script type="module" src="../bench/bench.js"></script>
"""
_STRIP = """
## Your code, live

<div id="strip" data-lab="{number}" data-base="../../bench/"></div>
"""

Nav = list[dict[str, "str | Nav"]]


@dataclass
class Book:
    """The input of the generator.

    Attributes:
        pages: Markdown by path below the generator's folder of documents.
        images: the images that pages show, likewise.
        nav: the pages in reading order, in the generator's form: title -> path, or section -> rows.
    """

    pages: dict[str, str] = field(default_factory=dict)
    images: dict[str, bytes] = field(default_factory=dict)
    nav: Nav = field(default_factory=list)


def read_book(root: Path) -> Book:
    """Return the book of a repository, or of a student edition.

    Raises:
        UsageError: a link leads to no file; the message names document and link.
    """
    return _Reader(root).read()


class _Reader:
    """Reads documents and all files that they link to, until every linked file is read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.book = Book()
        self.labs = find_labs(root)
        # The places of pages: of documents, and of sections that are pages of their own.
        self.places: dict[str, str] = {}
        self.cut: dict[tuple[str, str], str] = {}
        self.texts: dict[str, str] = {}
        self.waiting: list[str] = []

    def read(self) -> Book:
        phases = dict.fromkeys(lab.path.parents[1] / _START for lab in self.labs)
        for path in (self.root / _START, *phases, *(lab.readme for lab in self.labs)):
            self._add(path.relative_to(self.root).as_posix())
        if (self.root / _MAP).exists():
            self._add(_MAP)
        while self.waiting:
            name = self.waiting.pop(0)
            self._write(name)
        self._mount_benches()
        self.book.nav = self._nav([path.relative_to(self.root).as_posix() for path in phases])
        return self.book

    def _add(self, name: str) -> None:
        """Read a document, cut it into pages, and queue it for writing."""
        text = _as_book((self.root / name).read_text("utf-8"))
        self.places[name] = _place(name)
        whole, *own = _OWN_PAGE.split(text)
        for part in own:
            end = next((at for at, level, _ in headings(part)[1:] if level <= 2), len(part))
            title = headings(part)[0][2]
            place = f"{self.places[name].removesuffix('.md')}/{slug(title)}.md"
            for _, _, heading in headings(part[:end]):
                self.cut[name, slug(heading)] = place
            self.texts[place] = re.sub(r"^#(?=#+ )", "", part[:end], flags=re.MULTILINE)
            whole += part[end:]
        self.texts[self.places[name]] = whole
        self.waiting.append(name)

    def _write(self, name: str) -> None:
        places = [self.places[name], *(to for (at, _), to in self.cut.items() if at == name)]
        for place in dict.fromkeys(places):
            self.book.pages[place] = relink(self.texts[place], self._resolver(name, place))

    def _resolver(self, name: str, place: str) -> Callable[[str, bool], str]:
        """Return a function that maps a target in document `name` to one on the page at `place`."""

        def resolve(target: str, is_image: bool) -> str:
            if leads_out(target):
                return target
            path, _, anchor = target.partition("#")
            linked = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            destination = self._target(name if not path else linked, anchor, is_image)
            if not destination:
                raise UsageError(f"{name}: the link to {target} leads to no file of the book")
            to, _, anchor = destination.partition("#")
            if to == place:
                return f"#{anchor}" if anchor else posixpath.basename(to)
            return _with(posixpath.relpath(to, posixpath.dirname(place) or "."), anchor)

        return resolve

    def _target(self, linked: str, anchor: str, is_image: bool) -> str:
        """Return the place, with an anchor, of a file or folder of the repository, or ""."""
        path = self.root / linked
        if linked.startswith((".", "/")) or not path.exists():
            return ""
        if is_image:
            self.book.images[f"files/{linked}"] = path.read_bytes()
            return f"files/{linked}"
        if path.is_dir():
            return self._folder(linked)
        if path.suffix != ".md":
            return _with(self._file(linked), line_anchor(anchor) or anchor)
        if linked not in self.places:
            self._add(linked)
        return _with(self.cut.get((linked, anchor), self.places[linked]), anchor)

    def _file(self, name: str) -> str:
        place = place_of(name)
        if place not in self.book.pages:
            self.book.pages[place] = file_page(name, (self.root / name).read_text("utf-8"))
        return place

    def _folder(self, name: str) -> str:
        files = sorted(
            path.name
            for path in (self.root / name).iterdir()
            if path.is_file() and not path.name.startswith(".")
        )
        index = f"{name}/README.md"
        if "README.md" in files:
            return self._target(index, "", is_image=False)
        place = place_of(name)
        if place not in self.book.pages:
            self.book.pages[place] = ""
            resolve = self._resolver(f"{name}/", place)
            self.book.pages[place] = relink(folder_page(name, files), resolve)
        return place

    def _mount_benches(self) -> None:
        for lab in self.labs:
            mounts = _BENCH + (_STRIP if shown_of(lab) else "")
            place = self._place_of_lab(lab)
            title, text = self.book.pages[place].split("\n", 1)
            text = text.replace(_RUN_HEADING, f"{_RUN_HEADING}{_RUN}", 1)
            own = mounts.format(number=lab.number)
            self.book.pages[place] = f"{title}\n{_TOP}{text}{own}"

    def _place_of_lab(self, lab: Lab) -> str:
        return self.places[lab.readme.relative_to(self.root).as_posix()]

    def _nav(self, phases: list[str]) -> Nav:
        """Return the pages in reading order; files of the repository are not among them."""
        tracks: dict[str, list[str]] = {}
        for lab in self.labs:
            tracks.setdefault(lab.track, []).append(self._place_of_lab(lab))
        (first, labs), *more = tracks.items()
        guides = tuple(f"{posixpath.dirname(name)}/{_GUIDE}/" for name in phases)
        guide = [place for name, place in self.places.items() if name.startswith(guides)]
        nav = self._rows([_place(_START), *(self.places[name] for name in phases)])
        nav += [{"Words, rules and reports": self._rows(guide)}] if guide else []
        nav += [{f"{first.capitalize()} track": self._rows(labs)}]
        nav += self._rows(dict.fromkeys(self.cut.values()))
        nav += [{f"{track.capitalize()} track": self._rows(labs)} for track, labs in more]
        rest = [name for name in self.places if self.places[name] not in _places(nav)]
        theirs = [name for name in rest if posixpath.basename(name) in _FOR_INSTRUCTORS]
        if _MAP in rest:
            nav += self._rows([self.places[_MAP]])
        others = [name for name in rest if name not in (*theirs, _MAP)]
        for title, names in (("For instructors", theirs), ("For maintainers", others)):
            if names:
                nav += [{title: self._rows(self.places[name] for name in names)}]
        return nav

    def _rows(self, places: Iterable[str]) -> Nav:
        return [{_title(self.book.pages[place]): place} for place in places]


def _as_book(text: str) -> str:
    """Return a document with the text for the site, and without the text that the site omits."""
    text = _COMMENT.sub("", _SITE.sub(r"\1", _CHECKOUT.sub("", text)))
    # GitHub reads Markdown in a folded block; the generator does so if the tag says it.
    text = re.sub("^<details>$", '<details markdown="1">', text, flags=re.MULTILINE)
    places = [match.start() for match in _NO_HEADING.finditer(without_code(text))]
    for place in reversed(places):
        text = f"{text[:place]}\\{text[place:]}"
    return text


def _with(place: str, anchor: str) -> str:
    return f"{place}#{anchor}" if anchor else place


def _place(name: str) -> str:
    """Return the place of a document's page: `labs/03.md`, `phase-16.md`, `contributing.md`."""
    lab = re.fullmatch(r"phase-[^/]+/labs/lab-(\d+)-[^/]+/README\.md", name)
    if lab:
        return f"labs/{lab[1]}.md"
    short = re.sub(r"^(phase-\d+)-[^/]+", r"\1", name.removesuffix(".md"))
    short = short.removesuffix("/README").lower().replace("_", "-")
    return "index.md" if short == "readme" else f"{short}.md"


def _title(text: str) -> str:
    """Return the first heading of a page, without markup."""
    return re.sub(r"`|\[|\]\([^)]*\)", "", headings(text)[0][2])


def _places(nav: Nav) -> set[str]:
    """Return the pages that are in a navigation."""
    values = [value for row in nav for value in row.values()]
    below = [_places(value) for value in values if not isinstance(value, str)]
    return {value for value in values if isinstance(value, str)}.union(*below)
