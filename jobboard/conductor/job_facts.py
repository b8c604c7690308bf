"""What is known of a job when it is claimed: the facts that a handler reads, none of which asks the store."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

from jobboard.backends.rows import JobRow
from jobboard.converter import Converter
from jobboard.job import Job, NamesJob, converter_of, row_of
from jobboard.logbook import BookRef
from jobboard.payload import unpack_payload
from jobboard.record import Record
from jobboard.states import JobPriority


class JobSnapshot:
    """What was known of a job when it was claimed; it can be pickled.

    Most handlers read little of it, so each fact of :class:`JobFacts` is made when it is read. What stands here,
    recorders and conductors read of every job.
    """

    __slots__ = ("_board_name", "attempts", "job")

    def __init__(self, job: Job, board_name: str | None = None) -> None:
        self.job = job
        self._board_name = board_name
        self.attempts = row_of(job).attempts

    @property
    def board_name(self) -> str:
        return self.job.board.name if self._board_name is None else self._board_name

    @property
    def uuid(self) -> str:
        return self.job.uuid

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def token(self) -> int:
        return self.job.token  # type: ignore[return-value]  # it is claimed

    @property
    def trace(self) -> dict[str, str]:
        return self.job.trace

    @property
    def converter(self) -> Converter | None:
        return converter_of(self.job)

    @property
    def owner(self) -> str:
        return row_of(self.job).owner  # type: ignore[return-value]  # it is claimed

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (row_of(self.job), self.board_name, self.converter)


def _unpickled(row: JobRow, board_name: str, converter: Converter | None) -> JobSnapshot:
    """Return a snapshot of a worker process, which has no board."""
    nothing, reader = cast(Any, None), cast(Any, SimpleNamespace(converter=converter))
    return JobSnapshot(Job(nothing, reader, row, unpack_payload(row.body, converter), row.token), board_name)


class JobFacts(NamesJob):
    """The facts of a running job, plain or for ``async`` handlers, as they were when the job was claimed."""

    _snapshot: JobSnapshot

    def __dir__(self) -> Iterable[str]:
        # What an AttributeError suggests comes from here.
        return [name for name in super().__dir__() if not name.startswith("_")]

    @property
    def uuid(self) -> str:
        """The job's identity."""
        return self._snapshot.uuid

    @property
    def name(self) -> str:
        """Which handler runs it."""
        return self._snapshot.name

    @property
    def details(self) -> dict[str, Any]:
        """What was posted with the job."""
        return self._snapshot.job.details  # type: ignore[return-value]  # None only in the trash

    @property
    def token(self) -> int:
        """The fencing token of the claim: hand it to whatever the handler writes to."""
        return self._snapshot.token

    @property
    def attempts(self) -> int:
        """How many claims the job has had that count, with this one."""
        return self._snapshot.attempts

    @property
    def max_attempts(self) -> int | None:
        """The posting's own limit of attempts, which wins over the handler's; None if it has none."""
        return self._snapshot.job.max_attempts

    @property
    def last_error(self) -> str | None:
        """What the attempt before has left, such as a traceback; None if none failed."""
        return row_of(self._snapshot.job).last_error

    @property
    def owner(self) -> str:
        """The owner of the claim: this conductor."""
        return self._snapshot.owner

    @property
    def priority(self) -> JobPriority:
        """Its priority."""
        return self._snapshot.job.priority

    @property
    def sequence(self) -> int:
        """Its number in the order of posts."""
        return self._snapshot.job.sequence

    @property
    def key(self) -> str | None:
        """What is unique among the live jobs of its name, or None."""
        return self._snapshot.job.key

    @property
    def lane(self) -> str | None:
        """What it shares limits with, or None."""
        return self._snapshot.job.lane

    @property
    def created_on(self) -> datetime:
        """When it was posted, by the store's clock."""
        return self._snapshot.job.created_on

    @property
    def run_at(self) -> datetime | None:
        """The moment before which it was not claimable, or None."""
        return self._snapshot.job.run_at

    @property
    def schedule_id(self) -> str | None:
        """The schedule that posted it, or None."""
        return self._snapshot.job.schedule_id

    @property
    def fire_time(self) -> datetime | None:
        """The fire time that its schedule posted it for, or None."""
        return self._snapshot.job.fire_time

    @property
    def book_uuid(self) -> str | None:
        """The uuid of the logbook that it points at, or None."""
        return self._snapshot.job.book_uuid

    @property
    def book_name(self) -> str | None:
        """The name of that logbook, or None."""
        return self._snapshot.job.book_name

    @property
    def book_ref(self) -> BookRef | None:
        """Where its logbook is, if that is elsewhere than on the board."""
        return self._snapshot.job.book_ref

    @property
    def record(self) -> Record:
        """Its record."""
        return self._snapshot.job.record

    @property
    def trace(self) -> dict[str, str]:
        """The context of the trace that it was posted in, as :mod:`jobboard.telemetry` keeps it; {} if none is."""
        return self._snapshot.trace

    @property
    def board_name(self) -> str:
        """The name of its board."""
        return self._snapshot.board_name
