"""The producers' side: post, and cancel."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import repeat
from typing import Any

from jobboard import telemetry
from jobboard.backends.base import Backend
from jobboard.backends.rows import CancelOutcome, NewJob, Posted, PostOutcome, is_refusal
from jobboard.board.books import Books, Held
from jobboard.board.graphs import graph_of
from jobboard.board.handles import JobHandles
from jobboard.board.posting_errors import error_of_posting
from jobboard.board.postings import NO_FLOW, Postings
from jobboard.client import BackendClient
from jobboard.client.gathering import ItemRequest, RequestGenerator, sends_one_request
from jobboard.client.graph import Graph, GraphRefused, may_be_unfinished
from jobboard.errors import NotFound
from jobboard.job import Job, JobOrUuid, Posting
from jobboard.limit import check_lane
from jobboard.logbook import BookRef, LogBook
from jobboard.payload import Payload
from jobboard.states import LIVE, JobPriority, JobState
from jobboard.then import check_postings, first_named
from jobboard.types import IfExistsName, IfFailedName, Priority, Seconds
from jobboard.validation import check_operator, check_text

_PAGE = 500


class Producing:
    """The producers' side of a board."""

    _client: BackendClient
    _backend: Backend
    _handles: JobHandles
    _books: Books
    _postings: Postings

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
        after: Iterable[Posting | JobOrUuid] | None = None,
        before: Iterable[Posting | JobOrUuid] | None = None,
        if_failed: IfFailedName = "wait",
        on_trashed: Posting | None = None,
        on_complete: Posting | None = None,
        key_for: Seconds | None = None,
        max_delay: Seconds | None = None,
        start_by: datetime | None = None,
        connection: Any = None,
    ) -> RequestGenerator[Job]:
        """Put a job on the board, where it stays until it is consumed, trashed or cancelled.

        Atomic and durable. Idempotent by ``uuid``: posting the same one again returns the job that is there, or was.
        One request; with ``before``, or more parents than one step of the store takes, several, of which nothing stays
        if this client dies midway.

        :param name: which handler runs it; at most 255 bytes.
        :param details: a dict of what msgpack carries; tuples arrive as lists, datetimes as UTC.
        :param book: a logbook that the job points at; a new one is saved first. Or a
            :class:`~jobboard.logbook.BookRef` to one that is elsewhere.
        :param priority: a :class:`~jobboard.JobPriority` or its name.
        :param key: unique among the live jobs of this name.
        :param if_exists: if that key is taken: ``"raise"``, ``"keep"`` the live job and return it, or ``"replace"``
            its details, book, priority, run_at and max_attempts, as long as it is not claimed. Of a job that is kept,
            ``job.record.cancel_asked`` says whether it was asked to stop, so that its work may not be done.
        :param run_at: not claimable before this aware datetime; ``delay``: before this many seconds have passed.
        :param max_attempts: after that many claims that did not end well it goes to the trash; None for no limit.
        :param lane: a text that jobs share, of one name or several, such as ``"tenant:42"``; at most 255 bytes. While
            its limits (:attr:`JobBoard.limits`) let none of them start, the job is BLOCKED.
        :param after: the jobs that it waits for, its parents: handles or uuids, at most 10,000; it is BLOCKED until the
            last of them has ended. A complete one counts at once, as long as it is remembered.
        :param before: jobs that wait for their parents still; they wait for this one too.
        :param if_failed: if a parent is in the trash: ``"wait"`` until it is restored and consumed, ``"cancel"`` this
            job, or ``"run"`` it all the same. A parent that was cancelled or purged can't come back: ``"wait"`` sends
            this job to the trash then.
        :param on_trashed: what is posted in the step in which the job goes to the trash; ``on_complete``: in the step
            in which it is consumed. A posting of a name, details, priority, key, delay, max_attempts and lane.
        :param key_for: seconds from now for which its key stays taken, also if the job ends before.
        :param max_delay: seconds from now to which postings that replace this one can delay it at most.
        :param start_by: an aware datetime; if nobody had claimed it by then, it goes to the trash; retries go on.
        :param connection: of SQL stores: a connection or session of SQLAlchemy, one of Django, or the driver's own,
            with a transaction on this board's database; the job is posted if and only if that commits.
        :param uuid: the job's identity; a new one by default.
        :returns: a handle on the job; with ``"keep"`` or a repeated ``uuid`` on the one that is there.
        :raises InvalidPosting: the details can't be stored; ``path`` says which of them. Or the job to replace has
            another lane. Or a job of ``before`` waits for no parents any more.
        :raises AlreadyPosted: the key is taken (by a claimed job, for ``"replace"``).
        :raises NotFound: the board does not know a parent.
        :raises BoardUnavailable: the store can't be reached; post again with the same ``uuid`` to be sure. Or the job
            that is there is part of a graph that another client has not posted whole; post again in a minute.
        :raises NotSupported: the store can't take part in a transaction.
        :raises TypeError: that connection can't be used; says what can.
        """
        beside = None if after is before is None else first_named([Posting(name, after=after, before=before)])
        new, payload = self._postings.new_job(
            name, details, book, priority, key, if_exists, run_at, delay, uuid, max_attempts, lane, beside
        )
        flow = (after, before, if_failed, on_trashed, on_complete, key_for, max_delay, start_by)
        graph: Graph | None = None
        if flow != NO_FLOW:
            posting = Posting(name, after=after, before=before)
            graph_id = self._postings.graph_id(beside or new.uuid)
            graph = graph_of([posting], [self._postings.with_flow(new, *flow[2:])], graph_id)
            new = graph.jobs[0]
        backend = self._backend
        if book is not None or connection is not None:
            self._client.check_open()
            backend = self._client.within(connection)
            self._save_new_books([(book, new.uuid)], backend)
        post = backend.jobs.post
        if graph is not None and (graph.may_be_too_large or not graph.fits(backend)):
            post = partial(self._post_whole, graph, backend)
        answer, _ = yield ItemRequest(post, new, new.uuid, len(new.body))
        return self._posted([(new, payload)], self._whole([new], [answer], backend))[0]

    def post_many(self, postings: Iterable[Posting], *, connection: Any = None) -> list[Job]:
        """Post a batch in one request, all or none of it; otherwise as :meth:`post`.

        A batch longer than the store's largest (``capabilities.largest_batch``) is cut into parts, and a failure
        leaves the earlier parts posted. But postings that name each other, or other jobs, by ``after`` and ``before``
        are a graph: nothing of it runs before all is there, and if this client dies midway nothing of it stays.

        :returns: handles, in the order of the postings.
        :raises InvalidPosting: jobs wait for each other, or for a posting that is not in the batch.
        """
        batch = check_postings(postings)
        new_jobs = self._postings.new_jobs(batch)
        graph = self._postings.graph_of(batch, new_jobs)
        self._client.check_open()
        backend = self._client.within(connection)
        books = [(posting.book, new.uuid) for posting, (new, _) in zip(batch, new_jobs, strict=True)]
        self._save_new_books(books, backend)
        if graph is not None:
            return self._post_graph(graph, new_jobs, backend)
        return [job for part in self._client.batches(new_jobs) for job in self._post(part, backend)]

    def _post_graph(self, graph: Graph, new_jobs: Sequence[tuple[NewJob, Payload]], backend: Backend) -> list[Job]:
        answers = dict(zip((new.uuid for new in graph.jobs), self._post_whole(graph, backend), strict=True))
        return self._posted(new_jobs, [answers[new.uuid] for new, _ in new_jobs])

    def _post_whole(self, graph: Graph, backend: Backend, _: object = None) -> list[Posted]:
        try:
            return self._postings.poster(backend).post(graph)
        except GraphRefused as refused:
            raise error_of_posting(refused.new, refused.answer) from None

    @sends_one_request
    def cancel(self, job: JobOrUuid, *, by: str | None = None, reason: str | None = None) -> RequestGenerator[bool]:
        """Cancel a job that waits, or request the cancel of one that is claimed. Atomic and idempotent.

        A claimed job keeps its claim, and its handler sees ``job.cancelled``. Any end of the claim but consume and
        trash then cancels it.

        :param by: the operator, for the history.
        :param reason: why, for the history.
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

    def cancel_by_key(
        self,
        name: str,
        prefix: str | None = None,
        *,
        key: str | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Cancel the live job of a name that has this key, or those whose keys begin with ``prefix``. Idempotent.

        As :meth:`cancel` does. With a key it takes two requests. With a prefix each job is cancelled atomically, not
        all of them at once, and jobs that are posted meanwhile may be cancelled or not: it reads the live jobs of that
        name, 500 a request, and cancels in batches.

        :param prefix: plain text, at least one character; ``order/4`` is also the beginning of ``order/47``. It comes
            second, so write ``key=`` for a whole key.
        :param key: the whole key; in place of ``prefix``.
        :param by: the operator, for the history.
        :param reason: why, for the history.
        :returns: how many jobs; claimed ones count as well.
        :raises ValueError: neither is given, or both.
        :raises BoardUnavailable: the store can't be reached; some may be cancelled already, so call it again.
        """
        check_text("name", name)
        if (prefix is None) is (key is None):
            raise ValueError("give key, or a prefix of keys, one of them")
        said = check_operator(by, reason)
        if key is not None:
            return self._cancel_key(name, check_text("key", key), *said)
        return self._cancel_prefix(name, check_text("prefix", prefix), *said)

    def _cancel_key(self, name: str, key: str, by: str | None, reason: str | None) -> int:
        self._client.check_open()
        row = self._client.call(self._backend.jobs.find, name, key)
        # If it ends now, it is as if it had been cancelled just after its end: there is nothing to cancel.
        return 0 if row is None else self._cancel_some([row.uuid], by, reason)

    def _cancel_prefix(self, name: str, beginning: str, by: str | None, reason: str | None) -> int:
        names = frozenset({name})
        self._client.check_open()
        self._client.call(self._backend.refresh)
        cancelled = 0
        for page in self._client.pages(repeat(_PAGE), self._backend.jobs.page, LIVE, names):
            found = [row.uuid for row in page.rows if row.key is not None and row.key.startswith(beginning)]
            cancelled += sum(self._cancel_some(part, by, reason) for part in self._client.batches(found))
        self._client.tidy_when_due()
        return cancelled

    def cancel_by_lane(self, lane: str, *, by: str | None = None, reason: str | None = None) -> int:
        """Cancel all live jobs of a lane, whatever their names: those of a tenant who leaves. Idempotent.

        As :meth:`cancel` does. Each job is cancelled atomically, not all of them at once; jobs that are posted
        meanwhile may be cancelled or not. Those that wait for the lane go first, so that none of them starts. It reads
        all live jobs, 500 a request, and cancels in batches.

        :param by: the operator, for the history.
        :param reason: why, for the history.
        :returns: how many jobs; claimed ones count as well.
        :raises BoardUnavailable: the store can't be reached; some may be cancelled already, so call it again.
        """
        check_lane(lane)
        who, why = check_operator(by, reason)
        self._client.check_open()
        self._client.call(self._backend.refresh)
        pages = self._client.pages(repeat(_PAGE), self._backend.jobs.page, LIVE, None)
        found = [
            (row.state is not JobState.BLOCKED, row.uuid) for page in pages for row in page.rows if row.lane == lane
        ]
        uuids = [uuid for _, uuid in sorted(found)]
        cancelled = sum(self._cancel_some(part, who, why) for part in self._client.batches(uuids))
        self._client.tidy_when_due()
        return cancelled

    def _cancel_some(self, uuids: Sequence[str], by: str | None, reason: str | None) -> int:
        outcomes, repeated = self._client.call_until_certain(self._backend.jobs.cancel, uuids, by, reason)
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
        jobs = [new for new, _ in new_jobs]
        return self._posted(new_jobs, self._whole(jobs, self._client.call(backend.jobs.post, jobs), backend))

    def _whole(self, jobs: Sequence[NewJob], answers: Sequence[Posted], backend: Backend) -> Sequence[Posted]:
        """Return the answers to postings; what they found of a graph that its client left unfinished is completed."""
        if not any(map(may_be_unfinished, answers)) or self._postings.poster(backend).are_whole(answers):
            return answers
        return self._post_whole(Graph(self._postings.graph_id(jobs[0].uuid), jobs), backend)

    def _posted(self, new_jobs: Sequence[tuple[NewJob, Payload]], answers: Sequence[Posted]) -> list[Job]:
        jobs: list[Job] = []
        posted = PostOutcome.POSTED
        for (new, payload), answer in zip(new_jobs, answers, strict=True):
            if answer.outcome is not posted and answer.outcome.refuses_batch:
                raise error_of_posting(new, answer)
            jobs.append(self._handles.posted(answer.row, new, payload))
        if telemetry.is_on():
            for answer in answers:
                telemetry.emit("posted", self._client.name, answer.row.name, answer.outcome.value)
        return jobs
