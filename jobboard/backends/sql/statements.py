"""The statements, built by SQLAlchemy Core and compiled once; ``:board`` and ``:now`` are bound by the transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Integer,
    Select,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal_column,
    not_,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.sql.expression import ClauseElement

from jobboard.backends.sql import schema
from jobboard.backends.sql.schema import boards, books, entities, jobs, journal, meta, pauses

_dialect = SQLiteDialect_pysqlite(paramstyle="named")


@dataclass(frozen=True, slots=True)
class Statement:
    """Text with named parameters, and the values of those that are always the same."""

    sql: str
    constants: dict[str, Any]


def _compiled(clause: ClauseElement) -> Statement:
    compiled = clause.compile(dialect=_dialect)
    constants = {name: bind.value for bind, name in compiled.bind_names.items() if not bind.required}  # type: ignore[attr-defined]
    return Statement(str(compiled), constants)


# States stand in the text, not in parameters: only then can a partial index serve a statement.
DELAYED, UNCLAIMED, CLAIMED, COMPLETE, TRASHED = (
    literal_column(str(code), Integer)
    for code in (schema.DELAYED, schema.UNCLAIMED, schema.CLAIMED, schema.COMPLETE, schema.TRASHED)
)


def _one_of(column: Any, *values: Any) -> Any:
    return or_(*(column == value for value in values))


def p(name: str) -> Any:
    return bindparam(name)


def _in_list(column: Any, name: str) -> Any:
    """``column`` is one of a JSON array's values: one statement for lists of any length."""
    return column.in_(select(text("value")).select_from(func.json_each(p(name))))


_mine = jobs.c.board == p("board")
_this = _mine & (jobs.c.uuid == p("uuid"))
#: The fence: every end of a claim changes nothing unless all three are the row's present ones.
_held = _this & (jobs.c.state == CLAIMED) & (jobs.c.owner == p("who")) & (jobs.c.token == p("token"))

#: What makes an Entry; jobboard.backends.sql.rows reads them in this order.
ENTRY = [
    jobs.c.id, jobs.c.uuid, jobs.c.name, jobs.c.rank, jobs.c.created_on, jobs.c.body, jobs.c.key, jobs.c.run_at,
    jobs.c.max_attempts, jobs.c.state, jobs.c.attempts, jobs.c.owner, jobs.c.token, jobs.c.claim_id, jobs.c.due_at,
    jobs.c.last_modified, jobs.c.last_error, jobs.c.reason, jobs.c.checkpoint, jobs.c.progress, jobs.c.result,
    jobs.c.cancel_asked,
]  # fmt: skip

_visible = or_(jobs.c.retain_until.is_(None), jobs.c.retain_until > p("now"))

# -- boards ------------------------------------------------------------------------------------------------------------

READ_VERSION = _compiled(select(meta.c.value).where(meta.c.name == "version"))
WRITE_VERSION = _compiled(sqlite_insert(meta).values(name="version", value=p("version")).on_conflict_do_nothing())
ADD_BOARD = _compiled(sqlite_insert(boards).values(name=p("name")).on_conflict_do_nothing())
FIND_BOARD = _compiled(select(boards.c.id).where(boards.c.name == p("name")))

# -- settling ----------------------------------------------------------------------------------------------------------

_due = _mine & (jobs.c.due_at <= p("now"))
IS_ANY_DUE = _compiled(select(literal_column("1")).where(_due).limit(1))
DUE = _compiled(select(*ENTRY).where(_due).order_by(jobs.c.due_at).limit(500))
#: Whether anything is due, and whether anything is paused: all that claim_next has to know beforehand.
DUE_OR_PAUSED = _compiled(select(exists().where(_due), exists().where(pauses.c.board == p("board"))))

# -- steps from state to state, of a row that was read in the same transaction ---------------------------------------

_row = jobs.c.id == p("id")
_free = {"owner": None, "claim_id": None, "due_at": None, "last_modified": p("now")}
PUT_BACK = _compiled(
    update(jobs)
    .where(_row)
    .values(
        state=p("state"), owner=None, claim_id=None, due_at=p("due_at"), run_at=p("run_at"), last_modified=p("now"),
        attempts=p("attempts"), reason=p("reason"), last_error=p("last_error"),
    )
)  # fmt: skip
PUT_ASIDE = _compiled(
    update(jobs).where(_row).values(state=TRASHED, reason=p("reason"), last_error=p("last_error"), **_free)
)
TAKE_OFF = _compiled(update(jobs).where(_row).values(state=COMPLETE, retain_until=p("now"), cancel_asked=1, **_free))
ASK_TO_END = _compiled(update(jobs).where(_row).values(cancel_asked=1, last_modified=p("now")))
RESTORE = _compiled(update(jobs).where(_row).values(state=UNCLAIMED, attempts=0, reason=None, cancel_asked=0, **_free))
DELETE = _compiled(delete(jobs).where(_row))
DELETE_HISTORY = _compiled(delete(journal).where(journal.c.job == p("id"), journal.c.kind != "PURGED"))

