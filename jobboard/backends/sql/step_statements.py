"""The statements about the steps of jobs, and the signals that are sent to them."""

from __future__ import annotations

from sqlalchemy import delete, func, insert, select

from jobboard.backends.sql.schema import signals, steps
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

_these_steps = (steps.c.board == p("board")) & in_list(steps.c.uuid, "uuids")
#: How many steps each of these jobs has that has any.
COUNT_STEPS = Statement(select(steps.c.uuid, func.count()).where(_these_steps).group_by(steps.c.uuid))
FORGET_STEPS = Statement(delete(steps).where(_these_steps))
FORGET_SIGNALS = Statement(delete(signals).where(signals.c.board == p("board"), in_list(signals.c.uuid, "uuids")))
