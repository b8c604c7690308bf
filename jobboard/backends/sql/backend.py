"""The board on SQL: one class whose methods call collaborators, each of which has the board's database."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Waiter
from jobboard.backends.roles import forward_roles, join_jobs
from jobboard.backends.sql.books import Books
from jobboard.backends.sql.change_notifier import ChangeNotifier, SqlWaiter
from jobboard.backends.sql.claimed_jobs import ClaimedJobs
from jobboard.backends.sql.claiming import Claiming
from jobboard.backends.sql.database import Database, Transactions
from jobboard.backends.sql.edges import Edges
from jobboard.backends.sql.entities import Entities
from jobboard.backends.sql.limits import Limits
from jobboard.backends.sql.maintenance import Maintenance
from jobboard.backends.sql.posting import Posting
from jobboard.backends.sql.reading import Reading
from jobboard.backends.sql.schedules import Schedules
from jobboard.backends.sql.steps import Steps
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent

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
        steps: Callable[[Any], Steps] = Steps,
    ) -> None:
        self.transactions = transactions
        self.reading = reading(transactions)
        self.maintenance = Maintenance(transactions)
        self.jobs = join_jobs(
            posting(transactions), claiming(transactions), claimed_jobs(transactions), self.reading, self.maintenance
        )
        self.entities = Entities(transactions)
        self.books = Books(transactions)
        self.schedules = Schedules(transactions)
        self.limits = Limits(transactions)
        self.edges = Edges(transactions)
        self.steps = steps(transactions)


class SqlBackend(Backend, Generic[D]):
    """A board in a database that is there from ``open`` to ``close``."""

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        super().__init__(board, address, **options)
        self._opened: tuple[D, Operations, ChangeNotifier] | None = None
        forward_roles(self, self._run_in_role)

    def _run(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one operation of a collaborator."""
        return operation(*args, **kwargs)

    def _run_in_role(self, role: str, method: str, *arguments: Any, **options: Any) -> Any:
        return self._run(getattr(getattr(self.operations, role), method), *arguments, **options)

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


class UserTransactionBackend(Backend):
    """The board inside a transaction of the user's: there is nothing to open, to close or to retry."""

    def __init__(self, backend: Backend, operations: Operations) -> None:
        super().__init__(backend.board, backend.address)
        self.scheme = backend.scheme  # type: ignore[misc]
        self.capabilities = backend.capabilities  # type: ignore[misc]
        self._backend = backend
        self._transactions = operations.transactions
        self.jobs, self.schedules, self.entities = operations.jobs, operations.schedules, operations.entities
        self.books, self.limits, self.maintenance = operations.books, operations.limits, operations.maintenance
        self.edges = operations.edges
        self.steps = operations.steps

    def open(self, timeout: float) -> None:
        raise NotImplementedError("it is open for as long as the transaction")

    def close(self) -> None:
        """The connection is the user's."""

    @property
    def connected(self) -> bool:
        return self._backend.connected

    def now(self) -> float:
        with self._transactions.read() as transaction:
            return transaction.now

    def within(self, connection: Any) -> Backend:
        return self._backend.within(connection)

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        raise NotImplementedError("nobody waits in a transaction")

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        raise NotImplementedError("nobody listens in a transaction")
