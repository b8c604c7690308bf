"""The plain data about parents and children, steps and signals that crosses the seam."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

#: A result that is longer does not go with an edge: it can be read only from the parent's own record.
MAX_EDGE_RESULT = 64 * 1024

#: How many children one step resolves at most; fewer if the parent's result is long.
MAX_RESOLVED = 50

#: How many bytes of results one step writes to edges at most; one child is always resolved.
MAX_RESOLVED_BYTES = 512 * 1024

#: What a graph, a parent that is no job, begins with where parents are named; so it comes behind all uuids.
_GRAPH = "graph:"

#: For how many seconds a graph may get no further part before it is given up.
GRAPH_TTL = 60.0


class Outcome(str, enum.Enum):
    """How a parent stands, as its edges say it."""

    OPEN = "open"  # it has not ended
    DONE = "done"  # it was consumed
    FAILED = "failed"  # it is in the trash, and may be restored
    GONE = "gone"  # it was cancelled or purged, and can't come back
    NEVER = "never"  # it was given up with its graph: no edge says so, since those to it are deleted


#: What edges say, in the order in which parents are counted.
EDGE_OUTCOMES = (Outcome.OPEN, Outcome.DONE, Outcome.FAILED, Outcome.GONE)


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """One pair of a parent and a child. The name is the parent's.

    :ivar result: the parent's, if it is DONE and has one of at most ``MAX_EDGE_RESULT`` bytes.
    :ivar is_cut: whether its result is longer than that.
    """

    child: str
    parent: str
    outcome: Outcome
    name: str = ""
    result: bytes | None = field(default=None, repr=False)
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class EdgePage:
    """Some edges, and where the next page begins; ``cursor`` None is the end."""

    edges: list[EdgeRow]
    cursor: object | None


def without_results(page: EdgePage) -> EdgePage:
    """Return a page with no results in its edges."""
    return EdgePage([EdgeRow(edge.child, edge.parent, edge.outcome, edge.name) for edge in page.edges], page.cursor)


@dataclass(frozen=True, slots=True)
class EdgeCounts:
    """How many parents of a job there are of each outcome; its graph is none."""

    open: int = 0
    done: int = 0
    failed: int = 0
    gone: int = 0


class LinkOutcome(enum.Enum):
    """What became of a wish to let a job wait for more parents."""

    DONE = "done"
    REPEATED = "repeated"  # it waits for all of them, or did
    STARTED = "started"  # it does not wait for parents any more, and nothing was changed
    MISSING = "missing"  # it, or a parent, is not on the board, and nothing was changed
    LOST = "lost"  # the claim does not hold whose owner asks for it, and nothing was changed


class SignalOutcome(enum.Enum):
    """What became of a signal."""

    DONE = "done"
    REPEATED = "repeated"  # it was sent before; its first value stays
    MISSING = "missing"  # the job has ended, or there is none


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step of a job that is done: the number that it has among the job's steps, from 0 on, its name, its result."""

    number: int
    name: str
    result: bytes = field(repr=False)
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class SignalRow:
    """A signal that was sent to a job."""

    name: str
    value: bytes = field(repr=False)
    at: float = 0.0


def is_graph(parent: str) -> bool:
    """Whether a parent is a graph, and no job."""
    return parent.startswith(_GRAPH)


def parent_of_graph(graph: str) -> str:
    """Return a graph as a parent."""
    return _GRAPH + graph


def graph_of_parent(parent: str) -> str:
    """Return the graph that a parent is."""
    return parent.removeprefix(_GRAPH)
