"""Waits until jobs, and all that wait for them, have ended as far as they can by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobboard.backends.edge_rows import Outcome
from jobboard.backends.outcomes import outcome_of
from jobboard.board import client_of, handles_of
from jobboard.client.edge_reading import MAX_JOBS
from jobboard.graph.holding import held_of
from jobboard.graph.reading import Below, jobs_below
from jobboard.job import row_of
from jobboard.operate.waiting import EndsTold, end_of, ends_told
from jobboard.states import LIVE, JobState

if TYPE_CHECKING:
    from jobboard.backends.rows import JobRow
    from jobboard.board import JobBoard
    from jobboard.job import Job

#: How often all jobs that have not ended are read, in seconds; and how many one request reads.
_POLL, _ROWS = 5.0, 100


@dataclass(frozen=True, slots=True)
class FamilyEnds:
    """How jobs and those that wait for them stand, each as ``wait_for_ends`` says it.

    :ivar is_timed_out: whether one of them may still end by itself.
    """

    ends: list[dict[str, Any]]
    is_timed_out: bool


def wait_for_families(
    board: JobBoard, jobs: Sequence[Job], timeout: float | None, most: int = MAX_JOBS
) -> FamilyEnds | None:
    """Block until none of these jobs, and of those that wait for them, can end by itself, or ``timeout`` seconds.

    What waits for a job in the trash does not end by itself. Jobs that come meanwhile are waited for, too. All that are
    open are read every five seconds, a hundred a request, and one of them every two seconds.

    :param timeout: seconds; None to wait without end.
    :param most: how many jobs at most beside these; None is returned if there are more.
    :raises BoardUnavailable: the store does not answer.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    uuids = [job.uuid for job in jobs]
    with ends_told(board) as told:
        families = _Families(board, map(row_of, jobs))
        while True:
            below = jobs_below(client_of(board), uuids, most)
            if not below.is_whole:
                return None
            families.learn(below)
            if not (left := families.open()) or _seconds_left(deadline) <= 0:
                return FamilyEnds(families.ends(told), bool(left))
            families.wait(left, deadline)


def _seconds_left(deadline: float | None) -> float:
    return _POLL if deadline is None else max(0.0, deadline - time.monotonic())


class _Families:
    """What was read last of each job; ``gone``: those that the board forgot before they were seen to have ended."""

    def __init__(self, board: JobBoard, rows: Iterable[JobRow]) -> None:
        self._client, self._handles = client_of(board), handles_of(board)
        self.rows: dict[str, JobRow] = {row.uuid: row for row in rows}
        self.gone: set[str] = set()
        self._lost: list[str] = []
        self._children: dict[str, list[str]] = {}

    def learn(self, below: Below) -> None:
        """Take over what was read of the jobs that wait for others, and read the others."""
        found = {row.uuid: row for row in below.rows}
        others = [uuid for uuid, row in self.rows.items() if uuid not in found and row.state is not JobState.COMPLETE]
        self.rows.update(found)
        self._lost = [uuid for uuid in below.lost if uuid not in self.rows]
        self.read(others)
        self._children = {}
        for parent, child in below.edges:
            self._children.setdefault(parent, []).append(child)

    def read(self, uuids: Sequence[str]) -> None:
        for part in self._client.batches(uuids, _ROWS):
            for uuid, row in zip(part, self._client.call(self._client.backend.jobs.read, part), strict=True):
                if row is None:
                    self.gone.add(uuid)
                else:
                    self.rows[uuid] = row

    def open(self) -> list[str]:
        """Return the jobs that can end by themselves."""
        held = held_of(self.rows, self._children)
        left = (uuid for uuid, row in self.rows.items() if row.state in LIVE)
        return [uuid for uuid in left if uuid not in held and uuid not in self.gone]

    def wait(self, left: Sequence[str], deadline: float | None) -> None:
        """Wait until none of the known jobs can end by itself; most often the last one of them ends last."""
        while left and (seconds := _seconds_left(deadline)) > 0:
            self._handles.any(self.rows[left[-1]]).wait(min(_POLL, seconds))
            self.read(left)
            left = self.open()

    def ends(self, told: EndsTold) -> list[dict[str, Any]]:
        unknown = dict.fromkeys(("name", "key", "result", "reason"))
        lost = [{"uuid": uuid, "state": told.of_gone(uuid), **unknown} for uuid in self._lost]
        return [self._end_of(uuid, told) for uuid in self.rows] + lost

    def _end_of(self, uuid: str, told: EndsTold) -> dict[str, Any]:
        row = self.rows[uuid]
        state = row.state.value
        if uuid in self.gone:
            state = told.of_gone(uuid)
        elif outcome_of(row) is Outcome.GONE:
            state = "CANCELLED"
        return end_of(self._handles.any(row), state)
