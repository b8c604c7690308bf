"""What a process will do: it follows from the seed and the process alone, not from what the store answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from .lanes import LANES

#: Whose jobs the conductors run; workers that claim any name get some of them.
CONDUCTED = ("brew", "bake")
PLAIN = ("resize", "mail", "report")
NAMES = (*PLAIN, *CONDUCTED)
KEYS = ("a", "b", "c")
#: What jobs are posted into, None most of all.
LANES_OF_JOBS = (None, None, None, *LANES)
PRIORITIES = ("VERY_LOW", "LOW", "NORMAL", "NORMAL", "NORMAL", "HIGH", "VERY_HIGH")

#: How often each call is made, in parts of the sum.
WEIGHTS = {
    "post": 14, "post_key": 4, "post_again": 4, "post_many": 2,
    "claim_next": 16, "claim": 5,
    "extend": 12, "checkpoint": 8, "consume": 16, "consume_many": 3, "abandon": 8, "trash": 3,
    "cancel": 3, "release": 2, "trash_by_force": 1, "restore": 3, "purge": 1,
    "look": 5, "look_at_trash": 2, "look_at_lane": 5, "limit_lane": 1, "audit": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One call to be; every number is drawn for every step, and each call takes what it needs.

    ``pick`` (0 to 1) chooses among what the process knows at that moment, ``stale`` whether among claims that it
    believes to be over. ``pause`` is how long it waits before, in seconds.
    """

    op: str
    pause: float
    pick: float
    stale: bool
    uuid: str
    more_uuids: tuple[str, ...]
    name: str
    lane: str | None
    names: tuple[str, ...] | None
    key: str
    if_exists: str
    priority: str
    delay: float | None
    max_attempts: int | None
    limit: int
    expiry: float
    number: int


def steps_of(seed: int, process: str, rate: float) -> Iterator[Step]:
    """Iterate over the steps of a process, without an end.

    :param process: its name, in which each new start of a killed process is another one.
    :param rate: about how many calls a second.
    """
    chance = random.Random(f"{seed}/{process}")
    ops, weights = list(WEIGHTS), list(WEIGHTS.values())
    while True:
        yield Step(
            op=chance.choices(ops, weights)[0],
            pause=chance.uniform(0, 2 / rate),
            pick=chance.random(),
            stale=chance.random() < 0.15,
            uuid=_uuid(chance),
            more_uuids=tuple(_uuid(chance) for _ in range(3)),
            name=chance.choice(NAMES),
            lane=chance.choice(LANES_OF_JOBS),
            names=chance.choice([None, PLAIN, PLAIN[:1], PLAIN[1:]]),
            key=chance.choice(KEYS),
            if_exists=chance.choice(["raise", "keep", "replace"]),
            priority=chance.choice(PRIORITIES),
            delay=chance.choice([None, None, None, 0.02, 0.5, 2.0]),
            max_attempts=chance.choice([None, None, 1, 3, 10]),
            limit=chance.choice([1, 1, 2, 3, 6]),
            expiry=chance.choice([0.5, 1.0, 2.0, 4.0]),
            number=chance.randrange(1000),
        )


def _uuid(chance: random.Random) -> str:
    return str(UUID(int=chance.getrandbits(128), version=4))
