"""Exchanges: a claimable job that somebody can't claim gives its lane's slot back to one of the lane that he can.

Names may share a lane. Where the claimable jobs of a lane belong to names that a claimer does not ask for, or that are
paused or full, its other names would stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import select

from jobboard.backends import admission, lifecycle
from jobboard.backends.lanes import MAX_EXCHANGES, MAX_MOVES
from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.backends.sql import job_statements, lanes
from jobboard.backends.sql.job_conditions import BLOCKED, UNCLAIMED, in_state
from jobboard.backends.sql.job_statements import JOB
from jobboard.backends.sql.lane_limits import rules_of
from jobboard.backends.sql.lane_looks import due_by, move_jobs
from jobboard.backends.sql.name_limits import barred, lock_rooms, unclaimable_names, within_rooms
from jobboard.backends.sql.rows import due_of, job_of, position_of
from jobboard.backends.sql.schema import jobs
from jobboard.backends.sql.schema import lanes as places
from jobboard.backends.sql.statement import Statement, p
from jobboard.backends.sql.tokens import least_token, next_token
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import carry_out

_mine = places.c.board == p("board")


def _by_blocked(wanted: Any) -> Any:
    return wanted.limit(1).with_hint(places, "FORCE INDEX (jobboard_blocked)", "mysql")


_of_name = places.c.blocked_name == p("name")
#: The next lane after one that has BLOCKED jobs of a name; and the first name from one on that has any.
NEXT_LANE = Statement(
    _by_blocked(select(places.c.lane).where(_mine, _of_name, places.c.lane > p("after")).order_by(places.c.lane))
)
FIRST_NAME = Statement(
    _by_blocked(
        select(places.c.blocked_name).where(_mine, places.c.blocked_name >= p("name")).order_by(places.c.blocked_name)
    )
)
#: The names of the claimable jobs of a lane.
CLAIMABLE_NAMES = Statement(
    select(lanes.slots.c.lane, jobs.c.name)
    .select_from(lanes.joined(lanes.slots))
    .where(in_state(UNCLAIMED))
    .limit(MAX_MOVES)
)
#: The first BLOCKED job of a lane and a name.
LOCK_BLOCKED_OF_NAME = Statement(
    _by_blocked(
        select(*JOB)
        .select_from(lanes.joined(places))
        .where(lanes.of_lane, _of_name, in_state(BLOCKED))
        .order_by(*lanes.in_order)
        .with_for_update(of=jobs, skip_locked=True)
    )
)


class _Pair(NamedTuple):
    """Two jobs of a lane: the one gives its slot to the other.

    :ivar look_at: when the lane is to be looked at, if the second one's row is what is due for that.
    """

    worse: JobRow
    better: JobRow
    look_at: float | None


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

        found: dict[str, list[str]] = {}
        for name, lane in self._next(transaction, names, can_claim):
            found.setdefault(lane, []).append(name)
        pairs: list[_Pair] = []
        for lane in _lanes_to_free(transaction, found, can_claim):
            pairs += _pair(transaction, lane, found[lane], can_claim)
        heads = [(pair.better.uuid, pair.better.name) for pair in pairs][:limit]
        limited = known.limits.keys() & {name for _, name in heads}
        allowed = within_rooms(heads, lock_rooms(transaction, limited) if limited else {})
        uuids = {uuid for uuid, _ in allowed}
        return [_exchange(transaction, claim, pair) for pair in pairs if pair.better.uuid in uuids]

    def _next(
        self, transaction: Transaction, names: frozenset[str] | None, can_claim: Callable[[str], bool]
    ) -> Iterator[tuple[str, str]]:
        """Yield the next names that can be claimed, each with a lane in which it has a BLOCKED job."""
        asked = None if names is None else sorted(filter(can_claim, names))
        for _ in range(MAX_EXCHANGES):
            name = _first_name(transaction, asked, self._name)
            if name is None:
                # The next call begins anew.
                self._name = self._lane = ""
                return
            after = self._lane if name == self._name else ""
            rows = transaction.rows(NEXT_LANE, name=name, after=after) if can_claim(name) else []
            self._name, self._lane = (name, rows[0][0]) if rows else (_next_text(name), "")
            for (lane,) in rows:
                yield name, lane


def _first_name(transaction: Transaction, asked: list[str] | None, least: str) -> str | None:
    """Return the first of the asked names from one on; if all are asked for, the first that has BLOCKED jobs."""
    if asked is not None:
        return next((name for name in asked if name >= least), None)
    rows = transaction.rows(FIRST_NAME, name=least)
    return rows[0][0] if rows else None


def _next_text(text: str) -> str:
    """Return what follows a text and nothing lies between."""
    return f"{text}\x01"


def _lanes_to_free(transaction: Transaction, names: Iterable[str], can_claim: Callable[[str], bool]) -> Iterator[str]:
    """Yield those lanes that have claimable jobs of names that can't be claimed, but for strict ones."""
    rules = rules_of(transaction, names)
    free = [{"lane": lane} for lane in names if not rules.of_lane(lane).is_strict]
    rows = transaction.rows_of_each([CLAIMABLE_NAMES], free) if free else []
    yield from dict.fromkeys(lane for lane, name in rows if not can_claim(name))


def _pair(transaction: Transaction, lane: str, names: Iterable[str], can_claim: Callable[[str], bool]) -> list[_Pair]:
    """Return the pair of a lane, if there is one: the last claimable job that can't be claimed, and the first BLOCKED
    one of these names; both are locked."""
    claimable = map(job_of, transaction.rows(lanes.LOCK_CLAIMABLE, lane=lane, limit=MAX_MOVES))
    worse = next((job for job in claimable if not can_claim(job.name)), None)
    if worse is None:
        return []
    rows = [row for name in names for row in transaction.rows(LOCK_BLOCKED_OF_NAME, lane=lane, name=name)]
    return [_Pair(worse, job_of(row), due_of(row)) for row in sorted(rows, key=position_of)[:1]]


def _exchange(transaction: Transaction, claim: ClaimRequest, pair: _Pair) -> JobRow:
    now, (worse, better, look_at) = transaction.now, pair
    move_jobs(transaction, [(worse, admission.withdraw(worse, now)), (better, admission.admit(better, now))])
    if look_at is not None:
        # The lane may have room beside this exchange, now or by its rate, and nothing else may say so.
        transaction.run_many(lanes.DUE, [due_by(worse, max(look_at, now))])
    change = lifecycle.claim(better, claim, now, next_token(better.token, least_token(now)))
    carry_out(transaction, job_statements.CLAIM, [(better, change)])
    return better
