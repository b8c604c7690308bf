"""Looks for what contradicts itself on a shelf, and mends it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.memory.row import Row
from jobboard.backends.memory.shelf import Shelf
from jobboard.backends.ordered import PriorityIndex
from jobboard.backends.rows import AuditFinding
from jobboard.states import JobState


def audit(shelf: Shelf, repair: bool, now: float) -> list[AuditFinding]:
    """Return what is wrong, under the shelf's lock. To repair, every index is made anew from the rows."""
    problems: list[tuple[str | None, str]] = []
    for row in shelf.rows.values():
        problems += [(row.uuid, problem) for problem in (*_problems_of(row), *_misplacements_of(shelf, row))]
    problems += [(None, problem) for problem in (*_strays_on(shelf), *_stray_keys_on(shelf), *_stray_endings_on(shelf))]
    if problems and repair:
        _mend(shelf, now)
    return [AuditFinding(uuid, problem, repaired=repair) for uuid, problem in problems]


def _problems_of(row: Row) -> Iterator[str]:
    """How a row contradicts itself."""
    if row.state is JobState.CLAIMED and (row.owner is None or row.claim_id is None):
        yield "it is claimed, but nobody is its owner"
    if row.state is not JobState.CLAIMED and (row.claim_id is not None or row.expires_at is not None):
        yield f"it is {row.state}, but has a claim"
    if row.state is JobState.DELAYED and row.run_at is None:
        yield "it is delayed, but for no moment"


def _misplacements_of(shelf: Shelf, row: Row) -> Iterator[str]:
    """Which indexes do not lead to a row as it is."""
    if shelf.by_sequence.get(row.sequence) is not row:
        yield "its sequence leads to another job, or nowhere"
    if row.line is not None and (row.line is not _line_of(shelf, row) or not row.line.has(row.place, row.name)):
        yield f"it is {row.state}, but not listed as such"
    if row.due != shelf.due_of(row) or (
        row.due is not None and not shelf.timers.has((row.due, row.sequence), row.name)
    ):
        yield "its timer is missing, or set for another moment"
    if shelf.is_live(row) and row.key is not None and shelf.keys.get((row.name, row.key)) is not row:
        yield "its key leads to another job, or nowhere"


def _strays_on(shelf: Shelf) -> Iterator[str]:
    """What the indexes hold beyond the rows, or lack."""
    rows = shelf.rows.values()
    for state, line in shelf.lines():
        if not _holds_just(line, sum(1 for row in rows if row.line is line)):
            yield f"the list of {state} jobs holds others too"
    if not _holds_just(shelf.timers, sum(1 for row in rows if row.due is not None)):
        yield "there are timers of other jobs"
    if len(shelf.by_sequence) != len(shelf.rows):
        yield "there are sequences of other jobs"


def _stray_keys_on(shelf: Shelf) -> Iterator[str]:
    for (name, key), row in shelf.keys.items():
        if shelf.rows.get(row.uuid) is not row or not shelf.is_live(row) or (row.name, row.key) != (name, key):
            yield f"the key {key!r} of {name!r} leads to a job that is not live, or does not have it"


def _stray_endings_on(shelf: Shelf) -> Iterator[str]:
    rows = shelf.rows.values()
    for what, place, heap in _endings(shelf):
        if sorted(sequence for _, sequence in heap) != sorted(row.sequence for row in rows if row.line is place):
            yield f"the times at which {what} jobs go do not match these jobs"


def _holds_just(line: PriorityIndex[int] | PriorityIndex[tuple[float, int]], count: int) -> bool:
    return len(line) == sum(map(len, line.by_name.values())) == count


def _endings(shelf: Shelf) -> list[tuple[str, PriorityIndex[int] | None, list[tuple[float, int]]]]:
    return [("completed", shelf.complete, shelf.retained), ("remembered", None, shelf.remembered)]


def _line_of(shelf: Shelf, row: Row) -> PriorityIndex[int]:
    return next(line for state, line in shelf.lines() if state is row.state)


def _mend(shelf: Shelf, now: float) -> None:
    """Make every row agree with itself, and then the indexes with the rows."""
    rows = sorted(shelf.rows.values(), key=lambda row: row.sequence)
    remembered = {row.uuid for row in rows if row.line is None}
    for row in rows:
        _mend_row(row)
        row.line = row.due = None
    for _, line in shelf.lines():
        line.clear()
    for index in (shelf.timers, shelf.keys, shelf.by_sequence):
        index.clear()
    for row in rows:
        _enter_anew(shelf, row, row.uuid in remembered)
    for _, place, heap in _endings(shelf):
        _mend_endings(heap, [row for row in rows if row.line is place], now + RETRY_WINDOW)


def _mend_row(row: Row) -> None:
    if row.state is JobState.CLAIMED and (row.owner is None or row.claim_id is None):
        row.owner, row.state = None, JobState.UNCLAIMED
    if row.state is not JobState.CLAIMED:
        row.claim_id = row.expires_at = None
    if row.state is JobState.DELAYED and row.run_at is None:
        row.state = JobState.UNCLAIMED


def _enter_anew(shelf: Shelf, row: Row, is_remembered: bool) -> None:
    """Of two with one sequence or one key, the one that was posted first keeps it."""
    if row.sequence in shelf.by_sequence:
        shelf.last_sequence += 1
        row.sequence = shelf.last_sequence
    shelf.last_sequence = max(shelf.last_sequence, row.sequence)
    shelf.by_sequence[row.sequence] = row
    row.rank()
    if row.key is not None and (row.name, row.key) in shelf.keys:
        row.key = None
    shelf.move(row, None if is_remembered else _line_of(shelf, row))


def _mend_endings(heap: list[tuple[float, int]], rows: list[Row], at: float) -> None:
    known = {sequence: moment for moment, sequence in heap}
    heap[:] = [(known.get(row.sequence, at), row.sequence) for row in rows]
    heapq.heapify(heap)
