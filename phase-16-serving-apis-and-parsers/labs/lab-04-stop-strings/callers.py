"""Stops of a caller: in a set, as keys, in a list of its own, or of a class derived from str."""

from collections.abc import KeysView


def a_list(*stops: str) -> list[str]:
    """Return a list of the caller's, which a test can change by calls of its methods."""
    return [*stops]


def a_set(*stops: str) -> set[str]:
    """Return a collection that can be neither indexed nor sliced."""
    return {*stops}


def keys(*stops: str) -> KeysView[str]:
    """Return a collection that is not a list, a tuple or a set: the keys of a dict."""
    return dict.fromkeys(stops).keys()


class Word(str):
    """A str of a class of its own, as a member of `enum.StrEnum` is."""
