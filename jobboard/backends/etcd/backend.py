"""The etcd backend: each method of the seam, and the part that does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Capabilities, Waiter
from jobboard.backends.etcd.arrivals import Arrivals
from jobboard.backends.etcd.audit import Audit
from jobboard.backends.etcd.batches import Batches
from jobboard.backends.etcd.books import Books
from jobboard.backends.etcd.claiming import Claiming
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.edge_audit import EdgeAudit
from jobboard.backends.etcd.edge_store import EdgeStore
from jobboard.backends.etcd.ends import Ends
from jobboard.backends.etcd.exchanges import Exchanges
from jobboard.backends.etcd.expiry import Expiry, LostLeases
from jobboard.backends.etcd.http_client import HttpClient
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.job_writer import JobWriter
from jobboard.backends.etcd.keys import Keys
from jobboard.backends.etcd.lane_rules import LaneRules
from jobboard.backends.etcd.lanes import Lanes
from jobboard.backends.etcd.leases import Leases
from jobboard.backends.etcd.leftovers import Leftovers
from jobboard.backends.etcd.limits import Limits
from jobboard.backends.etcd.maintenance import Maintenance
from jobboard.backends.etcd.options import OPTIONS, Settings
from jobboard.backends.etcd.participants import Participants
from jobboard.backends.etcd.posting import LARGEST_GRAPH, MAX_POSTINGS, Posting
from jobboard.backends.etcd.read_modify_write import ReadModifyWrite
from jobboard.backends.etcd.reading import Reading
from jobboard.backends.etcd.ready_queue import ReadyQueue
from jobboard.backends.etcd.resolving import Resolver
from jobboard.backends.etcd.schedules import Schedules
from jobboard.backends.etcd.step_audit import StepAudit
from jobboard.backends.etcd.steps import Steps
from jobboard.backends.etcd.subscriptions import Subscriptions
from jobboard.backends.etcd.worker import STOP_TIMEOUT, Worker
from jobboard.backends.findings import Migration, Shortage
from jobboard.backends.kv.jobs import JobChanges
from jobboard.backends.layout import STORED_LAYOUT
from jobboard.backends.roles import join_jobs
from jobboard.backends.timelimit import time_limit
from jobboard.events import EventKind, JobEvent

T = TypeVar("T")


class EtcdBackend(Backend):
    """``etcd://HOST:PORT,HOST:PORT/PREFIX``, and ``etcds://`` with TLS, through the server's JSON gateway.

    Every change is one transaction that compares what was read. Claims are under leases; moments are judged by the
    server's clock, which every reply tells.
    """

    scheme = "etcd"
    capabilities = Capabilities(
        processes=True,
        durable=True,
        expiry="time",
        clock="store",
        largest_batch=MAX_POSTINGS,
        largest_step=50,
        ties=True,
        edges=True,
        largest_graph=LARGEST_GRAPH,
    )
    options = OPTIONS

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        super().__init__(board, address)
        self.keys = Keys(address.path, board)
        self.http = HttpClient(Settings.of(address, options))
        self._build()

    def _build(self) -> None:
        """Make all parts anew: none of them remembers an earlier time, or the parent process."""
        self.connection = connection = Connection(self.http, self.keys)
        self._worker = Worker()
        self._leases = Leases(connection, self._worker, self._lease_lost)
        reader = JobReader(connection)
        lanes, rules = Lanes(connection, reader), LaneRules(connection)
        writer = JobWriter(connection, self._leases, reader, lanes, rules)
        leftovers = Leftovers(connection)
        batches = Batches(connection, reader, writer, lanes, rules, self._leases, leftovers)
        resolver = Resolver(connection, reader, writer, batches, self._worker)
        expiry = Expiry(connection, reader, writer, rules, resolver)
        self._lost_leases = LostLeases(connection, self._leases, writer, expiry, self._worker)
        self._queue = ReadyQueue(connection, reader, expiry)
        self.entities = participants = Participants(connection)
        self.limits = limits = Limits(connection, reader, expiry, writer, rules)
        posting = Posting(connection, batches, expiry)
        arrivals = Arrivals()
        exchanges = Exchanges(connection, self._queue, lanes, rules, writer)
        self._claiming = Claiming(
            connection, self._queue, arrivals, exchanges, reader, writer, expiry, self._leases, self._lost_leases
        )
        ends = Ends(writer, posting, batches, resolver, leftovers)
        change = ReadModifyWrite(connection, expiry, writer, self._leases, self._lost_leases, rules, ends, resolver)
        reading = Reading(connection, reader, expiry, self._queue)
        self.jobs = join_jobs(posting, self._claiming, JobChanges(change), reading)
        self.edges = EdgeStore(connection, expiry, batches, resolver)
        self.steps = Steps(connection, expiry, writer, change)
        self.schedules = Schedules(connection, posting, batches)
        edge_audit = EdgeAudit(connection, batches, resolver)
        audit = Audit(connection, reader, expiry, limits, edge_audit, StepAudit(connection, change))
        self.maintenance = Maintenance(connection, participants, audit, limits, leftovers)
        self.books = Books(connection, change)
        self._subscriptions = Subscriptions(connection, self._worker, self._queue, self._lost_leases, arrivals)

    def _lease_lost(self, lease: int) -> None:
        self._lost_leases.handle(lease)

    # -- connection ------------------------------------------------------------------------------------------------

    def open(self, timeout: float) -> None:
        self._build()
        with time_limit(timeout):
            self.http.open(timeout, self.connection.check_server)
            self.connection.warn_of_shortages()
        self.connection.is_open = True

    def exists(self, timeout: float) -> bool:
        return self._asked(self.connection.board_exists, timeout)

    def boards(self, timeout: float) -> list[str]:
        return self._asked(self.connection.board_names, timeout)

    def migrate(self, timeout: float) -> Migration:
        found = self._asked(lambda: self.connection.upgrade(self._count_running), timeout)
        return Migration(None if found is None else found.decode(), STORED_LAYOUT.decode())

    def _count_running(self) -> int:
        return sum(entity.expires_in > 0 for entity in self.entities.all())

    def shortages(self) -> list[Shortage]:
        return self.connection.shortages()

    def _asked(self, ask: Callable[[], T], timeout: float) -> T:
        """Return what a question answers for which nothing but the connection is opened, unless the board is open."""
        if self.connection.is_open:
            return ask()
        answers: list[T] = []
        with time_limit(timeout):
            self.http.open(timeout, lambda: answers.append(ask()))
            self.http.close()
        return answers[0]

    def close(self) -> None:
        self.connection.is_open = False
        self._subscriptions.close()
        self._worker.close(STOP_TIMEOUT)
        with time_limit(self.http.timeout):
            self._leases.close(self._lost_leases.is_needed)
        self.http.close()

    @property
    def connected(self) -> bool:
        return self.connection.is_open and self.http.is_reachable

    def now(self) -> float:
        return self.connection.now()

    def seconds_until(self, moment: float) -> float:
        return moment - self.connection.latest()

    # -- reading, waiting and events -------------------------------------------------------------------------------

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        return self._subscriptions.waiter(names)

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        return self._subscriptions.listen(tell, kinds)
