"""A board for one test, and assertions on what was posted to a board."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.base import Backend
from jobboard.backends.memory import MemoryBackend
from jobboard.backends.memory.registry import forget_store
from jobboard.board import JobBoard, client_of
from jobboard.codec import encode
from jobboard.errors import InvalidPosting
from jobboard.job import Job
from jobboard.states import JobState
from jobboard.testing.checks import check_board
from jobboard.testing.clock import clock_of
from jobboard.validation import check_text

#: So that what ended can be asserted on, also after the clock was moved: ten years.
_RETENTION = 315_360_000.0
#: How many jobs a failed assertion shows.
_MAX_SHOWN = 20
_NO_LIMIT = 2**62


class ScratchBackend(MemoryBackend):
    """A board in memory that takes any ``connection=`` and does at once what is asked, whether that commits or not."""

    capabilities = replace(MemoryBackend.capabilities, transactions=True)

    def within(self, connection: Any) -> Backend:
        return self


@contextmanager
def memory_board(name: str | None = None, *, now: datetime | None = None, **options: Any) -> Iterator[JobBoard]:
    """Return a connected board in memory that nobody else has; it is gone at the end of the ``with`` block.

    Code that posts or consumes with ``connection=`` may do so here: it takes effect at once, and a rollback does not
    take it back. Records of what ended are kept for ten years of its clock.

    :param name: the board's name; None for one of its own.
    :param now: an aware datetime at which the board's clock begins; None: now. See :func:`clock_of`.
    :param options: those of every board; :func:`jobboard.fetch` says which.
    """
    space, known_as = uuids.uuid4().hex, "test" if name is None else name
    backend = ScratchBackend(known_as, Address("memory", ((space, None),)))
    board = JobBoard(known_as, backend, **{"retention": _RETENTION, **options})
    clock = clock_of(board)
    if now is not None:
        clock.begin_at(now)
    try:
        with board:
            yield board
    finally:
        forget_store(space, known_as)


def all_posted(
    board: JobBoard, name: str | None = None, details: Mapping[str, Any] | None = None, *, key: str | None = None
) -> list[Job]:
    """Return the jobs that were posted, in whatever state they are now, oldest first.

    :param name: the job's name; None for any.
    :param details: what its details contain, among others; None for any.
    :param key: its key; None for any.
    """
    check_board(board)
    names = None if name is None else {check_text("name", name)}
    wanted = {item: (value, _as_read(board, value)) for item, value in (details or {}).items()}
    return sorted(
        (
            job
            for job in board.iterjobs(ensure_fresh=True, names=names, states=set(JobState))
            if (key is None or job.key == key) and _contains(job.details or {}, wanted)
        ),
        key=lambda job: job.sequence,
    )


def posted(board: JobBoard, name: str, details: Mapping[str, Any] | None = None, *, key: str | None = None) -> Job:
    """Assert that such a job was posted, and return it, the newest of several; arguments as for :func:`all_posted`.

    :raises AssertionError: there is none; says which there are.
    """
    found = all_posted(board, name, details, key=key)
    assert found, f"no job {_said(name, details, key)} was posted; {_shown(board)}"
    return found[-1]


def refuse(board: JobBoard, name: str, details: Mapping[str, Any] | None = None, *, key: str | None = None) -> None:
    """Assert that no such job was posted; arguments as for :func:`all_posted`.

    :raises AssertionError: there is one; says which there are.
    """
    found = all_posted(board, name, details, key=key)
    assert not found, f"a job {_said(name, details, key)} was posted; {_shown(board)}"


def _contains(details: Mapping[str, Any], wanted: Mapping[str, tuple[Any, Any]]) -> bool:
    return all(
        item in details and (details[item] == given or details[item] == as_read)
        for item, (given, as_read) in wanted.items()
    )


def _as_read(board: JobBoard, value: Any) -> Any:
    """Return a value as it comes back from the board, tuples as lists; what can't be stored may be a matcher."""
    try:
        return encode("details", value, largest=_NO_LIMIT, converter=client_of(board).converter).value
    except InvalidPosting:
        return value


def _said(name: str, details: Mapping[str, Any] | None, key: str | None) -> str:
    said = [repr(name)]
    if details is not None:
        said.append(f"with details {dict(details)!r}")
    if key is not None:
        said.append(f"with the key {key!r}")
    return " ".join(said)


def _shown(board: JobBoard) -> str:
    jobs = all_posted(board)
    if not jobs:
        return "the board is empty"
    lines = [f"{job.name!r} {job.record.state} details={job.details!r} key={job.key!r}" for job in jobs]
    more = f"\n  and {len(lines) - _MAX_SHOWN} more" if len(lines) > _MAX_SHOWN else ""
    return "there are:\n  " + "\n  ".join(lines[-_MAX_SHOWN:]) + more
