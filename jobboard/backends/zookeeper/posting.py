"""Posting: a batch is planned as a whole before anything is written, and written in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.changes import follow_ups_of
from jobboard.backends.edge_rows import parent_of_graph
from jobboard.backends.errors import after_a_change
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.rows import NewJob, Posted, PostOutcome, Refused, Verdict
from jobboard.backends.zookeeper.codec import uuid_in
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import Conflict
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.job_record import Newer, encode_alias
from jobboard.backends.zookeeper.lanes import Lanes, LaneStep
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.new_edges import NewEdges
from jobboard.backends.zookeeper.posting_batch import Batch, Plan
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.requests import NO_NODE, Data
from jobboard.backends.zookeeper.stored_job import MAX_INLINE, StoredJob
from jobboard.backends.zookeeper.transactions import MAX_BYTES, Transaction, Transactions
from jobboard.errors import BoardUnavailable

MAX_RETRIES = 200
#: Above this many bytes of bodies, a batch leaves only those up to the second size in the jobs' own znodes, so that it
#: fits a transaction.
MAX_INLINE_BATCH, SMALL_INLINE = 150_000, 256


class Poster:
    """Posts batches, on its own or in the transaction of a schedule's step or of jobs that end."""

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
        batch = self._carried_out(self.likely_plan(rows))
        if batch.missing:
            # What is posted again may have been there before its parents were gone.
            batch = self._carried_out(self.certain_plan(rows))
        for _ in range(MAX_RETRIES):
            if batch.is_refused or not batch.postings:
                return self._posted(batch, len(rows))
            try:
                lanes = self._lanes_of(batch)
                self.prepare(batch, lanes)
                transaction = self._transactions.begin()
                self._add(transaction, batch, lanes)
                self._transactions.commit(transaction)
            except Conflict as conflict:
                self._lanes.note_conflict(conflict)
                if conflict.code == NO_NODE:
                    # Of a board that an earlier version made, or that somebody has taken apart.
                    self._create_buckets(batch)
                batch = self._carried_out(self.certain_plan(rows))
                continue
            # This client may hold a parent, whose record says now that it has children.
            self._jobs.remember(batch.known)
            with after_a_change():
                return self._posted(batch, len(rows))
        raise BoardUnavailable("others post under the same keys faster than this client can")

    def _carried_out(self, plan: Plan) -> Batch:
        """Return what a plan makes of its postings, and of those that follow them at once."""
        batch = plan.carry_out()
        if not batch.is_refused and (following := batch.follow_ups):
            # Those follow nothing that ends at once: they have no parents.
            batch = self.certain_plan([*plan.rows, *following], list(plan.ending.values())).carry_out()
        return batch

    def _posted(self, batch: Batch, count: int) -> list[Posted]:
        torn = self._reader.read_long_values([job for _, job in batch.steps])
        again = {job.uuid: job for job in self._jobs.current([job.uuid for job in torn]) if job}
        return batch.answers(again, count)

    def add_postings(self, transaction: Transaction, plan: Plan) -> None:
        """Add postings to a transaction that does something else too.

        If a key is taken by a job that was to be replaced, and is claimed or has another lane, nothing is posted, and
        the transaction goes on.

        :raises Conflict: the board is not as it was read.
        """
        batch = plan.carry_out()
        if batch.is_refused:
            return
        lanes = self._lanes_of(batch)
        self._create_buckets(batch)
        self.prepare(batch, lanes, MAX_BYTES - transaction.size)
        self._add(transaction, batch, lanes)

    def follow(
        self,
        ending: Sequence[StoredJob],
        posts: Sequence[NewJob],
        seals: Sequence[str],
        edges: NewEdges | None = None,
    ) -> Batch | Refused:
        """Plan what is posted in the step that ends these jobs, and which graphs are complete with it.

        :param edges: what else the step makes of edges.
        """
        plan = self.certain_plan(posts, ending, seals)
        plan.edges = edges or plan.edges
        batch = self._carried_out(plan)
        if batch.is_refused:
            # What follows by the jobs' own postings is never refused.
            return Refused(tuple(self._posted(batch, len(posts) - sum(len(follow_ups_of(job)) for job in ending))))
        now = self._clock.now()
        if any(batch.plan.edges.seal(graph, now) is Verdict.LOST for graph in seals):
            return Refused(())
        return batch

    def note_conflict(self, conflict: Conflict) -> None:
        """Learn what kept a transaction with postings from happening."""
        self._lanes.note_conflict(conflict)

    def _lanes_of(self, batch: Batch) -> list[LaneStep]:
        """Look at the lanes of a batch once all of its jobs are changed."""
        return self._lanes.look_after([job for _, _, job in batch.postings], batch.known)

    # -- planning --------------------------------------------------------------------------------------------------

    def likely_plan(self, rows: Sequence[NewJob]) -> Plan:
        """Plan for the usual case that none of these uuids exists yet; the transaction itself finds out."""
        plan = self._plan(rows)
        holders = self._holders(rows)
        if any(holders.values()):
            self._take_in(plan, holders)
        self._take_in_family(plan)
        return plan

    def certain_plan(self, rows: Sequence[NewJob], ending: Sequence[StoredJob] = (), seals: Sequence[str] = ()) -> Plan:
        """Plan after a look at which of these uuids and keys exist, and which jobs have them.

        :param ending: jobs that end in the same step.
        :param seals: graphs that are complete with it.
        """
        plan = self._plan(rows, ending)
        self._take_in(plan, self._holders(rows))
        self._take_in_family(plan, seals)
        return plan

    def _plan(self, rows: Sequence[NewJob], ending: Sequence[StoredJob] = ()) -> Plan:
        if any(new.parents or new.graph is not None for new in rows):
            # Before the moment from which delays count: a board has no buckets of edges from the beginning.
            self._transactions.create_all_buckets(self._layout.edges, self._layout.children)
        return Plan(rows, self._clock, self._layout, ending)

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
        jobs = self._current([uuid for uuid in dict.fromkeys(uuids) if uuid not in plan.ending]) | plan.ending
        plan.by_uuid = {new.uuid: jobs[new.uuid] for new in plan.rows if new.uuid in jobs}
        for key, data in holders.items():
            holder = None if data is None else jobs.get(uuid_in(data))
            if holder is None or not holder.has_key:
                continue
            if holder.is_live or (holder.key_until or 0.0) > self._clock.now():
                plan.by_key[key] = holder
            else:
                self._jobs.release_key(holder.uuid)

    def _take_in_family(self, plan: Plan, seals: Sequence[str] = ()) -> None:
        """Add to a plan the parents of its postings, and what holds the children of these and of its graphs."""
        if plan.has_family:
            parents = self._current(unknown) if (unknown := plan.unknown_parents) else {}
            # Their results go with the edges.
            self._reader.read_long_values(list(parents.values()))
            plan.parents |= parents
        elif not seals:
            return
        graphs = dict.fromkeys((*(new.graph for new in plan.rows if new.graph is not None), *seals))
        folders = [*dict.fromkeys(job.uuid for job in plan.parents.values()), *map(parent_of_graph, graphs)]
        found = self._connection.read_many(map(self._layout.children_of, folders)) if folders else []
        for parent, data in zip(folders, found, strict=True):
            plan.edges.learn_folder(parent, data)

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

    def prepare(self, batch: Batch, lanes: Sequence[LaneStep], max_bytes: int = MAX_BYTES) -> None:
        """See to what must exist before; a board has its buckets of jobs from the beginning."""
        layout = self._layout
        self._transactions.create_parents(
            [layout.key(new.name, new.key) for new, _, _ in batch.postings if new.key is not None]
        )
        self._transactions.create_parents_of_guards(lanes)
        batch.plan.edges.prepare(self._transactions)
        jobs = [job for _, _, job in batch.postings]
        size = sum(min(len(job.body), MAX_INLINE) for job in jobs)
        max_inline = MAX_INLINE if size <= MAX_INLINE_BATCH else SMALL_INLINE
        self._transactions.move_out_long_values(jobs, max_inline, max_bytes)

    def _create_buckets(self, batch: Batch) -> None:
        self._transactions.create_parents([self._layout.job(new.uuid) for new, _, _ in batch.postings])

    def _add(self, transaction: Transaction, batch: Batch, lanes: Sequence[LaneStep]) -> None:
        moved = [job for lane in lanes for job in lane.moved]
        if moved or batch.read:
            self._transactions.check_not_deleted(transaction, [*moved, *batch.read])
        self._transactions.write_guards(transaction, lanes)
        self.write(transaction, batch)
        for job in moved:
            self._transactions.write_job(transaction, job)

    def write(self, transaction: Transaction, batch: Batch) -> None:
        """Add what a batch changes, but for what a look at its lanes moves."""
        batch.plan.edges.write(transaction, self._transactions)
        # Before the jobs, which delete the oldest of too many aliases.
        for new, outcome, job in batch.postings:
            if outcome is PostOutcome.REPLACED:
                transaction.create(self._layout.job(new.uuid), encode_alias(job.uuid))
        for _, outcome, job in batch.postings:
            if outcome is PostOutcome.POSTED:
                self._transactions.write_job(transaction, job, is_new=True)
        for job in batch.known:
            self._transactions.write_job(transaction, job)
