"""Which clients are there: each has an ephemeral znode of its own, and its claims hold for as long as that is there."""

from __future__ import annotations

import threading
import time
import uuid as uuids
from collections.abc import Callable, Sequence
from typing import Any

from jobboard.backends.zookeeper.clock import Clock
from jobboard.backends.zookeeper.faults import refused
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.line import Line
from jobboard.backends.zookeeper.requests import Multi, MultiRead, Stat, fault_in
from jobboard.errors import BoardUnavailable


class Sessions:
    """This client's presence, and those of the others.

    A presence has a random name, is made once, and never again: once gone it is gone for good, so that what was read of
    it can't become wrong. After a session was lost the next one gets a new presence; claims under the old one are
    nobody's, also not this client's.
    """

    def __init__(self, line: Line, layout: Layout, clock: Clock, acl: Callable[[], Sequence[Any]]) -> None:
        self._line, self._layout, self._clock, self._acl = line, layout, clock, acl
        self._making = threading.Lock()
        self._lock = threading.Lock()
        self._mine: tuple[str, int] | None = None
        #: Presences of this client that have ended, or that it can't count on any more.
        self._ended: set[str] = set()
        #: Those given up that nobody was told of yet; and those that may still be there, with their sessions.
        self._lost: list[str] = []
        self._left: list[tuple[str, int]] = []
        self._known: frozenset[str] = frozenset()
        self._known_at = -1

    # -- this client -----------------------------------------------------------------------------------------------

    def mine(self) -> str:
        """Return the id of this client's presence in its present session; makes it if need be."""
        current = self._mine
        if current is not None and current[1] == self._line.session_id:
            return current[0]
        with self._making:
            self.check_session()
            current = self._mine
            return current[0] if current is not None else self._make()

    def _make(self) -> str:
        self._line.wait_until_connected()
        id = uuids.uuid4().hex
        request = Multi(self._line.chroot, self._acl())
        request.create(self._layout.session(id), b"", ephemeral=True)
        # Only the stat of something set tells when that was, and in whose session.
        request.set(self._layout.session(id), b"")
        sent, session = time.monotonic(), self._line.session_id
        try:
            answers = self._line.ask(request)
        except BoardUnavailable:
            # It may be there all the same; it ends with the session, and nothing was claimed under it.
            self._ended.add(id)
            with self._lock:
                self._left.append((id, session))
            raise
        fault = fault_in(answers)
        if fault is not None:
            raise refused(self._line.where, fault[1])
        stat: Stat = answers[1]
        self._clock.saw(stat.mtime, sent, time.monotonic())
        with self._lock:
            self._mine = (id, stat.ephemeralOwner)
            self._known |= {id}
        self._clear_away(stat.ephemeralOwner)
        return id

    def _clear_away(self, session: int) -> None:
        """Delete presences that were given up although their session, the present one, goes on; nobody waits for it.

        What is claimed under them is free then, also for those who can't know that they were given up.
        """
        with self._lock:
            left, self._left = self._left, []
        try:
            for id, its_session in left:
                if its_session == session:
                    request = Multi(self._line.chroot, ())
                    request.delete(self._layout.session(id))
                    self._line.send(request)
        except BoardUnavailable:
            with self._lock:
                self._left += left

    def check_session(self) -> str | None:
        """Give up a presence whose session is not the present one; returns which."""
        current = self._mine
        if current is None or not self._line.connected or current[1] == self._line.session_id:
            return None
        return self.give_up()

    def give_up(self) -> str | None:
        """Count on the present presence no more; returns which it was."""
        with self._lock:
            current, self._mine = self._mine, None
            if current is None:
                return None
            self._ended.add(current[0])
            self._known -= {current[0]}
            self._lost.append(current[0])
            self._left.append(current)
            return current[0]

    def take_lost(self) -> list[str]:
        """Return the presences that were given up since this was last asked."""
        with self._lock:
            lost, self._lost = self._lost, []
            return lost

    def has_given_up(self, presence: str) -> bool:
        return presence in self._ended

    def withdraw(self, presence: str) -> None:
        """Delete a presence of this client, so that what is claimed under it is free at once."""
        request = Multi(self._line.chroot, ())
        request.delete(self._layout.session(presence))
        self._line.ask(request)

    @property
    def present(self) -> str | None:
        current = self._mine
        return None if current is None else current[0]

    # -- all of them -----------------------------------------------------------------------------------------------

    def are_known_at(self, stat: Stat) -> bool:
        """Whether nobody came or went since the last look."""
        return stat.pzxid == self._known_at

    def look(self) -> None:
        """Find out who is there."""
        request = MultiRead()
        request.get(self._line.chroot + self._layout.sessions)
        request.children(self._line.chroot + self._layout.sessions)
        parent, names = self._line.read(request, is_fresh=False)
        if parent is None or names is None:
            raise BoardUnavailable(f"{self._layout.sessions} is missing; was the board deleted?")
        self.saw(names, parent.stat)

    def saw(self, names: Sequence[str], stat: Stat) -> None:
        with self._lock:
            if stat.pzxid >= self._known_at:
                self._known, self._known_at = frozenset(names), stat.pzxid

    def is_present(self, presence: str) -> bool:
        """Whether a client is there, as of the last look."""
        if presence in self._ended:
            return False
        current = self._mine
        if current is not None and current[0] == presence:
            return True
        return presence in self._known

    def forget(self) -> None:
        """Begin anew, after the line was closed."""
        self._mine = None
        self._known, self._known_at = frozenset(), -1
