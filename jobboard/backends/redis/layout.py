"""The layout of a board on Redis: refused if it is another one, and upgraded in place."""

from __future__ import annotations

from jobboard.backends.findings import Migration
from jobboard.backends.layout import STORED_LAYOUT, UPGRADING, check_layout, must_upgrade
from jobboard.backends.redis.boards import exists, layout_key
from jobboard.backends.redis.client import MAX_STEPS, RedisClient, endless
from jobboard.backends.redis.errors import is_of_wrong_type
from jobboard.errors import BoardUnavailable, RequestRefused

#: What the key of the layout has instead of a number, behind the number of the board's shards.
_SHARDS = b" shards"


def check(client: RedisClient, board: str, shards: int | None = None) -> None:
    """Refuse a board of another layout, or of another number of shards; a new board gets ours."""
    wanted = STORED_LAYOUT if shards is None else f"{shards}".encode() + _SHARDS
    found = _stored(client, wanted) or wanted
    if found == wanted:
        return
    if found.endswith(_SHARDS):
        number = found.removesuffix(_SHARDS).decode()
        raise RequestRefused(
            f"board {board!r} on {client.where} has {number} shards; open it with shards={number}, as ?shards={number} "
            "in its URI"
        )
    if shards is None:
        check_layout(board, client.where, found)
    elif exists(client, client.key):
        raise RequestRefused(
            f"board {board!r} on {client.where} has no shards, and can't be divided; open it without shards={shards}, "
            "or take another name"
        )
    else:
        # It was opened without shards once, and never used.
        client.send([("SET", layout_key(client.key), wanted)])


def upgrade(client: RedisClient, board: str) -> Migration:
    """Bring a board to our layout; one that was interrupted goes on from the beginning, and does nothing twice."""
    found = _stored(client)
    if found is not None and must_upgrade(board, client.where, found):
        cursor = b""
        for _ in range(MAX_STEPS):
            _, cursor = client.change("upgrade", cursor, UPGRADING, STORED_LAYOUT)
            if not cursor:
                break
        else:
            raise endless("upgrade")
    return Migration(None if found is None else found.decode(), STORED_LAYOUT.decode())


def _stored(client: RedisClient, wanted: bytes = STORED_LAYOUT) -> bytes | None:
    """Return the number that a board has; a new one has none, and gets ours.

    A server whose memory is full refuses every SET, also one that would change nothing.
    """
    key = layout_key(client.key)
    [[stored]] = client.send([("MGET", key)])
    if stored is None:
        try:
            [stored] = client.send([("SET", key, wanted, "NX", "GET")])
        except BoardUnavailable as error:
            if not is_of_wrong_type(error):
                raise
            raise BoardUnavailable(f"{error}: {key}, which must be a string") from None
    found: bytes | None = stored
    return found
