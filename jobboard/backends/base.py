"""The seam: what a store must do for a board.

All primitives take and return the plain data of :mod:`jobboard.backends.rows`; one job is a batch of one. Three rules
hold for every one of them:

- **Expired and promoted first.** A primitive sees the board as if every claim whose time is over had expired (the job
  is claimable again, or trashed if its attempts are used up, or off the board if somebody cancelled it), and every
  delayed job whose time has come had been promoted, in the same atomic step or before it.
- **Repeats are harmless.** After :class:`~jobboard.errors.ReplyLost` the board sends the same arguments again; each
  docstring says why the effect is that of once.
- **Two errors.** :class:`~jobboard.errors.BoardUnavailable` when nothing was changed for certain, and
  :class:`~jobboard.errors.ReplyLost` when that is not certain. Nothing of a client library's own gets through.
  :class:`~jobboard.errors.RequestRefused` is the first one where the store answers, and this request is to blame.

A mutation and its events and its line of history are one atomic step.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

from jobboard.backends.address import Address
from jobboard.backends.roles import BookStore, EntityStore, Maintenance, ScheduleStore
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimAnswer,
    ClaimRequest,
    Consumption,
    Extension,
    Fence,
    JobRow,
    Migration,
    NewJob,
    Page,
    Posted,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.errors import NotSupported
from jobboard.events import EventKind, HistoryEntry, JobEvent
from jobboard.states import JobState
from jobboard.stats import BoardStats

#: For how long a store remembers a job that was consumed or cancelled, in seconds beyond its retention, so that a
#: repeated request finds what the first one did. Readers don't see such a job.
RETRY_WINDOW = 60.0

#: For how many seconds a participant that is gone is listed.
ENTITY_TTL = 86_400.0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What differs between stores, as data.

    ``processes``: several processes can share a board. ``durable``: the board outlives all of them.
    ``expiry``: what ends the claim of a dead owner. ``clock``: whose time judges expiry and delay.
    ``largest_batch``: how many items one primitive takes at most; the board cuts longer batches.
    ``largest_step``: how many jobs one step of a schedule may post.
    ``transactions``: whether it can take part in a transaction of the user's own.
    """

    processes: bool
    durable: bool
    expiry: Literal["time", "session"]
    clock: Literal["store", "client"]
    largest_batch: int
    largest_step: int = 100
    transactions: bool = False


class Waiter(abc.ABC):
    """Somebody who waits for a claimable job; nothing that happens after it was opened is missed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abc.abstractmethod
    def ready_in(self) -> float | None:
        """Return the seconds until a job of the wanted names can be claimed: 0.0 is now, None is not foreseeable.

        Counts delayed jobs and claims that may expire; jobs of paused names don't count.
        """

    def claim_ahead(self, who: str, expiry: float) -> None:  # noqa: B027, most stores can't
        """Let the store claim one job for this owner while it waits, in the step that makes the job ready."""

    def claimed(self) -> tuple[list[JobRow], float]:
        """Let nothing more be claimed ahead; return what was, each job once, and a monotonic time before the claim.

        That time is minus infinity if there are other claims of this owner, which nobody knows of.
        To be called before each claim by other means, and when the waiting is over.
        """
        return [], math.inf

    @abc.abstractmethod
    def wait(self, timeout: float | None) -> None:
        """Block until ``ready_in`` may have changed since it was last asked, or the timeout; may return early.

        It may ask the store now and then, in case that a notification was lost.

        :raises BoardUnavailable: the backend was closed meanwhile.
        """

    @abc.abstractmethod
    def interrupt(self) -> None:
        """Make the present or the next ``wait`` return at once; from any thread, any number of times."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of whatever the waiting took; idempotent."""


#: The primitives of a backend and of its roles that only ask: one whose answer is lost has changed nothing.
READS = frozenset(
    {
        "now", "seconds_until", "refresh", "read", "history", "find", "page", "claimable", "stats", "count", "waiter",
        "due", "all", "load", "paused", "pauses", "holders", "server_version", "ready_in",
    }
)  # fmt: skip


