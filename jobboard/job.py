"""A job as users see it: its posting, and the handle on it and its record."""

from __future__ import annotations

import contextlib
import uuid as uuids
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar, Unpack, overload

from jobboard.backends.rows import JobRow
from jobboard.client import JobEnd, JobReader
from jobboard.converter import Converter
from jobboard.errors import ClaimLost, JobCancelled, JobFailed, NotFound, UnreadableRecord
from jobboard.events import EventKind, HistoryEntry
from jobboard.family import Child, Parent, Signal, Step
from jobboard.logbook import BookRef, LogBook
from jobboard.payload import Payload, trace_of, unpack_payload
from jobboard.record import Record, Undecodable, record_of
from jobboard.states import PRIORITIES, JobPriority, JobState
from jobboard.task_protocol import TaskProtocol, check_task, posting_options
from jobboard.text import in_one_line
from jobboard.types import IfExistsName, IfFailedName, Priority, Seconds
from jobboard.validation import check_expiry, check_timeout, moment

Details = TypeVar("Details")


class PostingOptions(TypedDict, total=False):
    """The arguments of :class:`Posting` by keyword."""

    book: LogBook | BookRef | None
    priority: Priority
    key: str | None
    if_exists: IfExistsName
    run_at: datetime | None
    delay: Seconds | None
    uuid: str | uuids.UUID | None
    max_attempts: int | None
    lane: str | None
    after: Iterable[Posting | JobOrUuid] | None
    before: Iterable[Posting | JobOrUuid] | None
    if_failed: IfFailedName
    on_trashed: Posting | None
    on_complete: Posting | None
    key_for: Seconds | None
    max_delay: Seconds | None
    start_by: datetime | None


class PostOptions(PostingOptions, total=False):
    """The arguments of :meth:`JobBoard.post` by keyword."""

    connection: Any


@dataclass(frozen=True, slots=True)
class Posting:
    """One job for :meth:`JobBoard.post_many`; the fields are the arguments of :meth:`JobBoard.post`."""

    name: str
    details: dict[str, Any] | None = None
    _: KW_ONLY
    book: LogBook | BookRef | None = None
    priority: Priority = JobPriority.NORMAL
    key: str | None = None
    if_exists: IfExistsName = "raise"
    run_at: datetime | None = None
    delay: Seconds | None = None
    uuid: str | uuids.UUID | None = None
    max_attempts: int | None = None
    lane: str | None = None
    after: Iterable[Posting | JobOrUuid] | None = None
    before: Iterable[Posting | JobOrUuid] | None = None
    if_failed: IfFailedName = "wait"
    on_trashed: Posting | None = None
    on_complete: Posting | None = None
    key_for: Seconds | None = None
    max_delay: Seconds | None = None
    start_by: datetime | None = None

    @overload
    @classmethod
    def of(cls, task: TaskProtocol[None], details: None = None, **options: Unpack[PostingOptions]) -> Posting: ...
    @overload
    @classmethod
    def of(cls, task: TaskProtocol[Details], details: Details, **options: Unpack[PostingOptions]) -> Posting: ...
    @classmethod
    def of(cls, task: TaskProtocol[Any], details: Any = None, **options: Unpack[PostingOptions]) -> Posting:
        """Return the posting of a job for a task, with details of the type that its function asks for.

        :param options: the others of a posting, by their names; they win over what the task declares, None too.
        :raises InvalidPosting: a field of the details is of another type, ``path`` names it; or what the task declares
            can't be made of them.
        :raises TypeError: these are no details of the task, or it is none.
        """
        checked = check_task(task, "task must be a Task, as @handlers.handler returns it")
        plain = checked.encode(details)
        return cls(checked.name, plain, **posting_options(checked, details, plain, options))

    def __repr__(self) -> str:
        return f"<Posting {self.name!r}{f' key={self.key!r}' if self.key else ''}>"


