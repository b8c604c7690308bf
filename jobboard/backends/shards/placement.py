"""On which shard something belongs. Pure: every client of a board says the same of the same uuid, key or lane.

Shards are numbered from 0 on. A uuid that a board made has its job's number in it (version 8 of RFC 9562). What lies
elsewhere is found all the same (:class:`~jobboard.backends.shards.fleet.Fleet`): a number says where to look first.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from zlib import crc32

from jobboard.backends.rows import NewJob
from jobboard.validation import clock_digits

#: As many have room in a uuid.
MAX_SHARDS = 1024

#: How many shards an owner has for homes at most, and a waiter waits on.
MAX_HOMES = 4

#: If a shard can have so many waiters, nobody needs more homes than one.
MANY_WAITERS = 32

#: How many texts a process remembers the shards of.
_REMEMBERED = 10_000


def new_uuid(number: int) -> str:
    """Return a new uuid of version 8: the moment as in version 7, the number of a shard, and 52 random bits.

    The digits of the moment that are finer than milliseconds stand around the number's.
    """
    since, digits = clock_digits(), os.urandom(7).hex()
    finer = int(since[12:], 16)
    middle, variant = f"{number << 2 | finer >> 10:03x}", "89ab"[finer >> 8 & 3]
    return f"{since[:8]}-{since[8:12]}-8{middle}-{variant}{since[13:]}{digits[:1]}-{digits[1:13]}"


def number_in(uuid: str, count: int) -> int | None:
    """Return the number that a uuid has in it; None if it has none of ``count`` shards, as most of others' making."""
    if uuid[14:15] != "8":
        return None
    number = int(uuid[15:18], 16) >> 2
    return number if number < count else None


@lru_cache(_REMEMBERED)
def rendezvous(text: str, among: int | tuple[int, ...]) -> int:
    """Return the shard of a text: the one that has the largest hash together with it.

    :param among: the numbers of the shards, or how many there are.
    """
    numbers = range(among) if isinstance(among, int) else among
    return max(numbers, key=lambda number: _hash(text, number))


def homes(who: str, everybody: Collection[str], count: int) -> tuple[list[int], int]:
    """Return the few shards that a participant waits on, and how many wait on them before it does.

    Every shard has as many waiters as any other, or one more.

    Participants stand in the order of their hashes, and each takes the next shards. Where they are too few for all
    shards, they stand as far apart as they can; where they are many, one shard is enough for each: then no more than
    one wake-up can reach somebody who has no slot for a second job.

    :param everybody: the names of all who share the work.
    """
    number, own = max(1, len(everybody)), crc32(who.encode())
    place = sum(crc32(other.encode()) < own for other in everybody)
    most = min(MAX_HOMES, count, max(1, MANY_WAITERS * count // number))
    first = place * most if number * most >= count else place * count // number
    return [(first + step) % count for step in range(most)], first // count


def _hash(text: str, number: int) -> bytes:
    return blake2b(f"{number}\0{text}".encode(), digest_size=8).digest()


def text_of_key(name: str, key: str) -> str:
    """Return what says where a job of this name and key goes, if it has no lane."""
    return f"key\0{name}\0{key}"


def text_of_lane(lane: str) -> str:
    """Return what says where the jobs of a lane go, with keys or without: so its limits are exact."""
    return f"lane\0{lane}"


def text_of_schedule(id: str) -> str:
    """Return what says where a schedule is."""
    return f"schedule\0{id}"


def text_of(name: str, key: str | None, lane: str | None) -> str | None:
    """Return what says where a posting must go: its lane, or else its key; None if it has neither."""
    if lane is not None:
        return text_of_lane(lane)
    return None if key is None else text_of_key(name, key)


def text_of_posting(new: NewJob) -> str | None:
    """Return the same of a posting."""
    return text_of(new.name, new.key, None if new.ties is None else new.ties.lane)


def less_loaded(loads: Mapping[int, float] | Sequence[float], able: Sequence[int], choose: random.Random) -> int:
    """Return, of two shards that are drawn, the one with the smaller load; so no shard gets far ahead of the others.

    :param able: those that can be drawn.
    """
    first, second = choose.choice(able), choose.choice(able)
    return first if loads[first] <= loads[second] else second
