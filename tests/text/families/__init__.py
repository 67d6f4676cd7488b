"""The tool-call formats as tests know them: how each is written, and what its texts stand for."""

import importlib
import pkgutil

from references import Invalid

STYLES = {
    name: style
    for file in pkgutil.iter_modules(__path__)
    for name, style in importlib.import_module(f"{__name__}.{file.name}").STYLES.items()
}


def reference(style, text, types):
    """Return the events of a text, or None if it is not as its format demands.

    Args:
        style: one of `STYLES`.
        text: all of the text.
        types: for each function the types of its parameters, as `renderers.PARAMETERS` has them.
    """
    try:
        return style.read(text, types)
    except Invalid:
        return None
