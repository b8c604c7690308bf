"""The tables: one set for all boards of a database, versioned."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    column,
    text,
)
from sqlalchemy.types import VARCHAR

from jobboard.backends.edge_rows import EDGE_OUTCOMES, Outcome
from jobboard.states import JobPriority, JobState

#: The layout that this code reads and writes. A database of a newer one is refused.
VERSION = 7


def is_newer(found: str) -> bool:
    """Whether a layout is not ours but a later one; a version that is no number isn't ours either."""
    numbers = found.split("-")
    return not all(map(str.isdigit, numbers)) or int(numbers[-1]) > VERSION


def upgrading_from(found: str) -> str:
    """Return the version of tables that are on their way from an earlier one to ours, which no client takes for its.

    An earlier jobboard may have begun, and left them on their way to its own.
    """
    return f"{found.partition('-')[0]}-{VERSION}"


metadata = MetaData()


# MySQL's, by the names that its dialect knows. A dialect takes 25 ms to import, also where an option of an index names
# it, and a board needs one of them.
class _LongText(Text):
    __visit_name__ = "LONGTEXT"


class _LongBlob(LargeBinary):
    __visit_name__ = "LONGBLOB"


# On servers names are compared by their code points, as everywhere; MySQL's collation is its tables'.
Name = Text().with_variant(Text(collation="C"), "postgresql").with_variant(VARCHAR(255), "mysql")
Prose = Text().with_variant(_LongText(), "mysql")
Bytes = LargeBinary().with_variant(_LongBlob(), "mysql")
Moment = Float().with_variant(Double(), "mysql")
#: SQLite's rowid is an INTEGER, of 64 bits too.
Number = BigInteger().with_variant(Integer(), "sqlite")


def where(condition: str) -> dict[str, Any]:
    """Return the condition of a partial index, for databases that have partial indexes.

    It is SQLite's here, and becomes PostgreSQL's where its tables are made.
    """
    return {"sqlite_where": text(condition)}


#: States as stored: those before COMPLETE are live.
CODES = {
    JobState.BLOCKED: -1,
    JobState.DELAYED: 0,
    JobState.UNCLAIMED: 1,
    JobState.CLAIMED: 2,
    JobState.COMPLETE: 3,
    JobState.TRASHED: 4,
}
STATES = {code: state for state, code in CODES.items()}
BLOCKED, DELAYED, UNCLAIMED, CLAIMED, COMPLETE, TRASHED = range(-1, 5)

meta = Table("jobboard_meta", metadata, Column("name", Name, primary_key=True), Column("value", Name, nullable=False))

boards = Table(
    "jobboard_boards",
    metadata,
    Column("id", Number, primary_key=True),
    Column("name", Name, nullable=False, unique=True),
)

#: A place is the rank times the first number, plus the seconds since the epoch times the second one: one number has the
#: claim order. Until 2038 no moment of a float is between two places, and so it is read as it was given.
PLACES_OF_A_RANK, PLACES_OF_A_SECOND = 2**58, 2**22

