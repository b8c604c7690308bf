"""Selects jobs: the same filters for lists and for everything that is done to many jobs."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from jobboard.operate.trash import kind_of_reason
from jobboard.states import LIVE, JobState
from jobboard.validation import check_count, check_delay, check_names

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

#: How many jobs are looked at for a part of a key or a detail, unless more are asked for.
MAX_SCANNED = 10_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs; all filters must fit, and None filters nothing. The store serves ``states`` and ``names``.

    :param states: by default those on the board.
    :param key: the whole key; ``key_prefix``: its beginning; ``key_contains``: a part of it.
    :param details: name -> value, both as text: ``{"order.id": "4711"}``. Numbers and the like are compared as JSON has
        them.
    :param scan: with ``key_contains`` or ``details``, and for :meth:`newest`, look only at this many jobs, the first of
        these states and names; None: at all.
    :param lane: the whole lane.
    :param owner: the beginning of the owner's name, of a complete job that of its last owner.
    :param older_than: at least this many seconds old: since it came into the trash for a trashed job, otherwise since
        it was posted.
    :param newer_than: at most this many seconds old, likewise.
    :param as_of: posted, or trashed, at this moment of the store's clock at the latest, in seconds of the epoch.
    :param reason: a part of its reason.
    :param kind: what its reason has in common with others, as :func:`~jobboard.operate.trash.kind_of_reason` says.
    :param uuid: the beginning or the end of its uuid.
    :param schedule: the id of the schedule that posted it.
    :param limit: how many at most.
    :raises TypeError, ValueError: names the argument at fault.
    """

    states: Collection[JobState] = LIVE
    names: Collection[str] | None = None
    key: str | None = None
    key_prefix: str | None = None
    owner: str | None = None
    older_than: float | None = None
    as_of: float | None = None
    reason: str | None = None
    schedule: str | None = None
    kind: str | None = None
    uuid: str | None = None
    limit: int | None = None
    key_contains: str | None = None
    details: Mapping[str, str] | None = None
    scan: int | None = MAX_SCANNED
    lane: str | None = None
    newer_than: float | None = None

    def __post_init__(self) -> None:
        check_names(self.names)
        for what, seconds in (("older_than", self.older_than), ("newer_than", self.newer_than)):
            if seconds is not None:
                check_delay(seconds, what)
        for what, number in (("limit", self.limit), ("scan", self.scan)):
            if number is not None:
                check_count(what, number)

    def jobs(self, board: JobBoard, stopped: Callable[[int], object] = lambda number: None) -> Iterator[Job]:
        """Iterate over the jobs in claim order; reads those of its states and names, 500 a request.

        :param stopped: called if ``scan`` ends the search while there are more jobs; with how many were looked at.
        :raises BoardUnavailable: the store can't be reached.
        """
        scan = self.scan if self.key_contains is not None or self.details else None
        return islice(self._fitting(board, scan, stopped), self.limit)

    def newest(
        self,
        board: JobBoard,
        stopped: Callable[[int], object] = lambda number: None,
        after: tuple[float, str] | None = None,
    ) -> list[Job]:
        """Return the jobs that are newest first: that came into the trash or ended last, or were posted last.

        Reads those of its states and names, 500 a request, ``scan`` of them at most; keeps ``limit`` of them.

        :param stopped: called if there are more than ``scan`` jobs, as for :meth:`jobs`: these may be newer.
        :param after: only those behind this place in the order, the :func:`place_of` another job; that may be gone.
        :raises BoardUnavailable: the store can't be reached.
        """
        jobs = self._fitting(board, self.scan, stopped)
        behind = jobs if after is None else (job for job in jobs if place_of(job) < after)
        if self.limit is None:
            return sorted(behind, key=place_of, reverse=True)
        return heapq.nlargest(self.limit, behind, key=place_of)

    def _fitting(self, board: JobBoard, scan: int | None, stopped: Callable[[int], object]) -> Iterator[Job]:
        fits = self.test(board)
        jobs = board.iterjobs(names=self.names, states=self.states)
        return filter(fits, jobs if scan is None else _first(jobs, scan, stopped))

    def test(self, board: JobBoard) -> Callable[[Job], bool]:
        """Return what tells whether a job fits the filters that the store does not serve, as of now.

        :raises BoardUnavailable: the store, which has the clock, can't be reached.
        """
        before, after = self.as_of, None
        if self.older_than is not None or self.newer_than is not None:
            from jobboard.board import client_of

            client = client_of(board)
            now = client.call(client.backend.now)
            if self.older_than is not None:
                since = now - self.older_than
                before = since if before is None else min(before, since)
            after = None if self.newer_than is None else now - self.newer_than
        tests = self._tests(before, after)
        return lambda job: all(test(job) for test in tests)

    def _tests(self, before: float | None, after: float | None) -> list[Callable[[Job], bool]]:
        tests: list[tuple[object, Callable[[Job], bool]]] = [
            (self.key, lambda job: job.key == self.key),
            (self.lane, lambda job: job.lane == self.lane),
            (self.key_prefix, lambda job: (job.key or "").startswith(self.key_prefix or "")),
            (self.key_contains, lambda job: (self.key_contains or "") in (job.key or "")),
            (self.details or None, lambda job: _has_details(job, self.details or {})),
            (self.owner, lambda job: (job.record.owner or "").startswith(self.owner or "")),
            (self.reason, lambda job: (self.reason or "") in (job.record.reason or "")),
            (self.schedule, lambda job: job.schedule_id == self.schedule),
            (self.kind, lambda job: kind_of_reason(job.record.reason) == self.kind),
            (self.uuid, lambda job: begins_or_ends(job.uuid, self.uuid or "")),
            (before, lambda job: _since(job) <= (before or 0.0)),
            (after, lambda job: _since(job) >= (after or 0.0)),
        ]
        return [test for value, test in tests if value is not None]


def place_of(job: Job) -> tuple[float, str]:
    """Return the place of a job among those that are listed newest first; of complete ones, by their ends."""
    is_over = job.record.state is JobState.COMPLETE
    return job.record.last_modified.timestamp() if is_over else _since(job), job.uuid


def begins_or_ends(uuid: str, part: str) -> bool:
    """Whether a uuid begins or ends with this text. Jobs posted together differ in the end."""
    return uuid.startswith(part.lower()) or uuid.endswith(part.lower())


def _first(jobs: Iterator[Job], number: int, stopped: Callable[[int], object]) -> Iterator[Job]:
    yield from islice(jobs, number)
    if next(jobs, None) is not None:
        stopped(number)


def _has_details(job: Job, wanted: Mapping[str, str]) -> bool:
    return all(_text_at(job.details, name) == text for name, text in wanted.items())


def _text_at(details: object, name: str) -> str | None:
    """Return the value of this name, which may be a path with dots, as text; None if there is none."""
    if not isinstance(details, dict):
        return None
    if name not in details:
        first, _, rest = name.partition(".")
        return _text_at(details.get(first), rest) if rest else None
    value = details[name]
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _since(job: Job) -> float:
    return (job.record.last_modified if job.record.state is JobState.TRASHED else job.created_on).timestamp()
