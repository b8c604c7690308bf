"""The roles of a backend: parts of the seam that are objects of their own. The rules of the seam hold for them too."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any

from jobboard.backends.book_rows import BookPage, BookPart, BookSave, SaveOutcome
from jobboard.backends.edge_store import EdgeStore
from jobboard.backends.findings import AuditFinding, Holder
from jobboard.backends.limit_store import LimitStore
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimAnswer,
    ClaimRequest,
    Consumption,
    EntityRow,
    Extension,
    Fence,
    JobRow,
    NewJob,
    Page,
    Pause,
    Posted,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.backends.schedule_rows import DueSchedules, SchedulePage, ScheduleRow, ScheduleStep
from jobboard.backends.step_store import StepStore
from jobboard.events import HistoryEntry
from jobboard.states import JobState
from jobboard.stats import BoardStats


class JobStore(abc.ABC):
    """The jobs of a board."""

    # -- posting ---------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        """Put all on the board, or none: if one outcome refuses the batch, nothing of it was posted or replaced.

        Sequences follow the order of the batch. Of two with the same key in one batch, the later one meets the
        earlier. A repeat finds its uuids, also those of jobs consumed or cancelled since (SAME); a repeated
        replacement is known by the new uuid, which the history's REPLACED line has as its reason.

        A posting with parents is BLOCKED until the last one has ended; one whose parent the board does not know refuses
        the batch. The record of each parent that is live, or in the trash, says in the same step that it has children.
        Of a parent that has ended already the edge says so at once. A batch with parents has at most
        ``capabilities.largest_graph`` jobs and edges.
        """

    @abc.abstractmethod
    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        """Take what is not claimed off the board, and mark what is claimed, each atomically.

        A repeat finds what the first one left: the mark, or the memory of the cancelled job
        (:data:`~jobboard.backends.base.RETRY_WINDOW`).

        :param by: the operator that the history names; in the line about a claimed job its reason names them.
        :param reason: why, for that line.
        """

    # -- claiming --------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        """Try to own one job, and return it as it stands then; None if there is none.

        It is claimed if and only if the row returned has this claim's ``claim_id``. The claim is an attempt and gets
        a larger token. A paused or delayed job is not claimed. A repeat finds its own claim id.
        """

    @abc.abstractmethod
    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        """Own up to ``limit`` of the best unclaimed jobs of these names, best first; paused ones are left alone.

        Of a name no more are claimed at a time than its limit says. If there are fewer than asked for, BLOCKED jobs of
        these names take the slots of claimable jobs of their lanes that this request can't claim, in up to 20 lanes
        that are not strict, and are claimed; the next request goes on with other lanes.

        Each claim is atomic. The cost does not grow with the backlog. Not repeated: after a lost reply the board asks
        :meth:`claimed_under` first.
        """

    @abc.abstractmethod
    def claimed_under(self, claim_id: str) -> list[JobRow]:
        """Return the jobs that are now claimed under this claim id, best first; changes nothing."""

    @abc.abstractmethod
    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        """Let each claim end ``expiry`` seconds from the store's now, each atomically: DONE, CANCEL_ASKED or LOST.

        Also when that is sooner than before. A repeat only moves the end on.
        """

    @abc.abstractmethod
    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        """Complete each job under its claim, each atomically with what it posts: DONE, REPEATED, LOST or Refused.

        A repeat finds the token in the completed record (REPEATED), for the retention and
        :data:`~jobboard.backends.base.RETRY_WINDOW`.
        """

    @abc.abstractmethod
    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        """Put each job back, each atomically: DONE, REPEATED or LOST.

        A counted return of a job whose attempts reached ``max_attempts`` goes to the trash instead; a job whose cancel
        was asked for goes off the board. A repeat is known by the token in the history.
        """

    @abc.abstractmethod
    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        """Set each job aside with its reason, each atomically: DONE, REPEATED or LOST.

        With a fence only under that claim; without one any live job goes, and LOST means that there is none. A repeat
        finds the job in the trash, under the same token.
        """

    @abc.abstractmethod
    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        """Replace the record's checkpoint: DONE, CANCEL_ASKED or LOST. A repeat writes the same again."""

    # -- reading ---------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        """Return jobs in any state; None for those that there are not (or whose retention is over)."""

    @abc.abstractmethod
    def history(self, uuid: str) -> list[HistoryEntry]:
        """Return the last :data:`~jobboard.events.HISTORY_LENGTH` lines of a job's history, oldest first."""

    @abc.abstractmethod
    def find(self, name: str, key: str) -> JobRow | None:
        """Return the live job of this name that has this key."""

    @abc.abstractmethod
    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        """Return the next jobs in claim order (without history), beginning where ``cursor`` says; None is the head.

        What stays on the board throughout an iteration, with its priority, is seen exactly once.
        """

    @abc.abstractmethod
    def claimable(self, names: frozenset[str] | None, cursor: object | None, size: int) -> Page:
        """Return the next jobs that can be claimed: a page of unclaimed jobs, without those of paused names."""

    @abc.abstractmethod
    def outlook(self, names: frozenset[str] | None) -> JobState | None:
        """Return UNCLAIMED if a job of these names can be claimed now; BLOCKED if perhaps in exchange; else None.

        In exchange for a job of another name, which has a slot of the lane and can't be claimed (:mod:`.lanes`).
        """

    @abc.abstractmethod
    def stats(self) -> BoardStats:
        """Count the jobs; one consistent look."""

    @abc.abstractmethod
    def count(self) -> int:
        """Return the number of live jobs."""

    # -- operators -------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        """Break the claim that has this token: DONE, REPEATED (found in the history) or LOST. Attempts stay."""

    @abc.abstractmethod
    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        """Let delayed jobs be claimable at once, each atomically: DONE, REPEATED or LOST.

        REPEATED: it is live and not delayed (any more), and nothing was changed. LOST: it is not on the board. A repeat
        finds the job promoted.

        :param by: the operator that the history names.
        :param reason: why, for the history.
        """

    @abc.abstractmethod
    def reprioritize(self, uuids: Sequence[str], priority: int, by: str | None, reason: str | None) -> list[Verdict]:
        """Give jobs that wait another priority, each atomically: DONE, REPEATED or LOST.

        They keep their place among those of that priority. REPEATED: it is live and has this priority, and
        nothing was changed; so a repeat finds what the first one did. LOST: it is claimed, or not on the board.
        """

    @abc.abstractmethod
    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        """Bring jobs back from the trash, with the place of a new job and no attempts used; each atomically.

        :param by: the operator that the history names.
        :param reason: why, for the history.
        """

    @abc.abstractmethod
    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        """Delete jobs from the trash for good, each atomically: DONE or MISSING.

        :param by: the operator that the event names; of the job nothing is left.
        :param reason: why, for the event.
        """


