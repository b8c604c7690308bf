"""The tables: one set for all boards of a database, versioned."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text, text

from jobboard.entry import JobState
from jobboard.posting import JobPriority

#: The layout that this code reads and writes. A database of a newer one is refused.
VERSION = 2

metadata = MetaData()

#: States as stored: the first three are live.
CODES = {
    JobState.DELAYED: 0,
    JobState.UNCLAIMED: 1,
    JobState.CLAIMED: 2,
    JobState.COMPLETE: 3,
    JobState.TRASHED: 4,
}
STATES = {code: state for state, code in CODES.items()}
DELAYED, UNCLAIMED, CLAIMED, COMPLETE, TRASHED = range(5)

meta = Table("jobboard_meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

boards = Table(
    "jobboard_boards",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
)

jobs = Table(
    "jobboard_jobs",
    metadata,
    Column("id", Integer, primary_key=True),  # the sequence
    Column("board", Integer, nullable=False),
    Column("uuid", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("key", Text),
    Column("rank", Integer, nullable=False),  # minus the priority, so that the claim order is ascending
    Column("created_on", Float, nullable=False),
    Column("max_attempts", Integer),
    Column("state", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("owner", Text),
    Column("token", Integer, nullable=False),
    Column("claim_id", Text),
    Column("due_at", Float),  # when a DELAYED or CLAIMED row changes by itself
    Column("run_at", Float),
    Column("last_modified", Float, nullable=False),
    Column("last_error", Text),
    Column("reason", Text),
    Column("cancel_asked", Integer, nullable=False),
    Column("retain_until", Float),  # until when readers see a COMPLETE row
    # What may be large comes last, since SQLite reads a row from its front.
    Column("checkpoint", LargeBinary),
    Column("progress", LargeBinary),
    Column("result", LargeBinary),
    Column("body", LargeBinary, nullable=False),
    # Whoever else writes into the table can't make a row that no page or claim could be sorted with.
    CheckConstraint(f"state BETWEEN {DELAYED} AND {TRASHED}"),
    CheckConstraint(f"rank BETWEEN {-max(JobPriority)} AND {-min(JobPriority)}"),
    sqlite_autoincrement=True,
)

# With the state in front these serve databases without partial indexes too. Where there are partial ones, a claimed
# job is no more in the second: every index less that a claim touches is a page less to write.
Index("jobboard_ready", jobs.c.board, jobs.c.state, jobs.c.rank, jobs.c.id)
Index(
    "jobboard_ready_by_name", jobs.c.board, jobs.c.state, jobs.c.name, jobs.c.rank, jobs.c.id,
    sqlite_where=text(f"state = {UNCLAIMED}"),
)  # fmt: skip
Index("jobboard_uuid", jobs.c.board, jobs.c.uuid, unique=True)
Index(
    "jobboard_key", jobs.c.board, jobs.c.name, jobs.c.key, unique=True,
    sqlite_where=text(f"key IS NOT NULL AND state < {COMPLETE}"),
)  # fmt: skip
Index("jobboard_due", jobs.c.board, jobs.c.due_at, sqlite_where=text("due_at IS NOT NULL"))
Index("jobboard_over", jobs.c.board, jobs.c.retain_until, sqlite_where=text("retain_until IS NOT NULL"))

#: Every change of a job is one line: its history by (job, id), and the stream of events by id. Ids are never used
#: again, or a stream would miss lines. Only lines of no job have a uuid and a name of their own.
journal = Table(
    "jobboard_journal",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("board", Integer, nullable=False),
    Column("job", Integer),
    Column("kind", Text, nullable=False),
    Column("uuid", Text),
    Column("name", Text),
    Column("who", Text),
    Column("token", Integer),
    Column("at", Float, nullable=False),
    Column("reason", Text),
    sqlite_autoincrement=True,
)
Index("jobboard_history", journal.c.job, journal.c.id)
# A repeated replacement is known by its own uuid, which is the reason in the line of the first one.
Index("jobboard_replaced", journal.c.board, journal.c.reason, sqlite_where=text("kind = 'REPLACED'"))

pauses = Table(
    "jobboard_pauses",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("name", Text, primary_key=True),  # "" is the whole board: no job's name is empty
)

entities = Table(
    "jobboard_entities",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("ttl", Float, nullable=False),
    Column("last_seen", Float, nullable=False),
)

books = Table(
    "jobboard_books",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("uuid", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("version", Text, nullable=False),
)

#: Since version 2. Those that are not due have no next_at, and stand last.
schedules = Table(
    "jobboard_schedules",
    metadata,
    Column("board", Integer, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("version", Text, nullable=False),
    Column("next_at", Float),
    Column("body", LargeBinary, nullable=False),
)
Index("jobboard_next_at", schedules.c.board, schedules.c.next_at, schedules.c.id)
