"""How a board's name stands in its keys. The hash tag puts all of them into one slot of a Cluster."""

from __future__ import annotations

#: Matches the keys of all boards, and no others.
PATTERN = "{jobboard:*}:*"

_PREFIX = b"{jobboard:"


def key_of(board: str) -> str:
    """Return what all keys of a board begin with; braces in the name must not end the hash tag."""
    name = board.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
    return f"{{jobboard:{name}}}"


def layout_key(key: str) -> str:
    """Return the key of the board's layout. A client that is opened makes it; it is no sign that the board is used."""
    return f"{key}:layout"


def name_in(key: bytes) -> str:
    """Return the name of the board that a key belongs to."""
    name = key.removeprefix(_PREFIX).partition(b"}")[0].decode(errors="replace")
    return name.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")
