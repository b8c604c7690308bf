"""Keeps the listing in step with the board: lists it once, and follows the log from then on, at a cost per change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from jobboard.backends.locks import lock_within
from jobboard.backends.zookeeper.changes import Change, LoggedChange, decode_change, listed, logged
from jobboard.backends.zookeeper.codec import decode_guard, decode_schedule, name_rules, posting_in
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.edge_codec import decode_mark
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.job_record import decode
from jobboard.backends.zookeeper.kazoo_internals import Pending
from jobboard.backends.zookeeper.layout import Layout, change_name, last_part
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.requests import Data, MultiRead, Stat
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.timers import ListedMark
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.zookeeper")

#: Changes that stay in the log; a client that is further behind lists the board anew.
KEPT = 4096
#: Changes that are deleted at a time, by the client whose change fills such a block.
BLOCK = 64

MAX_READS = 200
#: The most changes of others that are read by guess, in the same request that tells how many there are.
MAX_GUESSED = 16
MAX_RETRIES = 10


class _Look(NamedTuple):
    """The stats of the log and of ``ready``; the changes, and what else, that the same request read.

    ``first`` is the number of the change that came next when the look began.
    """

    first: int
    log: Stat
    ready: Stat
    guessed: dict[int, Data]
    found: list[Data | None]


class _Question(NamedTuple):
    """What a look asks, with the numbers of the changes that are read by guess.

    ``before`` is how many znodes are read ahead of the log. ``deletions`` is how many times jobs had been deleted, at
    least. ``pending`` is what the answer will be in if it was asked ahead, when ``looks`` looks had been taken.
    """

    first: int
    before: int
    guessed: list[int]
    deletions: int
    request: MultiRead
    pending: Pending | None = None
    looks: int = 0


class PostedJob(NamedTuple):
    """A job as it was posted; ``deletions`` is how many times jobs had been deleted when it was read, at least."""

    uuid: str
    data: Data
    deletions: int


class ChangeLogReader:
    """Knows how far the listing has followed the log.

    A client's own changes need no reading. A gap between them says that others have changed something, so that a client
    that is alone on a board reads nothing at all.
    """

    def __init__(
        self, connection: Connection, layout: Layout, sessions: Sessions, listing: Listing, reader: JobReader
    ) -> None:
        self._connection, self._layout, self._sessions, self._listing = connection, layout, sessions, listing
        self._reader = reader
        #: Held while the log is read; never taken under the listing's lock.
        self._reading = threading.RLock()
        self._generation = 0
        #: The number of the next change to come; None if the board was not listed yet.
        self._next: int | None = None
        #: Whether the session was lost since the board was listed.
        self._is_doubted = False
        self._own: dict[int, LoggedChange] = {}
        #: How many changes of others to expect at a look; 0 as long as there are none.
        self._guess = 0
        #: The version of the znode ``ready``, as far as it is known.
        self.ready_version: int | None = None
        #: The job that was posted last, if ``ready`` shows it.
        self.posting: PostedJob | None = None
        #: How many looks were taken, and one that was asked ahead.
        self._looks = 0
        self._asked: _Question | None = None
        #: Is called with every change, in order.
        self.on_change: Callable[[LoggedChange], None] | None = None

    @property
    def path(self) -> str:
        return self._layout.log(self._generation)

    @property
    def is_in_step(self) -> bool:
        """Whether no change of another client is known to be missing."""
        return self._next is not None and not self._own

    @property
    def next_path(self) -> str:
        """The path of the change that comes next."""
        return self._path_of(self._next or 0)

    def _path_of(self, number: int) -> str:
        return f"{self.path}/{change_name(number)}"

    def clear(self) -> None:
        """Forget everything."""
        with self._reading, self._listing.lock:
            self._next = self.ready_version = self.posting = self._asked = None
            self._own.clear()
            self._listing.clear()

    def doubt(self) -> None:
        """List the board anew at the next look, since the session is lost. Called from kazoo's thread.

        The servers may have gone back to a backup: what stands under the next numbers is another story then.
        """
        self._is_doubted = True

    # -- reading ---------------------------------------------------------------------------------------------------

    def ask_ahead(self) -> None:
        """Send a look for :meth:`refresh_as_asked`, and wait for nothing. Called from kazoo's thread."""
        if self._next is not None and self._connection.connected:
            looks, question = self._looks, self._question(self._next, ())
            pending = self._connection.internals.send(question.request)
            self._asked = question._replace(pending=pending, looks=looks)

    def refresh_as_asked(self) -> None:
        """Catch up by the look that was sent ahead."""
        asked, self._asked = self._asked, None
        self.refresh(asked=asked)

    def refresh(
        self, also: Sequence[str] = (), asked: _Question | None = None, before: Sequence[str] = ()
    ) -> list[Data | None]:
        """Catch up with the board, and return what is under the paths of ``before`` and ``also`` at that moment.

        The first time it lists the whole board.

        :param before: is read ahead of the log, so that the listing knows at least what had happened by then.
        :param asked: what was asked ahead; it is of no use if another look was taken since.
        """
        # Another thread may wait for an answer that does not come, and longer than this one can.
        fault = "another thread of this client has waited too long for the server's answer"
        with lock_within(self._reading, threading.TIMEOUT_MAX, fault):
            if self._listing.is_torn or self._is_doubted:
                self.clear()
            for _ in range(MAX_RETRIES):
                if self._next is None:
                    self._load()
                if self._next is not None:
                    if asked is None or asked.looks != self._looks:
                        asked = self._question(self._next, also, before)
                    look = self._look(asked)
                    if look is not None and self._advance(look.first, look.log.creations, look.guessed):
                        self._learn_ready(look.ready)
                        return look.found
                self.clear()
        raise BoardUnavailable("the board changes faster than this client can follow")

    def expect_changes(self) -> None:
        """Learn that others have changed something, which the next look will find."""
        self._guess = max(self._guess, 1)

    def _learn_ready(self, stat: Stat) -> None:
        """Learn up to where the listing knows of jobs that became claimable; a change of this client may be newer."""
        if self.ready_version is None or stat.version > self.ready_version:
            self.ready_version = stat.version

    def _question(self, first: int, also: Sequence[str], before: Sequence[str] = ()) -> _Question:
        guessed = [number for number in range(first, first + self._guess) if number not in self._own]
        request, layout = self._connection.new_read(), self._layout
        fixed = (self.path, layout.sessions, layout.paused, layout.ready)
        for path in (*before, *fixed, *also, *map(self._path_of, guessed)):
            request.get(path)
        return _Question(first, len(before), guessed, self._reader.deletions, request)

    def _look(self, question: _Question) -> _Look | None:
        self._looks += 1
        answer = self._connection.read(question.request, sent=question.pending)
        before, (log, sessions, paused, ready, *found) = answer[: question.before], answer[question.before :]
        if log is None or sessions is None or paused is None or ready is None:
            self._find_log()
            return None
        also = len(found) - len(question.guessed)
        changes = dict(zip(question.guessed, found[also:], strict=True))
        posting = posting_in(ready)
        self.posting = None if posting is None else PostedJob(*posting, question.deletions)
        self._learn_paused(paused)
        if not self._sessions.are_known_at(sessions.stat):
            self._sessions.refresh()
        known = {number: data for number, data in changes.items() if data is not None}
        return _Look(question.first, log.stat, ready.stat, known, [*before, *found[:also]])

    def _learn_paused(self, paused: Data) -> None:
        rules = name_rules(paused, self._layout.paused)
        with self._listing.lock:
            before, self._listing.rules = self._listing.closed, rules
            for name in before - self._listing.closed:
                self._listing.notify(name, 0.0)

    def _advance(self, first: int, head: int, guessed: dict[int, Data]) -> bool:
        """Apply all changes before ``head``; False if some don't exist any more, or the log began anew.

        :param first: the change that came next before ``head`` was asked for. By now this client's own changes may have
            come further than ``head``: then there is nothing to do, and to list the board anew would lose their events.
        :param guessed: those that have been read already.
        """
        assert self._next is not None
        if head < first:
            return False
        others = 0
        while self._next < head:
            numbers = range(self._next, min(head, self._next + MAX_READS))
            missing = [number for number in numbers if number not in self._own]
            others += len(missing)
            changes = self._read(missing, guessed)
            if len(changes) < len(missing):
                return False
            self._apply_in_order(numbers, changes)
        with self._listing.lock:
            if not self._own:
                self._listing.forget_deleted()
        self._guess = min(others, MAX_GUESSED) if others else self._guess // 2
        return True

    def _read(self, numbers: Sequence[int], guessed: dict[int, Data]) -> dict[int, LoggedChange]:
        """Return the changes of these numbers, up to the first that does not exist or can't be decoded."""
        found: dict[int, Data | None] = dict(guessed)
        unread = [number for number in numbers if number not in found]
        if unread:
            found |= zip(unread, self._connection.read_many(map(self._path_of, unread), is_fresh=False), strict=True)
        changes = {}
        for number in numbers:
            data = found[number]
            if data is None:
                break
            try:
                changes[number] = decode_change(data.data, number, data.stat.czxid, data.stat.ctime)
            except ValueError as error:
                # What it said is lost, so the board must be listed anew.
                logger.warning("change %s of board %s: %s", number, self._layout.root, error)
                break
        return changes

    def _apply_in_order(self, numbers: Sequence[int], others: dict[int, LoggedChange]) -> None:
        with self._listing.lock:
            for number in numbers:
                change = self._own.pop(number, None) or others.get(number)
                if change is not None and number == self._next:
                    self._apply(change)

    def _apply(self, change: LoggedChange) -> None:
        """Apply the change that comes next."""
        self._list(change)
        if self.on_change is not None and change.told:
            self.on_change(change)
        self._next = change.number + 1

    def _list(self, change: LoggedChange) -> None:
        for item in change.items:
            self._listing.put(item, change.zxid)
        for uuid in change.deleted:
            self._listing.drop(uuid, change.zxid)
        for id, exists, next_at in change.schedules:
            if exists:
                self._listing.schedules.put(id, next_at, change.zxid)
            else:
                self._listing.schedules.drop(id, change.zxid)
        for guard in change.guards:
            self._listing.put_guard(guard, change.zxid)
        for mark in change.marks:
            self._listing.put_mark(mark, change.zxid)

    def _load(self) -> None:
        """List the whole board, and begin to follow the log where it stood before."""
        # An earlier try that failed half-way may have listed what is gone by now, and the log would not tell.
        self.clear()
        self._is_doubted = False
        request = self._connection.new_read()
        request.get(self.path)
        request.children(self._layout.jobs)
        request.children(self._layout.schedules)
        request.children(self._layout.lanes)
        request.children(self._layout.children)
        log, jobs, schedules, lanes, parents = self._connection.read(request)
        if log is None or jobs is None:
            self._find_log()
            return
        for path, data in self._in_buckets(self._layout.jobs, jobs):
            job = decode(last_part(path), data.data, data.stat)
            if isinstance(job, StoredJob):
                with self._listing.lock:
                    self._listing.put(listed(job), job.zxid)
        for path, data in self._in_buckets(self._layout.schedules, schedules or ()):
            with self._listing.lock:
                self._listing.schedules.put(unquote(last_part(path)), decode_schedule(data.data)[1], data.stat.mzxid)
        for _, data in self._in_buckets(self._layout.lanes, lanes or ()):
            guard = decode_guard(data.data)
            if guard is not None:
                with self._listing.lock:
                    self._listing.put_guard(guard.listed, data.stat.mzxid)
        for path, data in self._in_buckets(self._layout.children, parents or ()):
            mark = decode_mark(data.data)
            if mark.due is not None:
                with self._listing.lock:
                    self._listing.put_mark(ListedMark(last_part(path), mark.due), data.stat.mzxid)
        with self._listing.lock:
            self._next = log.stat.creations

    def _in_buckets(self, folder: str, buckets: Sequence[str]) -> Iterator[tuple[str, Data]]:
        """Read all znodes below these children of a folder."""
        paths = self._connection.children([f"{folder}/{bucket}" for bucket in buckets], is_fresh=False)
        return self._connection.existing(paths, is_fresh=False)

    def correct(self, uuid: str, job: StoredJob | None) -> None:
        """Learn a job as it was read: where the listing differs, a change is missing in the log."""
        with self._listing.lock:
            item = self._listing.items.get(uuid)
            if job is not None:
                self._listing.put(listed(job), job.zxid)
            elif item is not None:
                self._listing.drop(uuid, item.zxid)

    def correct_mark(self, parent: str, data: Data | None) -> None:
        """Learn the mark of a parent as it was read, in the same way."""
        with self._listing.lock:
            if data is None:
                self._listing.marks.drop(parent)
            else:
                self._listing.put_mark(ListedMark(parent, decode_mark(data.data).due), data.stat.mzxid)

    def _find_log(self) -> None:
        """Find the log that is in use now, after the former one was deleted."""
        names = map(last_part, self._connection.children([self._layout.logs]))
        numbers = sorted(int(name) for name in names if name.isdecimal())
        if not numbers:
            raise BoardUnavailable(
                f"{self._layout.logs} is missing; was the board deleted? close() and connect() again"
            )
        self._generation = numbers[-1]

    # -- own changes -----------------------------------------------------------------------------------------------

    def learn_own_ready(self, version: int) -> None:
        """Learn that this client made a job claimable; if others did too, what is known of them is too old."""
        if self.ready_version is not None:
            self.ready_version = version if version == self.ready_version + 1 else None

    def add_own(self, change: Change, number: int, stat: Stat) -> None:
        """Apply a change of this client's own."""
        with self._listing.lock:
            if self._next is not None and number >= self._next:
                own = logged(change, number, stat.mzxid, stat.mtime)
                if number == self._next:
                    self._apply(own)
                else:
                    # Those before it are still to be read: the listing keeps the newer of two, and events their order.
                    self._list(own)
                    self._own[number] = own
        if number % BLOCK == 0 and number >= KEPT + BLOCK:
            self._delete_block(number - KEPT - BLOCK)

    def _delete_block(self, first: int) -> None:
        """Delete a block of old changes; waits for no answer."""
        request = self._connection.new_write()
        for number in range(first, first + BLOCK):
            request.delete(self._path_of(number))
        try:
            self._connection.send(request)
        except BoardUnavailable as error:
            logger.debug("old changes are left for later: %s", error)

    def tidy(self) -> None:
        """Delete what is left of the log where a block could not be deleted."""
        (log,) = self._connection.read_many([self.path], is_fresh=False)
        if log is None or log.stat.numChildren <= KEPT + 16 * BLOCK:
            return
        old = sorted(self._connection.children([self.path], is_fresh=False))[: -(KEPT + 2 * BLOCK)]
        for path in old[:1000]:
            deletion = self._connection.new_write()
            deletion.delete(path)
            self._connection.send(deletion)
