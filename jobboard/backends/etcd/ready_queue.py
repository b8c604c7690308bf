"""The jobs that can be claimed, best first: which they are, and when the next one is due.

etcd visits each key of a range, whatever its limit, so a long queue is read only up to a known key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobboard.backends.etcd.connection import Connection, Deadline
from jobboard.backends.etcd.expiry import EXPIRE_TIMEOUT, Expiry
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.keys import is_order
from jobboard.backends.etcd.stored import Hint
from jobboard.backends.etcd.txn import Found, KeyValue, Op, after, scan, scan_prefix
from jobboard.states import JobState

#: A queue with more jobs than this is read up to the key at which this many stood when it was last read as a whole.
_KNOWN_PART = 500

#: How often a queue is read at most until its first jobs are found.
_MAX_LOOKS = 4

#: How many places are read at once of jobs that can't be claimed.
_SKIPPED_AT_ONCE = 500

#: How many coming moments are looked through for one of the wanted names.
_MOMENTS = 64

#: No job's name: what stands for one that can't be read.
_UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that can be claimed, by its place in the queue, and since which revision it stands there."""

    order: bytes
    hint: Hint
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Candidates:
    """The best jobs that can be claimed; ``gapless`` are the queues in which no other stood between them."""

    jobs: list[Candidate]
    gapless: frozenset[bytes] = frozenset()


