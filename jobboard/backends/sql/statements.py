"""The statements about jobs and their journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Integer,
    any_,
    case,
    delete,
    exists,
    func,
    insert,
    literal_column,
    not_,
    null,
    or_,
    select,
    text,
    update,
)

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.sql import schema
from jobboard.backends.sql.schema import jobs, journal, pauses
from jobboard.backends.sql.statement import Returning, Statement, in_list, p
from jobboard.backends.sql.tokens import NEXT_TOKEN
from jobboard.events import HISTORY_LENGTH

# States stand in the text, not in parameters: only then can a partial index serve a statement.
DELAYED, UNCLAIMED, CLAIMED, COMPLETE, TRASHED = (
    literal_column(str(code), Integer)
    for code in (schema.DELAYED, schema.UNCLAIMED, schema.CLAIMED, schema.COMPLETE, schema.TRASHED)
)


def one_of(column: Any, *values: Any) -> Any:
    return or_(*(column == value for value in values))


mine = jobs.c.board == p("board")
row = jobs.c.id == p("id")
_this = mine & (jobs.c.uuid == p("uuid"))
_these = mine & in_list(jobs.c.uuid, "uuids")
_ready = mine & (jobs.c.state == UNCLAIMED)
_in_order = (jobs.c.rank, jobs.c.id)
# What is not to be seen any more once it is gone has its end as its retention's end: so it is hidden also from those
# whose now is older than that, because they waited for the row.
_visible = or_(
    jobs.c.retain_until.is_(None),
    (jobs.c.retain_until > p("now")) & (jobs.c.retain_until > jobs.c.last_modified),
)
_unrecorded = one_of(journal.c.kind, "EXTENDED", "CHECKPOINTED")
_long_ago = p("now") - literal_column(str(RETRY_WINDOW))


# A planner whose statistics are old, or are those of another time of the day, must not look through all jobs of a state
# for one. MySQL's is told which index. PostgreSQL's sorts only if it must (see its driver), so that it takes the only
# index that has the order; hence orders that seem superfluous, and a range of one value, which is not left out of them.


def by_index(wanted: Any, index: str) -> Any:
    return wanted.with_hint(jobs, f"FORCE INDEX ({index})", "mysql")


def _is_in_order(column: Any, name: str) -> Any:
    return (column >= p(name)) & (column <= p(name))


#: What makes an Entry; jobboard.backends.sql.rows reads them in this order.
ENTRY = [
    jobs.c.id, jobs.c.uuid, jobs.c.name, jobs.c.rank, jobs.c.created_on, jobs.c.body, jobs.c.key, jobs.c.run_at,
    jobs.c.max_attempts, jobs.c.state, jobs.c.attempts, jobs.c.owner, jobs.c.token, jobs.c.claim_id, jobs.c.due_at,
    jobs.c.last_modified, jobs.c.last_error, jobs.c.reason, jobs.c.checkpoint, jobs.c.progress, jobs.c.result,
    jobs.c.cancel_asked,
]  # fmt: skip
_LARGE = {"body", "checkpoint", "progress", "result"}
#: The same without what may be large, for steps that only move a job.
RECORD: list[Any] = [null().label(column.name) if column.name in _LARGE else column for column in ENTRY]

# -- settling ----------------------------------------------------------------------------------------------------------

_due = mine & (jobs.c.due_at <= p("now"))
_first_due = by_index(select(jobs.c.due_at).where(_due).order_by(jobs.c.due_at).limit(1), "jobboard_due")
IS_ANY_DUE = Statement(_first_due)
#: Whether anything is due, and whether anything is paused: all that claim_next has to know beforehand.
DUE_OR_PAUSED = Statement(
    select(_first_due.scalar_subquery().is_not(None), exists().where(pauses.c.board == p("board")))
)
#: So many of each kind are settled at once.
SETTLED_AT_ONCE = 1000
_delayed = _due & (jobs.c.state == DELAYED)
_let_go = update(jobs).values(state=UNCLAIMED, due_at=None, last_modified=p("now"))
_moved = (jobs.c.id,)
# Here and below, what somebody else has locked is passed over: it is about to change, and whoever has a claim ended or
# extended in a transaction of their own may take their time.
_free_delayed = by_index(
    select(jobs.c.id).where(_delayed).order_by(jobs.c.due_at).limit(SETTLED_AT_ONCE).with_for_update(skip_locked=True),
    "jobboard_due",
)
_these_ids = in_list(jobs.c.id, "ids")
LET_GO = Returning(
    at_once=Statement(
        _let_go.where(jobs.c.id.in_(_free_delayed)).returning(*_moved),
        postgresql=_let_go.where(jobs.c.id == any_(func.array(_free_delayed.scalar_subquery()))).returning(*_moved),
    ),
    find=Statement(_free_delayed),
    change=Statement(_let_go.where(_these_ids)),
    read=Statement(select(*_moved).where(_these_ids)),
)
#: What is due and no delayed job, which LET_GO alone moves: the claims that are over, and rows that are due by mistake.
OVERDUE = Statement(
    by_index(
        select(*RECORD)
        .where(_due, jobs.c.state != DELAYED)
        .order_by(jobs.c.due_at)
        .limit(SETTLED_AT_ONCE)
        .with_for_update(skip_locked=True),
        "jobboard_due",
    )
)

# -- steps from state to state, of a row that was read in the same transaction -----------------------------------------

_free = {"owner": None, "claim_id": None, "due_at": None, "last_modified": p("now")}
PUT_BACK = Statement(
    update(jobs)
    .where(row)
    .values(
        state=p("state"), owner=None, claim_id=None, due_at=p("due_at"), run_at=p("run_at"), last_modified=p("now"),
        attempts=p("attempts"), reason=p("reason"), last_error=p("last_error"),
    )
)  # fmt: skip
PUT_ASIDE = Statement(
    update(jobs).where(row).values(state=TRASHED, reason=p("reason"), last_error=p("last_error"), **_free)
)
TAKE_OFF = Statement(update(jobs).where(row).values(state=COMPLETE, retain_until=p("now"), cancel_asked=1, **_free))
ASK_TO_END = Statement(update(jobs).where(row).values(cancel_asked=1, last_modified=p("now")))
# Whoever brings a job back wants it now: a delay that isn't over must not come back with its next abandon.
RESTORE = Statement(
    update(jobs)
    .where(row)
    .values(
        state=UNCLAIMED, attempts=0, reason=None, cancel_asked=0,
        run_at=case((jobs.c.run_at <= p("now"), jobs.c.run_at)), **_free,
    )
)  # fmt: skip
DELETE = Statement(delete(jobs).where(in_list(jobs.c.id, "ids")))
DELETE_HISTORY = Statement(delete(journal).where(in_list(journal.c.job, "ids")))

# -- posting -----------------------------------------------------------------------------------------------------------

POST = Statement(
    insert(jobs).inline().values(
        board=p("board"), uuid=p("uuid"), name=p("name"), key=p("key"), rank=p("rank"), created_on=p("now"),
        body=p("body"), max_attempts=p("max_attempts"), state=p("state"), attempts=0, token=0, due_at=p("due_at"),
        run_at=p("run_at"), last_modified=p("now"), cancel_asked=0,
    )
)  # fmt: skip
SEQUENCES = Statement(by_index(select(jobs.c.uuid, jobs.c.id).where(_these), "jobboard_uuid"))
REPLACE = Statement(
    update(jobs)
    .where(row)
    .values(
        rank=p("rank"), body=p("body"), max_attempts=p("max_attempts"), state=p("state"), due_at=p("due_at"),
        run_at=p("run_at"), last_modified=p("now"),
    )
)  # fmt: skip
_of_name = select(*ENTRY).where(mine, jobs.c.name == p("name"))
_of_key = _of_name.where(jobs.c.key == p("key"), jobs.c.key.is_not(None), jobs.c.state < COMPLETE)
# Where there are no partial indexes, a column holds the key for as long as the job is on the board.
_of_live_key = _of_name.where(literal_column("jobboard_jobs.live_key") == p("key"))
FIND_KEY = Statement(_of_key, mysql=_of_live_key)
_of_keys = _of_name.where(in_list(jobs.c.key, "keys"), jobs.c.key.is_not(None), jobs.c.state < COMPLETE)
_of_live_keys = _of_name.where(in_list(literal_column("jobboard_jobs.live_key"), "keys"))
FIND_KEYS = Statement(_of_keys, mysql=by_index(_of_live_keys, "jobboard_key"))
FIND_KEY_TO_REPLACE = Statement(_of_key.with_for_update(), mysql=_of_live_key.with_for_update())
_replaced = (
    select(journal.c.job)
    .where(journal.c.board == p("board"), journal.c.kind == literal_column("'REPLACED'"), journal.c.reason == p("uuid"))
    .limit(1)
)
REPLACED_BY = Statement(select(*ENTRY).where(jobs.c.id == _replaced.scalar_subquery()))

# -- claiming ----------------------------------------------------------------------------------------------------------

_own = {
    "state": CLAIMED,
    "attempts": jobs.c.attempts + 1,
    "token": literal_column(NEXT_TOKEN),
    "owner": p("who"),
    "claim_id": p("claim_id"),
    "due_at": p("due_at"),
    "last_modified": p("now"),
    "progress": None,
}
# Databases that lock rows pass over those that others are claiming; SQLite's dialect leaves these words out.
_heads = by_index(
    select(jobs.c.id).where(_ready).order_by(*_in_order).limit(p("limit")).with_for_update(skip_locked=True),
    "jobboard_ready",
)
# As a subquery PostgreSQL might run it more than once, and lock more than was asked for.
_locked_heads = _heads.cte("heads").prefix_with("MATERIALIZED", dialect="postgresql")
_own_ids = Statement(update(jobs).where(_these_ids).values(_own))
_owned = Statement(select(*ENTRY).where(_these_ids))
CLAIM_NEXT = Returning(
    at_once=Statement(
        update(jobs).where(jobs.c.id.in_(_heads)).values(_own).returning(*ENTRY),
        postgresql=update(jobs).where(jobs.c.id == _locked_heads.c.id).values(_own).returning(*ENTRY),
    ),
    find=Statement(_heads),
    change=_own_ids,
    read=_owned,
)
_of_this_name = _ready & (jobs.c.name == p("name"))
_of_this_name_in_order = _ready & _is_in_order(jobs.c.name, "name")
_heads_of_name = select(jobs.c.rank, jobs.c.id).limit(p("limit")).with_for_update(skip_locked=True)
#: The best of one name; several names are merged from their heads.
HEADS_OF_NAME = Statement(
    by_index(_heads_of_name.where(_of_this_name).order_by(*_in_order), "jobboard_ready_by_name"),
    postgresql=_heads_of_name.where(_of_this_name_in_order).order_by(jobs.c.name, *_in_order),
)
CLAIM_IDS = Returning(
    at_once=Statement(update(jobs).where(_these_ids).values(_own).returning(*ENTRY)),
    find=None,
    change=_own_ids,
    read=_owned,
)
CLAIMED_UNDER = Statement(
    select(*ENTRY).where(mine, jobs.c.state == CLAIMED, jobs.c.claim_id == p("claim_id")).order_by(*_in_order)
)
#: The next name after one that is ready; a walk over the names costs a look each, not one per job.
NEXT_READY_NAME = Statement(
    by_index(
        select(jobs.c.name).where(_ready, jobs.c.name > p("name")).order_by(jobs.c.name).limit(1),
        "jobboard_ready_by_name",
    )
)

# -- under a claim -----------------------------------------------------------------------------------------------------

#: What fences are compared with; the state isn't asked for here, or all claimed jobs might be looked through. One job
#: is the common case, and spares the list.
FENCE = Statement(select(*RECORD).where(_this).with_for_update())
# Several are locked in the same order by everybody, so that nobody waits in a circle.
_fences = select(*RECORD).where(_these).with_for_update()
_fences_in_order = _fences.order_by(jobs.c.uuid)
FENCES = Statement(_fences, postgresql=_fences_in_order, mysql=by_index(_fences_in_order, "jobboard_uuid"))
#: Whoever has one of these locked is ending its claim, perhaps in a transaction that takes long. The others must not
#: miss their renewal meanwhile.
FREE_FENCES = Statement(
    by_index(select(*RECORD).where(_these).with_for_update(skip_locked=True), "jobboard_uuid"),
)
FENCES_TO_SEE = Statement(by_index(select(*RECORD).where(_these), "jobboard_uuid"))
EXTEND = Statement(
    update(jobs)
    .where(row)
    .values(due_at=p("due_at"), last_modified=p("now"), progress=func.coalesce(p("progress"), jobs.c.progress))
)
CHECKPOINT = Statement(update(jobs).where(row).values(checkpoint=p("checkpoint"), last_modified=p("now")))
CONSUME = Statement(
    update(jobs)
    .where(row)
    .values(
        state=COMPLETE, claim_id=None, due_at=None, last_modified=p("now"), result=p("result"),
        retain_until=p("retain_until"),
    )
)  # fmt: skip
WAS_DONE = Statement(
    select(journal.c.who)
    .select_from(jobs.join(journal, journal.c.job == jobs.c.id))
    .where(_this, journal.c.token == p("token"), in_list(journal.c.kind, "kinds"))
)

# -- reading -----------------------------------------------------------------------------------------------------------

FIND = Statement(select(*ENTRY).where(_this))
FIND_TO_CHANGE = Statement(select(*ENTRY).where(_this).with_for_update())
FIND_TO_CLAIM = Statement(select(*ENTRY).where(_this, _visible).with_for_update())
FIND_MANY = Statement(by_index(select(*ENTRY).where(_these), "jobboard_uuid"))
FIND_VISIBLE = Statement(select(*ENTRY).where(_this, _visible))
FIND_MANY_VISIBLE = Statement(by_index(select(*ENTRY).where(_these, _visible), "jobboard_uuid"))
HISTORY = Statement(
    select(journal.c.kind, journal.c.who, journal.c.at, journal.c.token, journal.c.reason)
    .where(journal.c.job == select(jobs.c.id).where(_this, _visible).scalar_subquery(), not_(_unrecorded))
    .order_by(journal.c.id.desc())
    .limit(HISTORY_LENGTH)
)
LAST_OF_TRASH = Statement(
    select(journal.c.kind)
    .where(journal.c.job == p("id"), one_of(journal.c.kind, "TRASHED", "RESTORED"))
    .order_by(journal.c.id.desc())
    .limit(1)
)
LAST_LINE = Statement(select(journal.c.kind).where(journal.c.job == p("id")).order_by(journal.c.id.desc()).limit(1))


@dataclass(frozen=True, slots=True)
class Pages:
    """Some jobs in claim order, from a place on: first the rest of its rank, then the later ranks.

    Two statements, because no index of SQLite's begins at a pair of a column and the rowid.
    """

    rest_of_rank: Statement
    later_ranks: Statement


def _pages(code: int, index: str, *of_name: Any) -> Pages:
    page = (
        select(*ENTRY)
        .where(mine, jobs.c.state == literal_column(str(code)), *of_name, _visible)
        .order_by(*_in_order)
        .limit(p("size"))
    )
    return Pages(
        Statement(
            by_index(page.where(jobs.c.rank == p("rank"), jobs.c.id > p("id")), index),
            postgresql=page.where(_is_in_order(jobs.c.rank, "rank"), jobs.c.id > p("id")),
        ),
        Statement(by_index(page.where(jobs.c.rank > p("rank")), index)),
    )


PAGES = {code: _pages(code, "jobboard_ready") for code in schema.STATES}
PAGES_OF_NAME = {code: _pages(code, "jobboard_ready_by_name", jobs.c.name == p("name")) for code in schema.STATES}
COUNT = Statement(select(func.count()).select_from(jobs).where(mine, jobs.c.state < COMPLETE))
NUMBERS = Statement(
    select(jobs.c.name, jobs.c.state, func.count())
    .where(mine, one_of(jobs.c.state, DELAYED, UNCLAIMED, CLAIMED, TRASHED))
    .group_by(jobs.c.name, jobs.c.state)
)
OLDEST_UNCLAIMED = Statement(select(func.min(jobs.c.created_on)).where(_ready))

IS_READY = Statement(by_index(select(jobs.c.id).where(_ready).order_by(*_in_order).limit(1), "jobboard_ready"))
_one_of_name = select(jobs.c.id).limit(1)
IS_NAME_READY = Statement(
    by_index(_one_of_name.where(_of_this_name), "jobboard_ready_by_name"),
    postgresql=_one_of_name.where(_of_this_name_in_order).order_by(jobs.c.name, *_in_order),
)
NEXT_DUE = Statement(
    by_index(
        select(jobs.c.due_at).where(mine, jobs.c.due_at.is_not(None)).order_by(jobs.c.due_at).limit(1), "jobboard_due"
    )
)

# -- the journal -------------------------------------------------------------------------------------------------------

WRITE = Statement(
    insert(journal)
    .inline()
    .values(
        board=p("board"), job=p("job"), kind=p("kind"), who=p("who"), token=p("token"), at=p("now"), reason=p("reason")
    )
)
WRITE_LOOSE = Statement(
    insert(journal)
    .inline()
    .values(
        board=p("board"),
        kind=p("kind"),
        uuid=p("uuid"),
        name=p("name"),
        who=p("who"),
        token=p("token"),
        at=p("now"),
        reason=p("reason"),
    )
)
#: Renewals would flood the journal, so each job keeps its last line of such a kind.
DROP_UNRECORDED = Statement(delete(journal).where(journal.c.job == p("id"), _unrecorded))
# One line more than the history shows, since the last renewal may be among them. What is younger than the retry window
# stays, since a repeated request must find it; and a few lines a time are enough, since few are added a time.
_first_kept = (
    select(journal.c.id).where(journal.c.job == p("id")).order_by(journal.c.id.desc()).limit(1).offset(HISTORY_LENGTH)
)
_oldest = select(journal.c.id).where(journal.c.job == p("id")).order_by(journal.c.id).limit(8)
TRIM_HISTORY = Statement(
    delete(journal).where(
        journal.c.id.in_(_oldest), journal.c.id < _first_kept.scalar_subquery(), journal.c.at < _long_ago
    ),
    # A derived table, since MySQL reads from no table that it deletes from.
    mysql=text(
        "DELETE FROM jobboard_journal WHERE job = :id AND at < :now - 60 AND id < (SELECT id FROM (SELECT id FROM"
        f" jobboard_journal WHERE job = :id ORDER BY id DESC LIMIT 1 OFFSET {HISTORY_LENGTH}) AS kept)"
        " ORDER BY id LIMIT 8"  # nosec B608 # a constant
    ),
)

# -- tidying -----------------------------------------------------------------------------------------------------------

OVER = Statement(
    by_index(
        select(jobs.c.id)
        .where(mine, jobs.c.retain_until <= _long_ago)
        .order_by(jobs.c.retain_until)
        .limit(p("limit"))
        .with_for_update(skip_locked=True),
        "jobboard_over",
    )
)
# They are few; a sum keeps the index of all lines of the board from being taken for theirs.
FORGET_LOOSE_LINES = Statement(
    delete(journal).where(
        journal.c.job.is_(None), journal.c.board + literal_column("0") == p("board"), journal.c.at <= _long_ago
    )
)