class ScheduleStore(abc.ABC):
    """The schedules of a board."""

    @abc.abstractmethod
    def step(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        """Take each step, atomically with its postings and events: DONE, REPEATED or LOST.

        LOST: the stored version is not ``after``, and nothing was changed. A repeat finds its own version (or, for a
        deletion, no schedule), posts nothing and tells nothing: REPEATED.
        """

    @abc.abstractmethod
    def read(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        """Return schedules by id; None for those that there are not."""

    @abc.abstractmethod
    def due(self, limit: int) -> DueSchedules:
        """Return up to ``limit`` schedules whose ``next_at`` has come by the store's clock.

        One request, which does not read what is not due, whatever the number of schedules.
        """

    @abc.abstractmethod
    def page(self, cursor: object | None, size: int) -> SchedulePage:
        """Return the next schedules, beginning where ``cursor`` says; None is the head.

        A schedule that stays as it is throughout an iteration is seen exactly once.
        """


class EntityStore(abc.ABC):
    """The participants of a board."""

    @abc.abstractmethod
    def put(self, entity: EntityRow, orders: str | None = None) -> bool:
        """Write a participant down as seen now; idempotent.

        Return whether the board may have the logbook ``orders``: False if the same request tells that it has not.
        """

    @abc.abstractmethod
    def remove(self, kind: str, name: str) -> None:
        """Forget a participant; idempotent."""

    @abc.abstractmethod
    def all(self) -> list[EntityRow]:
        """Return all participants, also those gone, until :meth:`Maintenance.tidy` forgets them a day later."""


class BookStore(abc.ABC):
    """The logbooks of a board: each has a version, a body, and entries by name, which are stored one by one."""

    @abc.abstractmethod
    def save(self, step: BookSave) -> SaveOutcome:
        """Take a book's step, with all of its entries and under its fence, atomically: SAVED, STALE or LOST.

        A new book has no entries but those of its first step. A repeat finds its own ``version``, and is SAVED, also
        if the claim has ended since.
        """

    @abc.abstractmethod
    def load(self, uuid: str, cursor: str | None, size: int) -> BookPart | None:
        """Return a book and up to ``size`` of its entries, beginning where ``cursor`` says (None: the head).

        None: there is no book. What one part shows is of one moment; a change in between shows in the version.
        """

    @abc.abstractmethod
    def page(self, cursor: object | None, size: int) -> BookPage:
        """Return about ``size`` books, beginning where ``cursor`` says; None is the head.

        What stays throughout an iteration is seen; on some stores it may be seen twice.
        """

    @abc.abstractmethod
    def destroy(self, uuid: str) -> bool:
        """Delete a book with its entries; False if there is none."""


class Maintenance(abc.ABC):
    """What operators and housekeeping do to a whole board."""

    @abc.abstractmethod
    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        """Grant no more claims of this name (None: of any job) until resumed; the event says by whom, and why.

        Idempotent: a pause of what is paused changes and tells nothing, so that the first one's ``by``, ``reason`` and
        moment stay.
        """

    @abc.abstractmethod
    def resume(self, name: str | None) -> None:
        """Undo exactly that pause; idempotent; wakes who waits."""

    @abc.abstractmethod
    def paused(self) -> frozenset[str | None]:
        """Return the paused names, and None among them if the whole board is paused."""

    @abc.abstractmethod
    def pauses(self) -> list[Pause]:
        """Return the same with by whom, when and why each was paused, in any order; claims never ask for it."""

    @abc.abstractmethod
    def tidy(self, limit: int) -> int:
        """Delete up to ``limit`` things that nobody can see any more, and return how many it were; idempotent."""

    @abc.abstractmethod
    def audit(self, repair: bool) -> list[AuditFinding]:
        """Look for records that contradict each other, and mend each atomically if told to."""

    @abc.abstractmethod
    def holders(self) -> list[Holder]:
        """Return what keeps the store from deleting old rows, as far as this login may know; the oldest first.

        [] without a request where nothing can.
        """

    @abc.abstractmethod
    def server_version(self) -> str:
        """Return the store and its version, such as ``Redis 7.0.15``; without it if the server does not tell."""


#: The attributes of a backend that hold its roles.
ROLES: Mapping[str, type[abc.ABC]] = {
    "jobs": JobStore,
    "schedules": ScheduleStore,
    "limits": LimitStore,
    "edges": EdgeStore,
    "steps": StepStore,
    "entities": EntityStore,
    "books": BookStore,
    "maintenance": Maintenance,
}


def name_of(role: str, method: str) -> str:
    """Return a primitive's name, such as ``post`` or ``schedules.step``: those of jobs go without their role."""
    return method if role == "jobs" else f"{role}.{method}"


class _JoinedJobs(JobStore):
    """Has each method as an attribute of its own."""

    def __init__(self, *parts: object) -> None:
        for name in JobStore.__abstractmethods__:
            setattr(self, name, next(getattr(part, name) for part in parts if hasattr(part, name)))


_JoinedJobs.__abstractmethods__ = frozenset()


def join_jobs(*parts: object) -> JobStore:
    """Return a JobStore each method of which is that of the first part that has it."""
    return _JoinedJobs(*parts)  # type: ignore[abstract]


def forward_roles(backend: object, call: Callable[..., Any]) -> None:
    """Give a backend roles of which each method is ``call(role, method, *arguments)``, both by name."""
    for name in ROLES:
        setattr(backend, name, _forwarder_of(name)(call))


@cache
def _forwarder_of(name: str) -> Callable[[Callable[..., Any]], object]:
    """Return the class of a role that forwards; made once, since that takes its time."""
    role = ROLES[name]
    methods = {method: _forwarding(name, method) for method in role.__abstractmethods__}
    return type(role.__name__, (role,), {"__init__": _remember, **methods})


def _remember(self: Any, call: Callable[..., Any]) -> None:
    self._call = call


def _forwarding(name: str, method: str) -> Callable[..., Any]:
    def forward(self: Any, *arguments: Any, **options: Any) -> Any:
        return self._call(name, method, *arguments, **options)

    forward.__name__ = method
    return forward


def check_roles(backend: object) -> None:
    """Check that a backend has all of its roles.

    :raises TypeError: one is missing, or something else is in its place.
    """
    for name, role in ROLES.items():
        if not isinstance(getattr(backend, name, None), role):
            kind = type(backend).__name__
            raise TypeError(f"{kind}.{name} must be a {role.__name__} of {__name__}; set it in the constructor")
