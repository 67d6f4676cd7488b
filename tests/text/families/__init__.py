"""The tool-call formats as tests know them: how each is written, and what its texts stand for."""

from references import Invalid

from families import (
    elements,
    gemma,
    harmony,
    headers,
    json_arrays,
    json_calls,
    nested_elements,
    python_calls,
    xtml,
)

STYLES = {
    name: style
    for family in (
        json_calls,
        json_arrays,
        python_calls,
        gemma,
        elements,
        nested_elements,
        headers,
        harmony,
        xtml,
    )
    for name, style in family.STYLES.items()
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
