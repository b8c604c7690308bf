"""Which names can be claimed from: a pause bars a name, and a limit bars one that has as many claims.

Claims of limited names follow one another: each locks the rows of its names before it counts their claims, and counts
what the one before it has committed. Claims of other names neither wait nor count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import NamedTuple

from sqlalchemy import func, select

from jobboard.backends import limits
from jobboard.backends.sql import admin_statements
from jobboard.backends.sql.job_conditions import CLAIMED, by_index, claimed_now, mine
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.schema import jobs, pauses
from jobboard.backends.sql.statement import Statement, in_list, p
from jobboard.backends.sql.transaction import Transaction

_these_names = in_list(pauses.c.name, "names")
_limits = (
    select(pauses.c.name, pauses.c.running).where(pauses.c.board == p("board"), _these_names).order_by(pauses.c.name)
)
#: In one order, so that two transactions that lock several rows don't wait for each other.
LOCK_LIMITS = Statement(_limits.with_for_update())
#: Those that nobody else has locked: who has some of them waits for no further ones.
LOCK_FREE_LIMITS = Statement(_limits.with_for_update(skip_locked=True))
_number_of_names = select(jobs.c.name, func.count()).where(in_list(jobs.c.name, "names")).group_by(jobs.c.name)
CLAIMS_OF_NAMES = Statement(
    by_index(_number_of_names.where(mine, jobs.c.state == CLAIMED), "jobboard_ready_by_name"),
    postgresql=_number_of_names.where(claimed_now),
)


class Barred(NamedTuple):
    """
    :ivar paused: the paused names, and None among them if the whole board is.
    :ivar limits: how many claims each limited name may have.
    """

    paused: frozenset[str | None]
    limits: dict[str, int]


NOTHING_BARRED = Barred(frozenset(), {})


def barred(transaction: Transaction, names: Iterable[str] | None = None) -> Barred:
    """Return what bars these names; None: all."""
    if transaction.status is not None and not transaction.status.is_any_paused:
        return NOTHING_BARRED
    rows = transaction.rows(admin_statements.PAUSED)
    paused = frozenset(name or None for name, running in rows if running is None)
    limits = {name: running for name, running in rows if running is not None}
    return Barred(paused, limits if names is None else {name: limits[name] for name in limits.keys() & names})


def unclaimable_names(transaction: Transaction, known: Barred) -> frozenset[str | None]:
    """Return the names from which nothing can be claimed now, as far as others have committed their claims."""
    return known.paused | full_names(rooms_of(transaction, known.limits))


def full_names(rooms: Mapping[str, int]) -> set[str]:
    """Return the names that may have no further claim."""
    return {name for name, room in rooms.items() if room <= 0}


def lock_rooms(transaction: Transaction, names: Iterable[str]) -> dict[str, int]:
    """Lock the limits of those of these names that have one; return how many claims more each may have."""
    return _locked_rooms(transaction, LOCK_LIMITS, names)


def lock_further_rooms(transaction: Transaction, names: Iterable[str]) -> dict[str, int]:
    """Do so in a transaction that has locked limits already; those that somebody else has locked have no room."""
    return dict.fromkeys(names, 0) | _locked_rooms(transaction, LOCK_FREE_LIMITS, names)


def _locked_rooms(transaction: Transaction, lock: Statement, names: Iterable[str]) -> dict[str, int]:
    listed = transaction.list_of(sorted(names))
    locked = {name: running for name, running in transaction.rows(lock, names=listed) if running is not None}
    return rooms_of(transaction, locked)


def within_rooms(heads: Iterable[Row], rooms: Mapping[str, int]) -> list[Row]:
    """Return those of some heads that may be claimed, in their order; the last column of each is the name."""
    return list(limits.within_rooms(heads, dict(rooms), itemgetter(-1)))


def are_any_limited(transaction: Transaction, names: Iterable[str]) -> bool:
    """Whether somebody may wait for the end of a claim of these names, as far as that is known without a statement."""
    if transaction.status is None or not transaction.status.is_any_paused:
        return False
    return bool(barred(transaction, names).limits)


def rooms_of(transaction: Transaction, limits: Mapping[str, int]) -> dict[str, int]:
    """Return how many claims more names with these limits may have, as far as others have committed theirs."""
    if not limits:
        return {}
    claims: dict[str, int] = dict(transaction.rows(CLAIMS_OF_NAMES, names=transaction.list_of(limits)))
    return {name: running - claims.get(name, 0) for name, running in limits.items()}
