"""How claims are made: the head of the line is a range, and the claim one transaction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from jobboard.backends.etcd.changing import Changing
from jobboard.backends.etcd.faults import LeaseGone
from jobboard.backends.etcd.keys import decoded
from jobboard.backends.etcd.layout import Stored
from jobboard.backends.etcd.rows import Grant, Hint, grant_of
from jobboard.backends.etcd.telling import Told
from jobboard.backends.etcd.txn import (
    Compare,
    Found,
    KeyValue,
    Op,
    Txn,
    absent,
    delete,
    get,
    nested,
    none_in,
    present,
    put,
    scan,
    scan_prefix,
)
from jobboard.entry import Claim, Entry, JobState
from jobboard.events import EventKind

#: Whom a claim of one job falls back on, in the same transaction, when others were faster with the first.
_CHOICES = 4

#: Jobs in one transaction of claims.
_MOST_CLAIMS = 50

_PATIENCE = 10.0
_SKIPPED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Head:
    """A job that can be claimed, by its place in the line."""

    order: bytes
    hint: Hint


class Claiming(Changing):
    """A claim leaves the record alone: it takes the job out of the line, and puts a claim and a lock beside it."""

    def _opened_anew(self) -> None:
        super()._opened_anew()
        self._choices = 1

    def claim(self, uuid: str, claim: Claim) -> Entry | None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            self._check_open()
            (stored,) = self._read_settled([uuid])
            if stored is None or stored.row.uuid != uuid or is_hidden(stored, self.now()):
                return None
            row = stored.row
            if row.grant is not None or row.state is not JobState.UNCLAIMED:
                return row.view()
            won = self._grab([Head(stored.order, Hint(row.uuid, row.name, row.created_on))], claim, 1)
            if won:
                return won[0]
            if not self.paused().isdisjoint((None, row.name)):
                return row.view()
            self._until(deadline, f"job {uuid} changes all the time")

    def claim_next(self, claim: Claim, names: frozenset[str] | None, limit: int) -> list[Entry]:
        claimed: list[Entry] = []
        deadline = time.monotonic() + _PATIENCE
        missed: set[bytes] = set()
        while len(claimed) < limit:
            wanted = min(limit - len(claimed), _MOST_CLAIMS)
            heads = self._heads(names, max(wanted, _CHOICES))
            if not heads:
                break
            won = self._grab(heads, claim, wanted)
            claimed += won
            if won and len(heads) < wanted:
                break
            if not won:
                missed = self._without_strays(heads, missed)
            self._until(deadline, "the head of the line")
        return claimed

    def _heads(self, names: frozenset[str] | None, count: int) -> list[Head]:
        """Find the best jobs that can be claimed."""
        lines = self._lines_of(names)
        if not lines:
            return []
        *found, paused = self._look([*(scan_prefix(line, count) for line in lines), scan_prefix(self.keys.paused)])
        stopped = self._names_of(paused)
        if None in stopped:
            return []
        heads = _heads_of(found, stopped)
        if names is None and stopped and found[0].more and len(heads) < count:
            heads += self._heads_behind(found[0].kvs[-1].key, stopped, count - len(heads))
        return heads[:count]

    def _heads_behind(self, last: bytes, stopped: frozenset[str | None], count: int) -> list[Head]:
        """Look behind the head of the line, which is full of paused jobs."""
        heads: list[Head] = []
        end = self.keys.ready_jobs[:-1] + b"0"
        while len(heads) < count:
            (found,) = self._ask([scan(last + b"\0", end, _SKIPPED_AT_ONCE)])
            heads += _heads_of([found], stopped)
            if not found.more:
                break
            last = found.kvs[-1].key
        return heads

    def _lines_of(self, names: frozenset[str] | None) -> list[bytes]:
        if names is None:
            return [self.keys.ready_jobs]
        return [self.keys.line(name, JobState.UNCLAIMED) for name in sorted(names)]

    def _names_of(self, paused: Found) -> frozenset[str | None]:
        return frozenset(
            None if kv.key == self.keys.paused_board else decoded(kv.key.rpartition(b"/")[2]) for kv in paused.kvs
        )

    def _grab(self, heads: Sequence[Head], claim: Claim, wanted: int) -> list[Entry]:
        """Claim up to ``wanted`` of these, as many as nobody else has taken."""
        now, lease = self.now(), self.leases.for_claims(claim.expiry)
        grants = [grant_of(head.hint.name, claim, now, lease) for head in heads]
        try:
            if wanted == 1:
                return self._grab_first(heads[: self._choices], grants)
            return self._grab_all(heads[:wanted], grants[:wanted])
        except LeaseGone:
            self.leases.forget_all()
            return []

    def _grab_first(self, heads: Sequence[Head], grants: Sequence[Grant]) -> list[Entry]:
        """Claim the first that is still there: each failure goes on to the next, in the same transaction."""
        txn = Txn()
        for head, grant in zip(reversed(heads), reversed(grants[: len(heads)]), strict=True):
            behind = [nested(txn)] if txn.then else []
            txn = Txn(self._unpaused(head) + self._free(head), self._claiming(head, grant), behind)
            txn.then += self._telling([_told_of(head, grant)])
        done = self._send(txn)
        answer = done
        for tries, (head, grant) in enumerate(zip(heads, grants, strict=False)):
            if answer.succeeded:
                self._choices = self._choices if tries else 1
                return [self._won(head, grant, next(answer.found()), done.revision)]
            answer = answer.answers[0] if answer.answers else answer
        # Others are after the same jobs.
        self._choices = _CHOICES
        return []

    def _grab_all(self, heads: Sequence[Head], grants: Sequence[Grant]) -> list[Entry]:
        """Claim all in one step; if that can't be, because one is gone or a name is paused, each by itself."""
        txns = [Txn(self._free(head), self._claiming(head, grant)) for head, grant in zip(heads, grants, strict=True)]
        told = [_told_of(head, grant) for head, grant in zip(heads, grants, strict=True)]
        unpaused = Txn([none_in(self.keys.paused)])
        done = self._send(self._whole_of([unpaused, *txns], told))
        if done.succeeded:
            found: list[Found | None] = list(done.found())
        else:
            parts = [
                Txn(txn.compares + self._unpaused(head), [*txn.then, *self._telling([event], slot)])
                for slot, (txn, head, event) in enumerate(zip(txns, heads, told, strict=True))
            ]
            done = self._send(Txn(then=[nested(part) for part in parts]))
            found = [next(answer.found()) if answer.succeeded else None for answer in done.answers]
        return [
            self._won(head, grant, part, done.revision)
            for head, grant, part in zip(heads, grants, found, strict=True)
            if part is not None
        ]

    def _free(self, head: Head) -> list[Compare]:
        return [present(self.keys.ready(head.order)), absent(self.keys.lock(head.order))]

    def _unpaused(self, head: Head) -> list[Compare]:
        return [absent(self.keys.paused_board), absent(self.keys.pause(head.hint.name))]

    def _claiming(self, head: Head, grant: Grant) -> list[Op]:
        keys, order = self.keys, head.order
        steps = [
            get(keys.live + order),
            delete(keys.ready(order)),
            delete(keys.line(head.hint.name, JobState.UNCLAIMED) + order),
            put(keys.claim(order), grant.packed()),
            put(keys.lock(order), b"", grant.lease),
        ]
        if grant.expires_at is not None:
            steps.append(put(keys.timer(grant.expires_at, order), head.hint.packed()))
        return steps

    def _won(self, head: Head, grant: Grant, found: Found, revision: int) -> Entry:
        live = found.first or KeyValue(self.keys.live + head.order, b"", 0, 0, 0)
        stored = self._live_from(head.order, live, None, None, head.hint.uuid)
        row = stored.row
        if row.is_wreck:
            row.name, row.created_on = head.hint.name, head.hint.created_on
        row.grant, row.granted = grant, revision
        stored.claim_revision = stored.lock_revision = revision
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

    def claimed_under(self, claim_id: str) -> list[Entry]:
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


def _heads_of(found: Sequence[Found], stopped: frozenset[str | None]) -> list[Head]:
    heads = [Head(kv.key.rpartition(b"/")[2], Hint.of(kv.value)) for part in found for kv in part.kvs]
    return sorted((head for head in heads if head.hint.name not in stopped), key=lambda head: head.order)


def _claim_id_of(data: bytes) -> str | None:
    try:
        return Grant.of(data).claim_id
    except ValueError:
        return None
