"""Which boards a server has: one look for a board that is there, and a bounded one for the names of the others."""

from __future__ import annotations

from jobboard.backends.redis.faults import NO_RIGHT
from jobboard.backends.redis.keys import PATTERN, name_in
from jobboard.backends.redis.server import Server
from jobboard.backends.timelimit import is_time_over
from jobboard.errors import BoardUnavailable, NotFound

#: One of these is there as soon as a board is used.
_KEPT = ("counters", "schedules", "entities", "paused", "books")
_KEYS_A_LOOK = 1000
_MOST_LOOKS = 1000


def names_of(server: Server, board: str, key: str) -> list[str]:
    """Return the names of boards, or only this one's if it is there; of a Cluster, those of this board's node.

    :raises NotFound: it is not there, and this user may not ask for the others.
    """
    if server.send([("EXISTS", *(f"{key}:{kept}" for kept in _KEPT))])[0]:
        return [board]
    names: set[str] = set()
    cursor: bytes | str = "0"
    for _ in range(_MOST_LOOKS):
        try:
            [(cursor, keys)] = server.send([("SCAN", cursor, "MATCH", PATTERN, "COUNT", _KEYS_A_LOOK)])
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
