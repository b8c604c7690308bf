"""How a board's name stands in its keys: all of them are in one slot of a Cluster, that of their hash tag."""

from __future__ import annotations

#: What the keys of all boards match, and those of no others.
PATTERN = "{jobboard:*}:*"

_PREFIX = b"{jobboard:"


def key_of(board: str) -> str:
    """Return what all keys of a board begin with; braces in the name must not end the hash tag."""
    name = board.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
    return f"{{jobboard:{name}}}"


def name_in(key: bytes) -> str:
    """Return the name of the board that has a key, as it was given to :func:`key_of`."""
    name = key.removeprefix(_PREFIX).partition(b"}")[0].decode(errors="replace")
    return name.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")