class Board(Protocol):
    """What a handle asks of the board that it came from; it is a :class:`~jobboard.JobBoard`."""

    @property
    def name(self) -> str: ...
    @property
    def store(self) -> str: ...
    def load_book(self, uuid: str) -> LogBook: ...
    def extend(self, job: Job, who: str, expiry: Seconds | None = None, *, token: int | None = None) -> None: ...
    def checkpoint(self, job: Job, who: str, state: Any, *, token: int | None = None) -> None: ...


def check_not_elsewhere(uuid: str, ref: BookRef | None) -> None:
    """Raise :class:`NotFound` if a job's book is not on its board."""
    if ref is not None:
        raise NotFound(f"the book of job {uuid} is not on this board, but where its book_ref says: {ref}")


class NamesJob:
    """What names one job in a call: a handle on it, or the running job that a handler gets."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def uuid(self) -> str: ...


class JobHandle(NamesJob):
    """What every handle has that names one job: a :class:`Job`, or an :class:`~jobboard.aio.AsyncJob`."""

    __slots__ = ()
    uuid: str
    name: str
    priority: JobPriority
    sequence: int
    token: int | None
    board: Any

    @property
    def _order(self) -> tuple[int, float, int]:
        """What sorts jobs as the board claims, as the last read saw it."""
        raise NotImplementedError

    def _take_claim(self, row: JobRow) -> None:
        """Make this the handle that claimed."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return self.uuid == other.uuid if isinstance(other, JobHandle) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.uuid)

    def __lt__(self, other: object) -> bool:
        """Sort as the board claims: higher priority first, then what was due first, then what was posted first."""
        return self._order < other._order if isinstance(other, JobHandle) else NotImplemented

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self.uuid} #{self.sequence} {self.priority}>"


#: What names a job in a call: a handle, the job that a handler runs, or a uuid.
JobOrUuid = NamesJob | str | uuids.UUID