jobs = Table(
    "jobboard_jobs",
    metadata,
    Column("id", Number, primary_key=True),  # the sequence
    Column("board", Integer, nullable=False),
    Column("uuid", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("key", Name),
    Column("rank", Integer, nullable=False),  # minus the priority, so that the claim order is ascending
    # Where the job stands in the claim order: its rank, then the moment of its place.
    Column("place", Number, nullable=False),
    Column("created_on", Moment, nullable=False),
    Column("max_attempts", Number),
    Column("state", Integer, nullable=False),
    Column("attempts", Number, nullable=False),
    Column("owner", Name),
    Column("token", Number, nullable=False),
    Column("claim_id", Name),
    # When the row changes by itself (``lifecycle.due_at``); or from when on the lane of such a row must be looked at.
    Column("due_at", Moment),
    Column("run_at", Moment),
    Column("last_modified", Moment, nullable=False),
    Column("last_error", Prose),
    Column("reason", Prose),
    Column("cancel_asked", Integer, nullable=False),
    Column("retain_until", Moment),  # until when readers see a COMPLETE row
    Column("ties", Bytes),
    # What may be large comes last, since SQLite reads a row from its front.
    Column("checkpoint", Bytes),
    Column("progress", Bytes),
    Column("result", Bytes),
    Column("body", Bytes, nullable=False),
    # Another program that writes into the table must not make a row that can't be sorted with the others.
    CheckConstraint(column("state").between(BLOCKED, TRASHED), name="jobboard_jobs_states"),
    CheckConstraint(column("rank").between(-max(JobPriority), -min(JobPriority)), name="jobboard_jobs_ranks"),
    sqlite_autoincrement=True,
)

# With the state in front these serve databases without partial indexes too. Where the second one is partial, it has no
# claimed jobs, so that a claim writes a page less.
Index("jobboard_ready", jobs.c.board, jobs.c.state, jobs.c.place, jobs.c.id)
_ready_by_name = (jobs.c.board, jobs.c.state, jobs.c.name, jobs.c.place, jobs.c.id)
Index("jobboard_ready_by_name", *_ready_by_name, **where(f"state = {UNCLAIMED}"))
Index("jobboard_uuid", jobs.c.board, jobs.c.uuid, unique=True)
_live_with_key = where(f"key IS NOT NULL AND state < {COMPLETE}")
Index("jobboard_key", jobs.c.board, jobs.c.name, jobs.c.key, unique=True, **_live_with_key)
Index("jobboard_due", jobs.c.board, jobs.c.due_at, **where("due_at IS NOT NULL"))
Index("jobboard_over", jobs.c.board, jobs.c.retain_until, **where("retain_until IS NOT NULL"))

#: The turn of a job that is UNCLAIMED or CLAIMED, and of one that waits for its retry; both are before every place.
HOLDS_SLOT = -(2**62)
RETRYING = HOLDS_SLOT + 1

#: The live jobs that have joined a lane, or will once their delay is over; nothing else costs a board without lanes
#: less. A job that waits for parents or a signal is BLOCKED too, and has joined none.
lanes = Table(
    "jobboard_lanes",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("uuid", Name, primary_key=True),
    Column("job", Number, nullable=False),
    Column("lane", Name, nullable=False),
    # The place of a BLOCKED job; none of one that is delayed and was never claimed.
    Column("turn", Number),
    # Since version 6: the name of a BLOCKED job.
    Column("blocked_name", Name),
)
Index("jobboard_lane", lanes.c.board, lanes.c.lane, lanes.c.turn, lanes.c.job)
_blocked = (lanes.c.board, lanes.c.blocked_name, lanes.c.lane, lanes.c.turn, lanes.c.job)
Index("jobboard_blocked", *_blocked, **where("blocked_name IS NOT NULL"))

#: Since version 6: what limits names and lanes, each as a body that is opaque here.
limits = Table(
    "jobboard_limits",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("scope", Name, primary_key=True),
    Column("pattern", Name, primary_key=True),
    Column("version", Name, nullable=False),
    # Of a name: how many claims it may have.
    Column("running", Number),
    Column("body", Bytes, nullable=False),
)

#: Since version 6: the moment that the rate of a lane has come to, and how many jobs were offered at the last look. A
#: moment that is over, with none offered, means nothing any more.
rates = Table(
    "jobboard_rates",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("lane", Name, primary_key=True),
    Column("next_at", Moment, nullable=False),
    Column("offered", Integer, nullable=False),
)

#: Every change of a job is one line: its history by (job, id), and the stream of events by id. Ids are never used
#: twice, or the stream would miss lines. Lines of no job have a uuid and a name of their own; on PostgreSQL all lines
#: do, since version 4.
journal = Table(
    "jobboard_journal",
    metadata,
    Column("id", Number, primary_key=True),
    Column("board", Integer, nullable=False),
    Column("job", Number),
    Column("kind", Name, nullable=False),
    Column("uuid", Name),
    Column("name", Name),
    Column("who", Name),
    Column("token", Number),
    Column("at", Moment, nullable=False),
    Column("reason", Prose),
    sqlite_autoincrement=True,
)
Index("jobboard_history", journal.c.job, journal.c.id)
# A repeated replacement is known by its own uuid, which is the reason in the line of the first one.
Index("jobboard_replaced", journal.c.board, journal.c.reason, **where("kind = 'REPLACED'"))

#: All that a claim must know of names.
pauses = Table(
    "jobboard_pauses",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("name", Name, primary_key=True),  # "" is the whole board: no job's name is empty
    # Since version 6: how many claims the name may have; NULL: it is paused.
    Column("running", Number),
)

entities = Table(
    "jobboard_entities",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("kind", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("body", Bytes, nullable=False),
    Column("ttl", Moment, nullable=False),
    Column("last_seen", Moment, nullable=False),
)

books = Table(
    "jobboard_books",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("uuid", Name, primary_key=True),
    Column("body", Bytes, nullable=False),
    Column("version", Name, nullable=False),
)

#: Since version 3; older books have all of their entries in the body.
book_entries = Table(
    "jobboard_book_entries",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("uuid", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("body", Bytes, nullable=False),
)

#: Since version 2. Those that are not due have no next_at, and stand last.
schedules = Table(
    "jobboard_schedules",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("id", Name, primary_key=True),
    Column("version", Name, nullable=False),
    Column("next_at", Moment),
    Column("body", Bytes, nullable=False),
)
Index("jobboard_next_at", schedules.c.board, schedules.c.next_at, schedules.c.id)

#: Outcomes as stored.
OUTCOME_CODES = {Outcome.OPEN: 0, Outcome.DONE: 1, Outcome.FAILED: 2, Outcome.GONE: 3, Outcome.NEVER: 4}
OUTCOMES = {OUTCOME_CODES[outcome]: outcome for outcome in EDGE_OUTCOMES}

#: Since version 7, like all that follows: the pairs of a child and a parent, until the child is forgotten.
edges = Table(
    "jobboard_edges",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("parent", Name, primary_key=True),
    Column("child", Name, primary_key=True),
    Column("outcome", Integer, nullable=False),
    Column("name", Name, nullable=False),  # the parent's
    Column("is_cut", Integer, nullable=False),
    Column("result", Bytes),
)
# Finds one of an outcome, and counts them.
Index("jobboard_parents", edges.c.board, edges.c.child, edges.c.outcome, edges.c.parent)

#: Parents and graphs whose edges don't say yet how they stand: what these are to say, and from when on.
marks = Table(
    "jobboard_marks",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("parent", Name, primary_key=True),
    Column("outcome", Integer, nullable=False),
    Column("due_at", Moment, nullable=False),
    # The last child that was seen to.
    Column("last_child", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("is_cut", Integer, nullable=False),
    Column("result", Bytes),
)
Index("jobboard_marks_due", marks.c.board, marks.c.due_at)

#: The steps of jobs that are done, by their numbers, until the job is forgotten.
steps = Table(
    "jobboard_steps",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("uuid", Name, primary_key=True),
    Column("number", Number, primary_key=True),
    Column("name", Name, nullable=False),
    Column("at", Moment, nullable=False),
    Column("result", Bytes, nullable=False),
)

#: The signals that were sent to jobs, until the job is forgotten.
signals = Table(
    "jobboard_signals",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("uuid", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("value", Bytes, nullable=False),
)

#: Until when a key stays taken, by which job, also if that has ended.
windows = Table(
    "jobboard_windows",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("key", Name, primary_key=True),
    Column("uuid", Name, nullable=False),
    Column("until", Moment, nullable=False),
)
Index("jobboard_windows_over", windows.c.board, windows.c.until)
Index("jobboard_windows_of_jobs", windows.c.board, windows.c.uuid)
