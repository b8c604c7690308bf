"""The layout of a board on Redis: refused if it is another one, and upgraded in place."""

from __future__ import annotations

from jobboard.backends.findings import Migration
from jobboard.backends.layout import STORED_LAYOUT, UPGRADING, check_layout, must_upgrade
from jobboard.backends.redis.boards import layout_key
from jobboard.backends.redis.client import MAX_STEPS, RedisClient, endless


def check(client: RedisClient, board: str) -> None:
    """Refuse a board of another layout; a new board gets ours."""
    check_layout(board, client.where, _stored(client) or STORED_LAYOUT)


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


def _stored(client: RedisClient) -> bytes | None:
    """Return the number that a board has; a new one has none, and gets ours."""
    stored: bytes | None = client.send([("SET", layout_key(client.key), STORED_LAYOUT, "NX", "GET")])[0]
    return stored
