"""Rows of the tables, as jobs and lines of history, and back."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from jobboard.backends import lifecycle
from jobboard.backends.rows import JobRow, NewJob
from jobboard.backends.sql.schema import CLAIMED, CODES, PLACES_OF_A_RANK, PLACES_OF_A_SECOND, STATES
from jobboard.backends.sql.stored_ties import pack_ties, ties_of
from jobboard.events import EventKind, HistoryEntry
from jobboard.states import JobState
from jobboard.validation import moment

Row = tuple[Any, ...]
Job = TypeVar("Job", bound=JobRow)

#: The largest whole number that a column can hold.
MAX_INTEGER = 2**63 - 1

_TEXT, _NUMBER, _BYTES = (str, type(None)), (int, float, type(None)), (bytes, type(None))
#: The latest moment of a place; a float has it without rounding.
_LAST_MOMENT = PLACES_OF_A_RANK - 32
#: The columns that make a JobRow, in the order of its fields, and what each of them holds.
JOB_COLUMNS: dict[str, tuple[type, ...]] = {
    "uuid": (str,),
    "name": (str,),
    "place": (int,),
    "id": (int,),
    "created_on": (int, float),
    "body": (bytes,),
    "key": _TEXT,
    "run_at": _NUMBER,
    "max_attempts": (int, type(None)),
    "state": (object,),
    "attempts": (int,),
    "owner": _TEXT,
    "token": (int,),
    "claim_id": _TEXT,
    "due_at": _NUMBER,
    "last_modified": (int, float),
    "last_error": _TEXT,
    "reason": _TEXT,
    "checkpoint": _BYTES,
    "progress": _BYTES,
    "result": _BYTES,
    "cancel_asked": (object,),
    "ties": _BYTES,
}
_TYPES = tuple(JOB_COLUMNS.values())
#: The same of a row that was read without what may be large.
SMALL_TYPES = tuple(_BYTES if name == "body" else types for name, types in JOB_COLUMNS.items())

#: What a producer may give beside a key and a payload, and what replacing a job replaces: columns that have the fields'
#: names, and PostgreSQL's type of each.
OPTIONS = {"max_attempts": "bigint"}
OPTION_COLUMNS = ", ".join(OPTIONS)


def is_tied(new: NewJob) -> bool:
    """Whether a posting has to do with others, or with moments; no fast path posts such a one."""
    return _ties_of(new) != _NO_TIES


_ties_of = attrgetter("ties", "parents", "graph", "key_for", "max_delay")
_NO_TIES = None, (), None, None, None


def options_of(given: NewJob | JobRow) -> list[Any]:
    """Return the values of the columns ``OPTIONS``."""
    return [getattr(given, name) for name in OPTIONS]


_OTHER_NAMES = {"place": "priority", "id": "sequence", "due_at": "expires_at"}
_fields_of = attrgetter(*(_OTHER_NAMES.get(name, name) for name in JOB_COLUMNS))
_index_of = list(JOB_COLUMNS).index
_PLACE, _STATE, _DUE_AT, _CANCEL_ASKED, _TIES = map(_index_of, ("place", "state", "due_at", "cancel_asked", "ties"))

#: Return the moment from which on something is to be done about a row.
due_of = itemgetter(_DUE_AT)
#: Return where a row stands in the claim order.
position_of = itemgetter(_PLACE, _index_of("id"))


def job_of(row: Row) -> JobRow:
    """Return the job of a row of ``JOB_COLUMNS``; an unknown state reads as TRASHED, for audits to mend."""
    return read_job(JobRow, row)


def read_job(kind: type[Job], row: Row, types: Sequence[tuple[type, ...]] = _TYPES) -> Job:
    """Return the same as a JobRow of some kind."""
    # An SQLite file may hold anything anywhere.
    if not all(map(isinstance, row, types)):
        row = tuple(map(_readable, row, types))
    job = kind(*row[:-1])
    job.ties = ties_of(row[-1])
    code: Any = job.state
    job.priority, job.place = priority_and_moment(job.priority)
    job.state = STATES.get(code, JobState.TRASHED)
    if code != CLAIMED:
        job.expires_at = None
    job.cancel_asked = bool(job.cancel_asked)
    return job


def _readable(value: Any, types: tuple[type, ...]) -> Any:
    """Return a value that the column can have: bytes that nobody can decode, a text, nothing, or 0."""
    if isinstance(value, types):
        return value
    if bytes in types:
        return repr(value).encode()
    if str in types:
        return repr(value)
    return None if type(None) in types else 0


def columns_of(job: JobRow) -> dict[str, Any]:
    """Return the values of a job's columns, by name."""
    columns = dict(zip(JOB_COLUMNS, row_of(job), strict=False))
    columns["rank"] = -job.priority
    return columns


def row_of(job: JobRow) -> Row:
    """Return what :func:`job_of` makes the same job of."""
    row = list(_fields_of(job))
    row[_PLACE] = place_of(job.priority, job.place)
    row[_STATE] = CODES[job.state]
    row[_DUE_AT] = lifecycle.due_at(job)
    row[_CANCEL_ASKED] = int(job.cancel_asked)
    if job.ties is not None:
        row[_TIES] = pack_ties(job.ties)
    return tuple(row)


def place_of(priority: int, moment: float) -> int:
    """Return where a job of a priority stands in the claim order that became due at a moment."""
    return min(int(moment * PLACES_OF_A_SECOND), _LAST_MOMENT) - priority * PLACES_OF_A_RANK


def place_in_sql(rank: str, moment: str, integer: str) -> str:
    """Return the same in SQL.

    :param rank: an expression of a number of 64 bits.
    :param moment: an expression of a float of 64 bits.
    :param integer: the type that a number of 64 bits is cast to.
    """
    after = f"least(floor({moment} * {PLACES_OF_A_SECOND}), {_LAST_MOMENT})"
    return f"{rank} * {PLACES_OF_A_RANK} + CAST({after} AS {integer})"


def priority_and_moment(place: int) -> tuple[int, float]:
    """Return the priority of a place, and the moment at which its job became due."""
    return -(place // PLACES_OF_A_RANK), place % PLACES_OF_A_RANK / PLACES_OF_A_SECOND


def history_of(rows: list[Row]) -> list[HistoryEntry]:
    """Return lines that were read newest first, oldest first, without those that nobody can read."""
    history = []
    for kind, who, at, token, reason in reversed(rows):
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            history.append(HistoryEntry(EventKind(kind), who, moment(at), token, reason))
    return history
