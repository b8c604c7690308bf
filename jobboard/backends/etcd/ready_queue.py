"""Finds the jobs that can be claimed, best first, and the moment at which the next one can be.

etcd visits every key of a range, whatever the limit is, so a long queue is read only up to a known key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.expiry import EXPIRE_TIMEOUT, Expiry
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.keys import is_order
from jobboard.backends.etcd.restrictions import Grant, Restrictions, all_restrictions, counts_of
from jobboard.backends.etcd.stored import Hint
from jobboard.backends.etcd.txn import (
    Compare,
    Found,
    KeyValue,
    Op,
    after,
    kvs_of,
    none_between,
    none_in,
    scan,
    scan_prefix,
)
from jobboard.backends.kv.read_modify_write import Deadline
from jobboard.backends.lanes import EXCHANGE_POLL
from jobboard.states import JobState

#: A queue with more jobs than this is read up to the key before which this many jobs stood when all of it was read.
_KNOWN_PART = 500

#: How often a queue is read at most to find its first jobs.
_MAX_LOOKS = 4

#: How many places are read at once to pass over jobs that can't be claimed.
_SKIPPED_AT_ONCE = 500

#: How many of the next timers are searched for one of the wanted names.
_MOMENTS = 64

#: Stands for a name that can't be read; no job has it.
_UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that can be claimed: its place in the queue, and the revision in which it got there."""

    order: bytes
    hint: Hint
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Candidates:
    """The best jobs that can be claimed, and what lets them be.

    ``gapless`` are the queues in which no other job stood between them.
    """

    jobs: list[Candidate]
    grant: Grant
    gapless: frozenset[bytes] = frozenset()


class Outlook(NamedTuple):
    """When a job can be claimed, or may be: 0: now; None: not in sight.

    ``is_empty``: none stands in the queues. ``may_exchange``: one may be claimed in exchange for another.
    """

    due: float | None
    is_empty: bool = False
    may_exchange: bool = False


