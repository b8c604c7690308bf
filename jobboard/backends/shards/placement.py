"""On which shard something belongs. Pure: every client of a board says the same of the same uuid, key or lane.

Shards are numbered from 0 on. A uuid that a board made has its job's number in it (version 8 of RFC 9562). What lies
elsewhere is found all the same (:class:`~jobboard.backends.shards.fleet.Fleet`): a number says where to look first.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Collection, Sequence
from functools import lru_cache
from hashlib import blake2b

from jobboard.backends.rows import NewJob

#: As many have room in a uuid.
MAX_SHARDS = 1024

_48_BITS = (1 << 48) - 1
#: How many texts a process remembers the shards of.
_REMEMBERED = 10_000


def new_uuid(number: int) -> str:
    """Return a new uuid of version 8: the milliseconds since 1970, a shard's number, and 64 random bits.

    Two of the random bits stand beside the number. As in version 7, jobs that are posted together stand together in a
    store's index.
    """
    bits = os.urandom(9)
    digits, since = bits.hex(), f"{time.time_ns() // 1_000_000 & _48_BITS:012x}"
    middle = f"{number << 2 | bits[-1] >> 6:03x}"
    return f"{since[:8]}-{since[8:]}-8{middle}-{'89ab'[bits[-1] & 3]}{digits[:3]}-{digits[3:15]}"


def number_in(uuid: str, count: int) -> int | None:
    """Return the number that a uuid has in it; None if it has none of ``count`` shards, as most of others' making."""
    if uuid[14:15] != "8":
        return None
    number = int(uuid[15:18], 16) >> 2
    return number if number < count else None


@lru_cache(_REMEMBERED)
def rendezvous(text: str, count: int) -> int:
    """Return the shard of a text: the one that has the largest hash together with it."""
    return max(range(count), key=lambda number: _hash(text, number))


def homes(who: str, everybody: Collection[str], count: int) -> list[int]:
    """Return all shards, those first where this participant comes before more of the others.

    So with as many participants as shards nearly every shard is among the first few of somebody.

    :param everybody: the names of all who share the work.
    """

    def rank(number: int) -> tuple[int, bytes]:
        own = _hash(who, number)
        return sum(_hash(other, number) > own for other in everybody), own

    return sorted(range(count), key=rank)


def _hash(text: str, number: int) -> bytes:
    return blake2b(f"{number}\0{text}".encode(), digest_size=8).digest()


def of_uuid(uuid: str, count: int) -> int:
    """Return where a job of this uuid is looked for first."""
    number = number_in(uuid, count)
    return rendezvous(uuid, count) if number is None else number


def of_key(name: str, key: str, count: int) -> int:
    """Return where a job of this name and key goes, if it has no lane."""
    return rendezvous(f"key\0{name}\0{key}", count)


def of_lane(lane: str, count: int) -> int:
    """Return where the jobs of a lane go, with keys or without: so its limits are exact."""
    return rendezvous(f"lane\0{lane}", count)


def of_anchor(name: str, key: str | None, lane: str | None, count: int) -> int | None:
    """Return where a posting must go because of its lane, or else its key; None if it has neither."""
    if lane is not None:
        return of_lane(lane, count)
    return None if key is None else of_key(name, key, count)


def anchor_of(new: NewJob, count: int) -> int | None:
    """Return the same of a posting."""
    return of_anchor(new.name, new.key, None if new.ties is None else new.ties.lane, count)


def less_loaded(loads: Sequence[float], choose: random.Random) -> int:
    """Return, of two shards that are drawn, the one with the smaller load; so no shard gets far ahead of the others.

    An infinite load is that of a shard that gets nothing: it is only drawn if all are.
    """
    able = [number for number, load in enumerate(loads) if load != float("inf")] or list(range(len(loads)))
    first, second = choose.choice(able), choose.choice(able)
    return first if loads[first] <= loads[second] else second
