"""Chooses the next jobs to claim, without a search and without everybody trying the same one."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from operator import attrgetter

from jobboard.backends.errors import after_a_change
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.claiming import Claimer
from jobboard.backends.zookeeper.codec import NameRules
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import Conflict
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.job_record import decode_read
from jobboard.backends.zookeeper.lane_looks import LaneLooks
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Item, Listing
from jobboard.backends.zookeeper.name_guards import NameGuards
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.stored_job import StoredJob, size_of
from jobboard.backends.zookeeper.transactions import MAX_BYTES, MAX_JOBS
from jobboard.backends.zookeeper.upkeep import Upkeep
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

MAX_RETRIES = 500
#: The number of next jobs that are read along with the first, for later claims; and the bytes of them that are kept.
READ_AHEAD, MAX_BYTES_AHEAD = 32, 64_000
#: The most jobs among which a claim chooses, after it has lost races again and again.
MAX_WIDTH = 32
#: Claims in a row without a lost race after which a claim chooses among half as many jobs.
CLAIMS_TO_NARROW = 16
#: Seconds without a lost race after which claims go back to the best job.
CONTENTION_SECONDS = 1.0

#: A job as it was read, and how many times jobs had been deleted from the board before.
_Known = tuple[Data, int]


class ClaimSelection:
    """Claims the best job there is; after a lost race, one of the best few, so that racing clients spread out."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        listing: Listing,
        change_log: ChangeLogReader,
        reader: JobReader,
        claimer: Claimer,
        upkeep: Upkeep,
        guards: NameGuards,
        looks: LaneLooks,
    ) -> None:
        self._connection, self._layout, self._clock, self._listing = connection, layout, clock, listing
        self._change_log, self._reader, self._claimer, self._upkeep = change_log, reader, claimer, upkeep
        self._guards, self._looks = guards, looks
        #: A claim chooses among this many times the wanted number of jobs; the claims in a row without a lost race; and
        #: the moment of the last lost race.
        self._width, self._won, self._lost_at = 1, 0, 0.0
        #: When another client was last found to have made a job claimable that this one did not know.
        self._contended_at = -CONTENTION_SECONDS
        #: Jobs as they were read ahead; if one has changed since, the transaction fails.
        self._ahead: dict[str, _Known] = {}
        #: Jobs that each thread of this client is about to claim.
        self._busy: dict[int, list[str]] = {}
        #: The path of the job of the last lost race.
        self._lost_path = ""
        #: The number of claims lost to others.
        self.lost_claims = 0

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        if self._width > 1 and time.monotonic() - self._lost_at > CONTENTION_SECONDS:
            self._width = 1
        found: list[StoredJob] = []
        # After a lost reply, those that are claimed by now are found again by their claim id.
        with after_a_change(lambda: found):
            self._find(claim, names, limit, found)
            if len(found) < limit and self._looks.exchange(names, limit - len(found)):
                self._find(claim, names, limit, found)
        found.sort(key=attrgetter("claim_order"))
        return [job.copy() for job in found]

    def _find(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int, found: list[StoredJob]) -> None:
        """Claim the best jobs, and add them to ``found``."""
        must_look = False
        for _ in range(MAX_RETRIES):
            # A client that seems to be alone need not look: the transaction itself fails if another client added a job.
            ready = None if must_look or not self._is_alone() else self._change_log.ready_version
            wanted = min(limit - len(found), MAX_JOBS)
            count = self._claim_best(claim, names, wanted, ready, found)
            must_look = count is None
            # Fewer than wanted are all there are: the look said so, or the transaction did, since nothing was added.
            if count is not None and (len(found) >= limit or count < wanted):
                return
        if not found:
            raise BoardUnavailable("others claim faster than this client can")

    def _claim_best(
        self,
        claim: ClaimRequest,
        names: frozenset[str] | None,
        wanted: int,
        ready: int | None,
        found: list[StoredJob],
    ) -> int | None:
        """Claim up to ``wanted`` jobs; returns how many, or None if that must be tried again after a look.

        :param ready: the version up to which the listing knows of claimable jobs, if it need not look.
        """
        data: dict[str, _Known] = {}
        if ready is None:
            data = self._catch_up(names, wanted)
            self._upkeep.expire_and_promote()
        thread = threading.get_ident()
        # Before the choice: another thread may learn of a pause right after it, which must fail the claim.
        rules = self._guards.known_rules()
        try:
            chosen = self._choose(names, wanted, thread)
            if not chosen:
                return 0 if ready is None else None
            return len(chosen) if self._claim(chosen, data, claim, rules, ready, found) else None
        finally:
            # One call of a function in C: what a signal's handler raises comes before it or after it.
            self._busy.pop(thread, None)

    def _is_alone(self) -> bool:
        with self._listing.lock:
            now = self._clock.now()
            return (
                self._change_log.is_in_step
                and self._change_log.ready_version is not None
                and self._width == 1
                and time.monotonic() - self._contended_at > CONTENTION_SECONDS
                and not self._listing.due(now, 1)
                and not self._listing.guards.due(now, 1)
            )

    def _catch_up(self, names: frozenset[str] | None, wanted: int) -> dict[str, _Known]:
        """Catch up with the board, and read in the same request what will probably be chosen."""
        with self._listing.lock:
            items = self._listing.ready(names, self._width * wanted if wanted == 1 else wanted)
            limited = self._listing.room(names)
        uuids = [item.uuid for item in items if item.uuid not in self._ahead]
        deletions = self._reader.deletions
        found = self._guards.catch_up(limited, [self._layout.job(uuid) for uuid in uuids])
        return {uuid: (data, deletions) for uuid, data in zip(uuids, found, strict=True) if data is not None}

    def _choose(self, names: frozenset[str] | None, wanted: int, thread: int) -> list[Item]:
        """Choose the best jobs, or some of the best few; no other thread of this client chooses the same."""
        with self._listing.lock:
            busy = set[str]().union(*self._busy.values())
            items = [
                item for item in self._listing.ready(names, self._width * wanted + len(busy)) if item.uuid not in busy
            ]
            if self._width > 1 and len(items) > wanted:
                start = random.randrange(len(items) - wanted + 1)
                items = items[start:]
            chosen = items[:wanted]
            self._busy[thread] = [item.uuid for item in chosen]
            return chosen

    def _claim(
        self,
        chosen: Sequence[Item],
        data: dict[str, _Known],
        claim: ClaimRequest,
        rules: NameRules,
        ready: int | None,
        found: list[StoredJob],
    ) -> bool:
        """Claim what was chosen by these rules; False if another client was faster."""
        jobs = self._jobs_of(chosen, data)
        if len(jobs) < len(chosen):
            return False
        for part in _in_parts(jobs):
            try:
                self._claimer.claim_all(part, claim, rules, ready)
            except Conflict as conflict:
                self._note_conflict(conflict, is_race=ready is None)
                return False
            self._note_success()
            found += part
            self._reader.read_long_values(part)
        return True

    def _jobs_of(self, chosen: Sequence[Item], data: dict[str, _Known]) -> list[StoredJob]:
        """Return the chosen jobs as they were read; those that can't be claimed any more are left out."""
        known = self._known(chosen, data)
        missing = [item.uuid for item in chosen if item.uuid not in known]
        if missing:
            known |= self._read_ahead(chosen, missing)
        jobs = []
        for item in chosen:
            job = decode_read(item.uuid, *known.get(item.uuid, (None, 0)))
            if isinstance(job, StoredJob) and job.state is JobState.UNCLAIMED:
                jobs.append(job)
                continue
            # The listing is behind, or the znode was changed without a line in the log.
            self._change_log.correct(item.uuid, job if isinstance(job, StoredJob) else None)
        return jobs

    def _known(self, chosen: Sequence[Item], data: dict[str, _Known]) -> dict[str, _Known]:
        """Return what was read of these jobs, but for those of which the listing knows a newer write."""
        read = (
            (item, data.get(item.uuid) or self._ahead.pop(item.uuid, None) or self._posted(item)) for item in chosen
        )
        return {item.uuid: one for item, one in read if one is not None and one[0].stat.mzxid >= item.zxid}

    def _posted(self, item: Item) -> _Known | None:
        """Return a job as ``ready`` shows it, if no change since is known."""
        posting = self._change_log.posting
        if posting is None or posting.uuid != item.uuid or posting.data.stat.mzxid != item.zxid:
            return None
        # A change of a znode by hand writes no line of the log; only the lost race shows it.
        return None if self._layout.job(item.uuid) == self._lost_path else (posting.data, posting.deletions)

    def _read_ahead(self, chosen: Sequence[Item], missing: list[str]) -> dict[str, _Known]:
        """Read what is missing; for a single job, also some of those that come after it."""
        wanted = dict.fromkeys(missing)
        if len(chosen) == 1 and self._width == 1:
            with self._listing.lock:
                next_items = self._listing.ready(frozenset({chosen[0].name}), READ_AHEAD)
                wanted |= dict.fromkeys(item.uuid for item in next_items)
        deletions = self._reader.deletions
        found = self._connection.read_many(map(self._layout.job, wanted), is_fresh=False)
        known = {uuid: (data, deletions) for uuid, data in zip(wanted, found, strict=True) if data is not None}
        self._ahead.clear()
        size = 0
        for uuid, one in known.items():
            size += len(one[0].data)
            if uuid not in missing and size < MAX_BYTES_AHEAD:
                self._ahead[uuid] = one
        return known

    def _note_conflict(self, conflict: Conflict, *, is_race: bool) -> None:
        """Choose among more jobs after a lost race; a client that knew too little of the board has met no race."""
        self._ahead.clear()
        if conflict.path == self._layout.deleted:
            self._reader.read_deletions()
        if conflict.path == self._layout.ready:
            self._contended_at = time.monotonic()
            self._change_log.expect_changes()
        if not conflict.path.startswith(self._layout.jobs):
            return
        self._lost_path = conflict.path
        self.lost_claims += 1
        if is_race:
            self._won, self._lost_at = 0, time.monotonic()
            self._width = min(self._width * 2 if self._width > 1 else 4, MAX_WIDTH)

    def _note_success(self) -> None:
        self._won += 1
        if self._won >= CLAIMS_TO_NARROW and self._width > 1:
            self._won, self._width = 0, self._width // 2


def _in_parts(jobs: Sequence[StoredJob]) -> Iterator[list[StoredJob]]:
    """Iterate over jobs in parts that fit a transaction each."""
    part: list[StoredJob] = []
    size = 0
    for job in jobs:
        if part and size >= MAX_BYTES:
            yield part
            part, size = [], 0
        part.append(job)
        size += size_of(job)
    yield part
