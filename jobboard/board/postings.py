"""Makes what a store is sent of what callers post: checks every field, and packs the details."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from jobboard import telemetry
from jobboard.backends import follow_ups
from jobboard.backends.base import Backend
from jobboard.backends.rows import Fence, IfExists, IfFailed, NewJob, Ties
from jobboard.board import graphs
from jobboard.board.following import Following
from jobboard.client import BackendClient
from jobboard.client.graph import Graph
from jobboard.client.graphs import GraphPoster
from jobboard.errors import InvalidPosting, NotSupported
from jobboard.job import JobOrUuid, Posting
from jobboard.limit import check_lane
from jobboard.logbook import BookRef, LogBook
from jobboard.payload import EMPTY_PAYLOAD, Payload, pack_payload
from jobboard.states import JobPriority
from jobboard.task_protocol import is_task
from jobboard.then import MADE_BY, check_postings, first_named, uuid_of
from jobboard.types import Priority, Seconds
from jobboard.validation import check_count, check_delay, check_moment, check_text, check_uuid

#: What a posting has to do with other jobs, and with moments: most have nothing.
_FLOW = ("after", "before", "if_failed", "on_trashed", "on_complete", "key_for", "max_delay", "start_by")
fields_of = attrgetter(*(field.name for field in fields(Posting) if field.name not in _FLOW))
flow_of = attrgetter(*_FLOW)
_PLAIN = Posting("")
NO_FLOW = flow_of(_PLAIN)

#: What an error says to whoever posts a task, or details of its own type.
_OF_TASKS = "for a task write Posting.of(task, details), or task.post(board, details)"

#: On a board of shards, so many postings of a batch go to one of them.
_MAX_TOGETHER = 256


class Postings:
    """Checks postings, before anything of them is sent."""

    def __init__(self, client: BackendClient, backend: Backend) -> None:
        self._client, self._backend = client, backend

    def new_job(
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
        beside: str | None = None,
    ) -> tuple[NewJob, Payload]:
        """Check the fields of a posting; a single post makes no :class:`Posting` of them, which costs as much.

        :param beside: a job that it must be beside, where a board has several places for its jobs.
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, not {type(name).__name__}{_what_to_write(name)}")
        if run_at is not None and delay is not None:
            raise ValueError("give run_at or delay, not both")
        id = self._backend.new_uuid(name, key, lane, beside) if uuid is None else check_uuid(uuid)
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

    def new_jobs(self, batch: Sequence[Posting], beside: str | None = None) -> list[tuple[NewJob, Payload]]:
        """Check the fields of postings that are posted together, on a board of shards in one place if they can be."""
        if not self._backend.capabilities.sharded or not batch:
            return [self.new_job(*fields_of(posting)) for posting in batch]
        return [
            self.new_job(*(*fields_of(posting), place))
            for posting, place in zip(batch, self._places(batch, beside), strict=True)
        ]

    def _places(self, batch: Sequence[Posting], beside: str | None) -> Iterator[str | None]:
        """Yield what each posting is to be beside: a graph is in one place, what has a lane or a key in its own."""
        named = first_named(batch) if beside is None else beside
        is_graph = beside is not None or any(each.after is not None or each.before is not None for each in batch)
        if is_graph:
            anchor = next((each for each in batch if each.lane is not None or each.key is not None), batch[0])
            place = named or self._backend.new_uuid(anchor.name, anchor.key, anchor.lane)
            yield from (place for _ in batch)
            return
        for at, posting in enumerate(batch):
            if at % _MAX_TOGETHER == 0:
                place = self._backend.new_uuid(posting.name)
            yield None if posting.lane is not None or posting.key is not None else place

    def with_flow(
        self,
        new: NewJob,
        if_failed: str,
        on_trashed: Posting | None,
        on_complete: Posting | None,
        key_for: Seconds | None,
        max_delay: Seconds | None,
        start_by: datetime | None,
    ) -> NewJob:
        """Return a posting with what it has to do with other jobs and with moments."""
        if not self._backend.capabilities.edges:
            raise NotSupported(f"{self._backend.scheme} keeps no dependencies and no steps")
        if (if_failed, on_trashed, on_complete, key_for, max_delay, start_by) == NO_FLOW[2:]:
            return new
        for what, value in (("key_for", key_for), ("max_delay", max_delay)):
            if value is not None and new.key is None:
                raise ValueError(f"{what} needs a key")
        ties = replace(
            new.ties or Ties(),
            if_failed=IfFailed.convert(if_failed),
            start_by=None if start_by is None else check_moment("start_by", start_by),
            on_trashed=self._follow_up("on_trashed", on_trashed),
            on_complete=self._follow_up("on_complete", on_complete),
        )
        return replace(
            new,
            ties=None if ties == Ties() else ties,
            key_for=None if key_for is None else check_delay(key_for, "key_for"),
            max_delay=None if max_delay is None else check_delay(max_delay, "max_delay"),
        )

    def _follow_up(self, what: str, posting: Posting | None) -> bytes | None:
        """Return a posting as a part of another one's record."""
        if posting is None:
            return None
        check_follow_up(what, posting)
        return follow_ups.pack(self.new_job(*fields_of(posting))[0])

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
        except InvalidPosting as error:
            if isinstance(details, (LogBook, BookRef)):
                raise TypeError(f"details must be a dict, not a {type(details).__name__}; write book=...") from None
            if not isinstance(details, dict):
                raise InvalidPosting(f"{error}; {_OF_TASKS}", path="details") from None
            raise
        return body, payload

    def graph_of(
        self, batch: Sequence[Posting], new_jobs: list[tuple[NewJob, Payload]], beside: str | None = None
    ) -> Graph | None:
        """Give the postings what they have to do with others; return their graph, if they name any jobs."""
        is_graph = False
        for at, posting in enumerate(batch):
            flow = flow_of(posting)
            if flow != NO_FLOW:
                is_graph = is_graph or posting.after is not None or posting.before is not None
                new_jobs[at] = self.with_flow(new_jobs[at][0], *flow[2:]), new_jobs[at][1]
        if not is_graph:
            return None
        jobs = [new for new, _ in new_jobs]
        return graphs.graph_of(batch, jobs, self.graph_id(jobs[0].uuid if beside is None else beside))

    def graph_before(self, fence: Fence, jobs: Sequence[Posting | JobOrUuid]) -> Graph:
        """Return the graph that lets a claimed job wait for these, of which postings are posted with it."""
        batch = [job for job in jobs if isinstance(job, Posting)]
        _check_books_saved(batch)
        new_jobs = self.new_jobs(batch, fence.uuid)
        graph = self.graph_of(batch, new_jobs, fence.uuid)
        others = [uuid_of("after", job, {}) for job in jobs if not isinstance(job, Posting)]
        rows = [new for new, _ in new_jobs] if graph is None else graph.jobs
        before = [(fence.uuid, uuid) for uuid in (*others, *(new.uuid for new, _ in new_jobs))]
        graphs.check_count(fence.uuid, len(before))
        own = () if graph is None else graph.before
        return Graph(self.graph_id(fence.uuid), rows, [*own, *before], fence)

    def graph_id(self, beside: str) -> str:
        """Return the id of a new graph, whose jobs are beside this one."""
        return self._backend.new_uuid("", beside=beside)

    def following(self, postings: Iterable[Posting], backend: Backend, uuid: str) -> Following:
        """Return what the end of a job's claim posts."""
        batch = check_postings(postings)
        if not batch:
            return Following(self.poster(backend), backend)
        _check_books_saved(batch)
        new_jobs = self.new_jobs(batch, uuid)
        graph = self.graph_of(batch, new_jobs, uuid) or Graph(self.graph_id(uuid), [new for new, _ in new_jobs])
        return Following(self.poster(backend), backend, graph)

    def poster(self, backend: Backend) -> GraphPoster:
        """Return what posts graphs; within a transaction of the user's nobody waits for other clients."""
        patience = self._client.patience if backend is self._backend else 0.0
        return GraphPoster(self._client.call, backend, patience)


