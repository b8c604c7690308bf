"""Changes of jobs as stored: each one fenced by what was read, many of them in one request."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from jobboard.backends.attempts import expired, is_used_up, used_up
from jobboard.backends.etcd.client import Client
from jobboard.backends.etcd.faults import LeaseGone
from jobboard.backends.etcd.layout import Stored, content_of, steps_between
from jobboard.backends.etcd.rows import Grant, Row, folded
from jobboard.backends.etcd.telling import Told, pack_told, told_of
from jobboard.backends.etcd.txn import (
    MOST_BYTES,
    Compare,
    Found,
    KeyValue,
    Op,
    Txn,
    absent,
    delete,
    many,
    modified_at,
    nested,
    put,
    scan,
    scan_prefix,
    size_of,
)
from jobboard.backends.rows import Fence
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind
from jobboard.states import JobState

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

#: Jobs in one transaction: each is a nested one, and the server counts what both levels list.
MOST_JOBS = 50

#: For how long a request is made anew, in seconds: while others change the same jobs; while more becomes due.
PATIENCE, SETTLING = 10.0, 60.0


@dataclass(slots=True)
class Change:
    """What is to become of a job (``new`` None: nothing is left of it), and what is told of it.

    :param is_fenced: only if the claim that was read holds in that moment.
    :param retention: for how many seconds a completed record is shown.
    """

    new: Row | None
    told: list[Told]
    is_fenced: bool = False
    retention: float = 0.0
    compares: list[Compare] = field(default_factory=list)


class Changing(Client):
    """Every change says what it expects to find; one that lost its race is decided anew from a fresh read."""

    def _alter(
        self,
        items: Sequence[Item],
        uuid_of: Callable[[Item], str],
        decide: Callable[[Item, Stored | None, float], tuple[Outcome, Change | None]],
        knows: Callable[[Item, Stored], bool] = lambda item, stored: False,
    ) -> list[Outcome]:
        """Decide on each item and carry that out, each atomically.

        :param knows: whether a job as this client remembers it will do for the decision, until a change of it fails.
        """
        self._check_open()
        outcomes: dict[int, Outcome] = {}
        stale: set[str] = set()
        deadline = time.monotonic() + PATIENCE
        while len(outcomes) < len(items):
            # Of several items about one job, each finds what the one before has left.
            turn: dict[str, int] = {}
            for at, item in enumerate(items):
                if at not in outcomes and len(turn) < MOST_JOBS:
                    turn.setdefault(uuid_of(item), at)
            stored = self._remembered({uuid: items[at] for uuid, at in turn.items() if uuid not in stale}, knows)
            missing = [uuid for uuid in turn if uuid not in stored]
            stored |= dict(zip(missing, self._read_settled(missing), strict=True))
            now = self.now()
            pairs: list[tuple[int, Outcome, Stored, Change]] = []
            for uuid, at in turn.items():
                outcome, change = decide(items[at], job := stored[uuid], now)
                if change is None or job is None:
                    outcomes[at] = outcome
                else:
                    self._check_readable(job, change)
                    pairs.append((at, outcome, job, change))
            done = self._apply([(job, change) for _, _, job, change in pairs])
            for (at, outcome, _, _), is_done in zip(pairs, done, strict=True):
                if is_done:
                    outcomes[at] = outcome
                elif is_done is False:
                    stale.add(uuid_of(items[at]))
            if False in done:
                self._check_leases()
            self._until(deadline, f"{len(items) - len(outcomes)} of {len(items)} jobs change all the time")
        return [outcomes[at] for at in range(len(items))]

    def _remembered(self, items: dict[str, Item], knows: Callable[[Item, Stored], bool]) -> dict[str, Stored | None]:
        now = self.now()
        known = {uuid: (item, self._held.get(uuid)) for uuid, item in items.items()}
        return {
            uuid: job
            for uuid, (item, job) in known.items()
            if job is not None and knows(item, job) and not is_over(job, now)
        }

    def _check_readable(self, job: Stored, change: Change) -> None:
        """Let a claim of what only later versions can read begin and end, and nothing else happen to it."""
        if job.row.newer is not None and (change.new is None or change.new.state is not JobState.UNCLAIMED):
            raise BoardUnavailable(f"the record of job {job.row.uuid} is of a newer format; upgrade this client")

    def _apply(self, pairs: Sequence[tuple[Stored, Change]]) -> list[bool | None]:
        """Carry changes out, as many as one request can.

        True for each that was; False for one that met something else than it had read; None for one that was not
        tried, because the request was full, or a lease was gone. What is not done is to be decided anew.
        """
        done: list[bool | None] = [None] * len(pairs)
        try:
            txns = self._txns_of(pairs)
            revision, results = self._send_all(txns, [change.told for _, change in pairs[: len(txns)]])
        except LeaseGone:
            self.leases.forget_all()
            return done
        for at, is_done in enumerate(results):
            stored, change = pairs[at]
            done[at] = is_done
            if is_done:
                self._remember(stored, change.new, revision)
            else:
                self._held.forget(stored.row.uuid)
                self._orders.forget(stored.row.uuid)
        return done

    def _send_all(self, txns: Sequence[Txn], told: Sequence[Sequence[Told]]) -> tuple[int, list[bool]]:
        """Carry out all of these in one step; if one of them can't be, then each by itself, in one request, too."""
        if not txns:
            return 0, []
        done = self._send(self._whole_of(txns, [event for events in told for event in events]))
        if done.succeeded or len(txns) == 1:
            return done.revision, [done.succeeded] * len(txns)
        parts = [Txn(txn.compares, [*txn.then, *self._telling(told[at], at)]) for at, txn in enumerate(txns)]
        done = self._send(Txn(then=[nested(part) for part in parts]))
        return done.revision, [answer.succeeded for answer in done.answers]

    def _whole_of(self, txns: Sequence[Txn], told: Sequence[Told]) -> Txn:
        """Return one transaction of several, which happens as a whole or not at all."""
        # The claims of one client have one session in common.
        compares = list({(c["key"], c["target"]): c for txn in txns for c in txn.compares}.values())
        steps = [step for txn in txns for step in txn.then]
        return Txn(compares, many([*self._telling(told), *steps], len(compares)))

    def _txns_of(self, pairs: Sequence[tuple[Stored, Change]]) -> list[Txn]:
        """Return what carries out as many of these as fit one request, each by itself."""
        txns: list[Txn] = []
        size = 0
        for stored, change in pairs:
            txn = self._txn_of(stored, change)
            size += size_of(txn.then)
            if txns and size > MOST_BYTES:
                break
            txns.append(txn)
        return txns

    def _txn_of(self, stored: Stored, change: Change) -> Txn:
        keys, new = self.keys, change.new
        is_done = new is not None and new.state is JobState.COMPLETE
        lease = self.leases.for_records(change.retention, 1) if is_done else 0
        compares = stored.unchanged(keys) + change.compares
        if change.is_fenced:
            compares += stored.still_held(keys)
        steps = steps_between(content_of(keys, stored.row), content_of(keys, new, lease))
        return Txn(compares, steps)

    def _telling(self, told: Sequence[Told], slot: int = 0) -> list[Op]:
        return [put(self.keys.event(slot), pack_told(told))] if told else []

    def _remember(self, stored: Stored, new: Row | None, revision: int) -> None:
        """Keep what a change has made of a job, if this client may well end the claim of it."""
        uuid = stored.row.uuid
        if new is None:
            self._orders.forget(uuid)
        else:
            self._orders.put(uuid, new.order)
        if new is None or new.grant is None or new.order != stored.order:
            self._held.forget(uuid)
            return
        old = stored.row
        known = replace(stored, row=new)
        if old.packed() != new.packed():
            known.record_revision = revision
        if old.grant != new.grant:
            known.claim_revision = revision
        self._held.put(uuid, known)

    # -- time ------------------------------------------------------------------------------------------------------

    def _read_settled(self, uuids: Sequence[str]) -> list[Stored | None]:
        """Read jobs as they are once all whose time has come were taken back or promoted."""
        deadline = time.monotonic() + SETTLING
        while True:
            jobs = self._fetch(uuids)
            if not self._settle(jobs):
                return jobs
            self._until(deadline, "jobs become due all the time")

    def _settle(self, jobs: Sequence[Stored | None]) -> bool:
        """Take back and promote those whose time has come; False if there were none."""
        now = self.now()
        over = [job for job in jobs if job is not None and is_over(job, now)]
        for start in range(0, len(over), MOST_JOBS):
            self._apply([(job, _settled(job, now)) for job in over[start : start + MOST_JOBS]])
        return bool(over)

    def _look(self, ops: Sequence[Op]) -> list[Found]:
        """Read ranges of the whole board at one moment, at which nothing is due."""
        self._check_open()
        deadline = time.monotonic() + SETTLING
        start = self.keys.timers
        while True:
            due = scan(start, self.keys.until(self.now()), MOST_JOBS)
            *found, timers = self._ask([*ops, due])
            if not timers.kvs:
                return found
            if not self._settle_timers(timers.kvs):
                # All of these are left to later versions.
                if not timers.more:
                    return found
                start = timers.kvs[-1].key + b"\0"
            self._until(deadline, "more jobs become due than the board can take back")

    def _settle_timers(self, timers: Sequence[KeyValue]) -> bool:
        """See to the jobs whose moments these are; False if there was nothing to do."""
        orders = [timer.key.rpartition(b"/")[2] for timer in timers]
        jobs = self._fetch_at(orders)
        is_settled = self._settle(jobs)
        strays = [
            timer
            for timer, order, job in zip(timers, orders, jobs, strict=True)
            if job is None or (job.row.newer is None and not self._is_timer_of(job.row, timer.key))
        ]
        for timer in strays:
            # It belongs to nothing that is there; unless somebody has just set it.
            self._send(Txn([modified_at(timer.key, timer.modified)], [delete(timer.key)]))
        return is_settled or bool(strays)

    def _is_timer_of(self, row: Row, key: bytes) -> bool:
        return row.due is not None and self.keys.timer(row.due, row.order) == key

    def _mend_places(self, orders: Sequence[bytes]) -> None:
        """Write anew what stands of these jobs in the lines, since it can't be read."""
        keys = self.keys
        for order, job in zip(orders, self._fetch_at(orders), strict=True):
            if job is not None and job.row.newer is not None:
                continue
            if job is None or not job.row.is_live:
                self._send(Txn([absent(keys.live + order)], [delete(keys.ready(order))]))
                continue
            content = content_of(keys, job.row)
            steps = [put(key, *content[key]) for key in content if key not in (job.record, keys.claim(order))]
            if keys.ready(order) not in content:
                steps.append(delete(keys.ready(order)))
            self._send(Txn(job.unchanged(keys), steps))

    def _settle_orders(self, orders: Sequence[bytes]) -> None:
        """Look at jobs whose claims may be over."""
        for start in range(0, len(orders), MOST_JOBS):
            self._settle(self._fetch_at(orders[start : start + MOST_JOBS]))

    def _lease_lost(self, lease: int) -> None:
        """Learn that a lease is gone, and take back what was claimed under it: who waits for that is told at once."""
        self.leases.forget(lease)
        for job in self._held.values():
            if job.row.grant is not None and job.row.grant.lease == lease:
                self._held.forget(job.row.uuid)
        self._worker.soon(lambda: self._settle_orders(self._claims_under(lease)))

    def _check_leases(self) -> None:
        """After a lost race, see whether it was this client's session that was not there any more."""
        (sessions,) = self._ask([scan_prefix(self.keys.sessions, keys_only=True)])
        self.leases.forget_but(self._leases_of(sessions))

    def _claims_under(self, lease: int) -> list[bytes]:
        """Return the places of the jobs that are claimed under a lease, found from the claims."""
        (found,) = self._ask([scan_prefix(self.keys.claims)])
        return [kv.key.rpartition(b"/")[2] for kv in found.kvs if _lease_of(kv.value) == lease]

    def _is_claimed_under(self, lease: int) -> bool:
        held = (job.row.grant for job in self._held.values())
        return any(grant is not None and grant.lease == lease for grant in held) or bool(self._claims_under(lease))


