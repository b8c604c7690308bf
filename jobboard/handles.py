"""From what a store says to the handles that users hold; what can't be decoded is set aside on the way."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

from jobboard.backends.rows import JobRow, Trashing
from jobboard.backends.text import in_one_line
from jobboard.client import BackendClient
from jobboard.codec import NewerFormat
from jobboard.errors import NotFound
from jobboard.events import HistoryEntry
from jobboard.job import Job, JobReader
from jobboard.payload import unpack_payload
from jobboard.states import LIVE, JobPriority, JobState
from jobboard.validation import check_uuid

logger = logging.getLogger("jobboard.board")


class Handles(BackendClient):
    """Makes handles, and reads for them."""

    @property
    def _home(self) -> JobReader:
        """This board; only the whole of its parts is one."""
        return cast(JobReader, self)

    def look(self, uuid: str) -> JobRow:
        """Return what the store knows of a job, without its history; one request.

        :raises NotFound: there is no such job, or its retention is over.
        """
        row = self._ask(self._backend.read, [uuid])[0]
        if row is None:
            raise NotFound(f"no job {uuid} on board {self._name!r}")
        return row

    def look_back(self, uuid: str) -> tuple[HistoryEntry, ...]:
        """Return the last lines of a job's history, oldest first; one request."""
        return tuple(self._ask(self._backend.history, uuid))

    def seconds_left(self, uuid: str) -> float | None:
        """Return the seconds until the present claim of a job ends; None if there is no claim, or no end."""
        row = self.look(uuid)
        if row.state is not JobState.CLAIMED or row.expires_at is None:
            return None
        return self._ask(self._backend.seconds_until, row.expires_at)

    def _uuid_of(self, job: Job | str) -> str:
        if not isinstance(job, Job):
            return check_uuid(job)
        if job.board.name != self._name:
            raise ValueError(f"job {job.uuid} is of board {job.board.name!r}, not of {self._name!r}")
        return job.uuid

    def _handle(self, row: JobRow, token: int | None = None) -> Job:
        """Return a handle.

        :raises NewerFormat: the posting is to be left to newer clients.
        :raises ValueError: the posting can't be decoded.
        """
        return Job(self._home, row, unpack_payload(row.body), token)

    def _handle_of_anything(self, row: JobRow) -> Job:
        """Return a handle also on what can't be decoded: without details, but with its raw bytes."""
        try:
            return self._handle(row)
        except ValueError:
            known = set(JobPriority)
            known_entry = row if row.priority in known else replace(row, priority=JobPriority.NORMAL)
            return Job(self._home, known_entry, None)

    def _readable(self, rows: Iterable[JobRow]) -> Iterator[Job]:
        """Go on past entries that can't be decoded; those on the board are moved to the trash, bytes and all.

        Those of a newer format stay where they are.
        """
        for row in rows:
            try:
                yield self._handle(row)
            except ValueError as error:
                if row.state not in LIVE:
                    yield self._handle_of_anything(row)
                elif isinstance(error, NewerFormat):
                    self._newer.meet("a job named", row.name, str(error))
                else:
                    self._set_aside(row, error)

    def _set_aside(self, row: JobRow, error: ValueError) -> None:
        logger.warning("board %s: job %s can't be decoded and goes to the trash", self._name, row.uuid)
        self._ask(self._backend.trash, [Trashing(row.uuid, None, reason=fault_of(error))])


def fault_of(error: ValueError) -> str:
    """Say why a posting can't be decoded."""
    return in_one_line(f"the posting can't be decoded: {error}")
