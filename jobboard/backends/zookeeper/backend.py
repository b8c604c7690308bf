"""The ZooKeeper backend, put together from its collaborators."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kazoo.client import KazooClient, KazooState

from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Capabilities, Waiter
from jobboard.backends.findings import Migration
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.kv.jobs import JobChanges
from jobboard.backends.layout import STORED_LAYOUT
from jobboard.backends.roles import forward_roles, join_jobs
from jobboard.backends.timelimit import time_limit
from jobboard.backends.warn_once import warn_once
from jobboard.backends.zookeeper.audit import Auditor
from jobboard.backends.zookeeper.books import Books
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.claim_selection import ClaimSelection
from jobboard.backends.zookeeper.claiming import Claimer, Renewals
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.creation import BoardCreation
from jobboard.backends.zookeeper.edge_audit import EdgeAuditor
from jobboard.backends.zookeeper.edge_resolver import EdgeResolver
from jobboard.backends.zookeeper.edge_store import EdgeStore
from jobboard.backends.zookeeper.entities import Entities
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.lane_audit import LaneAuditor
from jobboard.backends.zookeeper.lane_limits import LaneLimits
from jobboard.backends.zookeeper.lane_looks import LaneLooks
from jobboard.backends.zookeeper.lanes import Lanes
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.limits import Limits
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.maintenance import Maintenance
from jobboard.backends.zookeeper.name_guards import NameGuards
from jobboard.backends.zookeeper.notifier import ChangeNotifier
from jobboard.backends.zookeeper.options import OPTIONS, access, client_settings
from jobboard.backends.zookeeper.pauses import Pauses
from jobboard.backends.zookeeper.posting import Poster
from jobboard.backends.zookeeper.read_modify_write import HeldJobs, ReadModifyWrite
from jobboard.backends.zookeeper.reading import BoardReader
from jobboard.backends.zookeeper.remains import Remains
from jobboard.backends.zookeeper.schedules import Schedules
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.step_audit import StepAuditor
from jobboard.backends.zookeeper.steps import Steps
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.transactions import Transactions
from jobboard.backends.zookeeper.units import UnitWriter
from jobboard.backends.zookeeper.upkeep import Upkeep
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent

logger = logging.getLogger("jobboard.zookeeper")

#: The one right that allows no change.
_READ = 1
#: For how many seconds a close waits in all.
CLOSE_TIMEOUT = 3.0


T = TypeVar("T")
Collaborator = TypeVar("Collaborator")


class ZooKeeperBackend(Backend):
    """``zookeeper://HOST:PORT,HOST:PORT/ROOT``; ``client=`` takes a kazoo client that is started already.

    Every mutation is one transaction. A claim ends with its client's session, or at its expiry if that is sooner.
    """

    scheme = "zookeeper"
    capabilities = Capabilities(
        processes=True,
        durable=True,
        expiry="time",
        clock="store",
        # More would not fit the 1 MB that a transaction can have, if all names and keys are as long as may be.
        largest_batch=200,
        ties=True,
        edges=True,
        largest_graph=100,
    )
    options = OPTIONS

    def __init__(
        self,
        board: str,
        address: Address,
        *,
        client: KazooClient | None = None,
        acl: Sequence[Any] | None = None,
        session_timeout: float = 10.0,
        request_timeout: float = 5.0,
        **options: Any,
    ) -> None:
        super().__init__(board, address)
        if client is not None and (address.hosts or address.username or options):
            raise ValueError("with client=, the hosts, the user and the options of a connection are the client's own")
        #: Whether a session was lost since the board was created: the servers may have gone back to an older backup.
        self._may_be_missing = False
        self._logs_in = bool(address.username is not None or options.get("sasl_options"))
        self._acl = access("creator") if acl is None and self._logs_in else acl
        self._settings = client_settings(address, session_timeout, options)
        self._lent = client
        self._request_timeout = request_timeout
        self._layout = Layout(address.path.rstrip("/") or "/jobboard", board)
        self._assemble()
        forward_roles(self, self._begin_in_role)

    def _assemble(self) -> None:
        """Build the collaborators; they belong to one process."""
        self._pid = os.getpid()
        layout, clock, listing, held = self._layout, ServerClock(), Listing(), HeldJobs()
        connection = Connection(self._settings, self._request_timeout, self._lent, self._acl, self._state_changed)
        sessions = Sessions(connection, layout, clock)
        reader = JobReader(connection, layout, sessions)
        change_log = ChangeLogReader(connection, layout, sessions, listing, reader)
        transactions = Transactions(connection, layout, change_log, clock)
        limits = LaneLimits(connection, layout, listing)
        lanes = Lanes(layout, clock, listing, change_log, reader, limits)
        looks = LaneLooks(listing, transactions, limits, lanes)
        writer = UnitWriter(transactions, lanes, clock.now)
        jobs = ReadModifyWrite(connection, layout, reader, writer, sessions, clock, held, lanes)
        poster = Poster(connection, layout, clock, reader, transactions, jobs, lanes)
        resolver = EdgeResolver(connection, layout, clock, change_log, reader, transactions, lanes, writer)
        remains = Remains(connection, layout)
        writer.poster, writer.resolver, writer.remains = poster, resolver, remains
        entities = Entities(connection, layout, clock, sessions)
        upkeep = Upkeep(clock, sessions, listing, change_log, jobs, entities, looks, resolver, remains)
        lane_auditor = LaneAuditor(connection, layout, clock, listing, reader, transactions, limits, looks)
        edge_auditor = EdgeAuditor(connection, layout, clock, transactions, resolver, remains)
        step_auditor = StepAuditor(connection, layout, jobs)
        auditor = Auditor(
            connection,
            layout,
            clock,
            listing,
            change_log,
            reader,
            transactions,
            jobs,
            lane_auditor,
            edge_auditor,
            step_auditor,
        )
        books = Books(connection, layout, transactions, jobs)
        pauses, guards = Pauses(connection, layout, transactions), NameGuards(connection, layout, listing, change_log)
        board_limits = Limits(connection, layout, clock, listing, transactions, jobs, upkeep, pauses, limits, looks)
        maintenance = Maintenance(connection, upkeep, auditor, books, pauses, board_limits)
        self._seen = seen = dict[str, StoredJob]()
        claimer = Claimer(layout, clock, sessions, transactions, jobs, held, guards, upkeep, seen)
        self._connection, self._sessions, self._clock, self._held = connection, sessions, clock, held
        self._limits, self._guards = limits, guards
        self._change_log = change_log
        self._creation = BoardCreation(connection, layout, sessions, reader)
        changes = JobChanges(jobs)
        renewals = Renewals(connection, sessions, changes, held)
        self._selection = ClaimSelection(
            connection, layout, clock, listing, change_log, reader, claimer, upkeep, guards, looks
        )
        board_reader = BoardReader(connection, layout, clock, listing, change_log, reader, jobs, upkeep, seen)
        schedules = Schedules(connection, layout, clock, listing, change_log, transactions, poster)
        self._in_roles = {
            "jobs": join_jobs(poster, renewals, changes, claimer, self._selection, board_reader),
            "schedules": schedules,
            "limits": board_limits,
            "edges": EdgeStore(connection, layout, clock, transactions, lanes, writer, jobs, resolver),
            "steps": Steps(connection, layout, transactions, jobs),
            "entities": entities,
            "books": books,
            "maintenance": maintenance,
        }
        self._notifier = ChangeNotifier(
            connection, layout, clock, sessions, listing, change_log, held, upkeep, self.board
        )

    # -- connection ------------------------------------------------------------------------------------------------

    def boards(self, timeout: float) -> list[str]:
        return self._asked(self._creation.boards, timeout)

    def migrate(self, timeout: float) -> Migration:
        found = self._asked(self._creation.upgrade, timeout)
        return Migration(None if found is None else found.decode(), STORED_LAYOUT.decode())

    def _asked(self, ask: Callable[[], T], timeout: float) -> T:
        """Return what a question answers for which nothing but the connection is opened, unless the board is open."""
        if self._connection.is_open:
            return ask()
        with time_limit(timeout):
            self._connection.open(timeout)
            try:
                return ask()
            finally:
                self._connection.close(keep_session=False)

    def open(self, timeout: float) -> None:
        if self._pid != os.getpid():
            self._connection.forget_after_fork()
            self._assemble()
        with time_limit(timeout):
            self._connection.open(timeout)
            try:
                self._creation.create(timeout)
            except BaseException:
                self._sessions.forget()
                self._connection.close(keep_session=False)
                raise
        self._connection.is_open = True
        self._warn_if_open_to_all()

    def _warn_if_open_to_all(self) -> None:
        """A client that logs in wants to keep others out; znodes that are open to everybody by mistake stay so."""
        if self._logs_in and any(row.id.scheme == "world" and row.perms & ~_READ for row in self._connection.acl):
            warn_once(
                logger,
                "board %r logs in, but its znodes are open to everybody: acl=creator closes new ones",
                self.board,
            )

    def close(self) -> None:
        """Let go. Claims stay: then the session is left to its own end, or, of a lent client, the presence."""
        self._connection.is_open = False
        self._notifier.close_waiters()
        with time_limit(CLOSE_TIMEOUT):
            self._notifier.stop()
            presence = self._sessions.present
            holds = presence is not None and bool(self._held.under(presence))
            if self._lent is not None and presence is not None and not holds:
                try:
                    self._sessions.withdraw(presence)
                except BoardUnavailable as error:
                    logger.debug("the presence of board %s is left to its session: %s", self.board, error)
            self._connection.close(keep_session=holds)
            self._sessions.forget()
            self._held.clear()
            self._seen.clear()
            self._change_log.clear()

    @property
    def connected(self) -> bool:
        return self._connection.is_open and self._connection.connected

    def now(self) -> float:
        self._connection.check_open()
        return self._clock.now()

    def seconds_until(self, moment: float) -> float:
        return moment - self.now() - self._clock.slack

    def refresh(self) -> None:
        self._sessions.begin()
        self._change_log.refresh()

    def _state_changed(self, state: str) -> None:
        """Learn from kazoo's thread how the connection is; must not block."""
        if state != KazooState.CONNECTED:
            self._held.doubt()
            self._limits.clear()
            self._guards.forget()
            self._seen.clear()
        if state == KazooState.LOST:
            self._may_be_missing = True
            self._change_log.doubt()
            self._sessions.give_up()
        self._notifier.state_changed(state)

    def _begin(self, collaborator: Collaborator) -> Collaborator:
        """Return a collaborator, once the board is open, connected, and of the present session."""
        self._sessions.begin()
        if self._may_be_missing:
            # Cleared before, since the session may be lost once more meanwhile.
            self._may_be_missing = False
            try:
                self._creation.create(self._request_timeout)
            except BaseException:
                self._may_be_missing = True
                raise
        return collaborator

    def _begin_in_role(self, role: str, method: str, *arguments: Any, **options: Any) -> Any:
        collaborator = self._in_roles[role]
        # It begins by itself.
        if method != "extend":
            self._begin(collaborator)
        return getattr(collaborator, method)(*arguments, **options)

    # -- waiting and events ------------------------------------------------------------------------------------------

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        return self._begin(self._notifier).waiter(names)

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        return self._begin(self._notifier).listen(tell, kinds)
