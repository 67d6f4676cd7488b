"""Token ids from a caller: a list, any sequence or iterable, or an array."""

from collections.abc import Iterable, Sequence


def plain_ids(ids: Iterable[int]) -> Sequence[int]:
    """Return ids as a sequence of Python's own integers.

    Args:
        ids: a sequence, which is returned unchanged; another iterable; or an array of numpy, torch
            or another library, that is, any object with `tolist`.

    Raises:
        ValueError: an array of more than one dimension, or of none.
    """
    # A tuple of types: each call would build a union again, and every new stream calls this.
    if isinstance(ids, (list, tuple, bytes, range)):
        return ids
    tolist = getattr(ids, "tolist", None)
    if tolist is None:
        return ids if isinstance(ids, Sequence) else list(ids)
    plain = tolist()
    if not isinstance(plain, list) or any(isinstance(row, list) for row in plain):
        raise ValueError(
            f"the token ids are an array of the shape {getattr(ids, 'shape', '?')}; "
            "give one row of it, such as ids[0]"
        )
    return plain
