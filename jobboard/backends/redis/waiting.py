"""Waiting on Redis: a waiter is armed on the server, which publishes its id when a job may be ready."""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid as uuids
from collections.abc import Callable

from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.codec import claim_parts, pack, wake_up_of
from jobboard.backends.redis.events import Subscriptions
from jobboard.backends.redis.moments import micros
from jobboard.backends.redis.wake_ups import WakeUps
from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.backends.waiter import ConditionWaiter
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.redis")

#: No waiter sleeps longer than this, in seconds, before it asks again: that is what a lost message costs at most.
MAX_SLEEP = 5.0

#: Only claims of at least this many seconds are made ahead: of their beginning this client knows that it was not before
#: the waiter was armed, up to :data:`MAX_SLEEP` ago, and there must be time for the first renewal.
MIN_EXPIRY = 3 * MAX_SLEEP


class Waiters:
    """The waiters of one client, by their ids.

    :param claimed_under: returns the jobs that are claimed under a claim id.
    :param search: returns how many claims by some names there were, and where the next one begins to search for
        exchanges.
    """

    def __init__(
        self,
        client: RedisClient,
        subscriptions: Subscriptions,
        claimed_under: Callable[[str], list[JobRow]],
        search: Callable[[frozenset[str] | None], tuple[int, int]],
    ) -> None:
        self._client = client
        self.claimed_under = claimed_under
        self.search = search
        self._subscriptions = subscriptions
        self._lock = threading.Lock()
        self._waiters: dict[bytes, RedisWaiter] = {}
        #: Owners with a claim that nobody expects: the server carried its request out late, after this client gave up.
        self.unexpected: set[str] = set()
        self._number = 0
        self._me = ""
        self._is_subscribed = False
        self._closed = True
        subscriptions.resubscribed = self._notify_all

    def open(self) -> None:
        """Begin anew, under a name of its own; a forked child leaves its parent's waiters alone."""
        self._lock = threading.Lock()
        self._waiters, self.unexpected, self._is_subscribed = {}, set(), False
        self._me = uuids.uuid4().hex
        self._closed = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            waiters, self._waiters = list(self._waiters.values()), {}
        for waiter in waiters:
            waiter.board_closed()

    def waiter(self, names: frozenset[str] | None) -> RedisWaiter:
        waiter = RedisWaiter(self, names)
        with self._lock:
            self._number += 1
            id = f"{self._me}/{self._number}"
        self.register(waiter, id)
        return waiter

    def register(self, waiter: RedisWaiter, id: str) -> None:
        """Know a waiter by this id, of which the part before the slash names the channel of its wake-ups."""
        with self._lock:
            if self._closed:
                raise BoardUnavailable("the board is closed")
            self._waiters.pop(waiter.id.encode(), None)
            waiter.id = id
            self._waiters[id.encode()] = waiter

    # -- for the waiters -------------------------------------------------------------------------------------------

    def ready_in(
        self,
        names: frozenset[str] | None,
        id: str | None = None,
        claim: ClaimRequest | None = None,
        message: bool = False,
        begin: int | None = None,
    ) -> tuple[float | None, str | None]:
        """Return the seconds until a job may be ready; with an id, arm that waiter if none is ready now.

        Then return also the claim id with which it was armed before, if nothing was claimed under that.

        :param message: whether a waiter that is armed gets an empty message.
        :param begin: where the next claim begins to search for exchanges, which count then.
        """
        wanted = None if names is None else list(names)
        asked = None if claim is None else claim_parts(claim, 1, names)
        request = pack([wanted, id, micros(MAX_SLEEP), asked, message, begin])
        _, moment, withdrawn, _ = self._client.call_until_current("ready_in", request)
        return None if moment < 0 else moment / 1e6, _id_of(withdrawn)

    def disarm(self, waiter: RedisWaiter) -> str | None:
        """Disarm a waiter, and return the claim id with which it was armed, if nothing was claimed under that."""
        return _id_of(self._client.read("disarm", waiter.id)[1])

    @property
    def may_claim_ahead(self) -> bool:
        """Whether a claim may be relied on that this client has not waited for."""
        return not self._client.waits_for_copies

    def subscribe(self) -> None:
        """Let the messages that wake waiters reach this client."""
        if not self._is_subscribed:
            self._subscriptions.subscribe([self._channel(self._me)], self._notify)
            self._is_subscribed = True

    def wake_ups_for(self, waiter: RedisWaiter, lock: threading.RLock) -> WakeUps:
        """Give a waiter a channel and a connection of its own."""
        own = uuids.uuid4().hex
        self.register(waiter, f"{own}/1")
        connect, timeout = self._subscriptions.connect, self._subscriptions.timeout
        return WakeUps(lock, connect, self._channel(own), timeout, self._notify, waiter.look_again)

    def _channel(self, part: str) -> bytes:
        return f"{self._client.key}:wake:{part}".encode()

    def forget(self, waiter: RedisWaiter, is_armed: bool) -> None:
        """Forget a waiter, also on the server."""
        with self._lock:
            known = self._waiters.pop(waiter.id.encode(), None)
        if known is None or not is_armed:
            return
        try:
            self.disarm(waiter)
        except BoardUnavailable as error:
            logger.debug("waiter %s stays armed until the server forgets it: %s", waiter.id, error)

    def _notify(self, message: bytes) -> None:
        waiter = self._waiters.get(message)
        if waiter is not None:
            waiter.notify()
        elif not message.startswith(self._me.encode()):
            # Otherwise that waiter has just been closed.
            self._notify_of_claim(message)

    def _notify_of_claim(self, message: bytes) -> None:
        try:
            id, claim_id, rows = wake_up_of(message)
        except Exception:
            # Garbage on the channel must not end the subscription; the waiter that it was for finds its jobs later.
            logger.exception("a wake-up can't be read")
            return
        waiter = self._waiters.get(id)
        if waiter is None or not waiter.learn(claim_id, rows):
            self.unexpected.update(row.owner for row in rows if row.owner is not None)
            self._notify_all()

    def _notify_all(self) -> None:
        for waiter in list(self._waiters.values()):
            waiter.look_again()