# -- posting -----------------------------------------------------------------------------------------------------------

POST = _compiled(
    insert(jobs)
    .values(
        board=p("board"), uuid=p("uuid"), name=p("name"), key=p("key"), rank=p("rank"), created_on=p("now"),
        body=p("body"), max_attempts=p("max_attempts"), state=p("state"), attempts=0, token=0, due_at=p("due_at"),
        run_at=p("run_at"), last_modified=p("now"), cancel_asked=0,
    )
)  # fmt: skip
REPLACE = _compiled(
    update(jobs)
    .where(_row)
    .values(
        rank=p("rank"), body=p("body"), max_attempts=p("max_attempts"), state=p("state"), due_at=p("due_at"),
        run_at=p("run_at"), last_modified=p("now"),
    )
)  # fmt: skip
_live = jobs.c.state < COMPLETE
FIND_KEY = _compiled(
    select(*ENTRY).where(_mine, jobs.c.name == p("name"), jobs.c.key == p("key"), _live, jobs.c.key.is_not(None))
)
REPLACED_BY = _compiled(
    select(*ENTRY)
    .select_from(journal.join(jobs, journal.c.job == jobs.c.id))
    .where(journal.c.board == p("board"), journal.c.kind == literal_column("'REPLACED'"), journal.c.reason == p("uuid"))
)

# -- claiming ----------------------------------------------------------------------------------------------------------

_own = {
    "state": CLAIMED,
    "attempts": jobs.c.attempts + 1,
    "token": jobs.c.token + 1,
    "owner": p("who"),
    "claim_id": p("claim_id"),
    "due_at": p("due_at"),
    "last_modified": p("now"),
}
_ready = _mine & (jobs.c.state == UNCLAIMED)
_in_order = (jobs.c.rank, jobs.c.id)
_heads = select(jobs.c.id).where(_ready).order_by(*_in_order).limit(p("limit"))
CLAIM_NEXT = _compiled(update(jobs).where(jobs.c.id.in_(_heads)).values(_own).returning(*ENTRY))
#: The best of one name; several names are merged from their heads.
HEADS_OF_NAME = _compiled(
    select(jobs.c.rank, jobs.c.id).where(_ready, jobs.c.name == p("name")).order_by(*_in_order).limit(p("limit"))
)
CLAIM_IDS = _compiled(update(jobs).where(_in_list(jobs.c.id, "ids")).values(_own).returning(*ENTRY))
CLAIM = _compiled(update(jobs).where(_this, jobs.c.state == UNCLAIMED).values(_own).returning(*ENTRY))
CLAIMED_UNDER = _compiled(
    select(*ENTRY).where(_mine, jobs.c.state == CLAIMED, jobs.c.claim_id == p("claim_id")).order_by(*_in_order)
)
#: The next name after one that is ready; a walk over the names costs a look each, not one per job.
NEXT_READY_NAME = _compiled(select(func.min(jobs.c.name)).where(_ready, jobs.c.name > p("name")))

_holder = [jobs.c.id, jobs.c.name, jobs.c.cancel_asked]
EXTEND = _compiled(
    update(jobs)
    .where(_held)
    .values(due_at=p("due_at"), last_modified=p("now"), progress=func.coalesce(p("progress"), jobs.c.progress))
    .returning(*_holder)
)
CHECKPOINT = _compiled(
    update(jobs).where(_held).values(checkpoint=p("state"), last_modified=p("now")).returning(*_holder)
)
CONSUME = _compiled(
    update(jobs)
    .where(_held)
    .values(
        state=COMPLETE, claim_id=None, due_at=None, last_modified=p("now"), result=p("result"),
        retain_until=p("retain_until"),
    )
    .returning(jobs.c.id, jobs.c.name)
)  # fmt: skip
FIND_HELD = _compiled(select(*ENTRY).where(_held))
WAS_DONE = _compiled(
    select(literal_column("1"))
    .select_from(jobs.join(journal, journal.c.job == jobs.c.id))
    .where(_this, journal.c.token == p("token"), _in_list(journal.c.kind, "kinds"))
    .limit(1)
)

