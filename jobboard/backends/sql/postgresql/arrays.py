"""Lists as PostgreSQL writes arrays, since psycopg asks each element what it is."""

from __future__ import annotations

from collections.abc import Sequence


def texts(values: Sequence[str]) -> str | Sequence[str]:
    """Return an array of texts; where one of them would have to be escaped, the list, which psycopg escapes."""
    # No text of ours may hold a NUL.
    joined = "\0".join(values)
    if '"' in joined or "\\" in joined or joined.count("\0") >= max(1, len(values)):
        return values
    return '{"' + joined.replace("\0", '","') + '"}' if values else "{}"


def blobs(values: Sequence[bytes]) -> str:
    """Return an array of bytes."""
    return "{" + ",".join([f'"\\\\x{value.hex()}"' for value in values]) + "}"


def numbers(values: Sequence[float]) -> str:
    """Return an array of numbers."""
    return "{" + ",".join(map(str, values)) + "}"


def optional(values: Sequence[object]) -> Sequence[object] | None:
    """Return a list, or None if it is one of None only: beside others, ``unnest`` makes the same of both."""
    return None if all(value is None for value in values) else values