class RedisWaiter(ConditionWaiter):
    """Armed by every ``ready_in`` that finds nothing, under an id that the scripts know.

    With a claim request, the script that posts a job claims it for the waiter, and the wake-up has the job. What a lost
    wake-up had is found by the claim id, as soon as the server says that the waiter is not armed any more.
    """

    def __init__(self, waiters: Waiters, names: frozenset[str] | None) -> None:
        super().__init__(names, time.monotonic, MAX_SLEEP)
        self.id = ""
        self._waiters = waiters
        #: Those that this waiter reads itself, if it does; then it waits for them on its condition.
        self._wake_ups: WakeUps | None = None
        self._is_armed = False
        self._has_asked = False
        #: How many claims by its names there were before its last look.
        self._claims = 0
        self._owner: tuple[str, float] | None = None
        #: The claim ids under which the server may claim, or may have claimed, and when each request was sent.
        self._asked: dict[str, float] = {}
        self._claimed: list[JobRow] = []
        self._claimed_after = math.inf

    def claim_ahead(self, who: str, expiry: float) -> None:
        # A waiter that claims ahead waits again and again: a connection of its own is worth it.
        self._changed = self._wake_ups = self._waiters.wake_ups_for(self, self._lock)
        if expiry >= MIN_EXPIRY and self._waiters.may_claim_ahead:
            self._owner = who, expiry

    def ready_in(self) -> float | None:
        self._check()
        begin = self._next_search()
        if not self._has_asked:
            # Most waiters find a job at once, and then need no subscription.
            due, _ = self._waiters.ready_in(self._names, begin=begin)
            if due is not None and due <= 0:
                return due
            self._has_asked = True
        self._subscribe()
        self._begin_to_look()
        self._is_armed = True
        wants_message = self._wake_ups is not None and self._wake_ups.wants_message
        due = self._arm(wants_message, begin)
        if due is not None:
            self._expect(self._clock() + due)
            if due <= 0:
                # The server arms no waiter that has a job to claim.
                self._is_armed = False
        if self._wake_ups is not None and wants_message and self._is_armed:
            self._wake_ups.expect_message()
        if self._claimed:
            # It may have come before the moment was forgotten.
            self.notify()
        return due

    def _next_search(self) -> int | None:
        """Return where the next claim begins to search, unless none came before this look: the next may not, either."""
        was = self._claims
        self._claims, begin = self._waiters.search(self._names)
        return None if self._claims == was else begin

    def _subscribe(self) -> None:
        if self._wake_ups is None:
            self._waiters.subscribe()
        else:
            self._wake_ups.open()

    def _arm(self, message: bool, begin: int | None) -> float | None:
        if self._owner is None:
            return self._waiters.ready_in(self._names, self.id, None, message, begin)[0]
        who, expiry = self._owner
        claim = ClaimRequest(who, uuids.uuid4().hex, expiry)
        with self._lock:
            self._asked[claim.claim_id] = time.monotonic()
        due, withdrawn = self._waiters.ready_in(self._names, self.id, claim, message, begin)
        if due is not None and due < MAX_SLEEP:
            # The server keeps no claim request of a waiter that wakes so soon.
            self._asked.pop(claim.claim_id, None)
        self._find_lost(withdrawn, claim.claim_id)
        return due

    def _find_lost(self, withdrawn: str | None, standing: str | None = None) -> None:
        """Find what was claimed under requests that neither stand nor were withdrawn, unless a wake-up has said it."""
        with self._lock:
            self._asked.pop(withdrawn or "", None)
            unknown = [claim_id for claim_id in self._asked if claim_id != standing]
        for claim_id in unknown:
            self.learn(claim_id, self._waiters.claimed_under(claim_id))

    def learn(self, claim_id: str, rows: list[JobRow]) -> bool:
        """Learn what was claimed under a request, if anything; return False if nothing is known of that request."""
        with self._lock:
            asked = self._asked.pop(claim_id, None)
            if asked is not None and rows:
                self._claimed += rows
                self._claimed_after = min(self._claimed_after, asked)
            self._is_armed = False
            self._earliest = -math.inf
            self._changed.notify_all()
        return asked is not None

    def claimed(self) -> tuple[list[JobRow], float]:
        if self._asked:
            self._is_armed = False
            self._find_lost(self._waiters.disarm(self))
        with self._lock:
            found, since = self._claimed, self._claimed_after
            self._claimed, self._claimed_after = [], math.inf
        if self._owner is not None and self._owner[0] in self._waiters.unexpected:
            self._waiters.unexpected.discard(self._owner[0])
            since = -math.inf
        return found, since

    def notify(self, name: str | None = None, at: float = -math.inf) -> None:
        self._is_armed = False
        super().notify(name, at)

    def look_again(self) -> None:
        """Learn that a wake-up may have been missed."""
        super().notify()

    def close(self) -> None:
        self._waiters.forget(self, self._is_armed)
        if self._wake_ups is not None:
            self._wake_ups.close()


def _id_of(claim_id: bytes | None) -> str | None:
    return None if claim_id is None else claim_id.decode()
