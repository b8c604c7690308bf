"""The owner of the only slot of a lane is killed 30 times on each of three stores: never two claims, nor long none."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from harnesses.fixtures import a_store
from harnesses.slot_owner import EXPIRY, FORKS, LONGEST_RUN, SlotOwner, first_to_tell
from servers.durable_stores import Store

from jobboard import JobBoard, Posting, fetch

pytestmark = pytest.mark.in_turn(1)

KILLS, OWNERS, BATCH = 30, 3, 100
#: For how many seconds the slot may stand free after the claim of a dead owner has expired; and for how many more now
#: and then, and once in a while, on a machine that is busy elsewhere.
FREE, BUSY, SLOW = 1.0, 2.0, 10.0

#: What takes long to import: the process that is forked finds only what is installed.
PRELOADED = [
    "jobboard.testing.rival", "jobboard.backends.redis", "jobboard.backends.sql.sqlite",
    "jobboard.backends.sql.postgresql",
]  # fmt: skip


store = a_store(["sqlite", "redis", "postgresql"])


@pytest.fixture
def board(store: Store) -> Iterator[JobBoard]:
    with fetch("killed", store.uri) as board:
        board.limits.set(lane="tenant:1", running=1)
        yield board


class Crew:
    """Owners of whom one that is killed is replaced, and the jobs that they run."""

    def __init__(self, store: Store, board: JobBoard) -> None:
        FORKS.set_forkserver_preload(PRELOADED)
        self._store, self._board, self._numbers = store, board, itertools.count()
        self.owners = [self._new() for _ in range(OWNERS)]
        self.gone: list[SlotOwner] = []

    def _new(self) -> SlotOwner:
        return SlotOwner(self._store.uri, self._board.name, f"owner {next(self._numbers)}")

    def kill_who_claims_next(self, chance: random.Random) -> None:
        """Let jobs run, and kill somebody at a random moment of a claim of theirs."""
        if self._board.stats().blocked < BATCH // 2:
            self._board.post_many([Posting("resize", lane="tenant:1") for _ in range(BATCH)])
        for _ in range(chance.randrange(1, 12)):
            teller = first_to_tell(self.owners, 60.0)
            assert teller is not None, "nobody has told anything for a minute"
            what = teller.hear()
        if what == "claimed":
            first_to_tell([teller], chance.uniform(0.0, LONGEST_RUN))
        self.owners.remove(teller)
        teller.kill()
        self.gone.append(teller)
        self.owners.append(self._new())

    def end(self) -> list[tuple[float, float]]:
        """Kill all, and return all runs by their beginnings."""
        for owner in self.owners:
            owner.kill()
        return sorted(run for owner in [*self.gone, *self.owners] for run in owner.runs)


@pytest.mark.timeout(600)
def test_a_killed_owner_gives_its_slot_to_one_other(store: Store, board: JobBoard) -> None:
    crew, chance = Crew(store, board), random.Random(7)
    for _ in range(KILLS):
        crew.kill_who_claims_next(chance)
    runs = crew.end()
    assert len(runs) > KILLS
    overlaps = [(one, other) for one, other in pairwise(runs) if other[0] < one[1]]
    assert overlaps == []
    gaps = sorted(other[0] - one[0] for one, other in pairwise(runs))
    # The longest are those after a death.
    usual = EXPIRY + LONGEST_RUN + FREE
    assert gaps[-KILLS // 2] < usual
    assert gaps[-KILLS // 10] < usual + BUSY
    assert gaps[-1] < usual + SLOW
    stats = board.limits.lane("tenant:1")
    assert stats.running + stats.claimable == 1
    assert board.audit() == []
