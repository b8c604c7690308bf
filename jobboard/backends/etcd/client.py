"""A client of one board on etcd: open and closed, its transactions, and jobs as they are stored."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from jobboard.backends.address import Address
from jobboard.backends.base import Backend
from jobboard.backends.etcd.gateway import Gateway
from jobboard.backends.etcd.keys import Keys, decoded, is_order, place_of
from jobboard.backends.etcd.layout import Stored
from jobboard.backends.etcd.leases import Leases
from jobboard.backends.etcd.options import Settings
from jobboard.backends.etcd.rows import Grant, Hint, Row, newer_row, row_of
from jobboard.backends.etcd.txn import (
    Done,
    Found,
    KeyValue,
    Op,
    Txn,
    after,
    at_revision,
    done_of,
    get,
    many,
    parts_of,
    scan,
    scan_prefix,
)
from jobboard.backends.etcd.worker import Worker
from jobboard.backends.timelimit import time_limit
from jobboard.codec import NewerFormat
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

logger = logging.getLogger("jobboard.etcd")

V = TypeVar("V")

#: How many jobs a client remembers the places of, and how many of its own claims.
_MOST_KNOWN = 20_000

#: What the record of a job on the board says of it.
_UNHELD = (JobState.DELAYED, JobState.UNCLAIMED)

#: How many boards are asked for, where one is missing.
_MOST_BOARDS = 100

#: What it takes to read one job at its place.
_PARTS = 4

#: For how many seconds a closing client waits for a thread of its own.
FAREWELL = 1.0


class Client(Backend):
    """What the parts of the etcd backend stand on."""

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        super().__init__(board, address)
        self.keys = Keys(address.path, board)
        self.gateway = Gateway(Settings.of(address, options))
        self._is_open = False
        self._opened_anew()

    def _opened_anew(self) -> None:
        """Forget what an earlier time, or the parent process, has left."""
        self._worker = Worker()
        self.leases = Leases(self.gateway, self._worker, self.keys, self._lease_lost)
        self._orders: Memory[bytes] = Memory(_MOST_KNOWN)
        self._held: Memory[Stored] = Memory(_MOST_KNOWN)
        #: The places of jobs whose records only later versions can read: this client claims them no more.
        self._newer: dict[bytes, Hint] = {}
        self._sequence = 0
        self._sequence_lock = threading.Lock()

    def boards(self, timeout: float) -> list[str]:
        """Ask once for each board, up to a number; this one, if it is there, is asked for first."""
        names: list[str] = []
        with time_limit(timeout):
            self.gateway.open(timeout, lambda: names.extend(self._board_names()))
            self.gateway.close()
        return names

    def _board_names(self) -> list[str]:
        if self._ask([scan_prefix(self.keys.root, 1, keys_only=True)])[0].first is not None:
            return [self.board]
        home, names = self.keys.home, list[str]()
        start, end = home, after(home)
        while len(names) < _MOST_BOARDS:
            first = self._ask([scan(start, end, 1, keys_only=True)])[0].first
            if first is None:
                break
            part = first.key[len(home) :].partition(b"/")[0]
            names.append(decoded(part))
            start = after(home + part + b"/")
        return names

    def open(self, timeout: float) -> None:
        self._opened_anew()
        with time_limit(timeout):
            self.gateway.open(timeout, self._check_server)
        self._is_open = True

    def _check_server(self) -> None:
        self._ask([get(self.keys.sequence)])
        if not self.gateway.clock.is_known:
            raise BoardUnavailable(
                f"what answers at {self.gateway.where} tells no time, by which claims and delays end: its replies lack "
                "the header Date; let a proxy before etcd pass it on"
            )

    def close(self) -> None:
        self._is_open = False
        self._worker.close(FAREWELL)
        with time_limit(self.gateway.timeout):
            self.leases.close(self._is_claimed_under)
        self.gateway.close()

    @property
    def connected(self) -> bool:
        return self._is_open and self.gateway.answers

    def now(self) -> float:
        return self.gateway.clock.earliest()

    def seconds_until(self, moment: float) -> float:
        return moment - self.gateway.clock.latest()

    def end_of(self, seconds: float) -> float:
        """Return the moment at which so many seconds from now are over for certain."""
        return self.gateway.clock.latest() + seconds

    def end_of_claim(self, expiry: float) -> float | None:
        """Return when a claim ends that is made or extended now; None if never."""
        end = self.end_of(expiry)
        return None if end == float("inf") else end

    def _check_open(self) -> None:
        if not self._is_open:
            raise BoardUnavailable("the board is closed")

    def _is_claimed_under(self, lease: int) -> bool:
        """Whether any claim is under this lease, as far as it takes to know."""
        raise NotImplementedError

    def _lease_lost(self, lease: int) -> None:
        """Learn that the claims under a lease are over."""
        raise NotImplementedError

    # -- requests --------------------------------------------------------------------------------------------------

    def _ask(self, ops: Sequence[Op]) -> list[Found]:
        """Read several ranges at one moment, whatever their number; one answer for each."""
        found: list[Found] = []
        revision = 0
        for part in parts_of(ops):
            then = [at_revision(op, revision) for op in part] if revision else part
            done = done_of(self.gateway.call("/kv/txn", Txn(then=many(then)).payload(), changes=False))
            revision = revision or done.revision
            found += done.found()
        return found

    def _send(self, txn: Txn) -> Done:
        """Send a transaction that changes something."""
        return done_of(self.gateway.call("/kv/txn", txn.payload(), changes=True))

    # -- jobs as they are stored -----------------------------------------------------------------------------------

    def _parts_of(self, order: bytes) -> list[Op]:
        """Return what reads one job wherever it is; see :meth:`_stored_from`."""
        keys = self.keys
        return [
            get(keys.live + order), get(keys.claim(order)), get(keys.done + order), get(keys.trashed + order),
        ]  # fmt: skip

    def _stored_from(
        self, order: bytes, found: Sequence[Found], sessions: Collection[int], uuid: str | None
    ) -> Stored | None:
        live, claim, done, trashed = (part.first for part in found)
        if not is_order(order):
            return None
        if live is not None:
            return self._live_from(order, live, claim, sessions, uuid)
        record = done or trashed
        if record is None:
            return None
        state = JobState.COMPLETE if done else JobState.TRASHED
        row = self._row_from(order, record, uuid)
        row.state = state
        return Stored(row, order, record.key, record.modified)

    def _live_from(
        self, order: bytes, live: KeyValue, claim: KeyValue | None, sessions: Collection[int], uuid: str | None = None
    ) -> Stored:
        row = self._row_from(order, live, uuid)
        stored = Stored(row, order, live.key, live.modified)
        if row.state not in _UNHELD:
            # It stands among the live ones, so it can't be what it says.
            stored.row = row = self._wreck_of(order, live, uuid)
        if claim is not None:
            stored.claim_revision = claim.modified
            row.granted = claim.created
            try:
                row.grant = Grant.of(claim.value)
            except ValueError:
                # Nobody can hold what can't be read: it counts as a claim that is over.
                row.grant = Grant(row.name, "", "", 0.0, 0.0, 0)
            if row.is_wreck or row.newer is not None:
                row.name = row.grant.name
            stored.is_held = row.grant.lease == 0 or row.grant.lease in sessions
        return stored

    def _row_from(self, order: bytes, record: KeyValue, uuid: str | None) -> Row:
        try:
            row = row_of(record.value)
            return row if row.order == order else self._wreck_of(order, record, uuid)
        except NewerFormat:
            return newer_row(self._hint_of_newer(order, uuid), *place_of(order), record.value)
        except ValueError:
            return self._wreck_of(order, record, uuid)

    def _hint_of_newer(self, order: bytes, uuid: str | None) -> Hint:
        """Find out which job it is whose record only later versions can read; one request for each, once."""
        hint = self._newer.get(order)
        if hint is None:
            (ready,) = self._ask([get(self.keys.ready(order))])
            hint = None if ready.first is None else Hint.of(ready.first.value)
            hint = hint or _unknown(order, uuid)
            if len(self._newer) < _MOST_KNOWN:
                self._newer[order] = hint
        return hint if uuid is None else replace(hint, uuid=uuid)

    def _wreck_of(self, order: bytes, record: KeyValue, uuid: str | None) -> Row:
        hint, (priority, sequence) = self._identify(order, uuid), place_of(order)
        wreck = Row(hint.uuid, hint.name, priority, sequence, hint.created_on, record.value)
        wreck.is_wreck = True
        return wreck

    def _identify(self, order: bytes, uuid: str | None) -> Hint:
        """Find out which job stands at a place where its record can't be read."""
        keys = self.keys
        ready, pointers = self._ask([get(keys.ready(order)), scan_prefix(keys.jobs)])
        hint = None if ready.first is None else Hint.of(ready.first.value)
        if hint is not None:
            return hint
        found = next((kv.key for kv in pointers.kvs if kv.value == order), None)
        if uuid is None and found is not None:
            uuid = decoded(found[len(keys.jobs) :])
        return _unknown(order, uuid)

    def _leases_of(self, sessions: Found) -> frozenset[int]:
        """Return the leases under which claims hold."""
        leases = (self.keys.lease_of(kv.key) for kv in sessions.kvs)
        return frozenset(lease for lease in leases if lease is not None)

    def _orders_of(self, uuids: Iterable[str]) -> dict[str, bytes]:
        """Find the places of jobs: those that are not known yet, in one request."""
        known = {uuid: order for uuid in uuids if (order := self._orders.get(uuid)) is not None}
        unknown = [uuid for uuid in dict.fromkeys(uuids) if uuid not in known]
        if unknown:
            pointers = self._ask([get(self.keys.job(uuid)) for uuid in unknown])
            for uuid, found in zip(unknown, pointers, strict=True):
                if found.first is not None and is_order(found.first.value):
                    known[uuid] = found.first.value
                    self._orders.put(uuid, found.first.value)
        return known

    def _fetch_at(self, orders: Sequence[bytes], uuids: Sequence[str | None] | None = None) -> list[Stored | None]:
        """Read jobs at their places, at one moment, as they are stored; None at what is no place of a job."""
        if not any(map(is_order, orders)):
            return [None] * len(orders)
        parts = [part for order in orders for part in self._parts_of(order)]
        sessions, *found = self._ask([scan_prefix(self.keys.sessions, keys_only=True), *parts])
        leases = self._leases_of(sessions)
        return [
            self._stored_from(
                order, found[_PARTS * at : _PARTS * (at + 1)], leases, None if uuids is None else uuids[at]
            )
            for at, order in enumerate(orders)
        ]

    def _fetch(self, uuids: Sequence[str]) -> list[Stored | None]:
        """Read jobs as they are stored: in one request if their places are known, else in two."""
        found: dict[str, Stored | None] = {}
        for _ in range(2):
            missing = [uuid for uuid in dict.fromkeys(uuids) if found.get(uuid) is None]
            orders = self._orders_of(missing)
            there = [uuid for uuid in missing if uuid in orders]
            jobs = self._fetch_at([orders[uuid] for uuid in there], there)
            found |= dict(zip(there, jobs, strict=True))
            moved = [uuid for uuid, job in zip(there, jobs, strict=True) if job is None]
            for uuid in moved:
                # Its place has changed since it was found, or it is gone.
                self._orders.forget(uuid)
            if not moved:
                break
        return [found.get(uuid) for uuid in uuids]

    # -- time ------------------------------------------------------------------------------------------------------

    def _until(self, deadline: float, what: str) -> None:
        """Give up once a loop has gone on for too long."""
        if time.monotonic() > deadline:
            raise BoardUnavailable(f"others are always faster: {what}")


def _unknown(order: bytes, uuid: str | None) -> Hint:
    return Hint(uuid or "00000000-0000-0000-0000-000000000000", "unknown", int(order[2:]) / 1e6)


class Memory(Generic[V]):
    """The latest of what was put in; thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._content: OrderedDict[str, V] = OrderedDict()

    def get(self, key: str) -> V | None:
        return self._content.get(key)

    def put(self, key: str, value: V) -> None:
        with self._lock:
            self._content[key] = value
            self._content.move_to_end(key)
            while len(self._content) > self._most:
                self._content.popitem(last=False)

    def forget(self, key: str) -> None:
        with self._lock:
            self._content.pop(key, None)

    def values(self) -> list[V]:
        with self._lock:
            return list(self._content.values())
