"""A graph of jobs as plain data. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: How a node stands beside the states of jobs: it was cancelled; or the board remembers it no more, since it was
#: purged, or its retention is over.
CANCELLED, GONE = "cancelled", "gone"

#: The states of nodes, those that want attention first.
STATES = (
    "trashed", "gone", "cancelled", "blocked", "delayed", "claimed", "unclaimed", "complete",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Node:
    """A job, or several of one name and state that are drawn as one.

    :ivar id: the uuid of the job, of several that of the first. :ivar name: empty if nobody knows it any more.
    :ivar state: one of :data:`STATES`.
    :ivar number: how many jobs it stands for.
    :ivar waits_for: what blocks it, such as ``signal approved``; None if that is not the same for all of them.
    :ivar key: the job's; None if it has none, or nobody knows it any more, and of several jobs.
    """

    id: str
    name: str
    state: str
    number: int = 1
    waits_for: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A pair of a parent and a child, or several between the same two nodes."""

    parent: str
    child: str
    number: int = 1


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes by their ids, and the edges between them.

    :ivar root: the node of the job that it was read for.
    :ivar is_complete: whether these are all that hang together with that job.
    :ivar is_folded: whether a node may stand for several jobs.
    """

    root: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...] = ()
    is_complete: bool = True
    is_folded: bool = False

    @property
    def number(self) -> int:
        """How many jobs there are."""
        return sum(node.number for node in self.nodes.values())

    def states(self) -> dict[str, int]:
        """Count the jobs by state; those of which there are none are left out."""
        count = Counter[str]()
        for node in self.nodes.values():
            count[node.state] += node.number
        return {state: count[state] for state in STATES if count[state]}


@dataclass(slots=True)
class Links:
    """The children and the parents of each node, in the order of the edges."""

    children: dict[str, list[str]] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)


def links_of(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> Links:
    """Index edges, given as pairs of parent and child, both ways."""
    found = Links()
    for node in nodes:
        found.children[node], found.parents[node] = [], []
    for parent, child in edges:
        found.children[parent].append(child)
        found.parents[child].append(parent)
    return found