# -- reading -----------------------------------------------------------------------------------------------------------

FIND = _compiled(select(*ENTRY).where(_this))
FIND_VISIBLE = _compiled(select(*ENTRY).where(_this, _visible))
HISTORY = _compiled(
    select(journal.c.kind, journal.c.who, journal.c.at, journal.c.token, journal.c.reason)
    .select_from(jobs.join(journal, journal.c.job == jobs.c.id))
    .where(_this, not_(_one_of(journal.c.kind, "EXTENDED", "CHECKPOINTED")))
    .order_by(journal.c.id.desc())
    .limit(20)
)
LAST_OF_TRASH = _compiled(
    select(journal.c.kind)
    .where(journal.c.job == p("id"), _one_of(journal.c.kind, "TRASHED", "RESTORED"))
    .order_by(journal.c.id.desc())
    .limit(1)
)
LAST_LINE = _compiled(select(journal.c.kind).where(journal.c.job == p("id")).order_by(journal.c.id.desc()).limit(1))


def _page(by_name: bool) -> Select[Any]:
    wanted = _mine & (jobs.c.state == p("state"))
    if by_name:
        wanted &= jobs.c.name == p("name")
    after = (jobs.c.rank > p("rank")) | ((jobs.c.rank == p("rank")) & (jobs.c.id > p("id")))
    return select(*ENTRY).where(wanted, jobs.c.rank >= p("rank"), after, _visible).order_by(*_in_order).limit(p("size"))


PAGE = _compiled(_page(by_name=False))
PAGE_OF_NAME = _compiled(_page(by_name=True))
COUNT = _compiled(select(func.count()).select_from(jobs).where(_mine, _live))
NUMBERS = _compiled(
    select(jobs.c.name, jobs.c.state, func.count())
    .where(_mine, _one_of(jobs.c.state, DELAYED, UNCLAIMED, CLAIMED, TRASHED))
    .group_by(jobs.c.name, jobs.c.state)
)
OLDEST_UNCLAIMED = _compiled(select(func.min(jobs.c.created_on)).where(_ready))

IS_READY = _compiled(select(literal_column("1")).where(_ready).limit(1))
IS_NAME_READY = _compiled(select(literal_column("1")).where(_ready, jobs.c.name == p("name")).limit(1))
NEXT_DUE = _compiled(select(func.min(jobs.c.due_at)).where(_mine, jobs.c.due_at.is_not(None)))

# -- the journal -------------------------------------------------------------------------------------------------------

WRITE = _compiled(
    insert(journal).values(
        board=p("board"), job=p("job"), kind=p("kind"), uuid=p("uuid"), name=p("name"), who=p("who"),
        token=p("token"), at=p("now"), reason=p("reason"),
    )
)  # fmt: skip
#: Renewals would flood the journal, so each job keeps its last line of such a kind.
DROP_UNRECORDED = _compiled(
    delete(journal).where(journal.c.job == p("job"), _one_of(journal.c.kind, "EXTENDED", "CHECKPOINTED"))
)
_twentieth = select(journal.c.id).where(journal.c.job == p("job")).order_by(journal.c.id.desc()).limit(1).offset(19)
TRIM_HISTORY = _compiled(delete(journal).where(journal.c.job == p("job"), journal.c.id < _twentieth.scalar_subquery()))
LAST_EVENT = _compiled(select(func.coalesce(func.max(journal.c.id), 0)))
EVENTS = _compiled(
    select(
        journal.c.id, journal.c.kind, journal.c.uuid, journal.c.name, journal.c.who, journal.c.at, journal.c.token,
        journal.c.reason, journal.c.board,
    )
    .where(journal.c.id > p("last"))
    .order_by(journal.c.id)
    .limit(1000)
)  # fmt: skip

# -- operators ---------------------------------------------------------------------------------------------------------

PAUSE = _compiled(sqlite_insert(pauses).values(board=p("board"), name=p("name")).on_conflict_do_nothing())
RESUME = _compiled(delete(pauses).where(pauses.c.board == p("board"), pauses.c.name == p("name")))
PAUSED = _compiled(select(pauses.c.name).where(pauses.c.board == p("board")))
OVER = _compiled(
    select(jobs.c.id)
    .where(_mine, jobs.c.retain_until.is_not(None), jobs.c.retain_until <= p("before"))
    .limit(p("limit"))
)
FORGET_LOOSE_LINES = _compiled(
    delete(journal).where(journal.c.board == p("board"), journal.c.job.is_(None), journal.c.at <= p("before"))
)

