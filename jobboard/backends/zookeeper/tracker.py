"""Keeps the listing in step with the board: read once, and from then on by the log, at a cost per change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from jobboard.backends.timelimit import seconds_left
from jobboard.backends.zookeeper.changes import Change, Logged, listed, made, read_change
from jobboard.backends.zookeeper.checks import TEXT, check_types
from jobboard.backends.zookeeper.layout import Layout, change_name
from jobboard.backends.zookeeper.line import Line
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.record import Record, decode
from jobboard.backends.zookeeper.requests import Data, Multi, MultiRead, Stat
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.timetable import stored_schedule
from jobboard.backends.zookeeper.wire import unpack
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.zookeeper")

#: So many changes stay in the log; a client that is further behind lists the board anew.
KEPT = 4096
#: So many are deleted at a time, by whoever makes the change that fills such a block.
BLOCK = 64

_JOBS_AT_ONCE, _CHANGES_AT_ONCE = 500, 200
#: As many changes of others are read on the chance that they are there, along with what tells how many there are.
_MOST_GUESSED = 16


class _Look(NamedTuple):
    """How the log and the counter of what became claimable stand, changes that were read with it, and what else was."""

    log: Stat
    ready: Stat
    guessed: dict[int, Data]
    found: list[Data | None]


class Tracker:
    """Knows how far in the log the listing has come.

    A client's own changes need no reading. A gap between them says that others have changed something, so that a client
    that is alone on a board reads nothing at all.
    """

    def __init__(self, line: Line, layout: Layout, sessions: Sessions, listing: Listing) -> None:
        self._line, self._layout, self._sessions, self.listing = line, layout, sessions, listing
        #: Held while the log is read; never taken under the listing's lock.
        self._reading = threading.RLock()
        self.generation = 0
        #: The number of the next change to come; None if the board was not listed yet.
        self._next: int | None = None
        self._own: dict[int, Logged] = {}
        #: How many changes of others are to be expected at a look; none, as long as there never are.
        self._guess = 0
        #: The versions of the znodes ``ready`` and ``paused``, as far as they are known.
        self.ready_version: int | None = None
        self.paused_version = 0
        #: Is handed every change, in their order.
        self.tell: Callable[[Logged], None] | None = None

    @property
    def log(self) -> str:
        return self._layout.log(self.generation)

    @property
    def is_in_step(self) -> bool:
        """Whether no change of another client is known to be missing."""
        return self._next is not None and not self._own

    @property
    def next_name(self) -> str:
        """The path of the change that comes next."""
        return f"{self.log}/{change_name(self._next or 0)}"

    def clear(self) -> None:
        """Know nothing."""
        with self._reading, self.listing.lock:
            self._forget()

    def _forget(self) -> None:
        self._next, self.ready_version = None, None
        self._own.clear()
        self.listing.clear()

    # -- reading ---------------------------------------------------------------------------------------------------

    def refresh(self, also: Sequence[str] = ()) -> list[Data | None]:
        """Catch up with the board, and return what is under the paths of ``also`` at that moment.

        The first time it lists the whole board.
        """
        # Another thread may wait for an answer that does not come, and longer than this one can.
        if not self._reading.acquire(timeout=seconds_left(threading.TIMEOUT_MAX)):
            raise BoardUnavailable("another thread of this client has waited too long for the server's answer")
        try:
            for _ in range(10):
                if self._next is None:
                    self._load()
                if self._next is not None:
                    look = self._look(also)
                    if look is not None and self._advance(look.log.creations, look.guessed):
                        self._saw_ready(look.ready)
                        return look.found
                self.clear()
        finally:
            self._reading.release()
        raise BoardUnavailable("the board changes faster than this client can follow")

    def expect_changes(self) -> None:
        """Learn that others have changed something, which the next look will find."""
        self._guess = max(self._guess, 1)

    def _saw_ready(self, stat: Stat) -> None:
        """Learn up to where the listing knows of jobs that became claimable; a change of this client may be newer."""
        if self.ready_version is None or stat.version > self.ready_version:
            self.ready_version = stat.version

    def _look(self, also: Sequence[str]) -> _Look | None:
        root = self._line.chroot
        request = MultiRead()
        first = self._next or 0
        guessed = [number for number in range(first, first + self._guess) if number not in self._own]
        for path in (self.log, self._layout.sessions, self._layout.paused, self._layout.ready, *also):
            request.get(root + path)
        for number in guessed:
            request.get(f"{root}{self.log}/{change_name(number)}")
        log, sessions, paused, ready, *found = self._line.read(request)
        if log is None or sessions is None or paused is None or ready is None:
            self._find_log()
            return None
        changes = dict(zip(guessed, found[len(also) :], strict=True))
        self._saw_paused(paused)
        if not self._sessions.are_known_at(sessions.stat):
            self._sessions.look()
        known = {number: data for number, data in changes.items() if data is not None}
        return _Look(log.stat, ready.stat, known, found[: len(also)])

    def _saw_paused(self, paused: Data) -> None:
        names = names_in(paused, self._layout.paused)
        with self.listing.lock:
            self.paused_version = paused.stat.version
            if names != self.listing.paused:
                gone = self.listing.paused - names
                self.listing.paused = names
                for name in gone:
                    self.listing.stir(name, 0.0)

    def _advance(self, head: int, guessed: dict[int, Data]) -> bool:
        """Take in all changes before ``head``; False if some are not there any more, or the log began anew.

        :param guessed: those that have been read already.
        """
        assert self._next is not None
        if head < self._next:
            return False
        others = 0
        while self._next < head:
            numbers = range(self._next, min(head, self._next + _CHANGES_AT_ONCE))
            missing = [number for number in numbers if number not in self._own]
            others += len(missing)
            changes = {change.number: change for change in self._read(missing, guessed)}
            if len(changes) < len(missing):
                return False
            with self.listing.lock:
                for number in numbers:
                    change = self._own.pop(number, None) or changes.get(number)
                    if change is not None and number == self._next:
                        self._apply(change)
                        self._next += 1
        with self.listing.lock:
            if not self._own:
                self.listing.bury()
        self._guess = min(others, _MOST_GUESSED) if others else self._guess // 2
        return True

    def _read(self, numbers: Sequence[int], guessed: dict[int, Data]) -> list[Logged]:
        found: dict[int, Data | None] = dict(guessed)
        unread = [number for number in numbers if number not in found]
        if unread:
            request = MultiRead()
            for number in unread:
                request.get(f"{self._line.chroot}{self.log}/{change_name(number)}")
            found |= dict(zip(unread, self._line.read(request, is_fresh=False), strict=True))
        changes = []
        for number in numbers:
            data = found[number]
            if data is None:
                break
            try:
                changes.append(read_change(data.data, number, data.stat.czxid, data.stat.ctime))
            except ValueError as error:
                # What it says may be anything, so that only a new list can tell.
                logger.warning("change %s of board %s: %s", number, self._layout.root, error)
                break
        return changes

    def _apply(self, change: Logged) -> None:
        for item in change.items:
            self.listing.put(item, change.zxid)
        for uuid in change.gone:
            self.listing.drop(uuid, change.zxid)
        self._schedule(change)
        if self.tell is not None and change.told:
            self.tell(change)

    def _schedule(self, change: Logged) -> None:
        timetable = self.listing.timetable
        for id, is_there, next_at in change.schedules:
            if is_there:
                timetable.put(id, next_at, change.zxid)
            else:
                timetable.drop(id, change.zxid)

    def _load(self) -> None:
        """List the whole board, and begin to follow the log where it stood before."""
        # What a list that was broken off has found may be gone by now, and this one's log would not tell.
        self.clear()
        root = self._line.chroot
        request = MultiRead()
        request.get(root + self.log)
        request.children(root + self._layout.jobs)
        request.children(root + self._layout.schedules)
        log, jobs, schedules = self._line.read(request)
        if log is None or jobs is None:
            self._find_log()
            return
        for part in self._parts(self._layout.jobs, jobs):
            self._list(part)
        for part in self._parts(self._layout.schedules, schedules or ()):
            self._list_schedules(part)
        with self.listing.lock:
            self._next = log.stat.creations

    def _parts(self, folder: str, buckets: Sequence[str]) -> Iterator[list[str]]:
        """Iterate over what is in the buckets of a folder, some hundred at a time."""
        request = MultiRead()
        for bucket in buckets:
            request.children(f"{self._line.chroot}{folder}/{bucket}")
        found = self._line.read(request, is_fresh=False) if buckets else []
        names = [name for part in found for name in part or ()]
        for start in range(0, len(names), _JOBS_AT_ONCE):
            yield names[start : start + _JOBS_AT_ONCE]

    def _list_schedules(self, names: Sequence[str]) -> None:
        request = MultiRead()
        for name in names:
            request.get(self._line.chroot + self._layout.schedule(unquote(name)))
        found = self._line.read(request, is_fresh=False)
        with self.listing.lock:
            for name, data in zip(names, found, strict=True):
                if data is None:
                    continue
                self.listing.timetable.put(unquote(name), stored_schedule(data.data)[1], data.stat.mzxid)

    def _list(self, uuids: Sequence[str]) -> None:
        request = MultiRead()
        for uuid in uuids:
            request.get(self._line.chroot + self._layout.job(uuid))
        found = self._line.read(request, is_fresh=False)
        with self.listing.lock:
            for uuid, data in zip(uuids, found, strict=True):
                record = None if data is None else decode(uuid, data.data, data.stat)
                if isinstance(record, Record):
                    self.listing.put(listed(record), record.zxid)

    def correct(self, uuid: str, record: Record | None) -> None:
        """Learn how a job is that was read: if the listing knows it otherwise, the log has not told of it."""
        with self.listing.lock:
            item = self.listing.items.get(uuid)
            if record is not None:
                self.listing.put(listed(record), record.zxid)
            elif item is not None:
                self.listing.drop(uuid, item.zxid)

    def _find_log(self) -> None:
        """Find the log that is in use now, after the one that was is gone."""
        request = MultiRead()
        request.children(self._line.chroot + self._layout.logs)
        (generations,) = self._line.read(request)
        numbers = sorted(int(name) for name in generations or () if name.isdecimal())
        if not numbers:
            raise BoardUnavailable(
                f"{self._layout.logs} is missing; was the board deleted? close() and connect() again"
            )
        self.generation = numbers[-1]

    # -- own changes -----------------------------------------------------------------------------------------------

    def made(self, change: Change, number: int, stat: Stat) -> None:
        """Take in a change of this client's own."""
        with self.listing.lock:
            if self._next is not None and number >= self._next:
                logged = made(change, number, stat.mzxid, stat.mtime)
                if number == self._next:
                    self._apply(logged)
                    self._next += 1
                else:
                    # What came between is still to be read; the listing keeps the newer of two, the events their order.
                    for item in logged.items:
                        self.listing.put(item, logged.zxid)
                    for uuid in logged.gone:
                        self.listing.drop(uuid, logged.zxid)
                    self._schedule(logged)
                    self._own[number] = logged
        if number % BLOCK == 0 and number >= KEPT + BLOCK:
            self._trim(number - KEPT - BLOCK)

    def _trim(self, first: int) -> None:
        """Delete a block of old changes; nobody waits for it."""
        request = Multi(self._line.chroot, ())
        for number in range(first, first + BLOCK):
            request.delete(f"{self.log}/{change_name(number)}")
        try:
            self._line.send(request)
        except BoardUnavailable as error:
            logger.debug("old changes are left for later: %s", error)

    def tidy(self) -> None:
        """Delete what was left of the log by those who could not."""
        request = MultiRead()
        request.get(self._line.chroot + self.log)
        (log,) = self._line.read(request, is_fresh=False)
        if log is None or log.stat.numChildren <= KEPT + 16 * BLOCK:
            return
        request = MultiRead()
        request.children(self._line.chroot + self.log)
        (names,) = self._line.read(request, is_fresh=False)
        old = sorted(names or ())[: -(KEPT + 2 * BLOCK)]
        for name in old[:1000]:
            self._line.send(_deletion(self._line.chroot, f"{self.log}/{name}"))


def names_in(paused: Data, path: str) -> frozenset[str | None]:
    """Return the paused names."""
    try:
        names = unpack(paused.data) if paused.data else []
        check_types([names], [(list,)])
        check_types(names, [TEXT] * len(names))
        return frozenset(names)
    except ValueError as error:
        # Nobody can tell what may be claimed.
        raise BoardUnavailable(f"{path} is damaged: {error}; delete it and connect again") from None


def _deletion(root: str, path: str) -> Multi:
    request = Multi(root, ())
    request.delete(path)
    return request
