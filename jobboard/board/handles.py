"""From what a store says to the handles that users hold; what can't be decoded is set aside on the way."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

from jobboard.arguments import check_uuid
from jobboard.board.link import Link
from jobboard.body import unpack_body
from jobboard.codec import NewerFormat
from jobboard.entry import LIVE, Discard, Entry, JobState
from jobboard.errors import NotFound
from jobboard.events import HistoryEntry
from jobboard.job import Home, Job
from jobboard.posting import JobPriority
from jobboard.shortening import in_one_line

logger = logging.getLogger("jobboard.board")


class Handles(Link):
    """Makes handles, and reads for them."""

    @property
    def _home(self) -> Home:
        """This board; only the whole of its parts is one."""
        return cast(Home, self)

    def look(self, uuid: str) -> Entry:
        """Return what the store knows of a job, without its history; one request.

        :raises NotFound: there is no such job, or its retention is over.
        """
        entry = self._ask(self._backend.read, [uuid])[0]
        if entry is None:
            raise NotFound(f"no job {uuid} on board {self._name!r}")
        return entry

    def look_back(self, uuid: str) -> tuple[HistoryEntry, ...]:
        """Return the last lines of a job's history, oldest first; one request."""
        return tuple(self._ask(self._backend.history, uuid))

    def seconds_left(self, uuid: str) -> float | None:
        """Return the seconds until the present claim of a job ends; None if there is no claim, or no end."""
        entry = self.look(uuid)
        if entry.state is not JobState.CLAIMED or entry.expires_at is None:
            return None
        return self._ask(self._backend.seconds_until, entry.expires_at)

    def _uuid_of(self, job: Job | str) -> str:
        if not isinstance(job, Job):
            return check_uuid(job)
        if job.board.name != self._name:
            raise ValueError(f"job {job.uuid} is of board {job.board.name!r}, not of {self._name!r}")
        return job.uuid

    def _handle(self, entry: Entry, token: int | None = None) -> Job:
        """Return a handle.

        :raises NewerFormat: the posting is to be left to newer clients.
        :raises ValueError: the posting can't be decoded.
        """
        return Job(self._home, entry, unpack_body(entry.body), token)

    def _handle_of_anything(self, entry: Entry) -> Job:
        """Return a handle also on what can't be decoded: without details, but with its raw bytes."""
        try:
            return self._handle(entry)
        except ValueError:
            known = set(JobPriority)
            known_entry = entry if entry.priority in known else replace(entry, priority=JobPriority.NORMAL)
            return Job(self._home, known_entry, None)

    def _readable(self, entries: Iterable[Entry]) -> Iterator[Job]:
        """Go on past entries that can't be decoded; those on the board are moved to the trash, bytes and all.

        Those of a newer format stay where they are.
        """
        for entry in entries:
            try:
                yield self._handle(entry)
            except ValueError as error:
                if entry.state not in LIVE:
                    yield self._handle_of_anything(entry)
                elif isinstance(error, NewerFormat):
                    self._newer.meet("a job named", entry.name, str(error))
                else:
                    self._set_aside(entry, error)

    def _set_aside(self, entry: Entry, error: ValueError) -> None:
        logger.warning("board %s: job %s can't be decoded and goes to the trash", self._name, entry.uuid)
        self._ask(self._backend.trash, [Discard(entry.uuid, None, reason=fault_of(error))])


def fault_of(error: ValueError) -> str:
    """Say why a posting can't be decoded."""
    return in_one_line(f"the posting can't be decoded: {error}")
