"""The private names of what a hunt hands to a test, which are refused with the fix."""


def check_public(owner: str, name: str) -> None:
    """Refuse a name that begins with `_`, other than those of Python itself.

    Args:
        owner: the value that has the name, in words.
        name: the name that a test reads.

    Raises:
        AttributeError: the name is private.
    """
    if name.startswith("_") and (name == "__dict__" or not name.endswith("__")):
        why = (
            f"`{owner}.{name}` is private: a test may use only the methods and attributes that the "
            "README of the lab names, and `make(...)`, `make.call` and `make.each`"
        )
        # Without an own name, Python would note this name, and suggest a similar name.
        raise AttributeError(why, name="", obj=None)
