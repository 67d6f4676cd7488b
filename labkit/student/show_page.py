"""A recording as one HTML page, which needs neither a network nor other files."""

import base64
import hashlib
import html
import json
from functools import cache
from pathlib import Path

from labkit.running.recording.recording import Recording

_FRAME = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1b1b; --soft: #5a5a5a; --line: #d0d0d0;
  --amber-wash: #fff0b8; --green: #0b5d1e; }
@media (prefers-color-scheme: dark) { :root { --paper: #16181c; --ink: #e8e8e8; --soft: #a8adb5;
  --line: #3c4048; --amber-wash: #4a4010; --green: #7fd391; } }
body { margin: 0 auto; max-width: 78rem; padding: 1rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.45 system-ui, sans-serif; }
h1 { font-size: 1.2rem; overflow-wrap: anywhere; }
"""
_BEGIN = """
const steps = new Steps(JSON.parse(document.getElementById("recording").textContent));
document.getElementById("show").append(steps.node);
steps.show(steps.at);
steps.listenTo(document);
"""


def page_of(recording: Recording) -> str:
    """Return the page of a recording."""
    title = html.escape(f"lab-{recording.lab} {recording.test}: {recording.file}")
    style, script = _FRAME + drawing_style(), drawing_script()
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src {digest_of(style)}; script-src {digest_of(script)}">
<title>{title}</title>
<style>{style}</style>
<main>
<h1>{title}</h1>
{place_of_drawing(recording)}
</main>
<script type="module">{script}</script>
</html>
"""


@cache
def drawing_style() -> str:
    """Return the style of a drawn recording; the page has to define its colours."""
    return Path(__file__).with_name("steps.css").read_text(encoding="utf-8")


@cache
def drawing_script() -> str:
    """Return the program that draws the recording of a page, as a module."""
    return Path(__file__).with_name("steps.js").read_text(encoding="utf-8") + _BEGIN


def place_of_drawing(recording: Recording) -> str:
    """Return the place of a drawn recording in a page, with its data."""
    data = json.dumps(recording.as_dict(), ensure_ascii=True, separators=(",", ":"))
    # Nothing in the data may end the element.
    data = data.replace("<", chr(92) + "u003c")
    return f'<div id="show"></div>\n<script type="application/json" id="recording">{data}</script>'


def digest_of(text: str) -> str:
    """Return the digest of a style or a script, as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
