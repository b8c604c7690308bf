"""What a handler gets: its job under its claim, the same in every executor."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from jobboard.board import JobBoard
from jobboard.job import Job, Record
from jobboard.logbook import LogBook
from jobboard.states import JobPriority

_LONGEST_PROGRESS_TEXT = 500


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was known of a job when it was claimed; it can travel to a worker process."""

    uuid: str
    name: str
    details: dict[str, Any] = field(repr=False)
    priority: JobPriority
    sequence: int
    created_on: datetime
    key: str | None
    run_at: datetime | None
    max_attempts: int | None
    book_uuid: str | None
    book_name: str | None
    schedule_id: str | None
    fire_time: datetime | None
    token: int
    record: Record

    @classmethod
    def of(cls, job: Job) -> Facts:
        return cls(
            job.uuid, job.name, job.details or {}, job.priority, job.sequence, job.created_on, job.key, job.run_at,
            job.max_attempts, job.book_uuid, job.book_name, job.schedule_id, job.fire_time, job.token or 0, job.record,
        )  # fmt: skip

    @property
    def attempts(self) -> int:
        return self.record.attempts

    @property
    def last_error(self) -> str | None:
        return self.record.last_error

    @property
    def owner(self) -> str | None:
        return self.record.owner


class Desk(Protocol):
    """The way from a running job back to its board."""

    @property
    def board(self) -> JobBoard: ...
    def checkpoint(self, state: Any) -> None: ...
    def report(self, report: dict[str, Any]) -> None: ...
    def load_book(self, uuid: str) -> LogBook: ...
    def save_book(self, book: LogBook) -> None: ...


class RunningJob:
    """A job in the hands of its handler.

    Has the posting's fields (``details``, ``key``, ...), ``token`` (the fencing token, to hand on to what the handler
    writes to), ``attempts`` (this one included), ``last_error`` (of the attempt before) and ``record``, all as they
    were when the job was claimed.
    ``lost`` turns True when the claim is lost: stop, since another owner may be at work. ``cancelled`` turns True when
    somebody asked for the job's end: raise :class:`~jobboard.conductor.Cancelled`, or finish.
    The claim is renewed for as long as the handler runs.
    """

    def __init__(self, facts: Facts, desk: Desk) -> None:
        self._facts = facts
        self._desk = desk
        self._checkpoint = facts.record.checkpoint
        self.lost = False
        self.cancelled = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._facts, name)

    @property
    def board(self) -> JobBoard:
        """The board, such as for posting what comes next; in threads and on asyncio only, since processes have none."""
        return self._desk.board

    @property
    def checkpoint(self) -> Any:
        """The last checkpoint: this run's own, else what an earlier owner wrote, else None."""
        return self._checkpoint

    def checkpoint_state(self, state: Any) -> None:
        """Write a checkpoint; durable and fenced, and the next owner reads it.

        :raises ClaimLost: the claim does not hold any more.
        :raises InvalidPosting: the state can't travel.
        """
        self._desk.checkpoint(state)
        self._checkpoint = state

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Report how far the job is; operators see it within a second or two. Costs no request of its own."""
        # Checked here, where it is the handler's own fault: the reports of all jobs travel in one request.
        report: dict[str, Any] = {"done": _plain("done", done)}
        if total is not None:
            report["total"] = _plain("total", total)
        if text is not None:
            if not isinstance(text, str):
                raise TypeError(f"text must be a str, not {type(text).__name__}")
            report["text"] = text.encode("utf-8", "backslashreplace").decode()[:_LONGEST_PROGRESS_TEXT]
        self._desk.report(report)

    @property
    def book(self) -> LogBook | None:
        """The logbook that the job points at, loaded anew, or None."""
        uuid = self._facts.book_uuid
        return None if uuid is None else self._desk.load_book(uuid)

    def save_book(self, book: LogBook) -> None:
        """Make a logbook durable; raises :class:`~jobboard.StaleBook` if somebody else saved it since."""
        self._desk.save_book(book)

    def __repr__(self) -> str:
        facts = self._facts
        return f"<RunningJob {facts.name!r} {facts.uuid} attempt {facts.attempts} token {facts.token}>"


def _plain(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be a number, not {type(value).__name__}")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{what} must be a finite number of at most 64 bits; got {value!r}")
    return value
