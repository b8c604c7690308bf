"""What a handler returns to complete its job and to post others in the same step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobboard.errors import InvalidPosting
from jobboard.job import JobOrUuid, NamesJob, Posting
from jobboard.validation import check_uuid, new_uuid

#: What an error says to whoever gives something else for a posting.
MADE_BY = "write Posting(name, details), or for a task Posting.of(task, details)"


class Then:
    """Return it from a handler: its job is completed, and these are posted, in one atomic step.

    :param postings: several :class:`~jobboard.Posting`, as for :meth:`JobBoard.post_many`.
    :param result: plain data, as what a handler returns otherwise.
    :raises TypeError: the postings are something else.
    """

    def __init__(self, postings: Iterable[Posting], result: Any = None) -> None:
        self.postings = tuple(check_postings(postings))
        self.result = result

    def __repr__(self) -> str:
        return f"<Then {', '.join(repr(posting.name) for posting in self.postings) or 'nothing'}>"


def check_postings(postings: Iterable[Posting]) -> list[Posting]:
    """Return several postings as a list; raises ``TypeError`` if it is anything else."""
    if isinstance(postings, Posting):
        raise TypeError("postings must be several Posting; for one write [posting]")
    batch = list(postings)
    for posting in batch:
        if not isinstance(posting, Posting):
            raise TypeError(f"postings must be Posting, not {type(posting).__name__}; {MADE_BY}")
    return batch


def first_named(postings: Iterable[Posting]) -> str | None:
    """Return the first job on the board that postings name by ``after`` or ``before``; iterators are left alone."""
    lists = (jobs for posting in postings for jobs in (posting.after, posting.before))
    named = (job for jobs in lists if isinstance(jobs, (list, tuple, set, frozenset)) for job in jobs)
    found = next((job for job in named if not isinstance(job, Posting)), None)
    if found is None:
        return None
    return found.uuid if isinstance(found, NamesJob) else check_uuid(found)


def uuids_by_posting(postings: Iterable[Posting], uuids: Iterable[str]) -> dict[int, list[str]]:
    """Return the uuids of each posting's jobs, by its identity: the same one may stand there several times."""
    found = defaultdict[int, list[str]](list)
    for posting, uuid in zip(postings, uuids, strict=True):
        found[id(posting)].append(uuid)
    return found


def uuid_of(what: str, job: Posting | JobOrUuid, known: Mapping[int, Sequence[str]]) -> str:
    """Return the uuid of what ``after`` or ``before`` names: a job, its uuid, or one of the postings with it.

    :param known: those postings, as :func:`uuids_by_posting` returns them.
    :raises InvalidPosting: it is a posting that is not among them, or is there several times.
    """
    if isinstance(job, NamesJob):
        return job.uuid
    if not isinstance(job, Posting):
        return check_uuid(job)
    found = known.get(id(job), ())
    if len(found) != 1:
        times = f"is posted {len(found)} times" if found else "is not among what is posted: post both in one call"
        raise InvalidPosting(f"{what} names {job!r}, which {times}", path=what)
    return found[0]


def fixed(postings: Iterable[Posting], plain: Callable[[Any], Any]) -> tuple[Posting, ...]:
    """Return postings that can be sent elsewhere, and sent again: with uuids, plain details, and uuids as parents.

    :param plain: returns details as plain data.

    :raises InvalidPosting: details can't be stored, or a posting waits for one that is not among them.
    """
    batch = list(postings)
    own = [new_uuid() if posting.uuid is None else check_uuid(posting.uuid) for posting in batch]
    known = uuids_by_posting(batch, own)

    def named(what: str, jobs: Iterable[Posting | JobOrUuid] | None) -> list[Posting | JobOrUuid] | None:
        return None if jobs is None else [uuid_of(what, job, known) for job in jobs]

    return tuple(
        replace(
            _plain(posting, plain),
            uuid=uuid,
            after=named("after", posting.after),
            before=named("before", posting.before),
        )
        for posting, uuid in zip(batch, own, strict=True)
    )


def _plain(posting: Posting, plain: Callable[[Any], Any]) -> Posting:
    details = None if posting.details is None else plain(posting.details)
    follow_ups = posting.on_trashed, posting.on_complete
    trashed, complete = (None if one is None else _plain(one, plain) for one in follow_ups)
    return replace(posting, details=details, on_trashed=trashed, on_complete=complete)
