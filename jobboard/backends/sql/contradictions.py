"""What a row of the table of jobs may say that contradicts itself, and what mends it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, case, cast, func, not_, select, update

from jobboard.backends.sql.job_conditions import (
    BLOCKED,
    CLAIMED,
    COMPLETE,
    DELAYED,
    TRASHED,
    UNCLAIMED,
    mine,
    one_of,
    row,
)
from jobboard.backends.sql.job_statements import SMALL_JOB
from jobboard.backends.sql.schema import PLACES_OF_A_RANK, PLACES_OF_A_SECOND, jobs
from jobboard.backends.sql.statement import Statement, p
from jobboard.states import JobPriority

_BEST, _WORST = -max(JobPriority), -min(JobPriority)

_stateless = not_(one_of(jobs.c.state, BLOCKED, DELAYED, UNCLAIMED, CLAIMED, COMPLETE, TRASHED))
_ownerless = (jobs.c.state == CLAIMED) & (jobs.c.owner.is_(None) | jobs.c.claim_id.is_(None))
_never_due = (jobs.c.state == DELAYED) & jobs.c.due_at.is_(None)

_blocked_for_nothing = (jobs.c.state == BLOCKED) & jobs.c.ties.is_(None)

_no_rank = (jobs.c.rank < _BEST) | (jobs.c.rank > _WORST)
_its_rank: Any = case((jobs.c.rank < _BEST, _BEST), (jobs.c.rank > _WORST, _WORST), else_=jobs.c.rank)
# A number of 64 bits: a server would not have room for the product in one of a rank's size.
_first_place = cast(_its_rank, BigInteger) * PLACES_OF_A_RANK
_misplaced = (jobs.c.place < _first_place) | (jobs.c.place >= _first_place + PLACES_OF_A_RANK)

#: By what is wrong: the rows of which it is.
CONTRADICTIONS = {
    problem: Statement(select(*SMALL_JOB).where(mine, wrong))
    for problem, wrong in {
        "it is claimed, but by nobody": _ownerless,
        "it is not claimed, but has an owner": one_of(jobs.c.state, BLOCKED, DELAYED, UNCLAIMED, TRASHED)
        & jobs.c.owner.is_not(None),
        "it is not claimed, but has a claim": one_of(jobs.c.state, BLOCKED, DELAYED, UNCLAIMED, COMPLETE, TRASHED)
        & jobs.c.claim_id.is_not(None),
        "it is delayed, but never due": _never_due,
        "it is blocked, but waits for nothing": _blocked_for_nothing,
        "it is neither delayed nor claimed, but due": one_of(jobs.c.state, UNCLAIMED, COMPLETE, TRASHED)
        & jobs.c.due_at.is_not(None)
        & jobs.c.ties.is_(None),
        "it is on the board or in the trash, but remembered as gone": one_of(
            jobs.c.state, BLOCKED, DELAYED, UNCLAIMED, CLAIMED, TRASHED
        )
        & jobs.c.retain_until.is_not(None),
        "it is gone, but remembered for ever": (jobs.c.state == COMPLETE) & jobs.c.retain_until.is_(None),
        "its state is none": _stateless,
        "its priority is none": _no_rank,
        "its place is not of its priority": not_(_no_rank) & _misplaced,
    }.items()
}

_has_moments = (jobs.c.state < COMPLETE) & jobs.c.ties.is_not(None)
_is_held = (jobs.c.state == CLAIMED) & not_(_ownerless)
#: Mends whatever is wrong with a row. A job whose state nobody knows goes to the trash, for an operator: on the
#: board it might run twice.
MEND = Statement(
    update(jobs)
    .where(row)
    .values(
        owner=case((_is_held | (jobs.c.state == COMPLETE), jobs.c.owner)),
        claim_id=case((_is_held, jobs.c.claim_id)),
        due_at=case((_is_held | (jobs.c.state == DELAYED) | _has_moments, jobs.c.due_at)),
        retain_until=case((jobs.c.state == COMPLETE, func.coalesce(jobs.c.retain_until, p("now")))),
        # MySQL sets one column after the other, so the rank comes last.
        place=case(
            (_misplaced, _first_place + cast(jobs.c.created_on * PLACES_OF_A_SECOND, BigInteger)),
            else_=jobs.c.place,
        ),
        rank=_its_rank,
        state=case(
            (_stateless, TRASHED), (_ownerless | _never_due | _blocked_for_nothing, UNCLAIMED), else_=jobs.c.state
        ),
        last_modified=p("now"),
    )
)