class Backend(abc.ABC):
    """One board's namespace in one store. Thread-safe between ``open`` and ``close``.

    Its constructor also sets the four roles below.

    :param board: the board's name; two names share nothing.
    :param address: where the store is.
    :param options: those that :attr:`options` names, converted.
    """

    #: The scheme of its URIs, and its name among the entry points.
    scheme: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    #: Option name -> what makes its value of text; raises ValueError on a bad one. Anything else is refused.
    options: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    schedules: ScheduleStore
    entities: EntityStore
    books: BookStore
    maintenance: Maintenance

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        self.board = board
        self.address = address

    # -- connection ------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def open(self, timeout: float) -> None:
        """Connect, and create or check the schema, within ``timeout`` seconds.

        Called only when closed, also after an earlier ``close``.
        """

    def exists(self, timeout: float) -> bool | None:
        """Whether this board was ever opened or used; makes nothing. None if the store can't tell.

        Called only when closed.

        :raises NotFound: there is no such store, such as no file.
        :raises BoardUnavailable: it can't be reached or read.
        """
        names = self.boards(timeout)
        return None if names is None else self.board in names

    def boards(self, timeout: float) -> list[str] | None:
        """Return the names of all boards that were ever opened or used in this store; makes nothing.

        None if the store can't tell. Called only when closed.

        :raises NotFound: there is no such store, such as no file.
        :raises BoardUnavailable: it can't be reached or read, or the time is over before the list is complete.
        """
        return None

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of connections, threads and files; wakes every waiter. Claims stay. Called only when open."""

    @property
    @abc.abstractmethod
    def connected(self) -> bool:
        """Whether the store can be reached, as far as this client knows; no request."""

    @abc.abstractmethod
    def now(self) -> float:
        """Return the present time by the clock that judges expiry and delay."""

    def seconds_until(self, moment: float) -> float:
        """Return the seconds until a moment of that clock; no more than there are, where it is known roughly."""
        return moment - self.now()

    def refresh(self) -> None:  # noqa: B027, most stores have nothing to do here
        """Make every later read see at least what was there when this was called; for stores that read from a copy."""

    def within(self, connection: Any) -> Backend:
        """Return this board inside a transaction that is the user's: what it does happens if and only if that commits.

        It commits nothing, undoes its own part of what fails, and raises no ``ReplyLost``. Only for as long as the
        transaction; only for stores whose ``capabilities.transactions`` says so.

        :param connection: what the store's own library, or one above it, has begun the transaction on.
        :raises TypeError: it is none of those.
        :raises ValueError: it has no transaction, or leads to another database than this board's.
        """
        raise NotSupported(f"a {self.scheme} board can't take part in a transaction; leave connection= out")

    def migrate(self, timeout: float) -> Migration:
        """Make what the store needs for boards, or bring it to our layout in place; the board need not be open.

        Nobody may use the board while its layout changes. A repeat goes on where an interrupted one ended. Mends what
        :meth:`faults` finds, if that is a schema's.

        :raises BoardUnavailable: the store can't be reached, or the layout is a newer one.
        :raises NotSupported: the store keeps nothing that has a layout.
        """
        raise NotSupported(f"a {self.scheme} board has no layout to upgrade")

    def faults(self) -> list[str]:
        """Return what is wrong with the store beside its records, in sentences that say what to do; cheap."""
        return []

    # -- posting ---------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        """Put all on the board, or none: if one outcome is TAKEN, nothing of the batch was posted or replaced.

        Sequences follow the order of the batch. Of two with the same key in one batch, the later one meets the
        earlier. A repeat finds its uuids, also those of jobs consumed or cancelled since (SAME); a repeated
        replacement is known by the new uuid, which the history's REPLACED line has as its reason.
        """

    @abc.abstractmethod
    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        """Take what is not claimed off the board, and mark what is claimed, each atomically.

        A repeat finds what the first one left: the mark, or the memory of the cancelled job (:data:`RETRY_WINDOW`).

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
        """Complete each job under its claim, each atomically: DONE, REPEATED or LOST.

        A repeat finds the token in the completed record (REPEATED), for the retention and :data:`RETRY_WINDOW`.
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

    def claimable(self, names: frozenset[str] | None, cursor: object | None, size: int) -> Page:
        """Return the next jobs that can be claimed: a page of unclaimed jobs, without those of paused names.

        For stores that answer it with less work than these two requests.
        """
        paused = self.maintenance.paused()
        if None in paused:
            return Page([], None)
        page = self.page({JobState.UNCLAIMED}, names, cursor, size)
        return Page([row for row in page.rows if row.name not in paused], page.cursor) if paused else page

    @abc.abstractmethod
    def stats(self) -> BoardStats:
        """Count the jobs; one consistent look."""

    @abc.abstractmethod
    def count(self) -> int:
        """Return the number of live jobs."""

    # -- waiting and events ----------------------------------------------------------------------------------------

    @abc.abstractmethod
    def waiter(self, names: frozenset[str] | None) -> Waiter:
        """Begin to wait for jobs of these names."""

    @abc.abstractmethod
    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        """Hand every later event of these kinds, of any client, to ``tell``; the answer ends it, and is idempotent.

        ``tell`` returns at once and may be called from any thread, one call at a time. Ends with ``close`` too.
        """

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

        They stand among those of that priority by their sequence. REPEATED: it is live and has this priority, and
        nothing was changed; so a repeat finds what the first one did. LOST: it is claimed, or not on the board.
        """

    @abc.abstractmethod
    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        """Bring jobs back from the trash, at their old place, with no attempts used; each atomically.

        :param by: the operator that the history names.
        :param reason: why, for the history.
        """

    @abc.abstractmethod
    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        """Delete jobs from the trash for good, each atomically: DONE or MISSING.

        :param by: the operator that the event names; of the job nothing is left.
        :param reason: why, for the event.
        """
