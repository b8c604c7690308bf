"""The types of a board's keys, and which keys another program has given other ones: these stop scripts."""

from __future__ import annotations

import re
from typing import NamedTuple

from jobboard.backends.redis.client import MAX_STEPS, RedisClient, endless

#: The kinds of keys of each type; a kind is what follows the board's own part of a key.
_KINDS = {
    "zset": "armed blocked blocked_lanes children claimed complete completed delayed due entry_names heads held lane "
    "lanes leases names own_keys parents rates ready retrying trash waiting",
    "hash": "book_entries books checkpoints counters ends entities jobs keys limits listings marks pauses progress "
    "seen signals stored_schedules unreadable versions waiters",
    "set": "failed gone paused",
    "string": "done graph layout owner waited window",
    "list": "steps",
}
TYPES = {kind: name for name, kinds in _KINDS.items() for kind in kinds.split()}
_KEYS_PER_SCAN = 1000


class WrongKey(NamedTuple):
    """A key that has another type than the board gives it."""

    name: str
    type: str
    wanted: str


def wrong_types(client: RedisClient) -> list[WrongKey]:
    """Return the keys of the board that have a wrong type.

    Looks through all keys of the server.

    :raises BoardUnavailable: the user lacks ``+scan`` or ``+type``, or the server does not answer.
    """
    found, cursor = set[WrongKey](), b"0"
    pattern = re.sub(r"([][*?\\])", r"\\\1", client.key) + ":*"
    for _ in range(MAX_STEPS):
        [[cursor, keys]] = client.send([("SCAN", cursor, "MATCH", pattern, "COUNT", str(_KEYS_PER_SCAN))])
        types = client.send([("TYPE", key) for key in keys]) if keys else []
        for name, has in zip((key.decode(errors="replace") for key in keys), map(bytes.decode, types), strict=True):
            wanted = TYPES.get(name.removeprefix(f"{client.key}:").partition(":")[0], has)
            if has not in (wanted, "none"):
                found.add(WrongKey(name, has, wanted))
        if cursor == b"0":
            return sorted(found)
    raise endless("a search for keys")