class ReadyQueue:
    """One queue of all jobs, and one for each name; what can't be claimed now stays in both, and claims pass over it.

    :ivar restrictions: what there was to stop claims when the client read a queue last.
    """

    def __init__(self, connection: Connection, reader: JobReader, expiry: Expiry) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._newer = reader.newer
        self._expiry = expiry
        self.restrictions = Restrictions()
        #: The key up to which a long queue is read; None: it is long, but the key is not known yet.
        self._ends: dict[bytes, bytes | None] = {}

    def candidates(self, names: frozenset[str] | None, count: int) -> Candidates:
        """Find the best jobs of these names (None: all) that can be claimed."""
        queues = self._queues_of(names)
        if not queues:
            return Candidates([], Grant(Restrictions()))
        size = count + self._skipped()
        *found, grant = self._first_of(queues, size, names)
        if grant.is_stopped:
            return Candidates([], grant)
        jobs = self._candidates_in(kvs_of(found), grant)
        is_whole = len(jobs) == len(found[0].kvs)
        if names is None and len(found[0].kvs) == size and len(jobs) < count:
            jobs += self._candidates_behind(found[0].kvs[-1].key, grant, count - len(jobs))
        jobs = jobs[:count]
        if len(queues) > 1 or not is_whole:
            return Candidates(jobs, grant)
        seen = frozenset(job.hint.name for job in jobs)
        if len(seen) == 1:
            queues += self._queues_of(seen)
        return Candidates(jobs, grant, frozenset(queues))

    def orders(self, names: frozenset[str] | None, start: bytes, count: int) -> tuple[list[bytes], bytes | None]:
        """Return the next places of jobs of these names that can be claimed, and where they end; None: no more."""
        if not start:
            orders = [job.order for job in self.candidates(names, count).jobs]
            return orders, orders[-1] if len(orders) == count else None
        queues = self._queues_of(names)
        ops = [scan(queue + start, after(queue), count) for queue in queues]
        *found, grant = self._granted(names, ops, self._expiry.read_board)
        if grant.is_stopped:
            return [], None
        kvs, end = merged(queues, found, count)
        return [job.order for job in self._candidates_in(list(kvs.values()), grant)], end

    def grant_of(self, name: str) -> Grant:
        """Find out whether a job of this name can be claimed now."""
        grant: Grant = self._granted(frozenset([name]), [], self._connection.read)[0]
        return grant

    def is_open(self, name: str) -> bool:
        """Whether nothing stopped claims of this name when a queue was read last."""
        known = self.restrictions
        return known.paused.isdisjoint((None, name)) and name not in known.limits

    def next_ready(self, names: frozenset[str] | None) -> Outlook:
        """Return the moment at which a job of these names can be claimed, or may be."""
        queues = self._queues_of(names)
        if not queues:
            return Outlook(None)
        keys = self._keys
        # Past timers that are left then are those of jobs that only later versions can read.
        coming = scan(keys.until(self._connection.now()), after(keys.timers), _MOMENTS)
        *found, timers, grant = self._first_of(queues, 1 + self._skipped(), names, [coming])
        if grant.is_stopped:
            return Outlook(None)
        # A place that can't be read counts as that of a job that can be claimed: the claim finds out.
        places = [kv for kv in kvs_of(found) if kv.last_part not in self._newer]
        if any(not grant.refuses(_name_in(kv)) for kv in places):
            return Outlook(0.0)
        if names is None and found[0].kvs and self._candidates_behind(found[0].kvs[-1].key, grant, 1):
            return Outlook(0.0)
        due = _next_moment(timers, names, grant)
        may_exchange = self.may_exchange(names, grant)
        if may_exchange:
            poll = self._connection.now() + EXCHANGE_POLL
            due = poll if due is None else min(due, poll)
        return Outlook(due, not kvs_of(found), may_exchange)

    def may_exchange(self, names: frozenset[str] | None, grant: Grant) -> bool:
        """Whether jobs of these names may be BLOCKED that could be claimed otherwise; nothing is read."""
        return bool(self.waiting(names, grant))

    def waiting(self, names: frozenset[str] | None, grant: Grant) -> list[str]:
        """Return the names of which jobs may be BLOCKED, and could be claimed otherwise."""
        waiting = grant.restrictions.waiting
        return [name for name in sorted(waiting if names is None else waiting & names) if not grant.refuses(name)]

    def only(self, job: Candidate, names: frozenset[str] | None) -> list[Compare]:
        """Hold if nothing is due, and no other job of these names can be claimed."""
        keys = self._keys
        own = self._queues_of(None if names is None else frozenset([job.hint.name]))
        compares = [none_between(keys.timers, keys.until(self._connection.now()))]
        compares += [none_in(queue) for queue in self._queues_of(names) if queue not in own]
        for queue in own:
            place = queue + job.order
            compares += [none_between(queue, place), none_between(place + b"\0", after(queue))]
        return compares

    def heads(self, names: frozenset[str] | None) -> list[Op]:
        """Find something if a job of these names can be claimed, or may be."""
        due = scan(self._keys.timers, self._keys.until(self._connection.now()), 1)
        return [due, *(scan_prefix(queue, 1) for queue in self._queues_of(names))]

    def _queues_of(self, names: frozenset[str] | None) -> list[bytes]:
        if names is None:
            return [self._keys.ready_jobs]
        return [self._keys.queue(name, JobState.UNCLAIMED) for name in sorted(names)]

    def _skipped(self) -> int:
        """Return how many places to read beyond the wanted ones, since jobs of later versions may stand before them."""
        return min(len(self._newer), _SKIPPED_AT_ONCE)

    def _candidates_in(self, places: Sequence[KeyValue], grant: Grant) -> list[Candidate]:
        """Return the jobs at these places that this client can claim together, best first."""
        jobs = [
            (order, hint, kv.modified)
            for kv in places
            if (hint := Hint.of(kv.value)) is not None and is_order(order := kv.last_part) and order not in self._newer
        ]
        return [Candidate(*job) for job in grant.take(sorted(jobs, key=itemgetter(0)))]

    def _candidates_behind(self, last: bytes, grant: Grant, count: int) -> list[Candidate]:
        """Look behind the head of the queue if too many jobs there can't be claimed."""
        jobs: list[Candidate] = []
        end = after(self._keys.ready_jobs)
        deadline = Deadline(EXPIRE_TIMEOUT)
        while len(jobs) < count:
            (found,) = self._connection.read([scan(last + b"\0", end, _SKIPPED_AT_ONCE)])
            jobs += self._candidates_in(found.kvs, grant)
            if not found.more:
                break
            last = found.kvs[-1].key
            deadline.check("the jobs that are not paused stand too far behind")
        return jobs

    # -- the first places of long queues -----------------------------------------------------------------------------

    def _first_of(
        self, queues: Sequence[bytes], count: int, names: frozenset[str] | None, more: Sequence[Op] = ()
    ) -> tuple[Any, ...]:
        """Read the first ``count`` places of each queue while nothing is due, and ``more`` at the same moment.

        The last part of the answer is what lets jobs of these names be claimed.
        """

        def read(ops: Sequence[Op]) -> list[Found]:
            return self._read_queues(queues, count, ops)

        found = self._granted(names, more, read)
        unreadable = [kv.last_part for kv in kvs_of(found[: len(queues)]) if Hint.of(kv.value) is None]
        if unreadable:
            self._expiry.rewrite_places(unreadable)
            found = self._granted(names, more, read)
        return found

    def _granted(
        self, names: frozenset[str] | None, ops: Sequence[Op], read: Callable[[Sequence[Op]], list[Found]]
    ) -> tuple[Any, ...]:
        """Read something, and at the same moment what stops claims of these names, and how many jobs are claimed."""
        for _ in range(_MAX_LOOKS):
            counted = self.restrictions.limited(names)
            found = read([*ops, all_restrictions(self._keys), *counts_of(self._keys, counted)])
            at = len(found) - len(counted)
            self.restrictions = restrictions = Restrictions.of(self._keys, found[at - 1])
            if set(restrictions.limited(names)) <= set(counted):
                break
        known = {name: count for name, count in zip(counted, found[at:], strict=True) if name in restrictions.limits}
        return (*found[: at - 1], Grant(restrictions, known))

    def _read_queues(self, queues: Sequence[bytes], count: int, more: Sequence[Op]) -> list[Found]:
        found: list[Found] = []
        for look in range(1, _MAX_LOOKS + 1):
            # Other threads may claim the known part as fast as it is read: the last look reads the whole queue.
            ends = {queue: None if look == _MAX_LOOKS else self._ends.get(queue) for queue in queues}
            found = self._read_until(ends, count, more)
            is_enough = [self._learn(*end, part, count) for end, part in zip(ends.items(), found, strict=False)]
            if all(is_enough):
                break
        return found

    def _read_until(self, ends: Mapping[bytes, bytes | None], count: int, more: Sequence[Op]) -> list[Found]:
        """Read each queue to its known key, and learn the key of a long one that has none."""
        heads = [scan(queue, end or after(queue), count) for queue, end in ends.items()]
        unknown = [queue for queue, end in ends.items() if end is None and queue in self._ends]
        places = [scan_prefix(queue, _KNOWN_PART, keys_only=True) for queue in unknown]
        found = self._expiry.read_board([*heads, *more, *places])
        for queue in reversed(unknown):
            place = found.pop()
            self._ends[queue] = place.kvs[-1].key + b"\0" if place.more else None
        return found

    def _learn(self, queue: bytes, end: bytes | None, part: Found, count: int) -> bool:
        """Learn how long a queue is; False if too few of its jobs were read."""
        if end is not None:
            if part.total < 2 * count:
                # The known part is nearly empty: the next look reads all of the queue, and learns a new key.
                self._ends[queue] = None
            return part.total >= count
        if part.total <= 2 * _KNOWN_PART:
            self._ends.pop(queue, None)
        else:
            self._ends.setdefault(queue, None)
        return True