class Job(JobHandle):
    """A light handle on one job.

    The posting's fields are plain attributes and never change: uuid, name, details, priority, sequence, created_on,
    key, lane, run_at, max_attempts, book_uuid, book_name, book_ref, schedule_id, fire_time. :attr:`record` is what
    the last read saw, and costs no request; ``state``, ``owner``, ``attempts``, ``history`` and their like ask the
    store each time. ``token`` is set on the handle that claimed.
    """

    __slots__ = (
        "__weakref__", "_body", "_details", "_reader", "_record", "_row", "board", "book_name", "book_ref", "book_uuid",
        "fire_time", "key", "lane", "max_attempts", "name", "priority", "schedule_id", "sequence", "token", "uuid",
    )  # fmt: skip
    board: Board

    def __init__(
        self, board: Board, reader: JobReader, row: JobRow, payload: Payload | None, token: int | None = None
    ) -> None:
        self.board = board
        self._reader = reader
        self.uuid = row.uuid
        self.name = row.name
        self.priority = PRIORITIES.get(row.priority) or JobPriority(row.priority)
        self.sequence = row.sequence
        self.key = row.key
        self.lane = row.lane
        self.max_attempts = row.max_attempts
        self._details = payload.details if payload else None
        # What was posted then, to be decoded when it is asked for; None once that is done.
        self._body = row.body if payload and payload.details is None else None
        self.book_uuid = payload.book_uuid if payload else None
        self.book_name = payload.book_name if payload else None
        #: Where its book is, if that is elsewhere than on the board.
        self.book_ref = payload.book_ref if payload else None
        self.schedule_id = payload.schedule_id if payload else None
        self.fire_time = moment(payload.fire_time) if payload and payload.fire_time is not None else None
        self.token = token
        self._row = row
        self._record: Record | None = None

    @property
    def _order(self) -> tuple[int, float, int]:
        return -self._row.priority, self._row.place, self._row.sequence

    @property
    def details(self) -> dict[str, Any] | None:
        """What its producer gave; None only for a job in the trash that can't be decoded: :attr:`raw` has its bytes."""
        if (body := self._body) is not None:
            with contextlib.suppress(ValueError):
                self._details = unpack_payload(body, self._reader.converter).details
            self._body = None
        return self._details

    @property
    def created_on(self) -> datetime:
        """When it was posted, by the store's clock."""
        return moment(self._row.created_on)

    @property
    def run_at(self) -> datetime | None:
        """The moment before which the job was not claimable when last read, or None."""
        return None if self._row.run_at is None else moment(self._row.run_at)

    @property
    def trace(self) -> dict[str, str]:
        """The context of the trace that the job was posted in, as :mod:`jobboard.telemetry` keeps it; {} if none is."""
        try:
            return trace_of(self._row.body)
        except ValueError:
            return {}

    @property
    def raw(self) -> bytes:
        """The posting as the store has it."""
        return self._row.body

    @property
    def store(self) -> str:
        """The kind of store that the job is in, such as ``"sqlite"``."""
        return self.board.store

    @property
    def record(self) -> Record:
        """What the last read saw; no request."""
        if self._record is None:
            self._record = record_of(self._row, self._reader.converter)
        return self._record

    def _take_claim(self, row: JobRow) -> None:
        self._update(row)
        self.token = row.token

    def _update(self, row: JobRow) -> None:
        self._row, self._record = row, None

    def _read(self) -> Record:
        self._update(self._reader.row(self.uuid))
        return self.record

    # Each of these asks the store, and raises NotFound once the job is gone.

    @property
    def state(self) -> JobState:
        """How it stands now, as the store says."""
        return self._read().state

    @property
    def owner(self) -> str | None:
        """The owner of its claim, or None; of a complete job the owner that completed it."""
        return self._read().owner

    @property
    def last_modified(self) -> datetime:
        """When it was changed last, by the store's clock."""
        return self._read().last_modified

    @property
    def attempts(self) -> int:
        """How many claims it has had that count."""
        return self._read().attempts

    @property
    def last_error(self) -> str | None:
        """What the last attempt that failed left, such as a traceback; or None."""
        return self._read().last_error

    @property
    def result(self) -> Any:
        """What its handler returned, or None; raises :class:`UnreadableRecord` if it can't be decoded."""
        return _decoded("result", self.uuid, self._read().result)

    @property
    def checkpoint(self) -> Any:
        """The last checkpoint that any owner wrote, or None; raises :class:`UnreadableRecord` as :attr:`result`."""
        return _decoded("checkpoint", self.uuid, self._read().checkpoint)

    @property
    def history(self) -> tuple[HistoryEntry, ...]:
        """The last 20 changes, oldest first."""
        row = self._reader.row(self.uuid)
        row.history = self._reader.history(self.uuid)
        self._update(row)
        return row.history

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for the end of this job while it is claimed."""
        return self._read().cancel_asked

    @property
    def book(self) -> LogBook | None:
        """The logbook that the job points at, loaded anew; None if it has none.

        :raises NotFound: it is gone, or elsewhere: :attr:`book_ref` says where.
        """
        check_not_elsewhere(self.uuid, self.book_ref)
        return None if self.book_uuid is None else self.board.load_book(self.book_uuid)

    def parents(self) -> Iterator[Parent]:
        """Iterate over the jobs that this one waits for, or has waited for; reads them 500 a request.

        :raises UnreadableRecord: a result can't be decoded.
        """
        return self._reader.parents(self.uuid)

    def children(self) -> Iterator[Child]:
        """Iterate over the jobs that wait for this one, or have waited for it, 500 a request."""
        return self._reader.children(self.uuid)

    def steps(self) -> Iterator[Step]:
        """Iterate over the steps of its durable handler that are done, 500 a request."""
        return self._reader.steps(self.uuid)

    def signals(self) -> list[Signal]:
        """Return the signals that were sent to it, the first one first."""
        return self._reader.signals(self.uuid)

    def expires_in(self) -> float | None:
        """Return the seconds until the present claim ends, by the store's clock where it has one.

        :returns: None if the job is not claimed; ``math.inf`` if its claim never ends by time.
        :raises NotFound: the job is gone.
        """
        return self._reader.seconds_left(self.uuid)

    def extend_expiry(self, seconds: Seconds) -> bool:
        """Let the claim of this handle end ``seconds`` from now. Atomic and idempotent.

        :param seconds: more than 0; ``math.inf`` for never.
        :returns: False if the claim does not hold any more.
        """
        check_expiry(seconds)
        try:
            self.board.extend(self, self._claimant(), seconds)
        except ClaimLost:
            return False
        return True

    def checkpoint_state(self, state: Any) -> None:
        """Save a checkpoint under the claim of this handle, for this owner or the next one. Atomic and idempotent.

        :param state: plain data.
        :raises ClaimLost: the claim does not hold; nothing was changed.
        :raises InvalidPosting: the state can't be stored.
        """
        self.board.checkpoint(self, self._claimant(), state)

    def _claimant(self) -> str:
        if self.token is None or self._row.owner is None:
            raise ClaimLost(f"this handle on job {self.uuid} holds no claim")
        return self._row.owner

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Block until the job has ended. Reads it when an event says so, and every 2 seconds.

        :param timeout: seconds; None to wait without end.
        :returns: True if it is complete. :attr:`record` is fresh then, and says what False means: its ``state`` is live
            after a timeout, and TRASHED for a job in the trash. Of a job that is gone it is COMPLETE, with
            ``cancel_asked`` if it was cancelled meanwhile.
        :raises BoardUnavailable: the store does not answer, 3 seconds after the timeout at most.
        """
        return self._wait_for_end(timeout).kind is EventKind.CONSUMED

    def get_result(self, timeout: Seconds | None = None) -> Any:
        """Block until the job has ended, as :meth:`wait` does, and return what its handler returned.

        :param timeout: seconds; None to wait without end.
        :raises JobFailed: it is in the trash; has the ``reason`` and the ``last_error``.
        :raises JobCancelled: it was cancelled meanwhile.
        :raises TimeoutError: it has not ended yet.
        :raises NotFound: it is gone, with its result if it had one: its retention is over, or it was cancelled before.
        :raises UnreadableRecord: the result can't be decoded.
        :raises BoardUnavailable: the store does not answer, 3 seconds after the timeout at most.
        """
        return result_of(self, self._wait_for_end(timeout))

    def _wait_for_end(self, timeout: Seconds | None) -> JobEnd:
        end = self._reader.wait_for_end(self._row, check_timeout(timeout))
        self._update(end.row)
        return end


