"""How boards are named in keys, and which boards a server has: one by one request, all by a search through its keys."""

from __future__ import annotations

from redis import exceptions

from jobboard.backends.errors import incomplete_list
from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.connection import Connection
from jobboard.backends.redis.errors import refused
from jobboard.backends.redis.pool import ConnectionPool
from jobboard.backends.timelimit import is_time_over
from jobboard.errors import BoardUnavailable

#: Matches the keys of all boards, and no others.
_PATTERN = "{jobboard:*}:*"

_PREFIX = b"{jobboard:"
#: One of these keys exists as soon as a board is used; ``schedules`` is of layout 1.
_KEYS = ("counters", "stored_schedules", "schedules", "entities", "paused", "books", "limits")
_ENDS = tuple(f"}}:{kept}".encode() for kept in _KEYS)
_KEYS_PER_SCAN = 1000


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


def exists(client: RedisClient, key: str) -> bool:
    """Whether the board with this key was ever used."""
    return bool(client.send([("EXISTS", *(f"{key}:{kept}" for kept in _KEYS))])[0])


def names_of(pool: ConnectionPool) -> list[str]:
    """Return the names of all boards, in a Cluster those of all nodes.

    :raises BoardUnavailable: the time is over before all keys were looked through, or the user lacks ``+scan``.
    """
    names: set[str] = set()
    for connection in pool.connect_to_all():
        try:
            _add_boards_of(pool, connection, names)
        finally:
            connection.disconnect()
    return sorted(names)


def _add_boards_of(pool: ConnectionPool, connection: Connection, names: set[str]) -> None:
    """Add the names of one server's boards."""
    cursor: bytes | str = "0"
    while not is_time_over():
        [reply] = pool.exchange(connection, [("SCAN", cursor, "MATCH", _PATTERN, "COUNT", str(_KEYS_PER_SCAN))])
        if isinstance(reply, exceptions.NoPermissionError):
            raise BoardUnavailable(f"Redis at {pool.topology} lists its boards only to users with the right +scan")
        if isinstance(reply, Exception):
            raise refused(str(pool.topology), reply)
        cursor, keys = reply
        names.update(name_in(key) for key in keys if key.endswith(_ENDS))
        if cursor == b"0":
            return
    raise incomplete_list(names)
