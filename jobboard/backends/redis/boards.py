"""Finds the boards of a server: this board by one request, the others by a bounded search."""

from __future__ import annotations

from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.errors import NO_RIGHT
from jobboard.backends.redis.keys import PATTERN, name_in
from jobboard.backends.timelimit import is_time_over
from jobboard.errors import BoardUnavailable, NotFound

#: One of these keys exists as soon as a board is used.
_KEYS = ("counters", "schedules", "entities", "paused", "books")
_KEYS_PER_SCAN = 1000
_MAX_SCANS = 1000


def names_of(client: RedisClient, board: str, key: str) -> list[str]:
    """Return only this board's name if it exists, else those of the others; of a Cluster, the boards of one node.

    :raises NotFound: it does not exist, and this user may not search for the others.
    """
    if client.send([("EXISTS", *(f"{key}:{kept}" for kept in _KEYS))])[0]:
        return [board]
    names: set[str] = set()
    cursor: bytes | str = "0"
    for _ in range(_MAX_SCANS):
        try:
            [(cursor, keys)] = client.send([("SCAN", cursor, "MATCH", PATTERN, "COUNT", str(_KEYS_PER_SCAN))])
        except BoardUnavailable as error:
            if NO_RIGHT in str(error):
                raise NotFound(
                    f"there is no board {board!r} on this server; with +scan this user would be told which there are"
                ) from None
            raise
        names.update(name_in(key) for key in keys)
        if cursor == b"0" or is_time_over():
            break
    return sorted(names)
