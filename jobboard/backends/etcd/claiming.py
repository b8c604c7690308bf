"""Claims jobs: reads the head of a queue, and claims what it found in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jobboard.backends import lifecycle
from jobboard.backends.errors import after_a_change
from jobboard.backends.etcd.arrivals import Arrivals
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.errors import LeaseNotFound
from jobboard.backends.etcd.events import Event, event_ops
from jobboard.backends.etcd.exchanges import Exchanges
from jobboard.backends.etcd.expiry import Expiry, LostLeases
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.job_writer import JobWriter
from jobboard.backends.etcd.keys import LanePart, order_of
from jobboard.backends.etcd.layout import is_hidden, under
from jobboard.backends.etcd.leases import Leases
from jobboard.backends.etcd.ready_queue import Candidate, Candidates, ReadyQueue
from jobboard.backends.etcd.restrictions import Grant
from jobboard.backends.etcd.stored import StoredClaim, claims_in, hint_of
from jobboard.backends.etcd.txn import (
    MAX_OPS,
    KeyValue,
    Op,
    Txn,
    absent,
    combined,
    delete,
    delete_range,
    get,
    kvs_of,
    nested,
    none_newer,
    present,
    put,
    scan,
    scan_prefix,
)
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.errors import BoardUnavailable, ReplyLost
from jobboard.events import EventKind
from jobboard.states import JobState

#: How many jobs a claim of one tries in turn, in one transaction, while other clients compete for the same ones.
_ALTERNATIVES = 4

#: How many jobs one transaction claims at most.
_MAX_CLAIMS = 50

#: A job, and the claim of it to write.
_Pair = tuple[Candidate, StoredClaim]


class Claiming:
    """A claim does not write the job's record: it takes the job out of the queues, and adds a key for the claim."""

    def __init__(
        self,
        connection: Connection,
        queue: ReadyQueue,
        arrivals: Arrivals,
        exchanges: Exchanges,
        reader: JobReader,
        writer: JobWriter,
        expiry: Expiry,
        leases: Leases,
        lost_leases: LostLeases,
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._queue = queue
        self._arrivals = arrivals
        self._exchanges = exchanges
        self._reader = reader
        self._writer = writer
        self._expiry = expiry
        self._leases = leases
        self._lost_leases = lost_leases
        self._alternatives = 1

    def claim(self, uuid: str, request: ClaimRequest) -> JobRow | None:
        deadline, is_again = Deadline(CHANGE_TIMEOUT), False
        while True:
            (job,) = self._expiry.read([uuid])
            if job is None or job.row.uuid != uuid or is_hidden(job, self._connection.now()):
                return None
            row = job.row
            if row.claim is not None or row.state is not JobState.UNCLAIMED:
                return row.view()
            if is_again or not self._queue.is_open(row.name):
                grant = self._queue.grant_of(row.name)
                if grant.refuses(row.name):
                    return row.view()
            else:
                grant = Grant(self._queue.restrictions)
            claimed = self._claim(Candidates([Candidate(job.order, hint_of(row))], grant), request, 1)
            if claimed:
                return claimed[0]
            self._lost_leases.check()
            is_again = True
            deadline.check(f"job {uuid} changes all the time")

    def claim_next(self, request: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        arrival = self._arrivals.take(names)
        rows = None if arrival is None else self._claim_arrival(arrival, request, names)
        if rows is not None:
            return rows
        # By uuid: if replies are slow, a claim may expire within this call, and its job be claimed once more.
        claimed: dict[str, JobRow] = {}
        try:
            grant = self._claim_into(claimed, request, names, limit)
            if grant is not None and self._exchanges.exchange(names, grant, limit - len(claimed)):
                self._claim_into(claimed, request, names, limit)
        except BoardUnavailable as error:
            if isinstance(error, ReplyLost) or not claimed:
                raise
        # A job that was posted or abandoned between two transactions may come before those of the first one.
        return sorted(claimed.values(), key=lambda row: order_of(row.priority, row.place, row.sequence))

    def _claim_arrival(
        self, job: Candidate, request: ClaimRequest, names: frozenset[str] | None
    ) -> list[JobRow] | None:
        """Claim a job that is the only one, without a look; None if there may be others, or nothing is certain."""
        if not self._queue.is_open(job.hint.name):
            return None
        grant = Grant(self._queue.restrictions)
        (pair,) = self._pairs_of([job], request, grant)
        txn = self._claim_of(pair, grant)
        txn.compares += self._queue.only(job, names)
        txn.otherwise = self._queue.heads(names)
        if len(txn.compares) > MAX_OPS:
            return None
        try:
            result = self._connection.send(txn)
        except LeaseNotFound:
            self._leases.forget_all()
            return None
        if result.succeeded:
            return [self._claimed(pair, next(result.found()).first, result.revision)]
        return None if kvs_of(result.found()) else []

    def _claim_into(
        self, claimed: dict[str, JobRow], request: ClaimRequest, names: frozenset[str] | None, limit: int
    ) -> Grant | None:
        """Add jobs to those that are claimed, one transaction after the other, until ``limit`` or the queue's end.

        Return what let jobs be claimed at the queue's end; None if it was not reached.
        """
        deadline = Deadline(CHANGE_TIMEOUT)
        missed: set[bytes] = set()
        while len(claimed) < limit:
            wanted = min(limit - len(claimed), _MAX_CLAIMS)
            candidates = self._queue.candidates(names, max(wanted, self._alternatives))
            if not candidates.jobs:
                return candidates.grant
            rows = self._claim(candidates, request, wanted)
            claimed.update((row.uuid, row) for row in rows)
            if rows and len(candidates.jobs) < wanted:
                return candidates.grant
            if not rows:
                self._lost_leases.check()
                self._delete_orphans([job for job in candidates.jobs if job.order in missed])
                missed = {job.order for job in candidates.jobs}
            deadline.check("the head of the queue")
        return None

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        found = self._expiry.read_board([scan_prefix(self._keys.claims)])[0]
        orders = [order for order, claim in claims_in(found.kvs) if claim.claim_id == claim_id]
        jobs = [job for job in self._reader.read_at(orders) if job is not None]
        own = [job for job in jobs if job.row.claim is not None and job.row.claim.claim_id == claim_id]
        for job in own:
            self._writer.remember_claim(job)
        return [job.row.view() for job in own]

    def _claim(self, candidates: Candidates, request: ClaimRequest, wanted: int) -> list[JobRow]:
        """Claim up to ``wanted`` of these, without those that others have claimed meanwhile."""
        grant = candidates.grant
        pairs = self._pairs_of(candidates.jobs[: self._alternatives if wanted == 1 else wanted], request, grant)
        try:
            if wanted == 1:
                return self._claim_first(pairs, grant)
            return self._claim_all(pairs, grant, candidates.gapless)
        except LeaseNotFound:
            self._leases.forget_all()
            return []

    def _pairs_of(self, jobs: Sequence[Candidate], request: ClaimRequest, grant: Grant) -> list[_Pair]:
        lease = self._leases.for_claims(request.expiry)
        now = self._connection.now()
        end = lifecycle.end_of_claim(request.expiry, self._connection.latest())
        pairs = [(job, StoredClaim(job.hint.name, request.who, request.claim_id, now, end, lease)) for job in jobs]
        for job, claim in pairs:
            claim.is_counted = job.hint.name in grant.counted
        return pairs

    def _claim_first(self, pairs: Sequence[_Pair], grant: Grant) -> list[JobRow]:
        """Claim the first that can still be claimed: one transaction tries them in turn."""
        behind: list[Op] = []
        txn = Txn()
        for pair in reversed(pairs):
            txn = self._claim_of(pair, grant)
            txn.otherwise, behind = behind, [nested(txn)]
        result = self._connection.send(txn)
        answer = result
        for tries, pair in enumerate(pairs):
            if answer.succeeded:
                self._alternatives = self._alternatives if tries else 1
                return [self._claimed(pair, next(answer.found()).first, result.revision)]
            answer = answer.answers[0] if answer.answers else answer
        # Other clients compete for these jobs.
        self._alternatives = _ALTERNATIVES
        return []

    def _claim_all(self, pairs: Sequence[_Pair], grant: Grant, gapless: Collection[bytes]) -> list[JobRow]:
        """Claim all in one step; each by itself if that fails: one is gone, or a name is paused."""
        result = self._connection.send(self._claim_of_all(pairs, grant, gapless))
        if not result.succeeded:
            return self._claim_each(pairs, grant)
        records = {kv.last_part: kv for kv in kvs_of(result.found())}
        records |= self._records_at([job.order for job, _ in pairs if job.order not in records])
        return [self._claimed(pair, records.get(pair[0].order), result.revision) for pair in pairs]

    def _claim_of_all(self, pairs: Sequence[_Pair], grant: Grant, gapless: Collection[bytes]) -> Txn:
        """Return the transaction that claims all of these or none, and reads their records, or most of them."""
        keys = self._keys
        first, last = pairs[0][0].order, pairs[-1][0].order
        if first[:2] == last[:2]:
            records = [scan(keys.live + first, keys.live + last + b"\0", 2 * len(pairs))]
        else:
            # All claimed jobs of the higher priority may stand between them: a range would read those, too.
            records = [get(keys.live + job.order) for job, _ in pairs]
        granted = grant.conditions(keys, [job.hint.name for job, _ in pairs])
        together = Txn([*granted, *under(keys, pairs[0][1].lease)], records)
        newest = max(job.revision for job, _ in pairs)
        for prefix in gapless:
            # A job that came into this part of the queue since it was read must stay there.
            together.compares.append(none_newer(prefix + first, prefix + last + b"\0", newest))
            together.then.append(delete_range(prefix + first, prefix + last + b"\0"))
        parts = [
            Txn([present(keys.ready(job.order))], [*self._leaving(job, gapless), *self._claiming(job, claim)])
            for job, claim in pairs
        ]
        events = [_event_of(job, claim) for job, claim in pairs]
        return combined([together, *parts], event_ops(keys, events))

    def _records_at(self, orders: Sequence[bytes]) -> dict[bytes, KeyValue]:
        """Read the records of jobs that are claimed by now."""
        if not orders:
            return {}
        with after_a_change():
            found = self._connection.read([get(self._keys.live + order) for order in orders])
        return {order: part.first for order, part in zip(orders, found, strict=True) if part.first is not None}

    def _claim_each(self, pairs: Sequence[_Pair], grant: Grant) -> list[JobRow]:
        """Claim each of these that can be claimed, in one request: the server compares for all before it writes."""
        txns = [nested(self._claim_of(pair, grant, slot)) for slot, pair in enumerate(pairs)]
        result = self._connection.send(Txn(then=txns))
        return [
            self._claimed(pair, next(answer.found()).first, result.revision)
            for pair, answer in zip(pairs, result.answers, strict=True)
            if answer.succeeded
        ]

    def _claim_of(self, pair: _Pair, grant: Grant, slot: int = 0) -> Txn:
        """Return the transaction that claims one job; its first answer is the record."""
        keys, (job, claim) = self._keys, pair
        granted = grant.conditions(keys, [job.hint.name])
        steps = [get(keys.live + job.order), *self._leaving(job), *self._claiming(job, claim)]
        return Txn(
            [present(keys.ready(job.order)), *granted, *under(keys, claim.lease)],
            [*steps, *event_ops(keys, [_event_of(job, claim)], slot)],
        )

    def _leaving(self, job: Candidate, gapless: Collection[bytes] = ()) -> list[Op]:
        """Take a job out of its queues, except those of ``gapless``, of which a whole range is deleted at once."""
        keys, lane = self._keys, job.hint.lane
        queues = (keys.ready_jobs, keys.queue(job.hint.name, JobState.UNCLAIMED))
        places = [queue + job.order for queue in queues if queue not in gapless]
        if lane is not None:
            places.append(keys.in_lane(lane, LanePart.CLAIMABLE, job.order))
        if job.hint.due is not None:
            places.append(keys.timer(job.hint.due, job.order))
        return [delete(place) for place in places]

    def _claiming(self, job: Candidate, claim: StoredClaim) -> list[Op]:
        keys = self._keys
        steps = [put(keys.claim(job.order), claim.packed())]
        if claim.expires_at is not None:
            steps.append(put(keys.timer(claim.expires_at, job.order), job.hint.packed()))
        if job.hint.lane is not None:
            steps.append(put(keys.in_lane(job.hint.lane, LanePart.CLAIMED, job.order), b""))
        if claim.is_counted:
            steps.append(put(keys.running_of(job.hint.name) + job.order, b""))
        return steps

    def _claimed(self, pair: _Pair, record: KeyValue | None, revision: int) -> JobRow:
        candidate, claim = pair
        hint = candidate.hint
        live = record or KeyValue(self._keys.live + candidate.order, b"", 0, 0, 0)
        job = self._reader.job_from(live, None, (), hint.uuid)
        row = job.row
        if row.is_unreadable or row.newer is not None:
            row.name, row.created_on = hint.name, hint.created_on
        row.claim, row.claim_token = claim, revision
        job.claim_revision = revision
        self._writer.remember_claim(job)
        return row.view()

    def _delete_orphans(self, again: Sequence[Candidate]) -> None:
        """Delete the places in the queues of jobs that two claims in turn have missed, if these jobs don't exist."""
        keys = self._keys
        for candidate, job in zip(again, self._reader.read_at([job.order for job in again]), strict=True):
            if job is None or not job.row.is_live or job.row.claim is not None:
                gone = [delete(keys.ready(candidate.order)), *self._leaving(candidate, [keys.ready_jobs])]
                self._connection.send(Txn([absent(keys.live + candidate.order)], gone))


def _event_of(job: Candidate, claim: StoredClaim) -> Event:
    hint = job.hint
    return Event(EventKind.CLAIMED, hint.uuid, hint.name, claim.who, None, claim.at, None, claim.expires_at)