def merged(places: Sequence[bytes], found: Sequence[Found], size: int) -> tuple[dict[bytes, KeyValue], bytes | None]:
    """Return one page of these ranges, sorted by what follows their prefixes, and its end; None: there are no more.

    Nothing is known of what is behind the end of a range that has more keys than were read.
    """
    parts = list(zip(places, found, strict=True))
    kvs = {kv.key[len(prefix) :]: kv for prefix, part in parts for kv in part.kvs}
    end = min((part.kvs[-1].key[len(prefix) :] for prefix, part in parts if part.more), default=None)
    orders = sorted(order for order in kvs if end is None or order <= end)
    if len(orders) > size:
        orders = orders[:size]
        end = orders[-1]
    return {order: kvs[order] for order in orders}, end


def _name_in(place: KeyValue) -> str:
    hint = Hint.of(place.value)
    return _UNKNOWN if hint is None else hint.name


def _next_moment(timers: Found, names: frozenset[str] | None, grant: Grant) -> float | None:
    """Return the first moment of one of these names; None if there is none."""
    for timer in timers.kvs:
        name = _name_in(timer)
        # The end of a claim may let another job of its name be claimed.
        if name not in grant.restrictions.paused and (names is None or name in (*names, _UNKNOWN)):
            return _moment_of(timer.key)
    # None of those that were read has a wanted name: look again when the last of them is due.
    return _moment_of(timers.kvs[-1].key) if timers.more else None


def _moment_of(timer: bytes) -> float:
    """Return the moment of a timer; 0, which means now, if the key holds none: the next look deals with it."""
    moment = timer.split(b"/")[-2]
    return int(moment) / 1e6 if moment.isdigit() else 0.0
