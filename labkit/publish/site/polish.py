"""Changes to the generated pages: outward links are marked, and a policy forbids other hosts.

Invisible text is removed: white space of the generator's templates, and marks of code without a
colour.
"""

import base64
import hashlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

# Files of the generator that no page of this book uses.
_UNUSED = ("404.html", "sitemap.xml", "assets/stylesheets/classic")
_OUTWARD = re.compile(r'<a\b([^>]*?\bhref="(?:https?:|mailto:)[^"]*"[^>]*)>(.*?)</a>', re.DOTALL)
# Verbatim elements, or white space with a line break in it.
_BREAKS = re.compile(r"<(pre|script|style|textarea)\b.*?</\1>|\s*\n\s*", re.DOTALL)
# Names and spaces, which have the colour of all code.
_COLOURLESS = re.compile(r'<span class="[nw]">([^<]*)</span>')
# A line's number has its looks from another attribute.
_NUMBER = ' class="linenos"'
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
# In the generator's script, the rules that its search puts into a shadow tree, in one literal.
_STYLE = re.compile(r"'(\.[^'\\\n]{200,}\})'")
# Markdown writes a vertical bar in a table as `\|`; in code, the generator keeps the backslash.
_CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
_HEAD = '<meta charset="utf-8">'
_META = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_LEAVES = '<span class="md-visually-hidden"> (leads out of this site)</span>'


def polish(folder: Path) -> None:
    """Change the pages of a folder, and remove files that no page uses."""
    for name in _UNUSED:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    pages = {path: squeeze(path.read_text("utf-8")) for path in sorted(folder.rglob("*.html"))}
    scripts = [path.read_text("utf-8") for path in (folder / "assets").rglob("*.js")]
    content = policy(pages.values(), scripts)
    for path, text in pages.items():
        meta = f'{_HEAD}\n<meta http-equiv="Content-Security-Policy" content="{content}">'
        text = unescape_bars(mark_outward(text)).replace(_HEAD, meta, 1)
        path.write_text(text.replace("<img ", '<img loading="lazy" '), encoding="utf-8")


def squeeze(page: str) -> str:
    """Return a page without indented or empty lines, except in verbatim elements.

    In verbatim elements, marks of names and spaces, and second marks of line numbers, are removed.
    """

    def shortened(match: re.Match[str]) -> str:
        return _COLOURLESS.sub(r"\1", match[0]).replace(_NUMBER, "") if match[1] else "\n"

    return _BREAKS.sub(shortened, page)


def unescape_bars(page: str) -> str:
    """Return a page whose tables show vertical bars in code without a backslash, as GitHub does."""
    return _CELL.sub(lambda cell: cell[0].replace(r"\|", "|"), page)


def mark_outward(page: str) -> str:
    """Return a page whose links to other hosts are marked, for eyes and for screen readers."""
    marked = rf'<a class="leads-out" rel="external noopener noreferrer"\1>\2{_LEAVES}</a>'
    return _OUTWARD.sub(marked, page)


def policy(pages: Iterable[str], scripts: Iterable[str]) -> str:
    """Return the content security policy of a site, which forbids requests to other hosts.

    Args:
        pages: the HTML of its pages. The generator's inline code in them may run, by its hash.
        scripts: the generator's scripts; the style that they make is allowed by its hash.
    """
    inline = {script for page in pages for script in _INLINE.findall(page)}
    styles = {style for script in scripts for style in _STYLE.findall(script)}
    # Browsers write style attributes of their own into text that is being edited.
    return (
        f"default-src 'self'; script-src 'self' 'wasm-unsafe-eval'{_hashes(inline)}; "
        f"style-src 'self'{_hashes(styles)}; style-src-attr 'unsafe-inline'; "
        "img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: Iterable[str]) -> str:
    digests = sorted(hashlib.sha256(text.encode()).digest() for text in texts)
    return "".join(f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def policy_of(page: str) -> str:
    """Return the policy that a page names, or the strictest."""
    match = _META.search(page)
    return match[1] if match else "default-src 'none'"
