"""Three scripts on a Redis server, one each for posts, claims and ends, called by redis-py."""

from __future__ import annotations

import uuid

import redis


class OwnScripts:
    """Loads them, for keys of their own; each call is one ``EVALSHA``."""

    def __init__(self, uri: str, post: str, claim: str, consume: str) -> None:
        self._client = redis.Redis.from_url(uri)
        self._key = f"{{bare:{uuid.uuid4()}}}"
        self._post, self._claim, self._consume = map(self._client.script_load, (post, claim, consume))

    def close(self) -> None:
        self._client.close()