def _lease_of(claim: bytes) -> int | None:
    try:
        return Grant.of(claim).lease
    except ValueError:
        return None


def holds(stored: Stored, fence: Fence) -> bool:
    """Whether this hold is the present one."""
    grant = stored.row.grant
    return grant is not None and stored.row.granted == fence.token and grant.who == fence.who


def is_over(stored: Stored, now: float) -> bool:
    """Whether a claim has come to its end, or a delay; of what only later versions can read they are to say."""
    row = stored.row
    if not row.is_live or row.newer is not None:
        return False
    if row.grant is not None:
        return not stored.is_held or (row.grant.expires_at is not None and row.grant.expires_at <= now)
    return row.state is JobState.DELAYED and (row.run_at is None or row.run_at <= now)


def _settled(stored: Stored, now: float) -> Change:
    if stored.row.grant is not None:
        return _taken_back(stored, now)
    row = stored.row.copy()
    row.state = JobState.UNCLAIMED
    row.note(EventKind.DUE, None, now, None)
    return Change(row, [told_of(row, EventKind.DUE, now)])


def _taken_back(stored: Stored, now: float) -> Change:
    """End a claim whose time is over, so that the job is where it belongs."""
    grant, token = stored.row.grant, stored.row.granted
    assert grant is not None
    row = folded(stored.row)
    row.reason = reason = expired(grant.who) if stored.is_held else f"the claim of '{grant.who}' lost its lease"
    if row.cancel_asked or is_used_up(row):
        row.note(EventKind.EXPIRED, grant.who, now, token, reason)
        told = [told_of(row, EventKind.EXPIRED, now, grant.who, token, reason)]
        if row.cancel_asked:
            row.take_off(now, None, token)
            return Change(row, [*told, told_of(row, EventKind.CANCELLED, now, None, token)])
        row.reason = row.last_error = used_up(row, reason)
        row.discard(now, None, token, row.reason)
        return Change(row, [*told, told_of(row, EventKind.TRASHED, now, None, token, row.reason)])
    row.put_back(None, now)
    row.note(EventKind.EXPIRED, grant.who, now, token, reason)
    return Change(row, [told_of(row, EventKind.EXPIRED, now, grant.who, token, reason)])
