"""Reads the graph around a job through the edges of the store, in pages, in a number of requests that is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobboard.backends.edge_rows import EdgeRow, Outcome
from jobboard.backends.outcomes import may_have_children, outcome_of, reason_of
from jobboard.client import BackendClient
from jobboard.client.edge_reading import MAX_JOBS, children_of_each, parents_of_each, without_dropped
from jobboard.errors import NotFound
from jobboard.graph.blocked import waits_for
from jobboard.graph.holding import held_of
from jobboard.graph.layering import layers_of
from jobboard.graph.model import CANCELLED, COMPLETE, GONE, Edge, Graph, Node, links_of
from jobboard.graph.ordering import in_order
from jobboard.record import decoded_or_none
from jobboard.states import JobState
from jobboard.text import last_line_of
from jobboard.validation import moment

if TYPE_CHECKING:
    from jobboard.backends.rows import JobRow

#: How many edges a graph has at most.
MAX_EDGES = 50_000
#: How many jobs one request reads.
_ROWS = 100
#: How a parent ended, as the edge to its child keeps it. What is purged is cancelled to its children.
_ENDS = {Outcome.DONE: COMPLETE, Outcome.GONE: CANCELLED}

#: Returns the neighbours of some jobs in one direction.
Neighbours = Callable[[Sequence[str]], list[str]]


def read_graph(
    client: BackendClient, uuid: str, most: int = MAX_JOBS, *, read_result: Callable[[JobRow], Any] | None = None
) -> Graph:
    """Return the jobs that hang together with one, and how they stand; changes nothing.

    First come those that it waits for, and those that wait for it, over all levels; then those that these lead to,
    such as other parents of its children. Costs four requests for each hundred jobs of a level, and further ones for
    jobs of more than 20 parents or children.

    :param most: how many jobs at most beside the one itself.
    :param read_result: what is taken as the result of each; None: what is stored, decoded.
    :raises NotFound: the board knows nothing of the job.
    :raises BoardUnavailable: the store can't be reached.
    """
    reader = _Reader(client, most, read_result)
    reader.add([uuid])
    reader.walk([uuid], reader.parents_of)
    reader.walk([uuid], reader.children_of)
    if uuid not in reader.shown() or (len(reader.shown()) == 1 and reader.rows[uuid] is None):
        raise NotFound(f"no job {uuid} on board {client.name!r}")
    reader.walk(list(reader.rows), reader.relatives_of)
    return reader.graph(uuid)


@dataclass(frozen=True, slots=True)
class Below:
    """The jobs that wait for some, over all levels.

    :ivar rows: parents before children.
    :ivar lost: those that the board remembers no more, and of which nobody knows that they are complete.
    :ivar edges: pairs of parent and child.
    :ivar is_whole: whether this is all.
    """

    rows: list[JobRow]
    lost: list[str]
    edges: Collection[tuple[str, str]]
    is_whole: bool


def jobs_below(client: BackendClient, uuids: Sequence[str], most: int = MAX_JOBS) -> Below:
    """Return the jobs that wait for these.

    :param most: how many jobs at most beside these.
    :raises BoardUnavailable: the store can't be reached.
    """
    reader = _Reader(client, most + len(uuids) - 1)
    reader.add(uuids)
    reader.walk(uuids, reader.children_of)
    layers = layers_of(reader.shown(), [pair for pair in reader.edges if reader.is_shown(pair)])
    given = set(uuids)
    order = [uuid for uuid in sorted(layers, key=layers.__getitem__) if uuid not in given]
    rows = [row for uuid in order if (row := reader.rows[uuid]) is not None]
    lost = [uuid for uuid in order if reader.rows[uuid] is None and reader.forgotten(uuid).state != COMPLETE]
    return Below(rows, lost, list(filter(reader.is_shown, reader.edges)), reader.is_whole)


class _Reader:
    """What was read so far.

    :ivar rows: of the jobs, the nearest first; None for one that the board remembers no more, or never showed.
    :ivar edges: pairs of parent and child, both of which are among the jobs.
    """

    def __init__(self, client: BackendClient, most: int, read_result: Callable[[JobRow], Any] | None = None) -> None:
        self._client = client
        self._read_result = read_result or (lambda row: decoded_or_none(row.result, client.converter))
        self._most = most
        self.rows: dict[str, JobRow | None] = {}
        self.edges: dict[tuple[str, str], None] = {}
        self.is_whole = True
        #: An edge of each parent, which tells what is known of one that the board remembers no more.
        self._edge_of: dict[str, EdgeRow] = {}
        self._missing_parents = Counter[str]()
        self._asked: set[str] = set()
        #: Jobs that were given up with a graph of which they were a part.
        self._dropped: set[str] = set()

    def graph(self, root: str) -> Graph:
        known = {uuid: row for uuid, row in self.rows.items() if row is not None}
        held = held_of(known, links_of(self.rows, self.edges).children)
        nodes = {uuid: self._node(uuid, self.rows[uuid], uuid in held) for uuid in self.shown()}
        places = {uuid: place for place, uuid in enumerate(in_order(nodes, self.rows))}
        pairs = sorted(filter(self.is_shown, self.edges), key=lambda pair: (places[pair[0]], places[pair[1]]))
        edges = tuple(Edge(*pair) for pair in pairs)
        return Graph(root, nodes, edges, self.is_whole)

    def shown(self) -> list[str]:
        """Return the jobs but those that were given up before anybody could see them."""
        return [uuid for uuid in self.rows if uuid not in self._dropped]

    def is_shown(self, edge: tuple[str, str]) -> bool:
        return self._dropped.isdisjoint(edge)

    def _node(self, uuid: str, row: JobRow | None, is_held: bool) -> Node:
        if row is None:
            return self.forgotten(uuid)
        return Node(
            uuid,
            row.name,
            CANCELLED if outcome_of(row) is Outcome.GONE else row.state.value,
            waits_for=waits_for(row),
            key=row.key,
            is_held=is_held,
            reason=reason_of(row),
            last_error=last_line_of(row.last_error),
            created_on=moment(row.created_on),
            last_modified=moment(row.last_modified),
            result=self._read_result(row),
            due_on=None if row.state is JobState.BLOCKED else moment(max(row.created_on, row.place)),
            attempts=row.attempts,
            owner=row.owner,
            if_failed="wait" if row.ties is None else row.ties.if_failed.value,
        )

    def forgotten(self, uuid: str) -> Node:
        """Return the node of a job that the board remembers no more; only an edge to a child of it tells more."""
        if uuid not in self._edge_of:
            return Node(uuid, "", GONE)
        edge = self._edge_of[uuid]
        return Node(uuid, edge.name, _ENDS.get(edge.outcome, GONE))

    def walk(self, starts: Sequence[str], neighbours: Neighbours) -> None:
        """Go on from these until there is nobody new."""
        level, seen = list(starts), set(starts)
        for _ in range(self._most + 1):
            level = list(dict.fromkeys(uuid for uuid in neighbours(level) if uuid not in seen))
            seen.update(level)
            if not level:
                break

    def add(self, uuids: Sequence[str]) -> None:
        """Read jobs, and how many parents each has."""
        jobs, edges = self._client.backend.jobs, self._client.backend.edges
        for part in self._client.batches(uuids, _ROWS):
            rows = dict(zip(part, self._client.call(jobs.read, part), strict=True))
            self.rows.update(rows)
            self._dropped |= rows.keys() - without_dropped(self._client.call, edges, rows).keys()
            for uuid, counts in zip(part, self._client.call(edges.counts, part), strict=True):
                self._missing_parents[uuid] += counts.open + counts.done + counts.failed + counts.gone

    def relatives_of(self, uuids: Sequence[str]) -> list[str]:
        return self.parents_of(uuids) + self.children_of(uuids)

    def parents_of(self, uuids: Sequence[str]) -> list[str]:
        """Read the edges to the parents of these jobs, if they have any that are not known."""
        asked = [uuid for uuid in uuids if self._missing_parents[uuid] > 0]
        found = parents_of_each(self._client.call, self._client.backend.edges, asked)
        return self._take((edge for _, edges in found for edge in edges), _parent_of)

    def _keep(self, edge: EdgeRow) -> None:
        pair = (edge.parent, edge.child)
        if pair not in self.edges:
            self.edges[pair] = None
            self._edge_of[edge.parent] = edge
            self._missing_parents[edge.child] -= 1

    def children_of(self, uuids: Sequence[str]) -> list[str]:
        """Read the edges to the children of these jobs, if they may have any."""
        asked = [uuid for uuid in uuids if uuid not in self._asked and may_have_children(self.rows[uuid])]
        self._asked.update(asked)
        found = children_of_each(self._client.call, self._client.backend.edges, asked)
        return self._take((edge for _, edges in found for edge in edges), _child_of)

    def _take(self, edges: Iterable[EdgeRow], other: Callable[[EdgeRow], str]) -> list[str]:
        """Keep edges; read the jobs at their other ends, and return them."""
        met, new = dict[str, None](), dict[str, None]()
        for edge in edges:
            uuid = other(edge)
            is_new = uuid not in self.rows and uuid not in new
            if (is_new and len(self.rows) - len(self._dropped) + len(new) > self._most) or len(self.edges) >= MAX_EDGES:
                self.is_whole = False
                break
            met[uuid] = None
            if is_new:
                new[uuid] = None
            self._keep(edge)
        self.add(list(new))
        for uuid in in_order(new, self.rows):
            self.rows[uuid] = self.rows.pop(uuid)
        return [uuid for uuid in met if uuid not in self._dropped]


def _parent_of(edge: EdgeRow) -> str:
    return edge.parent


def _child_of(edge: EdgeRow) -> str:
    return edge.child
