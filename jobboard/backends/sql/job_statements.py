"""The statements about jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Table,
    case,
    delete,
    exists,
    func,
    insert,
    literal_column,
    not_,
    null,
    select,
    text,
    tuple_,
    union_all,
    update,
)

from jobboard.backends.sql import schema
from jobboard.backends.sql.job_conditions import (
    BLOCKED,
    CLAIMED,
    COMPLETE,
    DELAYED,
    TRASHED,
    UNCLAIMED,
    by_index,
    claimed_now,
    each_of_these,
    in_these,
    is_one_of,
    mine,
    of_these,
    one_of,
    row,
    these_ids,
    these_rows,
    this,
    visible,
)
from jobboard.backends.sql.journal_statements import LONG_AGO, UNRECORDED
from jobboard.backends.sql.marks import IS_ANY_DUE, NEXT_DUE_MARK
from jobboard.backends.sql.rows import JOB_COLUMNS, OPTIONS
from jobboard.backends.sql.schema import edges, jobs, journal, lanes, pauses, steps, windows
from jobboard.backends.sql.statement import Returning, Statement, either, for_each_of, in_list, p, parameters
from jobboard.backends.sql.tokens import next_token_in_sql
from jobboard.events import HISTORY_LENGTH

_ready = mine & (jobs.c.state == UNCLAIMED)
_in_order = (jobs.c.place, jobs.c.id)


# ``by_index`` says what PostgreSQL's planner makes of an order. It does not drop a range of one value from it.
def _is_in_order(column: Any, name: str) -> Any:
    return (column >= p(name)) & (column <= p(name))


# In what locks nothing, PostgreSQL's planner drops `state = 1` where an index has that as its own condition, and would
# read the index from the board's first entry on. A comparison of pairs finds the name, but does not end at it: a limit
# does, and what is of another name is left out afterwards. What locks keeps `state = 1`, and would use pairs as a
# filter only: there a range of the name finds it.
_from_name_on = tuple_(jobs.c.state, jobs.c.name) >= tuple_(UNCLAIMED, p("name"))
_after_name = tuple_(jobs.c.state, jobs.c.name) > tuple_(UNCLAIMED, p("name"))

#: What makes a JobRow; ``jobboard.backends.sql.rows`` reads the columns in this order.
JOB = [jobs.c[name] for name in JOB_COLUMNS]
_LARGE = {"body", "checkpoint", "progress", "result"}
#: The same without what may be large, for transitions that leave that alone.
SMALL_JOB: list[Any] = [null().label(column.name) if column.name in _LARGE else column for column in JOB]

# -- expiring and promoting --------------------------------------------------------------------------------------------


def _from_floor(condition: Any) -> Any:
    """What has a moment, and on servers one that is above the floor of the transaction."""
    return either(condition & (jobs.c.due_at > p("due_floor")), sqlite=condition)


_due = mine & _from_floor(jobs.c.due_at <= p("now"))
_first_due = by_index(select(jobs.c.due_at).where(_due).order_by(jobs.c.due_at).limit(1), "jobboard_due")
#: All that an operation has to know beforehand: what makes a ``BoardStatus``.
STATUS = Statement(
    select(
        _first_due.scalar_subquery().is_not(None),
        exists().where(pauses.c.board == p("board")),
        exists().where(lanes.c.board == p("board"), lanes.c.blocked_name.is_not(None)),
        IS_ANY_DUE,
    )
)
#: How many claims expire at once, and how many delayed jobs are promoted at once.
MAX_PER_ROUND = 1000
_delayed = _due & (jobs.c.state == DELAYED) & jobs.c.ties.is_(None)
_promote = update(jobs).values(state=UNCLAIMED, due_at=None, last_modified=p("now"))
_moved = (jobs.c.id, jobs.c.uuid, jobs.c.name, jobs.c.place)
# Here and below, rows that others have locked are passed over: they are about to change, perhaps in a long transaction
# of the user's.
_free_delayed = by_index(
    select(jobs.c.id).where(_delayed).order_by(jobs.c.due_at).limit(MAX_PER_ROUND).with_for_update(skip_locked=True),
    "jobboard_due",
)
# As a subquery PostgreSQL might run it more than once, and lock more than was asked for.
_locked_delayed = (
    _free_delayed.with_only_columns(jobs.c.board, jobs.c.uuid)
    .cte("delayed")
    .prefix_with("MATERIALIZED", dialect="postgresql")
)
PROMOTE = Returning(
    at_once=Statement(
        _promote.where(jobs.c.id.in_(_free_delayed)).returning(*_moved),
        postgresql=_promote.where(is_one_of(_locked_delayed)).returning(*_moved),
    ),
    find=Statement(_free_delayed),
    change=Statement(_promote.where(these_ids)),
    read=Statement(select(*_moved).where(these_ids)),
)
#: Claims that are over, jobs with ties, and rows that are due by mistake. PROMOTE moves delayed jobs without ties.
OVERDUE = Statement(
    by_index(
        select(*SMALL_JOB)
        .where(_due, (jobs.c.state != DELAYED) | jobs.c.ties.is_not(None))
        .order_by(jobs.c.due_at)
        .limit(MAX_PER_ROUND)
        .with_for_update(skip_locked=True),
        "jobboard_due",
    )
)

# -- writing a row that was read in the same transaction ---------------------------------------------------------------

_now = {"last_modified": p("now")}
#: What a move to another state changes. What may be large, and the content of the posting, stay.
SAVED = (
    _now
    | parameters("state", "attempts", "owner", "claim_id", "due_at", "run_at", "last_error", "reason")
    | parameters("cancel_asked", "retain_until", "place")
)
SAVE = Statement(update(jobs).where(row).values(SAVED))
REPLACED = _now | parameters("rank", "place", "body", "state", "due_at", "run_at", *OPTIONS)
REPLACE = Statement(update(jobs).where(row).values(REPLACED))
REPRIORITIZE = Statement(update(jobs).where(row).values(_now | parameters("rank", "place")))
CLAIM = Statement(
    update(jobs)
    .where(row)
    .values(_now | parameters("state", "attempts", "token", "owner", "claim_id", "due_at") | {"progress": None})
)
EXTEND = Statement(
    update(jobs)
    .where(row)
    .values(_now | parameters("due_at") | {"progress": func.coalesce(p("progress"), jobs.c.progress)})
)
#: For a claim that was extended while others had locked its row.
KEEP = Statement(update(jobs).where(row).values(parameters("due_at")))
CHECKPOINT = Statement(update(jobs).where(row).values(_now | parameters("checkpoint")))
# The record of a job stays for as long as its key does (``windows``). Only what has a key looks.
_its_window = (
    select(windows.c.until)
    .where(
        windows.c.board == jobs.c.board,
        windows.c.name == jobs.c.name,
        windows.c.key == jobs.c.key,
        windows.c.uuid == jobs.c.uuid,
    )
    .correlate(jobs)
    .scalar_subquery()
)
_kept_longer = case((jobs.c.key.is_not(None), _its_window)) > p("retain_until")
_consume = update(jobs).where(row).values(_now | parameters("state", "claim_id", "due_at", "result"))
CONSUME = Statement(
    _consume.values({"retain_until": case((_kept_longer, _its_window), else_=p("retain_until"))}),
)
#: The same once it was looked for the window. At REPEATABLE READ, MySQL would lock the place of one that is not there.
CONSUME_KNOWN = Statement(_consume.values(parameters("retain_until")))
DELETE = Statement(delete(jobs).where(these_ids), postgresql=delete(jobs).where(these_rows))

# -- posting -----------------------------------------------------------------------------------------------------------

POST = Statement(
    insert(jobs)
    .inline()
    .values(
        _now
        | parameters("board", "uuid", "name", "key", "rank", "place", "body", "state", "due_at", "run_at", *OPTIONS)
        | parameters("ties")
        | {"created_on": p("now"), "attempts": 0, "token": 0, "cancel_asked": 0}  # nosec B105 # no password
    )
)
SEQUENCES = of_these(select(jobs.c.uuid, jobs.c.id))
_of_name = select(*JOB).where(mine, jobs.c.name == p("name"))
_of_key = _of_name.where(jobs.c.key == p("key"), jobs.c.key.is_not(None), jobs.c.state < COMPLETE)
# Where there are no partial indexes, a column holds the key for as long as the job is on the board.
_of_live_key = _of_name.where(literal_column("jobboard_jobs.live_key") == p("key"))
FIND_KEY = Statement(_of_key, mysql=_of_live_key)
_keyed = _of_name.where(jobs.c.key.is_not(None), jobs.c.state < COMPLETE)
_of_live_keys = _of_name.where(in_list(literal_column("jobboard_jobs.live_key"), "keys"))
FIND_KEYS = Statement(
    _keyed.where(in_list(jobs.c.key, "keys")),
    postgresql=for_each_of("keys", _keyed, lambda key: jobs.c.key == key),
    mysql=by_index(_of_live_keys, "jobboard_key"),
    # By its estimates, SQLite's planner would read all live jobs, or with IS NOT NULL all keys of the name.
    sqlite=text(
        f"SELECT {', '.join(JOB_COLUMNS)} FROM jobboard_jobs INDEXED BY jobboard_key WHERE board = :board"  # nosec B608 # constants
        " AND name = :name AND key IN (SELECT value FROM json_each(:keys))"
        f" AND state < {schema.COMPLETE}"
    ),
)
#: Whoever has met a key that another transaction inserted shares a lock on it: two that ask for more undo each other.
FIND_KEY_NOW = Statement(_of_key.with_for_update(read=True), mysql=_of_live_key.with_for_update(read=True))
FIND_KEY_TO_REPLACE = Statement(_of_key.with_for_update(), mysql=_of_live_key.with_for_update())
_replaced = (
    select(journal.c.job)
    .where(
        journal.c.board == p("board"),
        journal.c.kind == literal_column("'REPLACED'"),
        journal.c.reason == p("uuid"),
    )
    .limit(1)
)
REPLACED_BY = Statement(
    select(*JOB).where(jobs.c.id == _replaced.scalar_subquery()),
    postgresql=select(*JOB).where(mine, jobs.c.uuid == _replaced.with_only_columns(journal.c.uuid).scalar_subquery()),
)

# -- claiming ----------------------------------------------------------------------------------------------------------

_claim = {
    "state": CLAIMED,
    "attempts": jobs.c.attempts + 1,
    "token": text(next_token_in_sql(":least_token")),
    "owner": p("who"),
    "claim_id": p("claim_id"),
    "due_at": p("due_at"),
    "last_modified": p("now"),
    "progress": None,
}
# Databases that lock rows skip those that others are claiming; SQLite's dialect leaves these words out.
_heads = by_index(
    select(jobs.c.id).where(_ready).order_by(*_in_order).limit(p("limit")).with_for_update(skip_locked=True),
    "jobboard_ready",
)
_locked_heads = (
    _heads.with_only_columns(jobs.c.board, jobs.c.uuid).cte("heads").prefix_with("MATERIALIZED", dialect="postgresql")
)
_claim_ids = Statement(update(jobs).where(these_ids).values(_claim))
_claimed = Statement(select(*JOB).where(these_ids))
CLAIM_NEXT = Returning(
    at_once=Statement(
        update(jobs).where(jobs.c.id.in_(_heads)).values(_claim).returning(*JOB),
        postgresql=update(jobs).where(is_one_of(_locked_heads)).values(_claim).returning(*JOB),
    ),
    find=Statement(_heads),
    change=_claim_ids,
    read=_claimed,
)
#: The best of the board.
HEADS = Statement(
    by_index(
        select(jobs.c.place, jobs.c.id, jobs.c.uuid, jobs.c.name)
        .where(_ready)
        .order_by(*_in_order)
        .limit(p("limit"))
        .with_for_update(skip_locked=True),
        "jobboard_ready",
    )
)
_of_this_name = _ready & (jobs.c.name == p("name"))
_heads_of_name = select(jobs.c.place, jobs.c.id, jobs.c.uuid).limit(p("limit")).with_for_update(skip_locked=True)
_by_index_of_names = by_index(_heads_of_name.where(_of_this_name).order_by(*_in_order), "jobboard_ready_by_name")
#: The best of one name; several names are merged from their heads. Only PostgreSQL claims them by the uuid; without it
#: SQLite reads no row of a name that something else goes before.
HEADS_OF_NAME = Statement(
    _by_index_of_names,
    postgresql=_heads_of_name.where(_ready, _is_in_order(jobs.c.name, "name")).order_by(jobs.c.name, *_in_order),
    sqlite=_by_index_of_names.with_only_columns(jobs.c.place, jobs.c.id, null()),
)
#: Takes both the ``ids`` and the ``uuids``.
CLAIM_HEADS = Returning(
    at_once=Statement(
        update(jobs).where(these_ids).values(_claim).returning(*JOB),
        postgresql=update(jobs).where(these_rows).values(_claim).returning(*JOB),
    ),
    find=None,
    change=_claim_ids,
    read=_claimed,
)
CLAIMED_UNDER = Statement(select(*JOB).where(claimed_now, jobs.c.claim_id == p("claim_id")).order_by(*_in_order))
_first = select(jobs.c.place, jobs.c.id, jobs.c.name)
#: The best jobs of the board.
FIRST_READY = Statement(by_index(_first.where(_ready).order_by(*_in_order).limit(500), "jobboard_ready"))
_by_name = _first.order_by(jobs.c.name, *_in_order).limit(100)
#: The best jobs of the names after one. A name that has more jobs than are read takes one statement.
FIRST_OF_NEXT_NAMES = Statement(
    by_index(_by_name.where(_ready, jobs.c.name > p("name")), "jobboard_ready_by_name"),
    postgresql=_by_name.where(_ready, _after_name),
)

# -- under a claim -----------------------------------------------------------------------------------------------------

#: The state is no condition here, or a planner might look through all claimed jobs. One job is the common case, and
#: needs no list.
LOCK = Statement(select(*SMALL_JOB).where(this).with_for_update())
_found = jobs.alias("found")
_row_of_this = select(_found.c.id).where(_found.c.board == p("board"), _found.c.uuid == p("uuid")).scalar_subquery()
#: The same by the primary index: by another one, MySQL at REPEATABLE READ locks the gap before the row, where others
#: post. It finds the row in the snapshot, and reads and locks it as it is now.
LOCK_ROW = Statement(LOCK.clause, mysql=select(*SMALL_JOB).where(jobs.c.id == _row_of_this).with_for_update())
# Everybody locks several jobs in the same order, so that no deadlock arises.
_to_lock = select(*SMALL_JOB).with_for_update()
LOCK_MANY = Statement(
    in_these(_to_lock), postgresql=each_of_these(_to_lock), mysql=in_these(_to_lock).order_by(jobs.c.uuid)
)
#: Others who have locked one of these are ending its claim, perhaps in a long transaction; the rest must be extended in
#: time all the same.
LOCK_FREE = of_these(select(*SMALL_JOB).with_for_update(skip_locked=True))
READ_LOCKED = of_these(select(*SMALL_JOB))

# -- reading -----------------------------------------------------------------------------------------------------------

FIND = Statement(select(*JOB).where(this))
FIND_TO_CLAIM = Statement(select(*JOB).where(this, visible).with_for_update())
FIND_MANY = of_these(select(*JOB))
FIND_VISIBLE = Statement(select(*JOB).where(this, visible))
FIND_MANY_VISIBLE = of_these(select(*JOB).where(visible))
HISTORY = Statement(
    select(journal.c.kind, journal.c.who, journal.c.at, journal.c.token, journal.c.reason)
    .where(journal.c.job == select(jobs.c.id).where(this, visible).scalar_subquery(), not_(UNRECORDED))
    .order_by(journal.c.id.desc())
    .limit(HISTORY_LENGTH)
)


@dataclass(frozen=True, slots=True)
class Pages:
    """Some jobs in claim order, from a place on: first the others of that place, then the later ones.

    Two statements, because no index of SQLite's begins at a pair of a column and the rowid.
    """

    of_place: Statement
    later: Statement


def _in_state(code: int) -> Any:
    return claimed_now if code == schema.CLAIMED else mine & (jobs.c.state == literal_column(str(code)))


def _pages(code: int, index: str, *of_name: Any) -> Pages:
    page = select(*JOB).where(_in_state(code), *of_name, visible).order_by(*_in_order).limit(p("size"))
    of_place, later = (jobs.c.place == p("place")) & (jobs.c.id > p("id")), jobs.c.place > p("place")
    return Pages(*(Statement(by_index(page.where(from_here), index)) for from_here in (of_place, later)))


# PostgreSQL has a statement of its own for a page.
PAGES = {code: _pages(code, "jobboard_ready") for code in schema.STATES}
PAGES_OF_NAME = {code: _pages(code, "jobboard_ready_by_name", jobs.c.name == p("name")) for code in schema.STATES}
# Claimed jobs are counted apart, by their own index where they have one.
_number = select(func.count()).select_from(jobs)
_waiting = _number.where(mine, jobs.c.state < CLAIMED).scalar_subquery()
COUNT = Statement(select(_waiting + _number.where(claimed_now).scalar_subquery()))
_numbers = select(jobs.c.name, jobs.c.state, func.count()).group_by(jobs.c.name, jobs.c.state)
NUMBERS = Statement(
    union_all(
        # Most of a large board, and their names stand together in an index that has all that is asked for.
        by_index(_numbers.where(_ready), "jobboard_ready_by_name"),
        _numbers.where(mine, one_of(jobs.c.state, BLOCKED, DELAYED, TRASHED)),
        _numbers.where(claimed_now),
    )
)
# A job's place without its rank is the moment at which it became due.
_oldest_of_ranks = (
    by_index(
        select((jobs.c.place - literal_column(str(rank * schema.PLACES_OF_A_RANK))).label("moment")).where(
            _ready,
            jobs.c.place >= literal_column(str(rank * schema.PLACES_OF_A_RANK)),
            jobs.c.place < literal_column(str((rank + 1) * schema.PLACES_OF_A_RANK)),
        ),
        "jobboard_ready",
    )
    .order_by(*_in_order)
    .limit(1)
    .subquery()
    for rank in range(-5, 0)
)
_firsts = union_all(*(select(oldest.c.moment) for oldest in _oldest_of_ranks)).subquery()
#: The place that the job which became due first would have if its rank were 0.
OLDEST_UNCLAIMED = Statement(select(func.min(_firsts.c.moment)))

IS_READY = Statement(by_index(select(jobs.c.id).where(_ready).order_by(*_in_order).limit(1), "jobboard_ready"))
_first_from_name_on = (
    select(jobs.c.id, jobs.c.name).where(_ready, _from_name_on).order_by(jobs.c.name, *_in_order).limit(1).subquery()
)
IS_NAME_READY = Statement(
    by_index(select(jobs.c.id).where(_of_this_name).limit(1), "jobboard_ready_by_name"),
    postgresql=select(_first_from_name_on.c.id).where(_first_from_name_on.c.name == p("name")),
)
_next_due = by_index(
    select(jobs.c.due_at).where(mine, _from_floor(jobs.c.due_at.is_not(None))).order_by(jobs.c.due_at).limit(1),
    "jobboard_due",
)
#: When the first job is due, and the first mark; NULL if there is none.
NEXT_DUE = Statement(union_all(select(_next_due.scalar_subquery()), select(NEXT_DUE_MARK)))

# -- tidying -----------------------------------------------------------------------------------------------------------


def _number_of(table: Table, uuid: Any) -> Any:
    of_job = select(func.count()).select_from(table).where(table.c.board == jobs.c.board, uuid == jobs.c.uuid)
    return of_job.correlate(jobs).scalar_subquery()


_number_of_parts = _number_of(steps, steps.c.uuid) + _number_of(edges, edges.c.child)
#: The id, the uuid and the number of steps and parents of each job that is to be forgotten.
OVER = Statement(
    by_index(
        select(jobs.c.id, jobs.c.uuid, _number_of_parts)
        .where(mine, jobs.c.retain_until <= LONG_AGO, jobs.c.due_at.is_(None))
        .order_by(jobs.c.retain_until)
        .limit(p("limit"))
        .with_for_update(skip_locked=True),
        "jobboard_over",
    )
)
