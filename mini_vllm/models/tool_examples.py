"""The same call in each tool-call format, to watch how it is read."""

import tomllib
from pathlib import Path

from mini_vllm.text.formats import FORMATS

_FILE = Path(__file__).with_name("embedded_model") / "tool_calls.toml"


def read_tool_examples() -> dict[str, str]:
    """Return the calls as texts, by the names of their formats.

    Raises:
        LookupError: a format has no text.
    """
    texts = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    if missing := FORMATS.keys() - texts.keys():
        raise LookupError(
            f"{_FILE.name} lacks {', '.join(sorted(missing))}: add a call of get_weather with the "
            "city Paris, as the format writes it"
        )
    return {format: text for format, text in texts.items() if format in FORMATS}
