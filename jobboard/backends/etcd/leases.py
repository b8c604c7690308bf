"""Leases: one with a session for all claims of one client and expiry, and some that delete completed records."""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.errors import LeaseExists, LeaseNotFound
from jobboard.backends.etcd.events import pack_events
from jobboard.backends.etcd.txn import Txn, delete, put
from jobboard.backends.etcd.worker import Worker
from jobboard.backends.locks import lock_within
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.etcd")

#: A claim that lasts longer than this many seconds has no lease; etcd's own limit is near it.
_MAX_LEASE = 6_000_000_000.0

#: How much longer a lease lives than the claims under it. It is renewed when this much of it is gone, so that no
#: session ends before the times of its claims are over.
_SLACK = 4 / 3

#: How often a claim tries to get a lease that lasts long enough.
_MAX_RETRIES = 3

#: How many records one lease deletes at most; the server does so in one step.
_MAX_RECORDS = 1000


@dataclass(slots=True)
class _Lease:
    id: int
    ttl: int
    #: The moment, or a later one, at which it got its whole time.
    renewed: float
    used: float = field(default_factory=time.monotonic)
    records: int = 0


class Leases:
    """Leases of this client, each granted when it is first needed.

    :param lost: called with a lease of claims that is gone, since its claims end with it.
    """

    def __init__(self, connection: Connection, worker: Worker, lost: Callable[[int], None]) -> None:
        self._http = connection.http
        self._keys = connection.keys
        self._worker = worker
        self._lost = lost
        self._lock = threading.Lock()
        #: Held during a request, so that two threads don't ask for the same lease.
        self._asking = threading.Lock()
        self._claims: dict[int, _Lease] = {}
        self._records: dict[int, _Lease] = {}

    def for_claims(self, expiry: float) -> int:
        """Return a lease for claims of this many seconds, which lasts at least as long; 0 if they need none."""
        if expiry > _MAX_LEASE:
            return 0
        ttl = _rounded(expiry * _SLACK)
        for _ in range(_MAX_RETRIES):
            lease = self._claims.get(ttl)
            if lease is None or _left_of(lease) < expiry:
                lease = self._lasting(ttl, expiry)
            # Meanwhile its time may have become too short, or another thread may have dropped it as unused.
            if lease is not None and _left_of(lease) >= expiry and self._is_in_use(ttl, lease):
                return lease.id
        raise BoardUnavailable(f"etcd replies too slowly: a lease of {ttl} s ran out before it could be used")

    def _lasting(self, ttl: int, expiry: float) -> _Lease | None:
        """Return a lease that lasts long enough; None if it expired as soon as it was granted."""
        with self._one_at_a_time():
            lease = self._claims.get(ttl)
            if lease is not None and _left_of(lease) < expiry:
                # It was renewed late: its session could end before the claim.
                self._renew(ttl, lease)
                lease = self._claims.get(ttl)
            if lease is None:
                try:
                    lease = self._grant_session(ttl)
                except LeaseNotFound:
                    return None
                with self._lock:
                    self._claims[ttl] = lease
                self._worker.at(time.monotonic() + _interval(lease), self._keep_alive)
            return lease

    def _is_in_use(self, ttl: int, lease: _Lease) -> bool:
        """Whether the lease is still there to be used; from now on it is not dropped before its time."""
        with self._lock:
            lease.used = time.monotonic()
            return self._claims.get(ttl) is lease

    def _one_at_a_time(self) -> lock_within:
        fault = "etcd does not reply to the request for a lease that another thread has sent"
        return lock_within(self._asking, self._http.timeout, fault)

    def for_records(self, retention: float) -> int:
        """Return a lease that deletes a record after this many seconds, or a little more; 0 if it stays for ever."""
        if retention > _MAX_LEASE:
            return 0
        span = _rounded(max(5.0, retention / 10))
        ttl = _rounded(retention + RETRY_WINDOW) + span
        with self._one_at_a_time():
            lease = self._records.get(ttl)
            if lease is None or time.monotonic() - lease.renewed > span - 2 or lease.records >= _MAX_RECORDS:
                lease = self._records[ttl] = self._grant(ttl)
            lease.records += 1
            return lease.id

    def forget_all(self) -> None:
        """Use new leases from now on, since one of them is gone; the old ones are not renewed any more."""
        with self._lock:
            self._records.clear()
            gone = [lease.id for lease in self._claims.values()]
            self._claims.clear()
        for id in gone:
            self._lost(id)

    def forget_but(self, sessions: Collection[int]) -> None:
        """Use new leases for claims from now on, except those whose sessions still exist."""
        with self._lock:
            gone = {ttl: lease for ttl, lease in self._claims.items() if lease.id not in sessions}
            for ttl in gone:
                del self._claims[ttl]
        for lease in gone.values():
            self._lost(lease.id)

    def forget(self, id: int) -> None:
        """Use a new lease from now on instead of this one, if it belongs to this client."""
        with self._lock:
            self._claims = {ttl: lease for ttl, lease in self._claims.items() if lease.id != id}

    def close(self, is_needed: Callable[[int], bool]) -> None:
        """Revoke the leases without claims; renew the others once more, since claims outlive their client."""
        with self._lock:
            leases = list(self._claims.values())
            self._claims.clear()
            self._records.clear()
        for lease in leases:
            try:
                if is_needed(lease.id):
                    self._http.call("/lease/keepalive", {"ID": str(lease.id)}, changes=False)
                else:
                    self._revoke(lease)
            except (BoardUnavailable, LeaseNotFound) as error:
                logger.debug("lease %x is left to run out: %s", lease.id, error)

    def _grant(self, ttl: int) -> _Lease:
        # The id is chosen here, so that a request sent again after a lost reply makes no second lease.
        id, began = secrets.randbits(62) | 1, time.monotonic()
        try:
            reply = self._http.call("/lease/grant", {"TTL": str(ttl), "ID": str(id)}, changes=False)
        except LeaseExists:
            return _Lease(id, ttl, began)
        return _Lease(id, int(reply["TTL"]), began)

    def _grant_session(self, ttl: int) -> _Lease:
        lease = self._grant(ttl)
        session = put(self._keys.session(lease.id), b"", lease.id)
        self._http.call("/kv/txn", Txn(then=[session]).payload(), changes=False)
        return lease

    def _revoke(self, lease: _Lease) -> None:
        """Revoke a lease without claims; the event along with it keeps subscribers from looking for claims."""
        steps = [delete(self._keys.session(lease.id)), put(self._keys.event(0), pack_events([]))]
        self._http.call("/kv/txn", Txn(then=steps).payload(), changes=False)
        self._http.call("/lease/revoke", {"ID": str(lease.id)}, changes=False)

    # -- in the worker's thread ------------------------------------------------------------------------------------

    def _keep_alive(self) -> None:
        """Renew the leases for which it is time, and plan the next renewal."""
        now = time.monotonic()
        with self._lock:
            leases = list(self._claims.items())
        for ttl, lease in leases:
            if self._is_unused(ttl, lease):
                self._drop(lease)
            elif now - lease.renewed >= _interval(lease) - 0.01:
                try:
                    self._renew(ttl, lease)
                except BoardUnavailable as error:
                    logger.debug("lease %x is not renewed: %s", lease.id, error)
        with self._lock:
            moments = [lease.renewed + _interval(lease) for lease in self._claims.values()]
        if moments:
            self._worker.at(max(min(moments), now + 0.2), self._keep_alive)

    def _renew(self, ttl: int, lease: _Lease) -> None:
        began = time.monotonic()
        try:
            reply = self._http.call("/lease/keepalive", {"ID": str(lease.id)}, changes=False)
            left = int(reply["result"].get("TTL", 0))
        except LeaseNotFound:
            left = 0
        lease.renewed = began
        if left <= 0:
            self._forget(ttl, lease)
            self._lost(lease.id)

    def _is_unused(self, ttl: int, lease: _Lease) -> bool:
        """Whether the time of every claim under it is over; if so, it is not used any more."""
        with self._lock:
            if time.monotonic() - lease.used <= lease.ttl or self._claims.get(ttl) is not lease:
                return False
            del self._claims[ttl]
            return True

    def _drop(self, lease: _Lease) -> None:
        try:
            self._revoke(lease)
        except (BoardUnavailable, LeaseNotFound) as error:
            logger.debug("lease %x is left to run out: %s", lease.id, error)

    def _forget(self, ttl: int, lease: _Lease) -> None:
        with self._lock:
            if self._claims.get(ttl) is lease:
                del self._claims[ttl]


def _left_of(lease: _Lease) -> float:
    """Return the seconds for which a lease lasts at least."""
    return lease.renewed + lease.ttl - time.monotonic()


def _interval(lease: _Lease) -> float:
    return lease.ttl / 4


def _rounded(seconds: float) -> int:
    """Round up, to two digits above a minute, so that a client has few leases whatever it is asked for."""
    whole = max(1, math.ceil(seconds))
    digits = max(0, len(str(whole)) - 2) if whole > 60 else 0
    step: int = 10**digits
    return -(-whole // step) * step
