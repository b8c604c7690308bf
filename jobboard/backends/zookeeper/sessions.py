"""The clients of a board: each has an ephemeral znode, its presence, and its claims hold while that exists."""

from __future__ import annotations

import threading
import time
import uuid as uuids
from collections.abc import Sequence

from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import missing, refused
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.requests import Stat, fault_in
from jobboard.errors import BoardUnavailable


class Sessions:
    """This client's presence, and those of the others.

    A presence has a random name that is never used again: once gone it stays gone, so what was read of it can't become
    wrong. After a lost session the next one gets a new presence; claims under the old one have no owner any more, not
    even this client.
    """

    def __init__(self, connection: Connection, layout: Layout, clock: ServerClock) -> None:
        self._connection, self._layout, self._clock = connection, layout, clock
        self._making = threading.Lock()
        self._lock = threading.Lock()
        self._mine: tuple[str, int] | None = None
        #: Presences of this client that have ended, or that it does not trust any more.
        self._ended: set[str] = set()
        #: Those given up that were not reported yet; and those whose znodes may still exist, with their sessions.
        self._lost: list[str] = []
        self._left: list[tuple[str, int]] = []
        self._known: frozenset[str] = frozenset()
        self._known_at = -1

    # -- this client -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin an operation: the board is open and connected, and this client's presence is of the present session."""
        self._connection.check_open()
        self._connection.wait_until_connected()
        self.check_session()

    def mine(self) -> str:
        """Return the id of this client's presence in its present session; makes it if need be."""
        current = self._mine
        if current is not None and current[1] == self._connection.session_id:
            return current[0]
        with self._making:
            self.check_session()
            current = self._mine
            return current[0] if current is not None else self._make()

    def _make(self) -> str:
        self._connection.wait_until_connected()
        id = uuids.uuid4().hex
        request = self._connection.new_write()
        request.create(self._layout.session(id), b"", ephemeral=True)
        # Only the stat of something that was set tells when that was, and in whose session.
        request.set(self._layout.session(id), b"")
        sent, session = time.monotonic(), self._connection.session_id
        try:
            answers = self._connection.write(request)
        except BoardUnavailable:
            # It may exist all the same; it ends with the session, and nothing was claimed under it.
            self._ended.add(id)
            with self._lock:
                self._left.append((id, session))
            raise
        fault = fault_in(answers)
        if fault is not None:
            raise refused(self._connection.where, fault[1])
        stat: Stat = answers[1]
        self._clock.learn(stat.mtime / 1000, 0.001, sent, time.monotonic())
        with self._lock:
            self._mine = (id, stat.ephemeralOwner)
            self._known |= {id}
        self._delete_given_up(stat.ephemeralOwner)
        return id

    def _delete_given_up(self, session: int) -> None:
        """Delete presences that were given up although their session, the present one, goes on; waits for no answer.

        That frees what is claimed under them, also for clients that can't know that they were given up.
        """
        with self._lock:
            left, self._left = self._left, []
        try:
            for id, its_session in left:
                if its_session == session:
                    request = self._connection.new_write()
                    request.delete(self._layout.session(id))
                    self._connection.send(request)
        except BoardUnavailable:
            with self._lock:
                self._left += left

    def check_session(self) -> None:
        """Give up a presence whose session is not the present one."""
        current = self._mine
        if current is not None and self._connection.connected and current[1] != self._connection.session_id:
            self.give_up()

    def give_up(self) -> None:
        """Stop trusting the present presence."""
        with self._lock:
            # The servers may have gone back to a backup: the next reading counts, even if it is older.
            self._known_at = -1
            current, self._mine = self._mine, None
            if current is not None:
                self._ended.add(current[0])
                self._known -= {current[0]}
                self._lost.append(current[0])
                self._left.append(current)

    def take_lost(self) -> list[str]:
        """Return the presences that were given up since this was last asked."""
        with self._lock:
            lost, self._lost = self._lost, []
            return lost

    def has_given_up(self, presence: str) -> bool:
        return presence in self._ended

    def withdraw(self, presence: str) -> None:
        """Delete a presence of this client, which frees at once what is claimed under it."""
        request = self._connection.new_write()
        request.delete(self._layout.session(presence))
        self._connection.write(request)

    @property
    def present(self) -> str | None:
        current = self._mine
        return None if current is None else current[0]

    # -- all of them -----------------------------------------------------------------------------------------------

    def are_known_at(self, stat: Stat) -> bool:
        """Whether no client came or went since they were last read."""
        return stat.pzxid == self._known_at

    def refresh(self) -> None:
        """Read which clients there are."""
        request = self._connection.new_read()
        request.get(self._layout.sessions)
        request.children(self._layout.sessions)
        parent, names = self._connection.read(request, is_fresh=False)
        if parent is None or names is None:
            raise missing(self._layout.sessions)
        self.learn(names, parent.stat)

    def learn(self, names: Sequence[str], stat: Stat) -> None:
        with self._lock:
            if stat.pzxid >= self._known_at:
                self._known, self._known_at = frozenset(names), stat.pzxid

    def is_present(self, presence: str) -> bool:
        """Whether a client exists, as of the last reading."""
        if presence in self._ended:
            return False
        current = self._mine
        if current is not None and current[0] == presence:
            return True
        return presence in self._known

    def forget(self) -> None:
        """Begin anew, after the connection was closed."""
        self._mine = None
        self._known, self._known_at = frozenset(), -1