def row_of(job: Job) -> JobRow:
    """Return what the last read of a job saw, for the parts of jobboard that read its record undecoded."""
    return job._row


def converter_of(job: Job) -> Converter | None:
    """Return what the details and the record of a job are decoded with."""
    return job._reader.converter


def result_of(job: Job, end: JobEnd) -> Any:
    """Return the result of a job that has ended so, or raise what :meth:`Job.get_result` promises."""
    match end.kind:
        case EventKind.CONSUMED if end.is_stored:
            return _decoded("result", job.uuid, job.record.result)
        case EventKind.TRASHED | EventKind.PURGED:
            reason = end.row.reason
            why = in_one_line(reason) if reason else "it was moved to the trash"
            raise JobFailed(f"job {job.uuid} failed: {why}", reason=reason, last_error=end.row.last_error)
        case EventKind.CANCELLED:
            raise JobCancelled(f"job {job.uuid} was cancelled")
        case None if end.is_stored:
            raise TimeoutError(
                f"job {job.uuid} has not ended in time; it is {end.row.state}; see: jobboard why {job.uuid}"
            )
    raise NotFound(f"job {job.uuid} is gone, and its result with it: its retention is over, or it was cancelled")


def _decoded(what: str, uuid: str, value: Any) -> Any:
    if isinstance(value, Undecodable):
        raise UnreadableRecord(f"the {what} of job {uuid} can't be decoded: {value.fault}")
    return value
