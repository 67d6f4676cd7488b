"""The upper room."""

import tiny_engine.text  # noqa: F401
