"""The stored forms of edges and marks, and the operations that write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jobboard.backends.edge_rows import EdgeRow, Outcome, is_graph
from jobboard.backends.edges import Ended
from jobboard.backends.etcd.keys import Keys, decoded
from jobboard.backends.etcd.txn import (
    Compare,
    Found,
    KeyValue,
    Op,
    delete,
    get,
    modified_at,
    moved_timer,
    put,
    scan_prefix,
)
from jobboard.backends.kv.codec import BYTES_OR_NONE, FLAG, NUMBER, TEXT, items_of, pack
from jobboard.backends.outcomes import edge_to
from jobboard.backends.rows import JobRow
from jobboard.backends.transition import Resolve

#: For how many seconds a mark is left to the client that wrote it.
GRACE = 0.5

#: The letters of outcomes in the keys of edges to jobs; they stand before those of graphs.
LETTERS = {Outcome.DONE: b"d", Outcome.FAILED: b"f", Outcome.GONE: b"g", Outcome.OPEN: b"o"}

#: The letters of graphs that are not complete yet, and of those that are, or were given up.
OPEN_GRAPH, ENDED_GRAPH = b"w", b"x"


def letter_of(parent: str, outcome: Outcome) -> bytes:
    """Return the letter of an edge in its key."""
    if is_graph(parent):
        return OPEN_GRAPH if outcome is Outcome.OPEN else ENDED_GRAPH
    return LETTERS[outcome]


# -- edges -------------------------------------------------------------------------------------------------------------


def edge_ops(keys: Keys, edge: EdgeRow, before: Outcome | None = None) -> list[Op]:
    """Return the operations that write an edge, in place of the one that says ``before``."""
    letter = letter_of(edge.parent, edge.outcome)
    ops = [put(keys.edge(edge.child, letter, edge.parent), pack([edge.name, edge.result, edge.is_cut]))]
    ops.append(child_op(keys, edge))
    old = None if before is None else letter_of(edge.parent, before)
    return ops if old in (None, letter) else [delete(keys.edge(edge.child, old, edge.parent)), *ops]


def deletion_of_edge(keys: Keys, child: str, parent: str, before: Outcome) -> list[Op]:
    """Return the operations that delete an edge, which says ``before``."""
    return [delete(keys.edge(child, letter_of(parent, before), parent)), delete(keys.child(parent, child))]


def child_op(keys: Keys, edge: EdgeRow) -> Op:
    """Return the operation that writes what the parent's key of an edge says."""
    return put(keys.child(edge.parent, edge.child), pack([edge.outcome.value, edge.name]))


def outcome_at(keys: Keys, key: bytes) -> Outcome:
    """Return the outcome that the child's key of an edge tells; jobs whose graph was given up are not on the board."""
    letter = key[len(keys.edges) :].split(b"/")[1]
    if letter == ENDED_GRAPH:
        return Outcome.DONE
    return next((outcome for outcome, known in LETTERS.items() if known == letter), Outcome.OPEN)


def edge_of(keys: Keys, kv: KeyValue) -> EdgeRow | None:
    """Read an edge at its key; None if it is that of a graph, or none."""
    child, letter, parent = kv.key[len(keys.edges) :].split(b"/")
    outcome = next((outcome for outcome, known in LETTERS.items() if known == letter), None)
    if outcome is None:
        return None
    name, result, is_cut = _items_of_edge(kv.value) or ("", None, False)
    return EdgeRow(decoded(child), decoded(parent), outcome, name, result, is_cut)


def is_edge(value: bytes) -> bool:
    """Whether what the child's key of an edge holds can be read."""
    return _items_of_edge(value) is not None


def _items_of_edge(value: bytes) -> list[Any] | None:
    try:
        return items_of(value, (TEXT, BYTES_OR_NONE, FLAG))[0]
    except ValueError:
        return None


def child_edge(keys: Keys, kv: KeyValue) -> EdgeRow:
    """Read what a key of a parent's children says of their edge; what can't be read counts as open."""
    parent, child = kv.key[len(keys.children) :].split(b"/")
    outcome, name = _items_of_child(kv.value) or (Outcome.OPEN, "")
    return EdgeRow(decoded(child), decoded(parent), outcome, name)


def is_child_edge(value: bytes) -> bool:
    """Whether what the parent's key of an edge holds can be read."""
    return _items_of_child(value) is not None


