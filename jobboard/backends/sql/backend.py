"""The board on SQL: one class whose methods call collaborators, each of which has the board's database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Waiter
from jobboard.backends.roles import forward_roles
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimAnswer,
    ClaimRequest,
    Consumption,
    Extension,
    Fence,
    JobRow,
    NewJob,
    Page,
    Posted,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.backends.sql.books import Books
from jobboard.backends.sql.change_notifier import ChangeNotifier, SqlWaiter
from jobboard.backends.sql.claimed_jobs import ClaimedJobs
from jobboard.backends.sql.claiming import Claiming
from jobboard.backends.sql.database import Database, Transactions
from jobboard.backends.sql.entities import Entities
from jobboard.backends.sql.maintenance import Maintenance
from jobboard.backends.sql.posting import Posting
from jobboard.backends.sql.reading import Reading
from jobboard.backends.sql.schedules import Schedules
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, HistoryEntry, JobEvent
from jobboard.states import JobState
from jobboard.stats import BoardStats

D = TypeVar("D", bound=Database)
P = ParamSpec("P")
T = TypeVar("T")


class Operations:
    """All operations on the jobs and schedules of one board.

    A kind of database with a fast path for some of them names its own collaborators.
    """

    def __init__(
        self,
        transactions: Transactions,
        posting: Callable[[Any], Posting] = Posting,
        claiming: Callable[[Any], Claiming] = Claiming,
        claimed_jobs: Callable[[Any], ClaimedJobs] = ClaimedJobs,
        reading: Callable[[Any], Reading] = Reading,
    ) -> None:
        self.transactions = transactions
        self.posting = posting(transactions)
        self.claiming = claiming(transactions)
        self.claimed_jobs = claimed_jobs(transactions)
        self.reading = reading(transactions)
        self.maintenance = Maintenance(transactions)
        self.entities = Entities(transactions)
        self.books = Books(transactions)
        self.schedules = Schedules(transactions)


class OperationsBackend(Backend):
    """Calls the collaborators, one for each method of the seam."""

    @property
    def operations(self) -> Operations:
        """The collaborators.

        :raises BoardUnavailable: the board is closed.
        """
        raise NotImplementedError

    def _run(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one operation of a collaborator."""
        return operation(*args, **kwargs)

    # -- posting ---------------------------------------------------------------------------------------------------

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        return self._run(self.operations.posting.post, rows)

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        return self._run(self.operations.posting.cancel, uuids, by, reason)

    # -- claiming --------------------------------------------------------------------------------------------------

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        return self._run(self.operations.claiming.claim, uuid, claim)

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        return self._run(self.operations.claiming.claim_next, claim, names, limit)

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        return self._run(self.operations.claiming.claimed_under, claim_id)

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        return self._run(self.operations.claimed_jobs.extend, renewals)

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        return self._run(self.operations.claimed_jobs.consume, ends)

    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        return self._run(self.operations.claimed_jobs.abandon, ends)

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        return self._run(self.operations.claimed_jobs.trash, ends)

    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        return self._run(self.operations.claimed_jobs.checkpoint, fence, state)

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        return self._run(self.operations.reading.read, uuids)

    def history(self, uuid: str) -> list[HistoryEntry]:
        return self._run(self.operations.reading.history, uuid)

    def find(self, name: str, key: str) -> JobRow | None:
        return self._run(self.operations.reading.find, name, key)

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        return self._run(self.operations.reading.page, states, names, cursor, size)

    def stats(self) -> BoardStats:
        return self._run(self.operations.reading.stats)

    def count(self) -> int:
        return self._run(self.operations.reading.count)

    # -- operators -------------------------------------------------------------------------------------------------

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        return self._run(self.operations.maintenance.release, uuid, token, reason)

    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        return self._run(self.operations.maintenance.run_now, uuids, by, reason)

    def reprioritize(self, uuids: Sequence[str], priority: int, by: str | None, reason: str | None) -> list[Verdict]:
        return self._run(self.operations.maintenance.reprioritize, uuids, priority, by, reason)

    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        return self._run(self.operations.maintenance.restore, uuids, by, reason)

    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        return self._run(self.operations.maintenance.purge, uuids, by, reason)


class SqlBackend(OperationsBackend, Generic[D]):
    """A board in a database that is there from ``open`` to ``close``."""

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        super().__init__(board, address, **options)
        self._opened: tuple[D, Operations, ChangeNotifier] | None = None
        forward_roles(self, partial(_run_in_role, self))

    def _connect(self, timeout: float) -> D:
        """Return the database, open."""
        raise NotImplementedError

    def _operations_on(self, database: D) -> Operations:
        raise NotImplementedError

    def _open_parts(self) -> tuple[D, Operations, ChangeNotifier]:
        if self._opened is None:
            raise BoardUnavailable(f"board {self.board!r} is closed; call connect() first")
        return self._opened

    @property
    def database(self) -> D:
        return self._open_parts()[0]

    @property
    def operations(self) -> Operations:
        return self._open_parts()[1]

    @property
    def change_notifier(self) -> ChangeNotifier:
        return self._open_parts()[2]

    def open(self, timeout: float) -> None:
        # A forked child may open what its parent has opened.
        self.close()
        database = self._connect(timeout)
        self._opened = database, self._operations_on(database), ChangeNotifier(database)

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is None:
            return
        database, _, change_notifier = opened
        # A forked child does not have the notifier's thread, and its locks may have been held at the fork.
        if database.usable:
            change_notifier.close()
        database.close()

    @property
    def connected(self) -> bool:
        opened = self._opened
        return opened is not None and opened[0].usable and opened[0].reachable

    def within(self, connection: Any) -> Backend:
        return UserTransactionBackend(self, self._operations_within(connection))

    def _operations_within(self, connection: Any) -> Operations:
        """Return the collaborators in the transaction that the user has begun on a connection."""
        return Operations(self.database.join(connection))

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        return SqlWaiter(self.change_notifier, partial(self._ready_in, names))

    def faults(self) -> list[str]:
        return self._run(self.operations.maintenance.faults)

    def _ready_in(self, names: frozenset[str] | None) -> float | None:
        return self._run(self.operations.reading.ready_in, names)

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        return self._run(self.change_notifier.listen, tell, kinds)


def _run_in_role(backend: OperationsBackend, role: str, method: str, *arguments: Any) -> Any:
    """Run one operation of the collaborator that has a role while the board is open."""
    return backend._run(getattr(getattr(backend.operations, role), method), *arguments)


class UserTransactionBackend(OperationsBackend):
    """The board inside a transaction of the user's: there is nothing to open, to close or to retry."""

    def __init__(self, backend: Backend, operations: Operations) -> None:
        super().__init__(backend.board, backend.address)
        self.scheme = backend.scheme  # type: ignore[misc]
        self.capabilities = backend.capabilities  # type: ignore[misc]
        self._backend = backend
        self._operations = operations
        self.schedules, self.entities = operations.schedules, operations.entities
        self.books, self.maintenance = operations.books, operations.maintenance

    @property
    def operations(self) -> Operations:
        return self._operations

    def open(self, timeout: float) -> None:
        raise NotImplementedError("it is open for as long as the transaction")

    def close(self) -> None:
        """The connection is the user's."""

    @property
    def connected(self) -> bool:
        return self._backend.connected

    def now(self) -> float:
        with self._operations.transactions.read() as transaction:
            return transaction.now

    def within(self, connection: Any) -> Backend:
        return self._backend.within(connection)

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        raise NotImplementedError("nobody waits in a transaction")

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        raise NotImplementedError("nobody listens in a transaction")
