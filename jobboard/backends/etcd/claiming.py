"""How claims are made: the head of the queue is a range, and the claim one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jobboard.backends import lifecycle
from jobboard.backends.etcd.connection import Connection, Deadline
from jobboard.backends.etcd.errors import LeaseNotFound
from jobboard.backends.etcd.events import Event, event_ops
from jobboard.backends.etcd.expiry import Expiry, LostLeases
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.job_writer import JobWriter
from jobboard.backends.etcd.layout import is_hidden, under
from jobboard.backends.etcd.leases import Leases
from jobboard.backends.etcd.pauses import Pauses
from jobboard.backends.etcd.read_modify_write import CHANGE_TIMEOUT
from jobboard.backends.etcd.ready_queue import Candidate, Candidates, ReadyQueue
from jobboard.backends.etcd.stored import Hint, StoredClaim
from jobboard.backends.etcd.txn import (
    KeyValue,
    Op,
    Txn,
    absent,
    combined,
    delete,
    delete_range,
    get,
    nested,
    none_in,
    none_newer,
    present,
    put,
    scan,
    scan_prefix,
)
from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.errors import BoardUnavailable, ReplyLost
from jobboard.events import EventKind
from jobboard.states import JobState

#: How many jobs a claim of one tries in its transaction, one after the other, while others are after the same.
_ALTERNATIVES = 4

#: Jobs in one transaction of claims.
_MAX_CLAIMS = 50

#: A job, and the claim of it that is to be written.
_Pair = tuple[Candidate, StoredClaim]


class Claiming:
    """A claim leaves the record alone: it takes the job out of the queues, and puts a claim beside it."""

    def __init__(
        self,
        connection: Connection,
        queue: ReadyQueue,
        pauses: Pauses,
        reader: JobReader,
        writer: JobWriter,
        expiry: Expiry,
        leases: Leases,
        lost_leases: LostLeases,
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._queue = queue
        self._pauses = pauses
        self._reader = reader
        self._writer = writer
        self._expiry = expiry
        self._leases = leases
        self._lost_leases = lost_leases
        self._alternatives = 1

    def claim(self, uuid: str, request: ClaimRequest) -> JobRow | None:
        deadline = Deadline(CHANGE_TIMEOUT)
        while True:
            (job,) = self._expiry.read([uuid])
            if job is None or job.row.uuid != uuid or is_hidden(job, self._connection.now()):
                return None
            row = job.row
            if row.claim is not None or row.state is not JobState.UNCLAIMED:
                return row.view()
            candidate = Candidate(job.order, Hint(row.uuid, row.name, row.created_on))
            claimed = self._claim(Candidates([candidate]), request, 1)
            if claimed:
                return claimed[0]
            if not self._pauses.paused().isdisjoint((None, row.name)):
                return row.view()
            self._lost_leases.check()
            deadline.check(f"job {uuid} changes all the time")

    def claim_next(self, request: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        # By uuid: a claim that runs out within this very call, over slow replies, may be followed by another one.
        claimed: dict[str, JobRow] = {}
        deadline = Deadline(CHANGE_TIMEOUT)
        missed: set[bytes] = set()
        while len(claimed) < limit:
            wanted = min(limit - len(claimed), _MAX_CLAIMS)
            try:
                candidates = self._queue.candidates(names, max(wanted, _ALTERNATIVES))
                if not candidates.jobs:
                    break
                rows = self._claim(candidates, request, wanted)
                claimed |= {row.uuid: row for row in rows}
                if rows and len(candidates.jobs) < wanted:
                    break
                if not rows:
                    self._lost_leases.check()
                    self._delete_orphans([job for job in candidates.jobs if job.order in missed])
                    missed = {job.order for job in candidates.jobs}
                deadline.check("the head of the queue")
            except ReplyLost:
                raise
            except BoardUnavailable:
                if not claimed:
                    raise
                break
        # What was posted or abandoned between two transactions may be better than what the first one took.
        return sorted(claimed.values(), key=lambda row: (-row.priority, row.sequence))

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        found = self._expiry.read_board([scan_prefix(self._keys.claims)])[0]
        orders = [kv.key.rpartition(b"/")[2] for kv in found.kvs if _claim_id_of(kv.value) == claim_id]
        jobs = [job for job in self._reader.read_at(orders) if job is not None]
        own = [job for job in jobs if job.row.claim is not None and job.row.claim.claim_id == claim_id]
        for job in own:
            self._writer.remember_claim(job)
        return [job.row.view() for job in own]

    def _claim(self, candidates: Candidates, request: ClaimRequest, wanted: int) -> list[JobRow]:
        """Claim up to ``wanted`` of these, but for those that others have claimed."""
        lease = self._leases.for_claims(request.expiry)
        now = self._connection.now()
        end = lifecycle.end_of_claim(request.expiry, self._connection.latest())
        jobs = candidates.jobs[: self._alternatives if wanted == 1 else wanted]
        pairs = [(job, StoredClaim(job.hint.name, request.who, request.claim_id, now, end, lease)) for job in jobs]
        try:
            return self._claim_first(pairs) if wanted == 1 else self._claim_all(pairs, candidates.gapless)
        except LeaseNotFound:
            self._leases.forget_all()
            return []

    def _claim_first(self, pairs: Sequence[_Pair]) -> list[JobRow]:
        """Claim the first that is still there: if it is gone, the same transaction tries the next."""
        behind: list[Op] = []
        txn = Txn()
        for pair in reversed(pairs):
            txn = self._claim_of(pair)
            txn.otherwise, behind = behind, [nested(txn)]
        result = self._connection.send(txn)
        answer = result
        for tries, pair in enumerate(pairs):
            if answer.succeeded:
                self._alternatives = self._alternatives if tries else 1
                return [self._claimed(pair, next(answer.found()).first, result.revision)]
            answer = answer.answers[0] if answer.answers else answer
        # Others are after the same jobs.
        self._alternatives = _ALTERNATIVES
        return []

    def _claim_all(self, pairs: Sequence[_Pair], gapless: Collection[bytes]) -> list[JobRow]:
        """Claim all in one step; if that can't be, because one of them is gone or a name is paused, each by itself."""
        keys = self._keys
        orders = [job.order for job, _ in pairs]
        first, last = orders[0], orders[-1]
        # Between jobs of two priorities may lie all those of the first one that are claimed already.
        records = (
            [scan(keys.live + first, keys.live + last + b"\0", 2 * len(pairs))]
            if first[:2] == last[:2]
            else [get(keys.live + order) for order in orders]
        )
        together = Txn([none_in(keys.paused), *under(keys, pairs[0][1].lease)], records)
        newest = max(job.revision for job, _ in pairs)
        for prefix in gapless:
            # What came into this part of the queue since it was read must not leave it.
            together.compares.append(none_newer(prefix + first, prefix + last + b"\0", newest))
            together.then.append(delete_range(prefix + first, prefix + last + b"\0"))
        parts = [
            Txn([present(keys.ready(job.order))], [*self._leaving(job, gapless), *self._claiming(job, claim)])
            for job, claim in pairs
        ]
        events = [_event_of(job, claim) for job, claim in pairs]
        result = self._connection.send(combined([together, *parts], event_ops(keys, events)))
        if not result.succeeded:
            return self._claim_each(pairs)
        records_at = {kv.key[len(keys.live) :]: kv for part in result.found() for kv in part.kvs}
        records_at |= self._records_at([order for order in orders if order not in records_at])
        return [self._claimed(pair, records_at.get(pair[0].order), result.revision) for pair in pairs]

    def _records_at(self, orders: Sequence[bytes]) -> dict[bytes, KeyValue]:
        """Read the records of jobs that are claimed already, so that a failure leaves open what became of them."""
        if not orders:
            return {}
        try:
            found = self._connection.read([get(self._keys.live + order) for order in orders])
        except BoardUnavailable as error:
            raise ReplyLost(f"the jobs were claimed, but can't be read: {error}") from None
        return {order: part.first for order, part in zip(orders, found, strict=True) if part.first is not None}

    def _claim_each(self, pairs: Sequence[_Pair]) -> list[JobRow]:
        """Claim each of these that can be, in one request."""
        txns = [nested(self._claim_of(pair, slot)) for slot, pair in enumerate(pairs)]
        result = self._connection.send(Txn(then=txns))
        return [
            self._claimed(pair, next(answer.found()).first, result.revision)
            for pair, answer in zip(pairs, result.answers, strict=True)
            if answer.succeeded
        ]

    def _claim_of(self, pair: _Pair, slot: int = 0) -> Txn:
        """Return what claims one job by itself; its record is the first answer."""
        keys, (job, claim) = self._keys, pair
        unpaused = [absent(keys.paused_board), absent(keys.pause(job.hint.name))]
        steps = [get(keys.live + job.order), *self._leaving(job), *self._claiming(job, claim)]
        return Txn(
            [present(keys.ready(job.order)), *unpaused, *under(keys, claim.lease)],
            [*steps, *event_ops(keys, [_event_of(job, claim)], slot)],
        )

    def _leaving(self, job: Candidate, gapless: Collection[bytes] = ()) -> list[Op]:
        """Take a job out of the queues, but for those of which a whole part is taken out."""
        queues = (self._keys.ready_jobs, self._keys.queue(job.hint.name, JobState.UNCLAIMED))
        return [delete(queue + job.order) for queue in queues if queue not in gapless]

    def _claiming(self, job: Candidate, claim: StoredClaim) -> list[Op]:
        steps = [put(self._keys.claim(job.order), claim.packed())]
        if claim.expires_at is not None:
            steps.append(put(self._keys.timer(claim.expires_at, job.order), job.hint.packed()))
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
        """Delete the places in the queue of jobs that are not there, which a second try has missed, too."""
        keys = self._keys
        for candidate, job in zip(again, self._reader.read_at([job.order for job in again]), strict=True):
            if job is None or not job.row.is_live or job.row.claim is not None:
                gone = [delete(keys.ready(candidate.order)), *self._leaving(candidate, [keys.ready_jobs])]
                self._connection.send(Txn([absent(keys.live + candidate.order)], gone))


def _event_of(job: Candidate, claim: StoredClaim) -> Event:
    hint = job.hint
    return Event(EventKind.CLAIMED, hint.uuid, hint.name, claim.who, None, claim.at, None, claim.expires_at)


def _claim_id_of(data: bytes) -> str | None:
    try:
        return StoredClaim.of(data).claim_id
    except ValueError:
        return None
