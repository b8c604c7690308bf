"""From the rows of a store to the handles that users hold; what can't be read is quarantined on the way."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from jobboard import telemetry
from jobboard.backends.rows import Abandonment, Fence, JobRow, NewJob, Page, Trashing
from jobboard.client import BackendClient, JobReader
from jobboard.client.paging import page_sizes
from jobboard.codec import NewerFormat
from jobboard.job import Board, Job, JobHandle, JobOrUuid, NamesJob, row_of
from jobboard.payload import Payload, unpack_head, unpack_payload
from jobboard.states import LIVE, JobPriority, JobState
from jobboard.text import in_one_line
from jobboard.validation import check_uuid

logger = logging.getLogger("jobboard.board")


class JobHandles:
    """Makes handles on jobs.

    A posting that can't be decoded goes to the trash, bytes and all. One of a newer format stays on the board, for
    newer clients.
    """

    def __init__(self, board: Board, client: BackendClient) -> None:
        self._board = board
        self._client = client
        self.reader = JobReader(client)

    def uuid_of(self, job: JobOrUuid) -> str:
        """Return the uuid of an argument ``job``."""
        if not isinstance(job, JobHandle):
            return job.uuid if isinstance(job, NamesJob) else check_uuid(job)
        if job.board is not self._board and job.board.name != self._client.name:
            raise ValueError(f"job {job.uuid} is of board {job.board.name!r}, not of {self._client.name!r}")
        return job.uuid

    def readable(self, row: JobRow, token: int | None = None) -> Job:
        """Return a handle.

        :raises NewerFormat: a newer client posted it.
        :raises ValueError: the posting can't be decoded.
        """
        return Job(self._board, self.reader, row, unpack_payload(row.body, self._client.converter), token)

    def posted(self, row: JobRow, new: NewJob, payload: Payload) -> Job:
        """Return a handle on what a posting made or found; its own payload needs no second decoding."""
        return Job(self._board, self.reader, row, payload) if row.body == new.body else self.any(row)

    def any(self, row: JobRow) -> Job:
        """Return a handle also on what can't be decoded, which has no details, but raw bytes.

        Details are decoded when somebody asks for them.
        """
        try:
            return Job(self._board, self.reader, row, unpack_head(row.body))
        except ValueError:
            is_known = row.priority in set(JobPriority)
            known = row if is_known else replace(row, priority=JobPriority.NORMAL)
            return Job(self._board, self.reader, known, None)

    def get(self, uuid: str) -> Job:
        """Read a job and its history."""
        row = self.reader.row(uuid)
        row.history = self.reader.history(uuid)
        return self.any(row)

    def iterate(self, states: frozenset[JobState], names: frozenset[str] | None) -> Iterator[Job]:
        """Iterate over jobs in claim order; quarantine what can't be read."""
        return self._iterate(self._client.backend.jobs.page, states, names)

    def rows(self, states: frozenset[JobState], names: frozenset[str] | None) -> Iterator[JobRow]:
        """Iterate over rows in claim order; changes nothing."""
        return self._rows(self._client.backend.jobs.page, states, names)

    def claimable(self, names: frozenset[str] | None) -> Iterator[Job]:
        """Iterate over the jobs that can be claimed, best first; quarantine what can't be read."""
        return self._iterate(self._client.backend.jobs.claimable, names)

    def _iterate(self, read: Callable[..., Page], *wanted: object) -> Iterator[Job]:
        for row in self._rows(read, *wanted):
            if row.state not in LIVE:
                yield self.any(row)
                continue
            try:
                yield self.readable(row)
            except ValueError as error:
                if isinstance(error, NewerFormat):
                    self._meet(row, error)
                else:
                    self._quarantine(row, None, error)

    def _rows(self, read: Callable[..., Page], *wanted: object) -> Iterator[JobRow]:
        for page in self._client.pages(page_sizes(), read, *wanted):
            yield from page.rows

    def claimed(self, rows: Iterable[JobRow], until: float) -> tuple[list[Job], list[ValueError]]:
        """Return handles on what was just claimed, with their tokens, and why the others can't be read.

        Those are quarantined, or returned if they are of a newer format.

        :param until: the monotonic time until which the claims hold: their expiry after the request was sent.
        """
        jobs: list[Job] = []
        readable: list[JobRow] = []
        faults: list[tuple[JobRow, ValueError]] = []
        for row in rows:
            try:
                jobs.append(self.readable(row, row.token))
                readable.append(row)
            except ValueError as error:
                faults.append((row, error))
        self._client.tokens.remember(readable)
        newer: list[Abandonment] = []
        for row, fault in faults:
            if isinstance(fault, NewerFormat):
                self._meet(row, fault)
                delay = self._client.newer_formats.delay_of(row.uuid)
                reason = "it is of a newer format than its owner reads"
                newer.append(Abandonment(_claim_of(row), delay, reason=reason, counted=False))
            else:
                self._quarantine(row, _claim_of(row), fault)
        for keeper in self._client.keepers.of(readable[0].owner if readable else None):
            keeper.claimed(jobs, until)
        if telemetry.is_on():
            for job in jobs:
                telemetry.emit("claimed", self._client.name, job.name, row_of(job).waited)
        if newer:
            # A claim that is lost by then is what we want, too.
            self._client.call(self._client.backend.jobs.abandon, newer)
        return jobs, [fault for _, fault in faults]

    def held(self, who: str) -> list[Job]:
        """Return handles on the jobs that this owner has claimed, as far as this client knows and they can be read."""
        tokens = self._client.tokens.of(who)
        jobs: list[Job] = []
        for part in self._client.batches(list(tokens)):
            for row in self._client.call(self._client.backend.jobs.read, part):
                if row is not None and row.state is JobState.CLAIMED and row.token == tokens[row.uuid]:
                    with contextlib.suppress(ValueError):
                        jobs.append(self.readable(row, row.token))
        return jobs

    def _meet(self, row: JobRow, error: NewerFormat) -> None:
        self._client.newer_formats.meet("a job named", row.name, str(error))

    def _quarantine(self, row: JobRow, fence: Fence | None, error: ValueError) -> None:
        if fence is None:
            logger.warning("board %s: job %s can't be decoded and goes to the trash", self._client.name, row.uuid)
        reason = in_one_line(f"the posting can't be decoded: {error}")
        trashing = Trashing(row.uuid, fence, reason=reason, by=fence.who if fence else None)
        self._client.call(self._client.backend.jobs.trash, [trashing])


def _claim_of(row: JobRow) -> Fence:
    return Fence(row.uuid, row.owner or "", row.token)
