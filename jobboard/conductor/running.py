"""What a handler gets: its job under its claim, the same in every executor."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from jobboard.book import LogBook
from jobboard.job import Job
from jobboard.posting import JobPriority


@dataclass(frozen=True, slots=True)
class Facts:
    """All of a claimed job that doesn't change while its handler runs; it can travel to a worker process."""

    uuid: str
    name: str
    details: dict[str, Any]
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
    attempts: int
    checkpoint: Any

    @classmethod
    def of(cls, job: Job) -> Facts:
        record = job.record
        return cls(
            job.uuid, job.name, job.details or {}, job.priority, job.sequence, job.created_on, job.key, job.run_at,
            job.max_attempts, job.book_uuid, job.book_name, job.schedule_id, job.fire_time, job.token or 0,
            record.attempts, record.checkpoint,
        )  # fmt: skip


class Desk(Protocol):
    """The way from a running job back to its board."""

    def checkpoint(self, state: Any) -> None: ...
    def report(self, report: dict[str, Any]) -> None: ...
    def load_book(self, uuid: str) -> LogBook: ...
    def save_book(self, book: LogBook) -> None: ...


class RunningJob:
    """A job in the hands of its handler.

    Has the posting's fields (``details``, ``key``, ...), ``token`` (the fencing token, to hand on to what the handler
    writes to), ``attempts`` (this one included) and ``checkpoint`` (what the last owner wrote, or None).
    ``lost`` turns True when the claim is lost: stop, since another owner may be at work. ``cancelled`` turns True when
    somebody asked for the job's end: raise :class:`~jobboard.conductor.Cancelled`, or finish.
    """

    def __init__(self, facts: Facts, desk: Desk) -> None:
        self._facts = facts
        self._desk = desk
        self._checkpoint = facts.checkpoint
        self.lost = False
        self.cancelled = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._facts, name)

    @property
    def checkpoint(self) -> Any:
        """The last checkpoint: this run's own, else what an earlier owner wrote, else None."""
        return self._checkpoint

    def checkpoint_state(self, state: Any) -> None:
        """Write a checkpoint; durable and fenced, and the next owner reads it.

        :raises ClaimLost: the claim does not hold any more.
        """
        self._desk.checkpoint(state)
        self._checkpoint = state

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Report how far the job is; operators see it within a second or two. Costs no request of its own."""
        report: dict[str, Any] = {"done": done, "total": total, "text": text}
        self._desk.report({name: value for name, value in report.items() if value is not None})

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