class ReadyQueue:
    """One queue of all jobs, and one for each name; paused jobs stay in both, and are passed over."""

    def __init__(self, connection: Connection, reader: JobReader, expiry: Expiry) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._newer = reader.newer
        self._expiry = expiry
        #: The key up to which a long queue is read; None: it is long, but the key is not known yet.
        self._ends: dict[bytes, bytes | None] = {}

    def candidates(self, names: frozenset[str] | None, count: int) -> Candidates:
        """Find the best jobs of these names (None: all) that can be claimed."""
        queues = self._queues_of(names)
        if not queues:
            return Candidates([])
        size = count + self._skipped()
        *found, paused = self._first_of(queues, size, [scan_prefix(self._keys.paused)])
        stopped = self._keys.paused_names(paused)
        if None in stopped:
            return Candidates([])
        jobs = self._candidates_in(found, stopped)
        is_whole = len(jobs) == len(found[0].kvs)
        if names is None and not is_whole and len(found[0].kvs) == size and len(jobs) < count:
            jobs += self._candidates_behind(found[0].kvs[-1].key, stopped, count - len(jobs))
        jobs = jobs[:count]
        if stopped or len(queues) > 1 or not is_whole:
            return Candidates(jobs)
        seen = {job.hint.name for job in jobs}
        by_name = [self._keys.queue(name, JobState.UNCLAIMED) for name in seen if len(seen) == 1]
        return Candidates(jobs, frozenset([*queues, *by_name]))

    def next_ready(self, names: frozenset[str] | None) -> float | None:
        """Return the moment at which a job of these names can be claimed, or may be; 0: now; None: not in sight."""
        queues = self._queues_of(names)
        if not queues:
            return None
        keys = self._keys
        # A past timer that is left after a look belongs to a job of a later version.
        coming = scan(keys.until(self._connection.now()), after(keys.timers), _MOMENTS)
        *found, timers, paused = self._first_of(queues, 1 + self._skipped(), [coming, scan_prefix(keys.paused)])
        stopped = keys.paused_names(paused)
        if None in stopped:
            return None
        # A place that can't be read counts as one that can be claimed: a claim finds out.
        places = [kv for part in found for kv in part.kvs if kv.key.rpartition(b"/")[2] not in self._newer]
        if any(_name_in(kv) not in stopped for kv in places):
            return 0.0
        if names is None and found[0].kvs and self._candidates_behind(found[0].kvs[-1].key, stopped, 1):
            return 0.0
        return _next_moment(timers, names, stopped)

    def _queues_of(self, names: frozenset[str] | None) -> list[bytes]:
        if names is None:
            return [self._keys.ready_jobs]
        return [self._keys.queue(name, JobState.UNCLAIMED) for name in sorted(names)]

    def _skipped(self) -> int:
        """Return how many places are read beyond those that are wanted, since they may be those of newer jobs."""
        return min(len(self._newer), _SKIPPED_AT_ONCE)

    def _candidates_in(self, found: Sequence[Found], stopped: frozenset[str | None]) -> list[Candidate]:
        """Return what this client can claim of these places, best first."""
        jobs = [
            Candidate(order, hint, kv.modified)
            for part in found
            for kv in part.kvs
            if (hint := Hint.of(kv.value)) is not None
            and hint.name not in stopped
            and is_order(order := kv.key.rpartition(b"/")[2])
            and order not in self._newer
        ]
        return sorted(jobs, key=lambda job: job.order)

    def _candidates_behind(self, last: bytes, stopped: frozenset[str | None], count: int) -> list[Candidate]:
        """Look behind the head of the queue, which is full of jobs that can't be claimed."""
        jobs: list[Candidate] = []
        end = after(self._keys.ready_jobs)
        deadline = Deadline(EXPIRE_TIMEOUT)
        while len(jobs) < count:
            (found,) = self._connection.read([scan(last + b"\0", end, _SKIPPED_AT_ONCE)])
            jobs += self._candidates_in([found], stopped)
            if not found.more:
                break
            last = found.kvs[-1].key
            deadline.check("the jobs that are not paused stand too far behind")
        return jobs

    # -- the first places of long queues -----------------------------------------------------------------------------

    def _first_of(self, queues: Sequence[bytes], count: int, more: Sequence[Op]) -> list[Found]:
        """Read the first ``count`` places of each queue while nothing is due, and ``more`` at the same moment."""
        found = self._read_queues(queues, count, more)
        places = [kv for part in found[: len(queues)] for kv in part.kvs]
        unreadable = [kv.key.rpartition(b"/")[2] for kv in places if Hint.of(kv.value) is None]
        if unreadable:
            self._expiry.rewrite_places(unreadable)
            found = self._read_queues(queues, count, more)
        return found

    def _read_queues(self, queues: Sequence[bytes], count: int, more: Sequence[Op]) -> list[Found]:
        found: list[Found] = []
        for look in range(1, _MAX_LOOKS + 1):
            # Other threads may claim the known part as fast as it is read: the last look reads the whole queue.
            ends = [None if look == _MAX_LOOKS else self._ends.get(queue) for queue in queues]
            heads = [
                scan_prefix(queue, count) if end is None else scan(queue, end, count)
                for queue, end in zip(queues, ends, strict=True)
            ]
            unknown = [queue for queue, end in zip(queues, ends, strict=True) if end is None and queue in self._ends]
            places = [scan_prefix(queue, _KNOWN_PART, keys_only=True) for queue in unknown]
            found = self._expiry.read_board([*heads, *more, *places])
            for queue, place in zip(unknown, found[len(queues) + len(more) :], strict=True):
                self._ends[queue] = place.kvs[-1].key + b"\0" if place.more else None
            parts = found[: len(queues)]
            is_enough = [self._learn(*it, count) for it in zip(queues, ends, parts, strict=True)]
            if all(is_enough):
                break
        return found[: len(queues) + len(more)]

    def _learn(self, queue: bytes, end: bytes | None, part: Found, count: int) -> bool:
        """Learn from a look how long a queue is; False if more must be read of it."""
        if end is not None:
            if part.total < 2 * count:
                # The known part is nearly empty: the next look reads the whole queue, and finds the next key.
                self._ends[queue] = None
            return part.total >= count
        if part.total <= 2 * _KNOWN_PART:
            self._ends.pop(queue, None)
        else:
            self._ends.setdefault(queue, None)
        return True


def _name_in(place: KeyValue) -> str:
    hint = Hint.of(place.value)
    return _UNKNOWN if hint is None else hint.name


def _next_moment(timers: Found, names: frozenset[str] | None, stopped: frozenset[str | None]) -> float | None:
    """Return the first moment of one of these names; None if there is none."""
    for timer in timers.kvs:
        name = _name_in(timer)
        if name not in stopped and (names is None or name in (*names, _UNKNOWN)):
            return _moment_of(timer.key)
    # Too many others come first: look again at that time.
    return _moment_of(timers.kvs[-1].key) if timers.more else None


def _moment_of(timer: bytes) -> float:
    """Return the moment of a timer; 0, which is now, of a key that is none: the next look finds out."""
    moment = timer.split(b"/")[-2]
    return int(moment) / 1e6 if moment.isdigit() else 0.0
