"""A report as one HTML file that makes no request: a template with its style and its script.

The Content-Security-Policy of the template allows only its own style and script, by their digests.
"""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

_TEMPLATES = Path(__file__).resolve().parent / "templates"


def page(name: str, **values: Any) -> bytes:
    """Return a page in UTF-8.

    Args:
        name: the name of its template, without the suffix; its style, and its script if it has
            one, have the same name.
        values: the values of the template.
    """
    environment = environment_of(_TEMPLATES)
    environment.policies["json.dumps_kwargs"] = {"sort_keys": True, "ensure_ascii": False}
    for kind, suffix in (("style", "css"), ("script", "js")):
        path = _TEMPLATES / f"{name}.{suffix}"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        values |= {kind: Markup(text), f"{kind}_hash": _digest(text)}
    text = environment.get_template(f"{name}.html.j2").render(values)
    return text.encode("utf-8", "backslashreplace")


def environment_of(folder: Path) -> jinja2.Environment:
    """Return the environment of the page templates in a folder; it escapes all values."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
