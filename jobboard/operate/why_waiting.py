"""Why a job waits for its parents or a signal: which of them, what failed, and the command that mends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from jobboard.backends.edge_rows import EdgeCounts, EdgeRow, Outcome
from jobboard.backends.outcomes import has_children
from jobboard.backends.rows import JobRow, Ties
from jobboard.board import client_of
from jobboard.client.waiting_cycles import WaitingCycles, told
from jobboard.graph.blocked import Wait, wait_of, waits_for
from jobboard.naming import label_of
from jobboard.operate.flow import fan_in_of
from jobboard.operate.pasting import argument
from jobboard.operate.reason import Reason
from jobboard.operate.restoring import holder_of_key, way_back
from jobboard.operate.why_ancestors import failed_ancestors
from jobboard.operate.why_conductors import Claimers
from jobboard.states import JobState
from jobboard.text import duration, in_one_line, utc
from jobboard.validation import moment

if TYPE_CHECKING:
    from jobboard.board import JobBoard

#: How many parents of each kind are named.
MAX_NAMED = 3
#: How many edges are read to find them, and how many by a request.
_MAX_EDGES, _PAGE = 10_000, 100


def why_waiting(board: JobBoard, row: JobRow, claimers: Claimers) -> Iterator[Reason]:
    """Yield why a job waits for others, or for a signal; nothing if it does not.

    Kinds: ``parent_failed``, ``parents``, ``cycle``, ``graph``, ``signal``. Three requests, and one for each 100
    parents that have ended well, 103 at most; one for each parent that is named, in the trash, and has a key; and those
    that look for what its parents wait for, and for a cycle.
    """
    if row.ties is None:
        return
    if row.ties.has_parents and row.state in (JobState.BLOCKED, JobState.DELAYED):
        yield from _why_parents(board, row, claimers)
    elif wait_of(row) is Wait.SIGNAL and row.ties.signal is not None:
        yield Reason("signal", *_signal(board, row, row.ties.signal))


def why_in_time(ties: Ties | None, token: int) -> Iterator[Reason]:
    """Yield until when a job that was never claimed has to begin, if somebody said so; the kind is ``start_by``."""
    if ties is not None and ties.start_by is not None and token == 0:
        yield Reason("start_by", f"If it has not begun by {_when(ties.start_by)}, it goes to the trash.")


def _why_parents(board: JobBoard, row: JobRow, claimers: Claimers) -> Iterator[Reason]:
    client = client_of(board)
    counts = client.call(client.backend.edges.counts, [row.uuid])[0]
    fan_in = fan_in_of(counts)
    named = _find(board, row.uuid, {Outcome.OPEN: counts.open, Outcome.FAILED: counts.failed})
    rows = dict(zip([edge.parent for edge in named], _read(board, named), strict=True))
    failed = [edge for edge in named if edge.outcome is Outcome.FAILED]
    for edge in failed:
        parent = rows[edge.parent]
        yield _failed(board, parent, f"Its parent {_parent(edge, parent)}")
    if counts.failed > len(failed) > 0:
        yield Reason("parent_failed", f"{counts.failed - len(failed):,} more of its parents are in the trash.")
    if counts.open:
        yield from _why_ancestors(board, row)
        texts = [_open(edge, rows[edge.parent], claimers) for edge in named if edge.outcome is Outcome.OPEN]
        texts += [f"and {counts.open - len(texts):,} more"] if counts.open > len(texts) > 0 else []
        which = f": {', '.join(texts)}" if texts else ""
        yield Reason("parents", f"It waits for {counts.open:,} of its parents (done: {fan_in}){which}.")
        yield from _why_cycle(board, row)
    elif not counts.failed:
        yield Reason("graph", _incomplete(counts))


def _why_ancestors(board: JobBoard, row: JobRow) -> Iterator[Reason]:
    failed = failed_ancestors(board, row)
    for edge, parent in zip(failed, _read(board, failed), strict=True):
        yield _failed(board, parent, f"Job {_parent(edge, parent)}, for which its parents wait,")


def _why_cycle(board: JobBoard, row: JobRow) -> Iterator[Reason]:
    if has_children(row) and (cycle := WaitingCycles(client_of(board)).of(row.uuid)):
        cure = f"Cancel one of them, for instance with: jobboard cancel {cycle[-1]}"
        yield Reason("cycle", f"It {told(cycle)}.", cure)


def _incomplete(counts: EdgeCounts) -> str:
    ended = "All of its parents have ended. " if counts.done or counts.gone else ""
    return (
        f"{ended}Its graph is not complete yet, or the board is about to let it go on. If the client that posts the "
        "graph has died, the board takes its jobs off a minute after the last part."
    )


def why_gone(board: JobBoard, job: str) -> str | None:
    """Return what is known of a job that is not on the board, from how its parents stand; None if that is nothing.

    Two requests, and one for each 100 parents that have ended well; 102 at most.

    :param job: as an operator names it; nothing is known of one that is named by anything but its uuid.
    """
    try:
        uuid = str(UUID(job))
    except ValueError:
        return None
    client = client_of(board)
    counts = client.call(client.backend.edges.counts, [uuid])[0]
    if fan_in_of(counts) is None:
        return None
    failed = _find(board, uuid, {Outcome.FAILED: counts.failed, Outcome.GONE: counts.gone})
    ends = {Outcome.FAILED: "in the trash", Outcome.GONE: "cancelled or purged"}
    rows = _read(board, failed)
    texts = [f"its parent {_parent(edge, row)} is {ends[edge.outcome]}" for edge, row in zip(failed, rows, strict=True)]
    texts += [f"and {more:,} more" for more in [counts.failed + counts.gone - len(failed)] if more and failed]
    why = f': {", ".join(texts)}. A job with if_failed="cancel" is cancelled then' if texts else ""
    return f"it was cancelled, or it is complete and forgotten{why}"


def _find(board: JobBoard, uuid: str, wanted: dict[Outcome, int]) -> list[EdgeRow]:
    """Return the first parents of these outcomes, of each of which there are so many."""
    client, found = client_of(board), list[EdgeRow]()
    left = {outcome: min(MAX_NAMED, number) for outcome, number in wanted.items()}
    pages = [_PAGE] * (_MAX_EDGES // _PAGE) if any(left.values()) else []
    for page in client.pages(pages, client.backend.edges.parents, uuid):
        for edge in page.edges:
            if left.get(edge.outcome, 0):
                left[edge.outcome] -= 1
                found.append(edge)
        if not any(left.values()):
            break
    return found


def _read(board: JobBoard, edges: Sequence[EdgeRow]) -> list[JobRow | None]:
    client = client_of(board)
    return client.call(client.backend.jobs.read, [edge.parent for edge in edges]) if edges else []


def _parent(edge: EdgeRow, row: JobRow | None) -> str:
    """Name a parent; of one that is gone nobody knows the key."""
    name, key = (edge.name, None) if row is None else (row.name, row.key)
    return f"{edge.parent} ({label_of(name, key)})"


def _failed(board: JobBoard, row: JobRow | None, which: str) -> Reason:
    if row is None:
        return Reason("parent_failed", f"{which} is in the trash, or it was purged since.")
    text = f"{which} is in the trash: {in_one_line(row.reason or 'no reason was given')}."
    taken, cure = way_back(row.uuid, holder_of_key(board, row.name, row.key))
    return Reason("parent_failed", f"{text} {taken}".rstrip(), cure, row.uuid)


def _open(edge: EdgeRow, row: JobRow | None, claimers: Claimers) -> str:
    which = f"job {_parent(edge, row)}"
    if row is None:
        return f"{which} has ended"
    if row.state is JobState.CLAIMED:
        return f"{which} is claimed by {row.owner}"
    if row.state is JobState.DELAYED and row.run_at is not None:
        return f"{which} is delayed until {_when(row.run_at)}"
    waits = waits_for(row)
    if waits:
        return f"{which} waits for its {waits}"
    obstacle = claimers.obstacle(row.name) if row.state is JobState.UNCLAIMED else ""
    return f"{which} is {row.state.value.lower()}{obstacle}"


def _signal(board: JobBoard, row: JobRow, signal: str) -> tuple[str, str]:
    client = client_of(board)
    since = duration(max(0.0, client.call(client.backend.now) - row.place))
    until = "" if row.run_at is None else f" (until {_when(row.run_at)})"
    command = f"jobboard signal {row.uuid} {argument(signal)}"
    return f"It waits for the signal {signal} since {since}{until}.", f"Send it with: {command}"


def _when(seconds: float) -> str:
    return utc(moment(seconds))
