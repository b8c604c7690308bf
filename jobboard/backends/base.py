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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from jobboard.backends.address import Address
from jobboard.backends.edge_store import EdgeStore, NoEdges
from jobboard.backends.findings import Migration, Persistence, Shard, Shortage
from jobboard.backends.lane_rows import NameShare
from jobboard.backends.limit_store import LimitStore, NoLimits
from jobboard.backends.roles import BookStore, EntityStore, JobStore, Maintenance, ScheduleStore
from jobboard.backends.rows import JobRow
from jobboard.backends.step_store import NoSteps, StepStore
from jobboard.errors import NotSupported
from jobboard.events import EventKind, JobEvent
from jobboard.validation import new_uuid

#: For how long a store remembers a job that was consumed or cancelled, in seconds beyond its retention, so that a
#: repeated request finds what the first one did. Readers don't see such a job.
RETRY_WINDOW = 60.0

#: The id of the row that pauses all schedulers of a board; no schedule can have it.
PAUSE_ID = "jobboard:pause"

#: No job has it. Who reads it alone wants to know whether the store answers.
NO_UUID = "00000000-0000-0000-0000-000000000000"

#: For how many seconds a participant that is gone is listed.
ENTITY_TTL = 86_400.0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What differs between stores, as data.

    ``processes``: several processes can share a board. ``durable``: the board outlives all of them, if the
    store is set up for it (:meth:`Backend.persistence`).
    ``expiry``: what ends the claim of a dead owner. ``clock``: whose time judges expiry and delay.
    ``largest_batch``: how many items one primitive takes at most; the board cuts longer batches.
    ``largest_step``: how many jobs one step of a schedule may post.
    ``transactions``: whether it can take part in a transaction of the user's own.
    ``ties``: whether it keeps what jobs have to do with each other, and limits; else a job can have no lane.
    ``edges``: whether it keeps edges, steps and signals, and moments such as ``start_by``.
    ``largest_graph``: how many jobs and edges one step posts at most; larger graphs go in parts.
    ``sharded``: whether it spreads the board over shards: order, the atomicity of a batch, what a job can wait for, and
    what a step can post hold for each shard (:doc:`/inside/shards`).
    """

    processes: bool
    durable: bool
    expiry: Literal["time", "session"]
    clock: Literal["store", "client"]
    largest_batch: int
    largest_step: int = 100
    transactions: bool = False
    ties: bool = False
    edges: bool = False
    largest_graph: int = 50
    sharded: bool = False


class Waiter(abc.ABC):
    """Somebody who waits for a claimable job; nothing that happens after it was opened is missed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
        "due", "all", "load", "paused", "pauses", "holders", "server_version", "persistence", "shards", "ready_in",
        "lanes", "longest", "lane", "name_shares", "parents", "children", "first_parents", "first_children", "counts",
        "graphs", "dropped", "signals", "faults", "shortages", "outlook",
    }
)  # fmt: skip


class Backend(abc.ABC):
    """One board's namespace in one store. Thread-safe between ``open`` and ``close``.

    Its constructor also sets the roles below.

    :param board: the board's name; two names share nothing.
    :param address: where the store is.
    :param options: those that :attr:`options` names, converted.
    """

    #: The scheme of its URIs, and its name among the entry points.
    scheme: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    #: Option name -> what makes its value of text; raises ValueError on a bad one. Anything else is refused.
    options: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    jobs: JobStore
    schedules: ScheduleStore
    limits: LimitStore
    edges: EdgeStore
    steps: StepStore
    entities: EntityStore
    books: BookStore
    maintenance: Maintenance

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        self.board = board
        self.address = address
        #: A store whose capabilities say ``ties`` sets its own.
        self.limits = NoLimits()
        #: A store whose capabilities say ``edges`` sets its own.
        self.edges, self.steps = NoEdges(), NoSteps()

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

    def statements_of_migration(self, timeout: float) -> list[str]:
        """Return the SQL that :meth:`migrate` would execute, in order; changes nothing.

        :raises BoardUnavailable: as for :meth:`migrate`.
        :raises NotSupported: the store has no SQL.
        """
        raise NotSupported(f"a {self.scheme} board has no SQL statements to show")

    def faults(self) -> list[str]:
        """Return what is wrong with the store beside its records, in sentences that say what to do; cheap."""
        return []

    def shortages(self) -> list[Shortage]:
        """Return what will soon keep the store from taking changes, or does so; cheap.

        [] without a request where nothing can.
        """
        return []

    def persistence(self) -> Persistence:
        """Return whether the store, as it is set up now, keeps what it has acknowledged; cheap.

        What its kind says, without a request, where no request can tell.
        """
        return Persistence(self.capabilities.durable)

    def shards(self) -> list[Shard]:
        """Return the parts of a board that is spread over several, also those that do not answer; [] for any other."""
        return []

    def name_shares(self, uuid: str, name: str, count: int) -> list[NameShare]:
        """Return which shards may run jobs of a limited name while that of this job has no room for it, its own first.

        [] if it has room, and for a board that is not spread.

        :param count: how many shards at most, and about how many of the jobs that run there.
        """
        return []

    def new_uuid(self, name: str, key: str | None = None, lane: str | None = None, beside: str | None = None) -> str:
        """Return the uuid of a job that is about to be posted; no request. A repeat of the post has the same.

        A store that spreads a board tells by it where the job is.

        :param name: the job's; likewise ``key`` and ``lane``.
        :param beside: a job that it must be beside: one that it waits for, or that ends in the same step.
        """
        return new_uuid()

    # -- waiting and events ----------------------------------------------------------------------------------------

    @abc.abstractmethod
    def waiter(self, names: frozenset[str] | None) -> Waiter:
        """Begin to wait for jobs of these names."""

    @abc.abstractmethod
    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        """Hand every later event of these kinds, of any client, to ``tell``; the answer ends it, and is idempotent.

        ``tell`` returns at once and may be called from any thread, one call at a time. Ends with ``close`` too.
        """
