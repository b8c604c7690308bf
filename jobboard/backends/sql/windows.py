"""Key windows: for how long the key of a job stays taken, also if the job ends before.

A window says nothing about a live job, which has its key anyway, and nothing about one that was cancelled. Only
postings that have a key look at windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import delete, exists, literal_column, not_, select, union_all

from jobboard.backends.findings import AuditFinding
from jobboard.backends.rows import JobRow, NewJob
from jobboard.backends.sql.job_conditions import COMPLETE, is_one_of, mine
from jobboard.backends.sql.job_statements import FIND_KEYS, JOB
from jobboard.backends.sql.schema import jobs, windows
from jobboard.backends.sql.statement import Statement, either, for_each_of, in_list, p, parameters, put
from jobboard.backends.sql.transaction import Transaction

_mine = windows.c.board == p("board")
PUT = put(windows, ["board", "name", "key"], parameters("board", "name", "key", "uuid", "until"))
_its_job = either((jobs.c.board == windows.c.board) & (jobs.c.uuid == windows.c.uuid), postgresql=is_one_of(windows))
# By this sum no index with the state finds a job, but only its uuid.
_state: Any = jobs.c.state + literal_column("0")
_was_cancelled = (_state == COMPLETE) & (jobs.c.cancel_asked == literal_column("1")) & jobs.c.owner.is_(None)
# Nor does the index of what is over find a window.
_is_open = windows.c.until + literal_column("0") > p("now")
_of_name = _mine & (windows.c.name == p("name")) & _is_open
_has_ended = (_state >= COMPLETE) & not_(_was_cancelled)


# Only the primary index has this order, which a range of one value keeps: ``job_conditions`` says why that matters.
def _is_key(key: Any) -> Any:
    return (windows.c.key >= key) & (windows.c.key <= key)


_uuid_of_key = select(windows.c.uuid).where(_of_name, _is_key(p("key"))).order_by(windows.c.key).limit(1)
#: The job that has ended and keeps a key of a name.
HOLDER = Statement(select(*JOB).where(mine, jobs.c.uuid == _uuid_of_key.scalar_subquery(), _has_ended))
_kept = select(*JOB).select_from(windows).join(jobs, _its_job).where(_of_name, _has_ended)
_holders = _kept.where(in_list(windows.c.key, "keys"))
_live: Any = FIND_KEYS.clause
_live_on: Mapping[str, Any] = FIND_KEYS.otherwise
#: The jobs that have these keys of a name: the live ones, and those that have ended and keep theirs.
KEYS = Statement(
    union_all(_live, _holders),
    postgresql=union_all(_live_on["postgresql"], for_each_of("keys", _kept.order_by(windows.c.key), _is_key)),
    mysql=union_all(_live_on["mysql"], _holders),
    sqlite=union_all(_holders, _live_on["sqlite"].columns(*JOB)),
)
FREE = Statement(delete(windows).where(_mine, in_list(windows.c.uuid, "uuids")))
FORGET = Statement(delete(windows).where(_mine, windows.c.until <= p("now")))

_UNTIL = Statement(
    select(windows.c.until).where(
        _mine, windows.c.name == p("name"), windows.c.key == p("key"), windows.c.uuid == p("uuid")
    )
)

#: Whether the board has any window.
IS_ANY = Statement(select(windows.c.key).where(_mine).limit(1))

_has_job = exists().where(jobs.c.board == windows.c.board, jobs.c.uuid == windows.c.uuid).correlate(windows)
#: Windows of jobs that are gone.
STRAY = Statement(select(windows.c.name, windows.c.key, windows.c.uuid).where(_mine, not_(_has_job)))


def keep(transaction: Transaction, posted: Iterable[tuple[NewJob, JobRow]]) -> None:
    """Let jobs keep their keys for as long as their postings say; the last posting of a key counts."""
    transaction.run_many(
        PUT,
        [
            {"name": job.name, "key": job.key, "uuid": job.uuid, "until": transaction.now + new.key_for}
            for new, job in posted
            if new.key_for is not None and job.key is not None
        ],
    )


def seconds_left(transaction: Transaction, job: JobRow) -> float:
    """Return for how long a job keeps its key, also if it ends now."""
    row = None if job.key is None else transaction.row(_UNTIL, name=job.name, key=job.key, uuid=job.uuid)
    return 0.0 if row is None else float(row[0]) - transaction.now


def audit_windows(transaction: Transaction, repair: bool) -> list[AuditFinding]:
    """Find the keys that jobs keep which are gone, and free them if told to."""
    stray = transaction.rows(STRAY)
    if stray and repair:
        transaction.run(FREE, uuids=transaction.list_of(uuid for *_, uuid in stray))
    return [
        AuditFinding(uuid, f"it is gone, but the key {key!r} of {name!r} is kept for it", repair)
        for name, key, uuid in stray
    ]
