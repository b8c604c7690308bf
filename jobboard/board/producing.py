"""The producers' side: post, and cancel."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import Any

from jobboard import telemetry
from jobboard.backends.base import Backend
from jobboard.backends.rows import CancelOutcome, IfExists, NewJob, Posted, PostOutcome, Ties, is_refusal
from jobboard.board.books import Books, Held
from jobboard.board.handles import JobHandles
from jobboard.client import BackendClient
from jobboard.client.gathering import ItemRequest, RequestGenerator, sends_one_request
from jobboard.errors import AlreadyPosted, InvalidPosting, NotFound, NotSupported
from jobboard.job import Job, JobOrUuid, Posting
from jobboard.limit import check_lane
from jobboard.logbook import BookRef, LogBook
from jobboard.payload import EMPTY_PAYLOAD, Payload, pack_payload
from jobboard.states import LIVE, JobPriority
from jobboard.types import IfExistsName, Priority, Seconds
from jobboard.validation import check_count, check_delay, check_moment, check_operator, check_text, check_uuid, new_uuid

_PAGE = 500

_fields_of = attrgetter(*(field.name for field in fields(Posting)))


class Producing:
    """The producers' side of a board."""

    _client: BackendClient
    _backend: Backend
    _handles: JobHandles
    _books: Books

    @sends_one_request
    def post(
        self,
        name: str,
        details: dict[str, Any] | None = None,
        *,
        book: LogBook | BookRef | None = None,
        priority: Priority = JobPriority.NORMAL,
        key: str | None = None,
        if_exists: IfExistsName = "raise",
        run_at: datetime | None = None,
        delay: Seconds | None = None,
        uuid: str | uuids.UUID | None = None,
        max_attempts: int | None = None,
        lane: str | None = None,
        connection: Any = None,
    ) -> RequestGenerator[Job]:
        """Put a job on the board, where it stays until it is consumed, trashed or cancelled.

        Atomic and durable. Idempotent by ``uuid``: posting the same one again returns the job that is there, or was.

        :param name: which handler runs it; at most 255 bytes.
        :param details: a dict of what msgpack carries; tuples arrive as lists, datetimes as UTC.
        :param book: a logbook that the job points at; a new one is saved first. Or a
            :class:`~jobboard.logbook.BookRef` to one that is elsewhere.
        :param priority: a :class:`~jobboard.JobPriority` or its name.
        :param key: unique among the live jobs of this name.
        :param if_exists: if that key is taken: ``"raise"``, ``"keep"`` the live job and return it, or ``"replace"``
            its details, book, priority, run_at and max_attempts, as long as it is not claimed.
        :param run_at: not claimable before this aware datetime; ``delay``: before this many seconds have passed.
        :param max_attempts: after that many claims that did not end well it goes to the trash; None for no limit.
        :param lane: a text that jobs share, of one name or several, such as ``"tenant:42"``; at most 255 bytes. While
            its limits (:attr:`JobBoard.limits`) let none of them start, the job is BLOCKED.
        :param connection: of SQL stores: a connection or session of SQLAlchemy, one of Django, or the driver's own,
            with a transaction on this board's database; the job is posted if and only if that commits.
        :param uuid: the job's identity; a new one by default.
        :returns: a handle on the job; with ``"keep"`` or a repeated ``uuid`` on the one that is there.
        :raises InvalidPosting: the details can't be stored; ``path`` says which of them. Or the job to replace has
            another lane.
        :raises AlreadyPosted: the key is taken (by a claimed job, for ``"replace"``).
        :raises BoardUnavailable: the store can't be reached; post again with the same ``uuid`` to be sure.
        :raises NotSupported: the store can't take part in a transaction.
        :raises TypeError: that connection can't be used; says what can.
        """
        new, payload = self._new_job(
            name, details, book, priority, key, if_exists, run_at, delay, uuid, max_attempts, lane
        )
        backend = self._backend
        if book is not None or connection is not None:
            self._client.check_open()
            backend = self._client.within(connection)
            self._save_new_books([(book, new.uuid)], backend)
        answer, _ = yield ItemRequest(backend.jobs.post, new, new.uuid, len(new.body))
        return self._posted([(new, payload)], [answer])[0]

    def post_many(self, postings: Iterable[Posting], *, connection: Any = None) -> list[Job]:
        """Post a batch in one request, all or none of it; otherwise as :meth:`post`.

        A batch longer than the store's largest (``capabilities.largest_batch``) is cut into parts, and a failure
        leaves the earlier parts posted.

        :returns: handles, in the order of the postings.
        """
        if isinstance(postings, Posting):
            raise TypeError("postings must be several Posting; for one write [posting]")
        batch = list(postings)
        for posting in batch:
            if not isinstance(posting, Posting):
                raise TypeError(f"postings must be Posting, not {type(posting).__name__}")
        new_jobs = [self._new_job(*_fields_of(posting)) for posting in batch]
        self._client.check_open()
        backend = self._client.within(connection)
        books = [(posting.book, new.uuid) for posting, (new, _) in zip(batch, new_jobs, strict=True)]
        self._save_new_books(books, backend)
        return [job for part in self._client.batches(new_jobs) for job in self._post(part, backend)]

    @sends_one_request
    def cancel(self, job: JobOrUuid, *, by: str | None = None, reason: str | None = None) -> RequestGenerator[bool]:
        """Cancel a job that waits, or request the cancel of one that is claimed. Atomic and idempotent.

        A claimed job keeps its claim, and its handler sees ``job.cancelled``. Any end of the claim but consume and
        trash then cancels it.

        :param by: the operator, for the history. :param reason: why, for the history.
        :returns: True if it is cancelled, False if it is claimed and its owner will be told.
        :raises NotFound: it is not on the board.
        """
        uuid = self._handles.uuid_of(job)
        who, why = check_operator(by, reason)
        # What says nothing shares its request with others.
        cancel = (
            self._backend.jobs.cancel if who is why is None else partial(self._backend.jobs.cancel, by=who, reason=why)
        )
        outcome, repeated = yield ItemRequest(cancel, uuid, uuid)
        if is_refusal(outcome, repeated):
            raise NotFound(f"no job {uuid} is waiting or claimed on board {self._client.name!r}")
        self._client.tidy_when_due()
        return outcome is not CancelOutcome.ASKED

    def cancel_by_key(self, name: str, prefix: str) -> int:
        """Cancel the live jobs of a name whose keys begin with ``prefix``, as :meth:`cancel` does. Idempotent.

        Each job is cancelled atomically, not all of them at once; jobs that are posted meanwhile may be cancelled or
        not. Reads the live jobs of that name, 500 a request, and cancels in batches.

        :param prefix: plain text, at least one character.
        :returns: how many jobs; claimed ones count as well.
        :raises BoardUnavailable: the store can't be reached; some may be cancelled already, so call it again.
        """
        names, beginning = frozenset({check_text("name", name)}), check_text("prefix", prefix)
        self._client.check_open()
        self._client.call(self._backend.refresh)
        cancelled = 0
        for page in self._client.pages(repeat(_PAGE), self._backend.jobs.page, LIVE, names):
            found = [row.uuid for row in page.rows if row.key is not None and row.key.startswith(beginning)]
            cancelled += sum(self._cancel_some(part) for part in self._client.batches(found))
        self._client.tidy_when_due()
        return cancelled

    def _cancel_some(self, uuids: Sequence[str]) -> int:
        outcomes, repeated = self._client.call_until_certain(self._backend.jobs.cancel, uuids)
        return sum(not is_refusal(outcome, repeated) for outcome in outcomes)

    def save_book(self, book: LogBook, *, hold: Held | None = None) -> None:
        """Save what changed in a logbook since it was loaded or saved. Atomic and durable; sets ``book.version``.

        One save writes or removes at most 100 entries, of 512 KiB in all (``largest_details``); the book may have
        10,000. Entries of the journal are stored together, 16 KiB each time.

        :param hold: the job that you claimed, a handle or a handler's ``job``: the book is saved if and only if that
            claim holds in the same moment.
        :raises ClaimLost: the claim of ``hold`` does not hold; nothing was changed.
        :raises StaleBook: somebody else saved it since it was loaded; nothing was changed.
        :raises InvalidPosting: its meta or an entry can't be stored, or too much has changed.
        """
        self._books.save(book, hold, self._backend)

    def _save_new_books(self, books: list[tuple[LogBook | BookRef | None, str]], backend: Backend) -> None:
        """Save books before the jobs that point at them: a crash in between leaves a book, and no job without one."""
        for book, uuid in books:
            if isinstance(book, LogBook) and book.version is None:
                self._books.save(book, None, backend, uuid)

    def _post(self, new_jobs: Sequence[tuple[NewJob, Payload]], backend: Backend) -> list[Job]:
        return self._posted(new_jobs, self._client.call(backend.jobs.post, [new for new, _ in new_jobs]))

    def _posted(self, new_jobs: Sequence[tuple[NewJob, Payload]], answers: Sequence[Posted]) -> list[Job]:
        jobs: list[Job] = []
        posted = PostOutcome.POSTED
        for (new, payload), answer in zip(new_jobs, answers, strict=True):
            if answer.outcome is not posted and answer.outcome.refuses_batch:
                raise _refusal_of(new, answer)
            jobs.append(self._handles.posted(answer.row, new, payload))
        if telemetry.is_on():
            for answer in answers:
                telemetry.emit("posted", self._client.name, answer.row.name, answer.outcome.value)
        return jobs

    def _new_job(
        self,
        name: str,
        details: dict[str, Any] | None,
        book: LogBook | BookRef | None,
        priority: Priority,
        key: str | None,
        if_exists: str,
        run_at: datetime | None,
        delay: Seconds | None,
        uuid: str | uuids.UUID | None,
        max_attempts: int | None,
        lane: str | None = None,
    ) -> tuple[NewJob, Payload]:
        """Check the fields of a posting; a single post makes no :class:`Posting` of them, which costs as much."""
        if run_at is not None and delay is not None:
            raise ValueError("give run_at or delay, not both")
        id = new_uuid() if uuid is None else check_uuid(uuid)
        if isinstance(book, LogBook) and book.owned:
            _check_owned(book, if_exists, id)
        body, payload = self._payload_of(name, details, book)
        # Naming the arguments of a class doubles the time.
        new = NewJob(
            id, check_text("name", name), int(JobPriority.convert(priority)), body,
            None if key is None else check_text("key", key), IfExists.convert(if_exists),
            None if run_at is None else check_moment("run_at", run_at), None if delay is None else check_delay(delay),
            None if max_attempts is None else check_count("max_attempts", max_attempts),
            None if lane is None else self._ties_of(lane),
        )  # fmt: skip
        return new, payload

    def _ties_of(self, lane: str) -> Ties:
        if not self._backend.capabilities.ties:
            raise NotSupported(f"{self._backend.scheme} keeps no lanes")
        return Ties(check_lane(lane))

    def _payload_of(
        self, name: str, details: dict[str, Any] | None, book: LogBook | BookRef | None
    ) -> tuple[bytes, Payload]:
        if book is not None and not isinstance(book, (LogBook, BookRef)):
            raise TypeError(f"book must be a LogBook or a BookRef, not {type(book).__name__}")
        trace = telemetry.trace_of_post(self._client.name, name) if telemetry.is_on() else None
        if book is None and details is None and trace is None:
            return EMPTY_PAYLOAD, Payload()
        plain = {} if details is None else details
        payload = Payload(plain, book.uuid if book else None, book.name if book else None, trace=trace)
        if isinstance(book, BookRef):
            payload.book_kind, payload.book_address = book.kind, book.address
        largest, converter = self._client.largest_details, self._client.converter
        try:
            body, payload.details = pack_payload(payload, largest=largest, converter=converter)
        except InvalidPosting:
            if isinstance(details, (LogBook, BookRef)):
                raise TypeError(f"details must be a dict, not a {type(details).__name__}; write book=...") from None
            raise
        return body, payload


def _refusal_of(new: NewJob, answer: Posted) -> AlreadyPosted | InvalidPosting:
    """Return why a posting, and so its batch, was refused."""
    row = answer.row
    if answer.outcome is PostOutcome.OTHER_LANE:
        lanes = [None if of.ties is None else of.ties.lane for of in (row, new)]
        return InvalidPosting(
            f"job {row.uuid} has the key {new.key!r} and the lane {lanes[0]!r}; it can't be replaced by one of the "
            f"lane {lanes[1]!r}: cancel it first",
            path="lane",
        )
    return AlreadyPosted(f"a live job {new.name!r} has the key {new.key!r}: {row.uuid} ({row.state})", uuid=row.uuid)


def _check_owned(book: LogBook, if_exists: str, uuid: str) -> None:
    """Refuse what would let the job lose its book."""
    if book.owner not in (None, uuid):
        raise ValueError(f"{book!r} belongs to job {book.owner}, and goes with it; a book of several jobs must be free")
    if if_exists == "replace":
        raise ValueError('an owned book can\'t be posted with if_exists="replace", since the live job keeps its uuid')
