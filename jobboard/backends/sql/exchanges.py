"""Exchanges: a claimable job that somebody can't claim gives its lane's slot back to one of the lane that he can.

Names may share a lane. Where the claimable jobs of a lane belong to names that a claimer does not ask for, or that are
paused or full, its other names would stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sqlalchemy import select, text

from jobboard.backends import admission, lifecycle
from jobboard.backends.lanes import MAX_EXCHANGES, MAX_MOVES
from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.backends.sql import job_statements, lanes
from jobboard.backends.sql.job_conditions import BLOCKED, UNCLAIMED
from jobboard.backends.sql.job_statements import JOB
from jobboard.backends.sql.lane_limits import rules_of
from jobboard.backends.sql.lane_looks import move_jobs
from jobboard.backends.sql.name_limits import barred, lock_rooms, unclaimable_names, within_rooms
from jobboard.backends.sql.rows import job_of, position_of
from jobboard.backends.sql.schema import HOLDS_SLOT, jobs
from jobboard.backends.sql.schema import lanes as places
from jobboard.backends.sql.statement import Statement, p
from jobboard.backends.sql.tokens import least_token, next_token
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import carry_out

#: Of how many names with BLOCKED jobs a claim of all names thinks at most.
MAX_NAMES = 100

# Each row is found by one look into the index, however many jobs of a name or a lane are BLOCKED.
_NEXT = """
WITH RECURSIVE found (value, number) AS (
    SELECT (SELECT min({column}) FROM jobboard_lanes WHERE board = :board AND {those} AND {column} > :after), 1
    UNION ALL
    SELECT (SELECT min({column}) FROM jobboard_lanes WHERE board = :board AND {those} AND {column} > found.value),
        number + 1
    FROM found WHERE found.value IS NOT NULL AND number < {most}
)
SELECT value FROM found WHERE value IS NOT NULL
"""
#: The next lanes after one that have BLOCKED jobs of a name; and the names of BLOCKED jobs.
NEXT_LANES = Statement(text(_NEXT.format(column="lane", those="blocked_name = :name", most=MAX_EXCHANGES)))
NAMES = Statement(text(_NEXT.format(column="blocked_name", those="blocked_name IS NOT NULL", most=MAX_NAMES)))
#: The names of the claimable jobs of a lane.
CLAIMABLE_NAMES = Statement(
    lanes.by_lane(
        select(places.c.lane, jobs.c.name)
        .select_from(places)
        .join(jobs, lanes.joined)
        .where(lanes.of_lane, places.c.turn == HOLDS_SLOT, jobs.c.state == UNCLAIMED)
        .limit(MAX_MOVES)
    )
)
#: The first BLOCKED job of a lane and a name.
LOCK_BLOCKED_OF_NAME = Statement(
    select(*JOB)
    .select_from(places)
    .join(jobs, lanes.joined)
    .where(lanes.of_lane, places.c.blocked_name == p("name"), jobs.c.state == BLOCKED)
    .order_by(*lanes.in_order)
    .limit(1)
    .with_hint(places, "FORCE INDEX (jobboard_blocked)", "mysql")
    .with_for_update(of=jobs, skip_locked=True)
)


class Exchanges:
    """Those of one board; each call goes on where the one before it stopped, so that every lane has its turn."""

    def __init__(self) -> None:
        self._name = self._lane = ""

    def claim(
        self,
        transaction: Transaction,
        claim: ClaimRequest,
        names: frozenset[str] | None,
        limit: int,
    ) -> list[JobRow]:
        """Claim up to ``limit`` jobs, each by an exchange in a lane of its own; look at ``MAX_EXCHANGES`` lanes.

        :param names: those that are asked for; None: all.
        """
        known = barred(transaction, names)
        closed = unclaimable_names(transaction, known)
        if None in closed or (names is None and not closed):
            return []
        if not transaction.moves_others or not lanes.lock(transaction):
            return []

        def can_claim(name: str) -> bool:
            return name not in closed and (names is None or name in names)

        found = self._next_lanes(transaction, filter(can_claim, self._next_names(transaction)))
        pairs = []
        for lane in _lanes_to_free(transaction, found, can_claim):
            pairs += _pair(transaction, lane, found[lane], can_claim)
        heads = [(better.uuid, better.name) for _, better in pairs][:limit]
        limited = known.limits.keys() & {name for _, name in heads}
        allowed = within_rooms(heads, lock_rooms(transaction, limited) if limited else {})
        uuids = {uuid for uuid, _ in allowed}
        return [_exchange(transaction, claim, *pair) for pair in pairs if pair[1].uuid in uuids]

    def _next_names(self, transaction: Transaction) -> list[str]:
        """Return the next names that have BLOCKED jobs."""
        found = [name for (name,) in transaction.rows(NAMES, after=self._name)]
        self._name = found[-1] if len(found) == MAX_NAMES else ""
        return found

    def _next_lanes(self, transaction: Transaction, names: Iterable[str]) -> dict[str, list[str]]:
        """Return the next lanes that have BLOCKED jobs of these names, and of which of them."""
        found: dict[str, list[str]] = {}
        for name in names:
            for (lane,) in transaction.rows(NEXT_LANES, name=name, after=self._lane):
                found.setdefault(lane, []).append(name)
        chosen = sorted(found)[:MAX_EXCHANGES]
        self._lane = chosen[-1] if len(chosen) == MAX_EXCHANGES else ""
        return {lane: found[lane] for lane in chosen}


def _lanes_to_free(transaction: Transaction, names: Iterable[str], can_claim: Callable[[str], bool]) -> Iterator[str]:
    """Yield those lanes that have claimable jobs of names that can't be claimed, but for strict ones."""
    rules = rules_of(transaction, names)
    free = [{"lane": lane} for lane in names if not rules.of_lane(lane).is_strict]
    rows = transaction.rows_of_each([CLAIMABLE_NAMES], free) if free else []
    yield from dict.fromkeys(lane for lane, name in rows if not can_claim(name))


def _pair(
    transaction: Transaction, lane: str, names: Iterable[str], can_claim: Callable[[str], bool]
) -> list[tuple[JobRow, JobRow]]:
    """Return the last claimable job of a lane that can't be claimed, and the first BLOCKED one of these names, if any;
    both are locked."""
    claimable = map(job_of, transaction.rows(lanes.LOCK_CLAIMABLE, lane=lane, limit=MAX_MOVES))
    worse = next((job for job in claimable if not can_claim(job.name)), None)
    if worse is None:
        return []
    rows = [row for name in names for row in transaction.rows(LOCK_BLOCKED_OF_NAME, lane=lane, name=name)]
    return [(worse, job_of(row)) for row in sorted(rows, key=position_of)[:1]]


def _exchange(transaction: Transaction, claim: ClaimRequest, worse: JobRow, better: JobRow) -> JobRow:
    now = transaction.now
    move_jobs(transaction, [(worse, admission.withdraw(worse, now)), (better, admission.admit(better, now))])
    change = lifecycle.claim(better, claim, now, next_token(better.token, least_token(now)))
    carry_out(transaction, job_statements.CLAIM, [(better, change)])
    return better