PUT_ENTITY = _compiled(
    sqlite_insert(entities)
    .values(board=p("board"), kind=p("kind"), name=p("name"), body=p("body"), ttl=p("ttl"), last_seen=p("now"))
    .on_conflict_do_update(
        index_elements=["board", "kind", "name"], set_={"body": p("body"), "ttl": p("ttl"), "last_seen": p("now")}
    )
)
_entity = (entities.c.board == p("board")) & (entities.c.kind == p("kind")) & (entities.c.name == p("name"))
REMOVE_ENTITY = _compiled(delete(entities).where(_entity))
ENTITIES = _compiled(
    select(entities.c.kind, entities.c.name, entities.c.body, entities.c.ttl, entities.c.last_seen).where(
        entities.c.board == p("board")
    )
)
FORGET_ENTITIES = _compiled(
    delete(entities).where(entities.c.board == p("board"), entities.c.last_seen + entities.c.ttl <= p("before"))
)

_book = (books.c.board == p("board")) & (books.c.uuid == p("uuid"))
READ_BOOK = _compiled(select(books.c.body, books.c.version).where(_book))
WRITE_BOOK = _compiled(
    sqlite_insert(books)
    .values(board=p("board"), uuid=p("uuid"), body=p("body"), version=p("version"))
    .on_conflict_do_update(index_elements=["board", "uuid"], set_={"body": p("body"), "version": p("version")})
)
DESTROY_BOOK = _compiled(delete(books).where(_book))

# -- the audit ---------------------------------------------------------------------------------------------------------

#: What is wrong with a row -> the statement that finds it. Every such row is mended by an operator's hand or repair.
CONTRADICTIONS = {
    problem: _compiled(select(*ENTRY).where(_mine, wrong))
    for problem, wrong in {
        "it is claimed, but by nobody": (jobs.c.state == CLAIMED)
        & (jobs.c.owner.is_(None) | jobs.c.claim_id.is_(None)),
        "it is not claimed, but has an owner or a claim": _one_of(jobs.c.state, DELAYED, UNCLAIMED, TRASHED)
        & (jobs.c.owner.is_not(None) | jobs.c.claim_id.is_not(None)),
        "it is delayed, but never due": (jobs.c.state == DELAYED) & jobs.c.due_at.is_(None),
        "it is neither delayed nor claimed, but due": _one_of(jobs.c.state, UNCLAIMED, COMPLETE, TRASHED)
        & jobs.c.due_at.is_not(None),
        "it is on the board or in the trash, but remembered as gone": _one_of(
            jobs.c.state, DELAYED, UNCLAIMED, CLAIMED, TRASHED
        )
        & jobs.c.retain_until.is_not(None),
        "it is gone, but remembered for ever": (jobs.c.state == COMPLETE) & jobs.c.retain_until.is_(None),
        "its state is none": not_(_one_of(jobs.c.state, DELAYED, UNCLAIMED, CLAIMED, COMPLETE, TRASHED)),
        "its priority is none": (jobs.c.rank > -1) | (jobs.c.rank < -5),
    }.items()
}
_new_state = case(
    (_one_of(jobs.c.state, COMPLETE, TRASHED), jobs.c.state),
    else_=UNCLAIMED,
)
MEND = _compiled(
    update(jobs)
    .where(_row)
    .values(
        state=_new_state, claim_id=None, due_at=None, last_modified=p("now"),
        owner=case((jobs.c.state == COMPLETE, jobs.c.owner), else_=None),
        rank=case((jobs.c.rank > -1, -1), (jobs.c.rank < -5, -5), else_=jobs.c.rank),
        retain_until=case((jobs.c.state == COMPLETE, func.coalesce(jobs.c.retain_until, p("now"))), else_=None),
    )
)  # fmt: skip
ORPHANED_LINES = _compiled(
    select(func.count())
    .select_from(journal.outerjoin(jobs, journal.c.job == jobs.c.id))
    .where(journal.c.board == p("board"), journal.c.job.is_not(None), jobs.c.id.is_(None), journal.c.kind != "PURGED")
)
DROP_ORPHANED_LINES = _compiled(
    delete(journal).where(
        journal.c.board == p("board"),
        journal.c.job.is_not(None),
        journal.c.kind != "PURGED",
        journal.c.job.not_in(select(jobs.c.id)),
    )
)
