"""The jobs that a running job waits for: postings, handles and uuids, as plain data that can be sent again."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol, TypeGuard, TypeVar

from jobboard.errors import InvalidPosting
from jobboard.job import JobOrUuid, NamesJob, Posting
from jobboard.then import uuid_of
from jobboard.types import Seconds

Jobs = Iterable[Posting | JobOrUuid]

T_co = TypeVar("T_co", covariant=True)


class Several(Protocol[T_co]):
    """Several of a kind, as lists, tuples and sets are; to a type checker, a text is not several texts."""

    def __iter__(self) -> Iterator[T_co]: ...
    def __contains__(self, value: object, /) -> bool: ...


def is_jobs(after: Seconds | Several[Posting | JobOrUuid] | None) -> TypeGuard[Several[Posting | JobOrUuid]]:
    """Whether this names jobs, and no span of time."""
    return after is not None and not isinstance(after, (int, float, timedelta))


def check_jobs(jobs: Jobs | Several[Posting | JobOrUuid]) -> tuple[Posting | str, ...]:
    """Return the jobs that one is to wait for: postings as they are, the uuids of others.

    :raises TypeError: they are none.
    """
    if isinstance(jobs, (str, Posting, NamesJob, uuids.UUID)):
        raise TypeError("after must be seconds, or several jobs; for one write [job]")
    if not isinstance(jobs, Iterable):
        raise TypeError(f"after must be seconds, or several jobs, not {type(jobs).__name__}")
    return tuple(job if isinstance(job, Posting) else uuid_of("after", job, {}) for job in jobs)


def fixed_jobs(
    jobs: Sequence[Posting | str], fixed: Callable[[Iterable[Posting]], tuple[Posting, ...]]
) -> tuple[Posting | str, ...]:
    """Return them with postings that can be sent again, in the same order.

    :param fixed: makes such postings, which may name each other.
    """
    postings = iter(fixed([job for job in jobs if isinstance(job, Posting)]))
    return tuple(next(postings) if isinstance(job, Posting) else job for job in jobs)


def with_uuids(jobs: Sequence[Posting | str], of_job: str, name: str) -> tuple[Posting | str, ...]:
    """Return them with uuids that are the same in each run; a posting that has one keeps it.

    :param name: of the step of the job that waits for them.
    :raises InvalidPosting: a posting may turn out to be another job.
    """
    found: dict[int, Posting] = {}
    for index, job in enumerate(jobs):
        if not isinstance(job, Posting):
            continue
        if job.if_exists != "raise":
            why = "may turn out to be a job that is there: post it in a step, and name the job that post returns"
            raise InvalidPosting(f"{job!r} with if_exists={job.if_exists!r} {why}", path="if_exists")
        if id(job) in found:
            raise InvalidPosting(f"{job!r} stands there several times", path="after")
        own = job.uuid or str(uuids.uuid5(uuids.UUID(of_job), f"{name} {index}"))
        found[id(job)] = replace(job, uuid=own)
    return tuple(_named(found[id(job)], found) if isinstance(job, Posting) else job for job in jobs)


def _named(posting: Posting, found: dict[int, Posting]) -> Posting:
    """Return a posting that names the others as they are now."""

    def names(jobs: Jobs | None) -> Jobs | None:
        if jobs is None:
            return None
        return [found.get(id(job), job) if isinstance(job, Posting) else job for job in jobs]

    return replace(posting, after=names(posting.after), before=names(posting.before))
