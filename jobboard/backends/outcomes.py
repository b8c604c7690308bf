"""How a job stands as a parent."""

from __future__ import annotations

from jobboard.backends.edge_rows import MAX_EDGE_RESULT, EdgeRow, Outcome
from jobboard.backends.reasons import GRAPH_DROPPED
from jobboard.backends.rows import JobRow
from jobboard.states import LIVE, JobState


def outcome_of(row: JobRow | None) -> Outcome:
    """Return how a job stands as a parent; None is one that was purged."""
    if row is None:
        return Outcome.GONE
    if row.state in LIVE:
        return Outcome.OPEN
    if row.state is JobState.TRASHED:
        return Outcome.FAILED
    # A consumed job keeps its owner, also if its cancel was asked for.
    return Outcome.GONE if row.cancel_asked and row.owner is None else Outcome.DONE


def was_dropped(row: JobRow | None) -> bool:
    """Whether a job was given up with its graph, before anybody could see it."""
    return row is not None and row.state is JobState.COMPLETE and row.reason == GRAPH_DROPPED


def has_children(row: JobRow) -> bool:
    """Whether a job was ever posted that waits for this one, as far as this one knows."""
    return row.ties is not None and row.ties.has_children


def may_have_children(row: JobRow | None) -> bool:
    """Whether to ask for a job's children; one that was complete before they were posted does not know of them."""
    return row is None or row.state is JobState.COMPLETE or has_children(row)


def reason_of(row: JobRow) -> str | None:
    """Return why a job stands as it does; None of one that was consumed, whose row may have that of a run before."""
    return None if row.state is JobState.COMPLETE and outcome_of(row) is Outcome.DONE else row.reason


def edge_to(child: str, parent: JobRow) -> EdgeRow:
    """Return an edge that says how a job stands now."""
    outcome = outcome_of(parent)
    result = parent.result if outcome is Outcome.DONE else None
    is_cut = result is not None and len(result) > MAX_EDGE_RESULT
    return EdgeRow(child, parent.uuid, outcome, parent.name, None if is_cut else result, is_cut)
