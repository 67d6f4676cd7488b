"""What tells two gradings apart, as SHA-256 over fields that cannot be confused."""

from hashlib import sha256


def digest_of(*fields: tuple[str | bytes, ...]) -> str:
    """Return the SHA-256 of fields, each a tag and its values, as hexadecimal digits.

    Every count and length is hashed before what it counts, so no two lists of fields are hashed as
    the same bytes.
    """
    hash = sha256(b"%d\n" % len(fields))
    for field in fields:
        hash.update(b"%d\n" % len(field))
        for value in field:
            data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            hash.update(b"%d\n" % len(data))
            hash.update(data)
    return hash.hexdigest()