def _items_of_child(value: bytes) -> tuple[Outcome, str] | None:
    try:
        (outcome, name), _ = items_of(value, (TEXT, TEXT))
        return Outcome(outcome), name
    except ValueError:
        return None


def reads_of_ended(keys: Keys, child: str, count: int) -> list[Op]:
    """Read up to ``count`` parents of each of the :data:`KINDS` that tell what becomes of a child."""
    prefix = keys.edges_of(child)
    return [scan_prefix(prefix + letter + b"/", count, keys_only=True) for letter in _HINDERING]


_HINDERING = (OPEN_GRAPH, LETTERS[Outcome.OPEN], LETTERS[Outcome.FAILED], LETTERS[Outcome.GONE])
#: How many reads :func:`reads_of_ended` makes.
KINDS = len(_HINDERING)


def parents_in(found: Found) -> list[str]:
    """Return the parents at keys of edges."""
    return [decoded(kv.last_part) for kv in found.kvs]


def ended_of(edges: Iterable[EdgeRow]) -> Ended:
    """Return how the parents of a job stand whose edges these are."""
    by_outcome = {edge.outcome: edge.parent for edge in edges if not is_graph(edge.parent)}
    graphs = {edge.outcome: edge.parent for edge in edges if is_graph(edge.parent)}
    waits_for = graphs.get(Outcome.OPEN) or by_outcome.get(Outcome.OPEN)
    dropped = Outcome.GONE in graphs
    return Ended(waits_for, by_outcome.get(Outcome.FAILED), by_outcome.get(Outcome.GONE), dropped)


def step_of(parent: str, row: JobRow | None) -> Resolve:
    """Return how a parent stands by its record; None: there is none."""
    if row is None:
        return Resolve(parent, Outcome.GONE)
    edge = edge_to("", row)
    return Resolve(parent, edge.outcome, edge.name, edge.result, edge.is_cut)


# -- marks -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Mark:
    """What the edges of a parent must say from a moment on.

    :ivar cursor: the last child whose edge does, as it stands in the key.
    :ivar revision: that in which it was written; 0: there is none.
    :ivar is_readable: whether it could be read; if not, the record of the parent says how that stands.
    """

    step: Resolve
    due: float
    cursor: bytes = b""
    revision: int = 0
    is_readable: bool = True

    @property
    def is_waiting(self) -> bool:
        """Whether it is that of a graph that may still become complete."""
        return is_graph(self.step.parent) and self.step.outcome is Outcome.GONE

    def unchanged(self, keys: Keys) -> Compare:
        """Hold if it is as it was read."""
        return modified_at(keys.mark(self.step.parent), self.revision)

    def packed(self) -> bytes:
        step = self.step
        return pack([step.outcome.value, step.name, step.result, step.is_cut, self.due, self.cursor])

    def edge(self, child: str) -> EdgeRow:
        """Return what the edge of a child has to say."""
        step = self.step
        return EdgeRow(child, step.parent, step.outcome, step.name, step.result, step.is_cut)

    def ops(self, keys: Keys, before: Mark | None = None) -> list[Op]:
        """Return the operations that write it, and its timer, in place of an earlier one."""
        parent = self.step.parent
        earlier = keys.due_mark(before.due, parent) if before is not None and before.revision else None
        return [put(keys.mark(parent), self.packed()), *moved_timer(earlier, keys.due_mark(self.due, parent))]

    def gone(self, keys: Keys) -> list[Op]:
        """Return the operations that delete it."""
        return [delete(keys.mark(self.step.parent)), delete(keys.due_mark(self.due, self.step.parent))]


def mark_of(parent: str, kv: KeyValue | None) -> Mark | None:
    """Read the mark of a parent; None if there is none. One that can't be read says that a graph is given up."""
    if kv is None:
        return None
    try:
        (outcome, name, result, is_cut, due, cursor), _ = items_of(kv.value, _MARK_KINDS)
        step = Resolve(parent, Outcome(outcome), name, result, is_cut)
    except ValueError:
        return Mark(Resolve(parent, Outcome.GONE), 0.0, revision=kv.modified, is_readable=False)
    return Mark(step, due, cursor or b"", kv.modified)


_MARK_KINDS = (TEXT, TEXT, BYTES_OR_NONE, FLAG, NUMBER, BYTES_OR_NONE)


def reads_of_mark(keys: Keys, parent: str, count: int) -> list[Op]:
    """Read the mark of a parent, and its first children."""
    return [get(keys.mark(parent)), scan_prefix(keys.children_of(parent), count)]
