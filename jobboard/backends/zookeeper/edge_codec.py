"""What the znodes of edges, marks, steps and signals hold: msgpack. Every value is checked before it is used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from jobboard.backends.edge_rows import EDGE_OUTCOMES, EdgeCounts, EdgeRow, Outcome, is_graph, parent_of_graph
from jobboard.backends.edges import Ended
from jobboard.backends.kv.codec import BYTES, BYTES_OR_NONE, FLAG, NUMBER_OR_NONE, TEXT, WHOLE, items_of, pack
from jobboard.backends.transition import Resolve
from jobboard.backends.zookeeper.codec import check_moments

_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_RESULT = [TEXT, TEXT, BYTES_OR_NONE, FLAG]


@dataclass(frozen=True, slots=True)
class Mark:
    """What the znode that holds the children of a parent says: how it stands, if some of their edges do not yet.

    :ivar step: how it stands; of a worked off mark the outcome alone.
    :ivar due: the moment from which edges are told; None: there is none to tell.
    :ivar cursor: the last child whose edge says it.
    """

    step: Resolve
    due: float | None = None
    cursor: str = ""

    def pack(self) -> bytes:
        step = self.step
        return pack([step.outcome.value, step.name, step.result, step.is_cut, self.due, self.cursor])

    def worked_off(self) -> Mark:
        """Return it once all edges say how the parent stands."""
        return Mark(Resolve(self.step.parent, self.step.outcome))


#: What a parent has whose end is to be told to nobody.
NO_MARK = Mark(Resolve("", Outcome.OPEN))


def decode_mark(data: bytes) -> Mark:
    """Return a mark; what is empty, or damaged, is none."""
    try:
        (outcome, name, result, is_cut, due, cursor), _ = items_of(data, [*_RESULT, NUMBER_OR_NONE, TEXT])
        check_moments(due)
        return Mark(Resolve("", _OUTCOMES[outcome], name, result, is_cut), due, cursor)
    except (ValueError, KeyError):
        return NO_MARK


def encode_edge(edge: EdgeRow) -> bytes:
    return pack([edge.outcome.value, edge.name, edge.result, edge.is_cut])


def read_edge(child: str, parent: str, data: bytes) -> EdgeRow | None:
    """Return an edge; None: it is damaged."""
    try:
        (outcome, name, result, is_cut), _ = items_of(data, _RESULT)
        return EdgeRow(child, parent, _OUTCOMES[outcome], name, result, is_cut)
    except (ValueError, KeyError):
        return None


def decode_edge(child: str, parent: str, data: bytes) -> EdgeRow:
    """Return an edge; a damaged one is open until the end of its parent is told, or an audit mends it."""
    return read_edge(child, parent, data) or EdgeRow(child, parent, Outcome.OPEN)


class Tally(NamedTuple):
    """How many parents of a job there are of each outcome, and how its graph stands: "" if it has none."""

    counts: EdgeCounts = EdgeCounts()
    graph: str = ""

    def pack(self) -> bytes:
        counts = self.counts
        return pack([counts.open, counts.done, counts.failed, counts.gone, self.graph])

    def moved(self, parent: str, before: Outcome | None, after: Outcome) -> Tally:
        """Return it once the edge to a parent has another outcome; None: there was none before; NEVER: nor is now."""
        if is_graph(parent):
            return self._replace(graph=after.value)
        counts = self.counts
        for outcome, change in ((after, 1), (before, -1)):
            if outcome in EDGE_OUTCOMES:
                counts = replace(counts, **{outcome.value: getattr(counts, outcome.value) + change})
        return self._replace(counts=counts)

    @property
    def may_settle(self) -> bool:
        """Whether something may follow for the job."""
        counts = self.counts
        if self.graph == Outcome.OPEN.value:
            return False
        return not counts.open or bool(counts.failed or counts.gone) or self.graph == Outcome.GONE.value

    def ended(self, failed: str, gone: str) -> Ended:
        """Return how the parents stand, given an example of those that failed and are gone, if there are any."""
        counts = self.counts
        graph = parent_of_graph("") if self.graph == Outcome.OPEN.value else None
        return Ended(
            graph or ("a parent" if counts.open else None),
            failed if counts.failed else None,
            gone if counts.gone else None,
            self.graph == Outcome.GONE.value,
        )


def tally_of(edges: Iterable[EdgeRow]) -> Tally:
    """Count the edges of a job."""
    tally = Tally()
    for edge in edges:
        tally = tally.moved(edge.parent, None, edge.outcome)
    return tally


def read_tally(data: bytes) -> Tally | None:
    """Return a tally; None: it is damaged."""
    try:
        (*counts, graph), _ = items_of(data, [WHOLE, WHOLE, WHOLE, WHOLE, TEXT])
    except ValueError:
        return None
    return Tally(EdgeCounts(*counts), graph) if min(counts) >= 0 else None


def encode_named(name: str, value: bytes) -> bytes:
    """Return what the znode of a step or a signal holds."""
    return pack([name, value])


def decode_named(data: bytes) -> tuple[str, bytes]:
    """Return the name of a step or a signal, and its value; raises ``ValueError`` if it is damaged."""
    (name, value), _ = items_of(data, [TEXT, BYTES])
    return name, value
