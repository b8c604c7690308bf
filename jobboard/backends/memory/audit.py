"""Looks for what contradicts itself in a store, and repairs it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.findings import AuditFinding
from jobboard.backends.lane_rows import LaneRow
from jobboard.backends.lanes import count_problems, lanes_of
from jobboard.backends.memory.lanes import Lane
from jobboard.backends.memory.store import MemoryStore
from jobboard.backends.memory.stored_job import StoredJob
from jobboard.backends.ordered import PriorityIndex
from jobboard.states import JobState


def audit(store: MemoryStore, repair: bool, now: float) -> list[AuditFinding]:
    """Return what is wrong, under the store's lock. To repair, every index is made anew from the rows."""
    problems: list[tuple[str | None, str]] = []
    for row in store.rows.values():
        problems += [(row.uuid, problem) for problem in (*_problems_of(row), *_misplacements_of(store, row))]
    problems += [(None, problem) for problem in (*_strays_on(store), *_stray_keys_on(store), *_stray_endings_on(store))]
    problems += [(None, problem) for problem in _problems_of_lanes(store, now)]
    problems += store.edges.problems(now)
    if problems and repair:
        _repair(store, now)
    return [AuditFinding(uuid, problem, repaired=repair) for uuid, problem in problems]


def _problems_of(row: StoredJob) -> Iterator[str]:
    """How a row contradicts itself."""
    if row.state is JobState.CLAIMED and (row.owner is None or row.claim_id is None):
        yield "it is claimed, but nobody is its owner"
    if row.state is not JobState.CLAIMED and (row.claim_id is not None or row.expires_at is not None):
        yield f"it is {row.state}, but has a claim"
    if row.state is JobState.DELAYED and row.run_at is None:
        yield "it is delayed, but for no moment"


def _misplacements_of(store: MemoryStore, row: StoredJob) -> Iterator[str]:
    """Which indexes do not lead to a row as it is."""
    if store.by_sequence.get(row.sequence) is not row:
        yield "its sequence leads to another job, or nowhere"
    if row.index is not None and (
        row.index is not store.index_of(row.state) or not row.index.has(row.position, row.name)
    ):
        yield f"it is {row.state}, but not listed as such"
    if not _has_its_timer(store, row):
        yield "its timer is missing, or set for another moment"
    if store.is_live(row) and row.key is not None and store.keys.get((row.name, row.key)) is not row:
        yield "its key leads to another job, or nowhere"


def _has_its_timer(store: MemoryStore, row: StoredJob) -> bool:
    if row.due != store.due_of(row):
        return False
    return row.due is None or store.timers.has((row.due, row.sequence), row.name)


def _problems_of_lanes(store: MemoryStore, now: float) -> Iterator[str]:
    """What is wrong with the lanes of the live jobs, and with what is indexed of each."""
    counted = lanes_of(row for row in store.rows.values() if store.is_live(row))
    for name, row in counted.items():
        lane = store.lanes.by_name.get(name, Lane())
        if lane.row(name, store.by_sequence) != row:
            yield f"the jobs of the lane {name!r} are not listed as such"
        elif lane.look_at is None or lane.look_at > now:
            yield from count_problems(row, store.lanes.rules)
    for name, lane in store.lanes.by_name.items():
        if name not in counted and lane.row(name, store.by_sequence) != LaneRow(name):
            yield f"the lane {name!r} lists jobs that it does not have"


def _strays_on(store: MemoryStore) -> Iterator[str]:
    """Which indexes hold more than the rows, or less."""
    rows = store.rows.values()
    for state, index in store.indexes():
        if not _holds_just(index, sum(1 for row in rows if row.index is index)):
            yield f"the list of {state} jobs holds others too"
    if not _holds_just(store.timers, sum(1 for row in rows if row.due is not None)):
        yield "there are timers of other jobs"
    if len(store.by_sequence) != len(store.rows):
        yield "there are sequences of other jobs"


def _stray_keys_on(store: MemoryStore) -> Iterator[str]:
    for (name, key), row in store.keys.items():
        if store.rows.get(row.uuid) is not row or not store.is_live(row) or (row.name, row.key) != (name, key):
            yield f"the key {key!r} of {name!r} leads to a job that is not live, or does not have it"


def _stray_endings_on(store: MemoryStore) -> Iterator[str]:
    rows = store.rows.values()
    for what, place, heap in _endings(store):
        if sorted(sequence for _, sequence in heap) != sorted(row.sequence for row in rows if row.index is place):
            yield f"the times at which {what} jobs go do not match these jobs"


def _holds_just(index: PriorityIndex[int] | PriorityIndex[tuple[float, int]], count: int) -> bool:
    return len(index) == sum(map(len, index.by_name.values())) == count


def _endings(store: MemoryStore) -> list[tuple[str, PriorityIndex[int] | None, list[tuple[float, int]]]]:
    return [("completed", store.complete, store.retained), ("remembered", None, store.remembered)]


def _repair(store: MemoryStore, now: float) -> None:
    """Make every row agree with itself, and then the indexes with the rows."""
    rows = sorted(store.rows.values(), key=lambda row: row.sequence)
    remembered = {row.uuid for row in rows if row.index is None}
    for row in rows:
        _repair_row(row)
        row.index = row.due = None
    for _, index in store.indexes():
        index.clear()
    for entries in (store.timers, store.keys, store.by_sequence, store.lanes):
        entries.clear()
    for row in rows:
        _enter_anew(store, row, row.uuid in remembered)
    _repair_lanes(store, now)
    store.edges.settle_all(now)
    store.finish(now)
    for _, place, heap in _endings(store):
        _repair_endings(heap, [row for row in rows if row.index is place], now + RETRY_WINDOW)


def _repair_row(row: StoredJob) -> None:
    if row.state is JobState.CLAIMED and (row.owner is None or row.claim_id is None):
        row.owner, row.state = None, JobState.UNCLAIMED
    if row.state is not JobState.CLAIMED:
        row.claim_id = row.expires_at = None
    if row.state is JobState.DELAYED and row.run_at is None:
        row.state = JobState.UNCLAIMED


def _enter_anew(store: MemoryStore, row: StoredJob, is_remembered: bool) -> None:
    """Of two rows with the same sequence or key, the one that was posted first keeps it."""
    if row.sequence in store.by_sequence:
        store.last_sequence += 1
        row.sequence = store.last_sequence
    store.last_sequence = max(store.last_sequence, row.sequence)
    store.by_sequence[row.sequence] = row
    if row.key is not None and (row.name, row.key) in store.keys:
        row.key = None
    store.move(row, None if is_remembered else store.index_of(row.state))


def _repair_lanes(store: MemoryStore, now: float) -> None:
    """Look at all lanes; a claim over a limit is not ended."""
    for lane in list(store.lanes.by_name):
        store.lanes.look(lane, now)


def _repair_endings(heap: list[tuple[float, int]], rows: list[StoredJob], at: float) -> None:
    known = {sequence: moment for moment, sequence in heap}
    heap[:] = [(known.get(row.sequence, at), row.sequence) for row in rows]
    heapq.heapify(heap)
