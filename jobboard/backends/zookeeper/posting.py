"""Posting: a batch is planned as a whole before anything is written, and written in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from jobboard.backends import lifecycle
from jobboard.backends.errors import after_a_change
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.posting_plan import PostingPlan
from jobboard.backends.rows import NewJob, Posted, PostOutcome
from jobboard.backends.zookeeper.codec import uuid_in
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import Conflict
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.lanes import Lanes, LaneStep
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.requests import NO_NODE, Data
from jobboard.backends.zookeeper.stored_job import MAX_INLINE, THIS, Newer, StoredJob, encode_alias, new_job
from jobboard.backends.zookeeper.transactions import MAX_BYTES, Transaction, Transactions
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

MAX_RETRIES = 200
#: Above this many bytes of bodies, a batch leaves only those up to the second size in the jobs' own znodes, so that it
#: fits a transaction.
MAX_INLINE_BATCH, SMALL_INLINE = 150_000, 256

#: What becomes of a posting, and the job that it is about.
_Step = tuple[PostOutcome, StoredJob]


class Plan:
    """The postings of a batch, and the jobs that their uuids and keys lead to."""

    def __init__(self, rows: Sequence[NewJob], clock: ServerClock) -> None:
        self.rows = rows
        self.by_uuid: dict[str, StoredJob] = {}
        self.by_key: dict[tuple[str, str], StoredJob] = {}
        self._now, self._slack = clock.now(), clock.slack

    def steps(self) -> list[_Step]:
        """Return what becomes of each posting, carried out on the jobs; if one is refused, nothing is carried out."""
        place = count()
        planned = PostingPlan(self.by_uuid.get, self.by_key.get, lambda new: new_job(new, next(place)))
        steps = [planned.step(new) for new in self.rows]
        if not _is_refused(steps):
            for new, (outcome, job) in zip(self.rows, steps, strict=True):
                if outcome is PostOutcome.POSTED:
                    job.apply(partial(lifecycle.post, job, new, self._now, self._slack), self._now)
                elif outcome is PostOutcome.REPLACED:
                    job.apply(partial(lifecycle.replace, job, new, self._now, self._slack), self._now)
                    job.add_alias(new.uuid)
            for outcome, job in steps:
                if outcome is PostOutcome.POSTED and job.state is not JobState.DELAYED:
                    job.place = THIS
        return steps


@dataclass(slots=True)
class _Changes:
    """What a batch changes: its postings, each with its job, and the lanes of these."""

    postings: list[tuple[NewJob, PostOutcome, StoredJob]]
    lanes: list[LaneStep]

    @property
    def known(self) -> list[StoredJob]:
        """The jobs that were on the board before, each once; those without a zxid are new in this very batch."""
        moved = (job for lane in self.lanes for job in lane.moved)
        replaced = (job for _, outcome, job in self.postings if outcome is PostOutcome.REPLACED and job.zxid)
        return list({job.uuid: job for job in (*replaced, *moved)}.values())


def _is_refused(steps: Sequence[_Step]) -> bool:
    """Whether nothing of the batch is posted."""
    return any(outcome.refuses_batch for outcome, _ in steps)


class Poster:
    """Posts batches, on its own or in the transaction of a schedule's step."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        reader: JobReader,
        transactions: Transactions,
        jobs: ReadModifyWrite,
        lanes: Lanes,
    ) -> None:
        self._connection, self._layout, self._clock, self._lanes = connection, layout, clock, lanes
        self._reader, self._transactions, self._jobs = reader, transactions, jobs

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        plan = self.likely_plan(rows)
        for _ in range(MAX_RETRIES):
            steps = plan.steps()
            postings = [] if _is_refused(steps) else _changed(rows, steps)
            if not postings:
                return self._posted(steps)
            try:
                changes = self._with_lanes(postings)
                self._prepare(changes)
                transaction = self._transactions.begin()
                self._add(transaction, changes)
                self._transactions.commit(transaction)
            except Conflict as conflict:
                self._lanes.note_conflict(conflict)
                if conflict.code == NO_NODE:
                    # Of a board that an earlier version made, or that somebody has taken apart.
                    self._create_buckets(postings)
                plan = self.certain_plan(rows)
                continue
            with after_a_change():
                return self._posted(steps)
        raise BoardUnavailable("others post under the same keys faster than this client can")

    def _posted(self, steps: Sequence[_Step]) -> list[Posted]:
        torn = self._reader.read_long_values([job for _, job in steps])
        again = {job.uuid: job for job in self._jobs.current([job.uuid for job in torn]) if job}
        return [Posted(outcome, again.get(job.uuid, job).copy()) for outcome, job in steps]

    def add_postings(self, transaction: Transaction, plan: Plan) -> None:
        """Add postings to a transaction that does something else too.

        If a key is taken by a job that was to be replaced, and is claimed or has another lane, nothing is posted, and
        the transaction goes on.

        :raises Conflict: the board is not as it was read.
        """
        steps = plan.steps()
        if _is_refused(steps):
            return
        changes = self._with_lanes(_changed(plan.rows, steps))
        self._create_buckets(changes.postings)
        self._prepare(changes, MAX_BYTES - transaction.size)
        self._add(transaction, changes)

    def note_conflict(self, conflict: Conflict) -> None:
        """Learn what kept a transaction with postings from happening."""
        self._lanes.note_conflict(conflict)

    def _with_lanes(self, postings: list[tuple[NewJob, PostOutcome, StoredJob]]) -> _Changes:
        """Look at the lanes of a batch once all of its jobs are changed."""
        tied = dict[str, dict[str, StoredJob]]()
        for _, _, job in postings:
            if job.lane is not None:
                tied.setdefault(job.lane, {})[job.uuid] = job
        known = self._lanes.limit([job for jobs in tied.values() for job in jobs.values()])
        if known is None:
            return _Changes(postings, [])
        return _Changes(postings, self._lanes.look(known, {lane: list(jobs.values()) for lane, jobs in tied.items()}))

    # -- planning --------------------------------------------------------------------------------------------------

    def likely_plan(self, rows: Sequence[NewJob]) -> Plan:
        """Plan for the usual case that none of these uuids exists yet; the transaction itself finds out."""
        plan = Plan(rows, self._clock)
        holders = self._holders(rows)
        if any(holders.values()):
            self._take_in(plan, holders)
        return plan

    def certain_plan(self, rows: Sequence[NewJob]) -> Plan:
        """Plan after a look at which of these uuids and keys exist, and which jobs have them."""
        plan = Plan(rows, self._clock)
        self._take_in(plan, self._holders(rows))
        return plan

    def _holders(self, rows: Sequence[NewJob]) -> dict[tuple[str, str], Data | None]:
        """Return what is under each name and key of the postings."""
        keys = sorted({(new.name, new.key) for new in rows if new.key is not None})
        if not keys:
            return {}
        found = self._connection.read_many(self._layout.key(name, key) for name, key in keys)
        return dict(zip(keys, found, strict=True))

    def _take_in(self, plan: Plan, holders: dict[tuple[str, str], Data | None]) -> None:
        """Add to a plan the jobs that its uuids and keys lead to."""
        uuids = [new.uuid for new in plan.rows]
        uuids += [uuid_in(data) for data in holders.values() if data is not None]
        jobs = self._current(list(dict.fromkeys(uuids)))
        plan.by_uuid = {new.uuid: jobs[new.uuid] for new in plan.rows if new.uuid in jobs}
        for key, data in holders.items():
            holder = None if data is None else jobs.get(uuid_in(data))
            if holder is not None and holder.is_live:
                plan.by_key[key] = holder

    def _current(self, uuids: Sequence[str]) -> dict[str, StoredJob]:
        """Return the jobs under these uuids as they are now; an alias leads to the job that it stands for."""
        found = {uuid: self._readable(uuid, one) for uuid, one in zip(uuids, self._reader.read(uuids), strict=True)}
        jobs = {uuid: one for uuid, one in found.items() if isinstance(one, StoredJob)}
        aliases = {uuid: one for uuid, one in found.items() if isinstance(one, str)}
        again = [*self._jobs.write_due(jobs.values()), *(set(aliases.values()) - jobs.keys())]
        latest = {**jobs, **dict(zip(again, self._jobs.current(again), strict=True))}
        current = ((uuid, latest.get(aliases.get(uuid, uuid))) for uuid in uuids)
        return {uuid: job for uuid, job in current if job is not None}

    @staticmethod
    def _readable(uuid: str, found: StoredJob | Newer | str | None) -> StoredJob | str | None:
        if isinstance(found, Newer):
            raise BoardUnavailable(f"job {uuid} is of format {found.format}; upgrade this client")
        return found

    # -- writing ---------------------------------------------------------------------------------------------------

    def _prepare(self, changes: _Changes, max_bytes: int = MAX_BYTES) -> None:
        """See to what must exist before; a board has its buckets of jobs from the beginning."""
        layout = self._layout
        self._transactions.create_parents(
            [layout.key(new.name, new.key) for new, _, _ in changes.postings if new.key is not None]
        )
        self._transactions.create_parents_of_guards(changes.lanes)
        jobs = [job for _, _, job in changes.postings]
        size = sum(min(len(job.body), MAX_INLINE) for job in jobs)
        max_inline = MAX_INLINE if size <= MAX_INLINE_BATCH else SMALL_INLINE
        self._transactions.move_out_long_values(jobs, max_inline, max_bytes)

    def _create_buckets(self, postings: Sequence[tuple[NewJob, PostOutcome, StoredJob]]) -> None:
        self._transactions.create_parents([self._layout.job(new.uuid) for new, _, _ in postings])

    def _add(self, transaction: Transaction, changes: _Changes) -> None:
        known = changes.known
        if known:
            self._transactions.check_not_deleted(transaction, known)
        self._transactions.write_guards(transaction, changes.lanes)
        # Before the jobs, which delete the oldest of too many aliases.
        for new, outcome, job in changes.postings:
            if outcome is PostOutcome.REPLACED:
                transaction.create(self._layout.job(new.uuid), encode_alias(job.uuid))
        for _, outcome, job in changes.postings:
            if outcome is PostOutcome.POSTED:
                self._transactions.write_job(transaction, job, was_live=False, is_new=True)
        for job in known:
            self._transactions.write_job(transaction, job, was_live=True)


def _changed(rows: Sequence[NewJob], steps: Sequence[_Step]) -> list[tuple[NewJob, PostOutcome, StoredJob]]:
    """Return the postings that change something, with their outcomes and the jobs that they change."""
    return [
        (new, outcome, job)
        for new, (outcome, job) in zip(rows, steps, strict=True)
        if outcome in (PostOutcome.POSTED, PostOutcome.REPLACED)
    ]
