"""Token ids as they come from outside: a list, any sequence or iterable, or an array."""

from collections.abc import Iterable, Sequence


def plain_ids(ids: Iterable[int]) -> Sequence[int]:
    """Return ids as a sequence of Python's own integers.

    Args:
        ids: a sequence, which is returned as it is; another iterable; or an array of numpy, torch
            and others: whatever has `tolist`.

    Raises:
        ValueError: an array of more than one dimension, or of none.
    """
    # A tuple of types: a union is built anew by each call, and every new stream asks here.
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
