"""What is done to the generated pages: links that lead out say so, and a policy keeps all in."""

import base64
import hashlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

# What the generator brings that no page of this book uses.
_UNUSED = ("404.html", "sitemap.xml", "assets/stylesheets/classic")
_OUTWARD = re.compile(r'<a\b([^>]*?\bhref="(?:https?:|mailto:)[^"]*"[^>]*)>(.*?)</a>', re.DOTALL)
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_HEAD = '<meta charset="utf-8">'
_META = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_LEAVES = '<span class="md-visually-hidden"> (leads out of this site)</span>'


def polish(folder: Path) -> None:
    """Change the pages of a folder, and take out what no page uses."""
    for name in _UNUSED:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    pages = {path: path.read_text("utf-8") for path in sorted(folder.rglob("*.html"))}
    content = policy(pages.values())
    for path, text in pages.items():
        meta = f'{_HEAD}\n<meta http-equiv="Content-Security-Policy" content="{content}">'
        text = mark_outward(text).replace(_HEAD, meta, 1)
        path.write_text(text.replace("<img ", '<img loading="lazy" '), encoding="utf-8")


def mark_outward(page: str) -> str:
    """Return a page whose links to other hosts are marked, for eyes and for screen readers."""
    marked = rf'<a class="leads-out" rel="external noopener noreferrer"\1>\2{_LEAVES}</a>'
    return _OUTWARD.sub(marked, page)


def policy(pages: Iterable[str]) -> str:
    """Return the content security policy of a site: nothing comes from, or goes to, another host.

    Args:
        pages: the HTML of its pages. The scripts that the generator wrote into them may run, by
            their hashes.
    """
    scripts = {script for page in pages for script in _INLINE.findall(page)}
    hashes = sorted(base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts)
    allowed = "".join(f" 'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'self'; script-src 'self' 'wasm-unsafe-eval'{allowed}; img-src 'self' data:; "
        "object-src 'none'; base-uri 'none'; form-action 'none'"
    )


def policy_of(page: str) -> str:
    """Return the policy that a page names, or the strictest."""
    match = _META.search(page)
    return match[1] if match else "default-src 'none'"
