"""A graph of jobs as plain data. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from jobboard.states import LIVE, JobState
from jobboard.types import IfFailedName

#: How a node stands beside the states of jobs: it was cancelled, or purged; or nobody knows how it ended.
CANCELLED, GONE = "CANCELLED", "GONE"

#: The states of nodes, those that want attention first.
STATES = (
    "TRASHED", "GONE", "CANCELLED", "BLOCKED", "DELAYED", "CLAIMED", "UNCLAIMED", "COMPLETE",
)  # fmt: skip
TRASHED, COMPLETE = JobState.TRASHED.value, JobState.COMPLETE.value
_LIVE = frozenset(state.value for state in LIVE)


@dataclass(frozen=True, slots=True)
class Node:
    """A job of a graph, as one read saw it; or several of one name and state that are drawn as one.

    Of a job that the board remembers no more there is only what the edges to its children say: its name, and whether
    it is complete (``"COMPLETE"``), or was cancelled or purged (``"CANCELLED"``). Of one without children nobody knows
    whether it was cancelled or purged, or is complete and its retention over: it is ``"GONE"``.

    :ivar uuid: of several jobs that of the first.
    :ivar name: empty if nobody knows it any more.
    :ivar state: that of :class:`~jobboard.JobState`, or ``"CANCELLED"`` or ``"GONE"``, as above.
    :ivar number: how many jobs it stands for.
    :ivar waits_for: what blocks it, such as ``signal approved``; None if that is not the same for all of them.
    :ivar key: the job's; None if it has none, or nobody knows it any more, and of several jobs.
    :ivar is_held: whether it waits for a job in the trash, or for one that does: it goes on once that one is restored.
    :ivar reason: why its last attempt failed, or why it was trashed or cancelled.
    :ivar last_error: the last line of its last error, also if it is complete since, or was restored.
    :ivar created_on: when it was posted.
    :ivar last_modified: when it was changed last; of one that has ended, its end.
    :ivar result: what its handler returned, as long as its record is there.
    :ivar due_on: since when it could be claimed, with its parents ended, its delay over and its lane free; a delay
        before its last attempt counts too. Of one that is delayed it is the end of that; None of one that is BLOCKED.
    :ivar attempts: how many it has made, since it was restored if it was.
    :ivar owner: who runs it, or has completed it.
    :ivar if_failed: what becomes of it if a parent fails: ``"wait"``, ``"cancel"`` or ``"run"``, as it was posted.
    """

    uuid: str
    name: str
    state: str
    number: int = 1
    waits_for: str | None = None
    key: str | None = None
    is_held: bool = False
    reason: str | None = None
    last_error: str | None = None
    created_on: datetime | None = None
    last_modified: datetime | None = None
    result: Any = field(default=None, repr=False)
    due_on: datetime | None = None
    attempts: int = 0
    owner: str | None = None
    if_failed: IfFailedName = "wait"

    @property
    def seconds(self) -> float | None:
        """How long it took from ``due_on`` to its end, the wait for a slot included; None of one that did not run."""
        if self.state not in (COMPLETE, TRASHED) or not self.attempts or self.due_on is None:
            return None
        return None if self.last_modified is None else max(0.0, (self.last_modified - self.due_on).total_seconds())

    @property
    def is_open(self) -> bool:
        """Whether it has not ended, and may do so by itself."""
        return self.state in _LIVE and not self.is_held


@dataclass(frozen=True, slots=True)
class Edge:
    """A pair of a parent and a child, or several between the same two nodes."""

    parent: str
    child: str
    number: int = 1


@dataclass(frozen=True)
class Graph:
    """The jobs that hang together, by their uuids, and how they stood when they were read.

    :ivar root: the job that it was read for.
    :ivar nodes: the nearest first.
    :ivar edges: who waits for whom, or has waited.
    :ivar is_whole: whether these are all that hang together with that job.
    :ivar is_folded: whether a node may stand for several jobs.
    """

    root: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...] = ()
    is_whole: bool = True
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

    @property
    def is_over(self) -> bool:
        """Whether no job of it can end by itself any more: each has ended, or waits for one in the trash."""
        return self.is_whole and not any(node.is_open for node in self.nodes.values())

    @property
    def failed(self) -> list[Node]:
        """Those that are in the trash, and those of which it is known that they were cancelled or purged."""
        return [node for node in self.nodes.values() if node.state in (TRASHED, CANCELLED)]

    @property
    def gone(self) -> list[Node]:
        """Those of which nobody knows how they ended. If retention lasts longer than the run, they were cancelled."""
        return [node for node in self.nodes.values() if node.state == GONE]

    @property
    def held(self) -> list[Node]:
        """Those that wait for a job in the trash, or for one that does."""
        return [node for node in self.nodes.values() if node.is_held]

    def held_by(self, uuid: str) -> list[Node]:
        """Return those of :attr:`held` that wait for this job in the trash, over all levels; no request.

        One that waits for several such jobs is held by each of them.
        """
        found: dict[str, None] = {}
        left = [uuid]
        for parent in left:
            for child in self.children(parent):
                if child.uuid not in found and _holds(self.nodes[parent], child):
                    found[child.uuid] = None
                    left.append(child.uuid)
        return [self.nodes[child] for child in found]

    @property
    def created_on(self) -> datetime | None:
        """When the first of its jobs was posted, of those whose record is there."""
        return min((node.created_on for node in self.nodes.values() if node.created_on is not None), default=None)

    @property
    def ended_on(self) -> datetime | None:
        """When the last of its jobs ended, of those whose record is there; None as long as it is not over."""
        if not self.is_over:
            return None
        ends = (node.last_modified for node in self.nodes.values() if not node.is_held)
        return max((end for end in ends if end is not None), default=None)

    def parents(self, uuid: str) -> list[Node]:
        """Return the jobs that one of them waits for, or has waited for; no request."""
        return [self.nodes[parent] for parent in self._links.parents[uuid]]

    def children(self, uuid: str) -> list[Node]:
        """Return the jobs that wait for one of them, or have waited for it; no request."""
        return [self.nodes[child] for child in self._links.children[uuid]]

    def __str__(self) -> str:
        """Return the run as text, such as for a mail; without what the jobs carry."""
        # Here, because it is made of what knows this module.
        from jobboard.graph.texts import text_of

        return "\n".join(text_of(self))

    @cached_property
    def _links(self) -> Links:
        return links_of(self.nodes, ((edge.parent, edge.child) for edge in self.edges))


def _holds(parent: Node, child: Node) -> bool:
    """Whether a child waits for this parent, and is held by it; what is held has not ended: all its children wait."""
    return child.is_held and (parent.is_held or (parent.state == TRASHED and child.if_failed == "wait"))


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
