"""The statements about the steps of jobs, and the signals that are sent to them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table, delete, exists, func, insert, not_, select

from jobboard.backends.sql.schema import jobs, signals, steps
from jobboard.backends.sql.statement import Statement, in_list, p, parameters, put

#: A repeat writes the same again.
PUT_STEP = put(
    steps, ["board", "uuid", "number"], parameters("board", "uuid", "number", "name", "result") | {"at": p("now")}
)
_of_job = (steps.c.board == p("board")) & (steps.c.uuid == p("uuid"))
LOAD_STEPS = Statement(
    select(steps.c.number, steps.c.name, steps.c.result, steps.c.at)
    .where(_of_job, steps.c.number >= p("first"))
    .order_by(steps.c.board, steps.c.uuid, steps.c.number)
    .limit(p("size"))
)

ADD_SIGNAL = Statement(insert(signals).values(parameters("board", "uuid", "name", "value") | {"at": p("now")}))
_sent_to_job = (signals.c.board == p("board")) & (signals.c.uuid == p("uuid"))
#: Locks the signal, if it is there: a user's snapshot may be older, and a locking read sees what is committed.
FIND_SIGNAL = Statement(select(signals.c.name).where(_sent_to_job, signals.c.name == p("name")).with_for_update())
SIGNALS = Statement(select(signals.c.name, signals.c.value, signals.c.at).where(_sent_to_job))

FORGET_STEPS = Statement(delete(steps).where(steps.c.board == p("board"), in_list(steps.c.uuid, "uuids")))
FORGET_SIGNALS = Statement(delete(signals).where(signals.c.board == p("board"), in_list(signals.c.uuid, "uuids")))
#: Which signals were sent to these jobs.
SENT = Statement(
    select(signals.c.uuid, signals.c.name).where(signals.c.board == p("board"), in_list(signals.c.uuid, "uuids"))
)


def _of_no_job(table: Table) -> Any:
    has_job = exists().where(jobs.c.board == table.c.board, jobs.c.uuid == table.c.uuid).correlate(table)
    return (table.c.board == p("board")) & not_(has_job)


ORPHANED_STEPS, ORPHANED_SIGNALS = (
    Statement(select(func.count()).select_from(table).where(_of_no_job(table))) for table in (steps, signals)
)
DROP_ORPHANED_STEPS, DROP_ORPHANED_SIGNALS = (
    Statement(delete(table).where(_of_no_job(table))) for table in (steps, signals)
)
