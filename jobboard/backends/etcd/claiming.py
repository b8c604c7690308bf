"""How claims are made: the head of the line is a range, and the claim one transaction."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jobboard.backends.etcd.changing import PATIENCE, SETTLING
from jobboard.backends.etcd.faults import LeaseGone
from jobboard.backends.etcd.keys import decoded, is_order
from jobboard.backends.etcd.layout import Stored, under
from jobboard.backends.etcd.lines import Lines
from jobboard.backends.etcd.rows import Grant, Hint
from jobboard.backends.etcd.telling import Told
from jobboard.backends.etcd.txn import (
    Found,
    KeyValue,
    Op,
    Txn,
    absent,
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

#: Whom a claim of one job falls back on, in the same transaction, when others were faster with the first.
_CHOICES = 4

#: Jobs in one transaction of claims.
_MOST_CLAIMS = 50

_SKIPPED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Head:
    """A job that can be claimed, by its place in the line, and since which revision it stands there."""

    order: bytes
    hint: Hint
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Heads:
    """The best jobs that can be claimed; ``gapless`` are the lines in which no other stood between them."""

    heads: list[Head]
    gapless: frozenset[bytes] = frozenset()


class Claiming(Lines):
    """A claim leaves the record alone: it takes the job out of the line, and puts a claim beside it."""

    def _opened_anew(self) -> None:
        super()._opened_anew()
        self._choices = 1

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        deadline = time.monotonic() + PATIENCE
        while True:
            self._check_open()
            (stored,) = self._read_settled([uuid])
            if stored is None or stored.row.uuid != uuid or is_hidden(stored, self.now()):
                return None
            row = stored.row
            if row.grant is not None or row.state is not JobState.UNCLAIMED:
                return row.view()
            won = self._grab(Heads([Head(stored.order, Hint(row.uuid, row.name, row.created_on))]), claim, 1)
            if won:
                return won[0]
            if not self.paused().isdisjoint((None, row.name)):
                return row.view()
            self._check_leases()
            self._until(deadline, f"job {uuid} changes all the time")

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        # By uuid: a claim that runs out within this very call, over slow replies, may be followed by another one.
        claimed: dict[str, JobRow] = {}
        deadline = time.monotonic() + PATIENCE
        missed: set[bytes] = set()
        while len(claimed) < limit:
            wanted = min(limit - len(claimed), _MOST_CLAIMS)
            try:
                found = self._heads(names, max(wanted, _CHOICES))
                heads = found.heads
                if not heads:
                    break
                won = self._grab(found, claim, wanted)
                claimed |= {entry.uuid: entry for entry in won}
                if won and len(heads) < wanted:
                    break
                if not won:
                    self._check_leases()
                    missed = self._without_strays(heads, missed)
                self._until(deadline, "the head of the line")
            except ReplyLost:
                raise
            except BoardUnavailable:
                if not claimed:
                    raise
                break
        # What was posted or put back between two transactions may be better than what the first one took.
        return sorted(claimed.values(), key=lambda entry: (-entry.priority, entry.sequence))

    def _heads(self, names: frozenset[str] | None, count: int) -> Heads:
        """Find the best jobs that can be claimed."""
        lines = self._lines_of(names)
        if not lines:
            return Heads([])
        size = count + self._skipped()
        *found, paused = self._first_of(lines, size, [scan_prefix(self.keys.paused)])
        stopped = self._names_of(paused)
        if None in stopped:
            return Heads([])
        heads = self._heads_of(found, stopped)
        is_whole = len(heads) == len(found[0].kvs)
        if names is None and not is_whole and len(found[0].kvs) == size and len(heads) < count:
            heads += self._heads_behind(found[0].kvs[-1].key, stopped, count - len(heads))
        heads = heads[:count]
        if stopped or len(lines) > 1 or not is_whole:
            return Heads(heads)
        seen = {head.hint.name for head in heads}
        by_name = [self.keys.line(name, JobState.UNCLAIMED) for name in seen if len(seen) == 1]
        return Heads(heads, frozenset([*lines, *by_name]))

    def _skipped(self) -> int:
        """Return how many places are read beyond those that are wanted, since they may be those of newer jobs."""
        return min(len(self._newer), _SKIPPED_AT_ONCE)

    def _heads_of(self, found: Sequence[Found], stopped: frozenset[str | None]) -> list[Head]:
        """Return what this client can claim of these places, best first."""
        heads = [
            Head(order, hint, kv.modified)
            for part in found
            for kv in part.kvs
            if (hint := Hint.of(kv.value)) is not None
            and hint.name not in stopped
            and is_order(order := kv.key.rpartition(b"/")[2])
            and order not in self._newer
        ]
        return sorted(heads, key=lambda head: head.order)

    def _heads_behind(self, last: bytes, stopped: frozenset[str | None], count: int) -> list[Head]:
        """Look behind the head of the line, which is full of paused jobs."""
        heads: list[Head] = []
        end = self.keys.ready_jobs[:-1] + b"0"
        deadline = time.monotonic() + SETTLING
        while len(heads) < count:
            (found,) = self._ask([scan(last + b"\0", end, _SKIPPED_AT_ONCE)])
            heads += self._heads_of([found], stopped)
            if not found.more:
                break
            last = found.kvs[-1].key
            self._until(deadline, "the jobs that are not paused stand too far behind")
        return heads

    def _lines_of(self, names: frozenset[str] | None) -> list[bytes]:
        if names is None:
            return [self.keys.ready_jobs]
        return [self.keys.line(name, JobState.UNCLAIMED) for name in sorted(names)]

    def _names_of(self, paused: Found) -> frozenset[str | None]:
        return frozenset(
            None if kv.key == self.keys.paused_board else decoded(kv.key.rpartition(b"/")[2]) for kv in paused.kvs
        )

    def _grab(self, found: Heads, claim: ClaimRequest, wanted: int) -> list[JobRow]:
        """Claim up to ``wanted`` of these, as many as nobody else has taken."""
        heads = found.heads
        lease = self.leases.for_claims(claim.expiry)
        now, end = self.now(), self.end_of_claim(claim.expiry)
        grants = [Grant(head.hint.name, claim.who, claim.claim_id, now, end, lease) for head in heads]
        try:
            if wanted == 1:
                choices = found.heads[: self._choices]
                return self._grab_first(choices, grants[: len(choices)])
            return self._grab_all(Heads(heads[:wanted], found.gapless), grants[:wanted])
        except LeaseGone:
            self.leases.forget_all()
            return []

    def _grab_first(self, heads: Sequence[Head], grants: Sequence[Grant]) -> list[JobRow]:
        """Claim the first that is still there: each failure goes on to the next, in the same transaction."""
        behind: list[Op] = []
        txn = Txn()
        for head, grant in zip(reversed(heads), reversed(grants), strict=True):
            txn = self._claim_of(head, grant)
            txn.then += self._telling([_told_of(head, grant)])
            txn.otherwise, behind = behind, [nested(txn)]
        done = self._send(txn)
        answer = done
        for tries, (head, grant) in enumerate(zip(heads, grants, strict=False)):
            if answer.succeeded:
                self._choices = self._choices if tries else 1
                return [self._won(head, grant, next(answer.found()).first, done.revision)]
            answer = answer.answers[0] if answer.answers else answer
        # Others are after the same jobs.
        self._choices = _CHOICES
        return []

    def _grab_all(self, found: Heads, grants: Sequence[Grant]) -> list[JobRow]:
        """Claim all in one step; if that can't be, because one of them is gone or a name is paused, each by itself."""
        keys, heads = self.keys, found.heads
        told = [_told_of(head, grant) for head, grant in zip(heads, grants, strict=True)]
        first, last = heads[0].order, heads[-1].order
        # Between jobs of two priorities may lie all those of the first one that are claimed already.
        records = (
            [scan(keys.live + first, keys.live + last + b"\0", 2 * len(heads))]
            if first[:2] == last[:2]
            else [get(keys.live + head.order) for head in heads]
        )
        together = Txn([none_in(keys.paused), *under(keys, grants[0])], records)
        newest = max(head.revision for head in heads)
        for prefix in found.gapless:
            # What came into this part of the line since it was read must not leave it.
            together.compares.append(none_newer(prefix + first, prefix + last + b"\0", newest))
            together.then.append(delete_range(prefix + first, prefix + last + b"\0"))
        parts = [
            Txn([present(keys.ready(head.order))], self._leaving(head, found.gapless) + self._claiming(head, grant))
            for head, grant in zip(heads, grants, strict=True)
        ]
        done = self._send(self._whole_of([together, *parts], told))
        if not done.succeeded:
            return self._grab_each(heads, grants, told)
        found_at = {kv.key[len(keys.live) :]: kv for part in done.found() for kv in part.kvs}
        found_at |= self._records_at([head.order for head in heads if head.order not in found_at])
        return [
            self._won(head, grant, found_at.get(head.order), done.revision)
            for head, grant in zip(heads, grants, strict=True)
        ]

    def _records_at(self, orders: Sequence[bytes]) -> dict[bytes, KeyValue]:
        """Read the records of jobs that are claimed already, so that a failure leaves open what became of them."""
        if not orders:
            return {}
        try:
            found = self._ask([get(self.keys.live + order) for order in orders])
        except BoardUnavailable as error:
            raise ReplyLost(f"the jobs were claimed, but can't be read: {error}") from None
        return {order: part.first for order, part in zip(orders, found, strict=True) if part.first is not None}

    def _grab_each(self, heads: Sequence[Head], grants: Sequence[Grant], told: Sequence[Told]) -> list[JobRow]:
        """Claim each of these that can be, in one request."""
        txns = []
        for slot, (head, grant) in enumerate(zip(heads, grants, strict=True)):
            txn = self._claim_of(head, grant)
            txn.then += self._telling([told[slot]], slot)
            txns.append(nested(txn))
        done = self._send(Txn(then=txns))
        return [
            self._won(head, grant, next(answer.found()).first, done.revision)
            for head, grant, answer in zip(heads, grants, done.answers, strict=True)
            if answer.succeeded
        ]

    def _claim_of(self, head: Head, grant: Grant) -> Txn:
        """Return what claims one job by itself; its record is the first answer."""
        keys = self.keys
        unpaused = [absent(keys.paused_board), absent(keys.pause(head.hint.name))]
        return Txn(
            [present(keys.ready(head.order)), *unpaused, *under(keys, grant)],
            [get(keys.live + head.order), *self._leaving(head), *self._claiming(head, grant)],
        )

    def _leaving(self, head: Head, gapless: Collection[bytes] = ()) -> list[Op]:
        """Take a job out of the lines, but for those of which a whole part is taken out."""
        lines = (self.keys.ready_jobs, self.keys.line(head.hint.name, JobState.UNCLAIMED))
        return [delete(line + head.order) for line in lines if line not in gapless]

    def _claiming(self, head: Head, grant: Grant) -> list[Op]:
        steps = [put(self.keys.claim(head.order), grant.packed())]
        if grant.expires_at is not None:
            steps.append(put(self.keys.timer(grant.expires_at, head.order), head.hint.packed()))
        return steps

    def _won(self, head: Head, grant: Grant, record: KeyValue | None, revision: int) -> JobRow:
        live = record or KeyValue(self.keys.live + head.order, b"", 0, 0, 0)
        stored = self._live_from(head.order, live, None, (), head.hint.uuid)
        row = stored.row
        if row.is_wreck or row.newer is not None:
            row.name, row.created_on = head.hint.name, head.hint.created_on
        row.grant, row.granted = grant, revision
        stored.claim_revision = revision
        self._held.put(row.uuid, stored)
        self._orders.put(row.uuid, head.order)
        return row.view()

    def _without_strays(self, heads: Sequence[Head], missed: set[bytes]) -> set[bytes]:
        """Delete the places in the line of jobs that are not there, once a second try has missed them, too."""
        again = [head for head in heads if head.order in missed]
        jobs = self._fetch_at([head.order for head in again])
        for head, job in zip(again, jobs, strict=True):
            if job is None or not job.row.is_live or job.row.grant is not None:
                line = self.keys.line(head.hint.name, JobState.UNCLAIMED) + head.order
                self._send(
                    Txn([absent(self.keys.live + head.order)], [delete(self.keys.ready(head.order)), delete(line)])
                )
        return {head.order for head in heads}

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        found = self._look([scan_prefix(self.keys.claims)])[0]
        orders = [kv.key.rpartition(b"/")[2] for kv in found.kvs if _claim_id_of(kv.value) == claim_id]
        jobs = [job for job in self._fetch_at(orders) if job is not None]
        own = [job for job in jobs if job.row.grant is not None and job.row.grant.claim_id == claim_id]
        for job in own:
            self._held.put(job.row.uuid, job)
        return [job.row.view() for job in own]


def is_hidden(stored: Stored, now: float) -> bool:
    """Whether a completed record is shown no more."""
    row = stored.row
    return row.state is JobState.COMPLETE and row.hidden_from is not None and row.hidden_from <= now


def _told_of(head: Head, grant: Grant) -> Told:
    hint = head.hint
    return Told(EventKind.CLAIMED, hint.uuid, hint.name, grant.who, None, grant.at, None, grant.expires_at)


def _claim_id_of(data: bytes) -> str | None:
    try:
        return Grant.of(data).claim_id
    except ValueError:
        return None
