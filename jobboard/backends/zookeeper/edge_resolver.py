"""Tells edges how their parents stand: what the ends of parents have left to do, in bounded parts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from jobboard.backends.edge_rows import EdgeRow, Outcome, is_graph
from jobboard.backends.edges import Ended, can_wait_again, largest_part, may_wait, settle
from jobboard.backends.kv.cache import LruCache
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.transition import Transition
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.edge_codec import (
    Mark,
    Tally,
    decode_edge,
    decode_mark,
    encode_edge,
    read_edge,
    read_tally,
    tally_of,
)
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.lanes import Lanes
from jobboard.backends.zookeeper.layout import Layout, last_part, last_two
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.transactions import RESOLVE_TIMEOUT, Transaction, Transactions
from jobboard.backends.zookeeper.units import UnitWriter
from jobboard.errors import BoardUnavailable

#: How many parts one after the other a client works off for what it has changed, and for what is due.
MAX_OWN_ROUNDS, MAX_ROUNDS = 4, 20
#: How many parents one look works on.
MAX_PARENTS = 100
#: Of how many parents a client remembers the children, so that it does not list them for every part.
MAX_LISTED = 20


@dataclass(slots=True)
class _Part:
    """The next children of a parent: ``version`` is that of the znode that holds the mark."""

    parent: str
    mark: Mark
    version: int
    children: list[str]
    is_last: bool


@dataclass(slots=True)
class _Told:
    """What a step tells: edges and tallies as they are then, and jobs as these leave them."""

    edges: list[EdgeRow] = field(default_factory=list)
    tallies: dict[str, tuple[Tally, int]] = field(default_factory=dict)
    jobs: list[StoredJob] = field(default_factory=list)


class EdgeResolver:
    """A part of one or several parents is one transaction, which sets each parent's mark and each child's tally.

    So two clients that work on the same child, or on the same parent, know of each other.
    """

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        change_log: ChangeLogReader,
        reader: JobReader,
        transactions: Transactions,
        lanes: Lanes,
        writer: UnitWriter,
    ) -> None:
        self._connection, self._layout, self._clock, self._lanes = connection, layout, clock, lanes
        self._change_log, self._reader, self._transactions, self._writer = change_log, reader, transactions, writer
        self._listed: LruCache[tuple[int, list[str]]] = LruCache(MAX_LISTED)

    def work_off_own(self, parents: Sequence[str]) -> None:
        """Tell edges how parents stand that this client has changed; what is left is for whoever comes next."""
        with contextlib.suppress(BoardUnavailable):
            self.work_off(parents, MAX_OWN_ROUNDS)

    def work_off(self, parents: Sequence[str], rounds: int = MAX_ROUNDS) -> None:
        """Tell edges how parents stand, and those of children that end by that, a bounded number of parts."""
        left = list(parents)
        for number in range(rounds):
            if not left:
                break
            left = [*self.resolve(left[:MAX_PARENTS], is_final=number == rounds - 1), *left[MAX_PARENTS:]]

    def resolve(self, parents: Sequence[str], *, is_final: bool = True) -> list[str]:
        """Tell the next edges of each parent how it stands, and return the parents that have more to be told.

        Children that end by that, and have children, are among those.

        :param is_final: whether what is left is for any client that comes by; else this one goes on.
        """
        left: list[str] = []
        due = self._clock.now() + (0.0 if is_final else RESOLVE_TIMEOUT)
        for group in _groups(self._parts(list(dict.fromkeys(parents)))):
            ended = self._tell(group, due)
            if ended is None:
                left += [part.parent for part in group]
            else:
                left += [*(part.parent for part in group if not part.is_last), *ended]
        return list(dict.fromkeys(left))

    # -- parts -----------------------------------------------------------------------------------------------------

    def _parts(self, parents: Sequence[str]) -> list[_Part]:
        """Return the next part of each parent whose mark is not worked off; a graph's only once it is due."""
        found = self._connection.read_many(map(self._layout.children_of, parents)) if parents else []
        for parent, one in zip(parents, found, strict=True):
            # A znode that was damaged or deleted has no line in the log, and would stay due for ever.
            self._change_log.correct_mark(parent, one)
        marks = [(parent, decode_mark(data.data), data) for parent, data in zip(parents, found, strict=True) if data]
        now = self._clock.now()
        # A graph may get further parts until its mark is due.
        due = [
            (parent, mark, data)
            for parent, mark, data in marks
            if mark.due is not None and (mark.due <= now or mark.cursor or not is_graph(parent))
        ]
        names = self._children([(parent, data) for parent, _, data in due])
        return [_part(parent, mark, data, names[parent]) for parent, mark, data in due]

    def _children(self, parents: Sequence[tuple[str, Data]]) -> dict[str, list[str]]:
        """Return the children of parents in their order; those listed before are listed again only if one came."""
        # Before any is put, which may take the place of one of them.
        names = {parent: known[1] for parent, data in parents if (known := self._known(parent, data))}
        unlisted = {parent: data.stat.pzxid for parent, data in parents if parent not in names}
        found = {parent: list[str]() for parent in unlisted}
        for path in self._connection.children([self._layout.children_of(parent) for parent in unlisted]):
            parent, child = last_two(path)
            found[parent].append(child)
        for parent, its in found.items():
            names[parent] = sorted(its)
            self._listed.put(parent, (unlisted[parent], names[parent]))
        return names

    def _known(self, parent: str, data: Data) -> tuple[int, list[str]] | None:
        known = self._listed.get(parent)
        return known if known is not None and known[0] == data.stat.pzxid else None

    # -- telling ---------------------------------------------------------------------------------------------------

    def _tell(self, parts: Sequence[_Part], due: float) -> list[str] | None:
        """Tell the edges of parts, and return the children that ended by that; None if another client was faster."""
        pairs = [(child, part) for part in parts for child in part.children]
        children = list(dict.fromkeys(child for child, _ in pairs))
        layout = self._layout
        paths = [*map(layout.edges_of, children), *(layout.edge(child, part.parent) for child, part in pairs)]
        jobs, found = self._reader.read_jobs_and(children, paths)
        known = self._lanes.limit(jobs)
        tallies = dict(zip(children, found[: len(children)], strict=True))
        edges = zip(pairs, found[len(children) :], strict=True)
        told = self._told(dict(zip(children, jobs, strict=True)), tallies, edges)
        also = partial(self._write, parts=parts, told=told, due=due)
        return self._writer.write_together(told.jobs, known, also=also)

    def _told(
        self,
        jobs: dict[str, StoredJob | None],
        tallies: dict[str, Data | None],
        edges: Iterator[tuple[tuple[str, _Part], Data | None]],
    ) -> _Told:
        told, now = _Told(), self._clock.now()
        examples: dict[str, dict[Outcome, str]] = {}
        read = [(pair, read_edge(pair[0], pair[1].parent, data.data)) for pair, data in edges if data is not None]
        damaged = {child for (child, _), before in read if before is None}
        for (child, part), before in read:
            tally, job, step = tallies[child], jobs[child], part.mark.step
            if tally is None or (step.outcome is Outcome.OPEN and not may_wait(job)):
                continue
            examples.setdefault(child, {})[step.outcome] = part.parent
            after = EdgeRow(child, part.parent, step.outcome, step.name, step.result, step.is_cut)
            if before == after:
                continue
            if child not in told.tallies:
                counted = self._counted(child) if child in damaged else self.tally(child, tally)
                told.tallies[child] = (counted, tally.stat.version)
            counted, version = told.tallies[child]
            told.edges.append(after)
            outcome = Outcome.OPEN if before is None else before.outcome
            told.tallies[child] = (counted.moved(part.parent, outcome, after.outcome), version)
        for child, (tally_then, _) in told.tallies.items():
            job = jobs[child]
            if job is not None and (tally_then.may_settle if _waits(job) else can_wait_again(job)):
                ended = self._ended(child, tally_then, examples[child])
                # At one moment: they keep the order in which they were posted.
                job.apply(partial(_settled, job, ended, now), now)
                if job.told:
                    told.jobs.append(job)
        return told

    def _ended(self, child: str, tally: Tally, examples: dict[Outcome, str]) -> Ended:
        """Return how the parents of a job stand; an example that no part of this step has is looked for."""
        failed, gone = examples.get(Outcome.FAILED), examples.get(Outcome.GONE)
        if (tally.counts.failed and failed is None) or (tally.counts.gone and gone is None):
            for edge in self.edges_of(child):
                failed = edge.parent if edge.outcome is Outcome.FAILED else failed
                gone = edge.parent if edge.outcome is Outcome.GONE else gone
        return tally.ended(failed or "a parent", gone or "a parent")

    def edges_of(self, child: str) -> list[EdgeRow]:
        """Return all edges to the parents of a job, in the order of these, those to its graph too."""
        paths = sorted(self._connection.children([self._layout.edges_of(child)]))
        return [decode_edge(child, last_part(path), data.data) for path, data in self._connection.existing(paths)]

    def tally(self, child: str, data: Data) -> Tally:
        """Return how many parents of a job stand how; if that can't be read, they are counted."""
        return read_tally(data.data) or self._counted(child)

    def _counted(self, child: str) -> Tally:
        return tally_of(self.edges_of(child))

    def settle_anew(self, child: str) -> bool:
        """Count the parents of a job anew, and let it become what follows; whether that was done, or not needed."""
        (tally,) = self._connection.read_many([self._layout.edges_of(child)])
        edges = self.edges_of(child)
        (job,) = self._reader.read_jobs([child])
        if job is None or tally is None:
            return False
        known, counted = self._lanes.limit([job]), tally_of(edges)
        examples = {edge.outcome: edge.parent for edge in edges}
        now = self._clock.now()
        job.apply(partial(_settled, job, self._ended(child, counted, examples), now), now)
        told = _Told([], {child: (counted, tally.stat.version)}, [job])
        ended = self._writer.write_together([job], known, also=partial(self._write, parts=[], told=told, due=0.0))
        self.work_off_own(ended or ())
        return ended is not None

    def _write(self, transaction: Transaction, parts: Sequence[_Part], told: _Told, due: float) -> None:
        layout = self._layout
        for part in parts:
            mark = replace(part.mark, step=replace(part.mark.step, parent=part.parent))
            last = part.children[-1] if part.children else ""
            mark = mark.worked_off() if part.is_last else replace(mark, due=due, cursor=last)
            self._transactions.write_mark(transaction, mark, part.version)
        for child, (tally, version) in told.tallies.items():
            transaction.set(layout.edges_of(child), tally.pack(), version)
        for edge in told.edges:
            if edge.outcome is Outcome.NEVER:
                transaction.delete(layout.child(edge.parent, edge.child))
                transaction.delete(layout.edge(edge.child, edge.parent))
            else:
                transaction.set(layout.edge(edge.child, edge.parent), encode_edge(edge))


def _settled(job: StoredJob, ended: Ended, now: float) -> Transition[None]:
    return settle(job, ended, now) or Transition(None)


def _waits(job: StoredJob | None) -> bool:
    return job is not None and job.ties is not None and job.ties.has_parents


def _part(parent: str, mark: Mark, data: Data, children: Sequence[str]) -> _Part:
    """Return the next part of a parent."""
    count = largest_part(mark.step.result)
    following = list(islice((child for child in children if child > mark.cursor), count + 1))
    return _Part(parent, mark, data.stat.version, following[:count], len(following) <= count)


def _groups(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Iterate over parts in groups that one transaction takes: as many children, and bytes, as one part has at most."""
    group: list[_Part] = []
    room = 1.0
    for part in parts:
        share = max(1, len(part.children)) / largest_part(part.mark.step.result)
        # Sums of fractions are rounded.
        if group and share > room + 1e-9:
            yield group
            group, room = [], 1.0
        group.append(part)
        room -= share
    if group:
        yield group