def check_follow_up(what: str, posting: object) -> Posting:
    """Return what is to follow the end of a job, if it can.

    :raises TypeError: it is no posting.
    :raises InvalidPosting: it has what a posting in a record can't have.
    """
    if not isinstance(posting, Posting):
        raise TypeError(f"{what} must be a Posting, not {type(posting).__name__}; {MADE_BY}")
    for name in ("book", "run_at", "uuid", *_FLOW):
        if getattr(posting, name) != getattr(_PLAIN, name):
            raise InvalidPosting(f"{what} can't have {name}", path=f"{what}.{name}")
    return posting


def _check_books_saved(batch: Sequence[Posting]) -> None:
    for posting in batch:
        if isinstance(posting.book, LogBook) and posting.book.version is None:
            raise InvalidPosting("a new logbook is not saved with the end of a claim: save it first", path="book")


def _what_to_write(name: object) -> str:
    """Return what whoever gives something else for a job's name is to write, if that is known."""
    if isinstance(name, Posting):
        return "; write post_many([posting])"
    return f"; {_OF_TASKS}" if is_task(name) else ""


def _check_owned(book: LogBook, if_exists: str, uuid: str) -> None:
    """Refuse what would let the job lose its book."""
    if book.owner not in (None, uuid):
        raise ValueError(f"{book!r} belongs to job {book.owner}, and goes with it; a book of several jobs must be free")
    if if_exists == "replace":
        raise ValueError('an owned book can\'t be posted with if_exists="replace", since the live job keeps its uuid')
