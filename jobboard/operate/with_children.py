"""What an operator does to a job and to all that wait for it: which jobs these are, and in which order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobboard.backends.edge_rows import Outcome
from jobboard.backends.edges import may_wait
from jobboard.backends.outcomes import outcome_of
from jobboard.board import client_of
from jobboard.client.edge_reading import MAX_JOBS
from jobboard.graph.reading import Below, jobs_below
from jobboard.job import row_of
from jobboard.naming import label_of
from jobboard.operate.bulk import Action, Target, target_of
from jobboard.states import JobState

if TYPE_CHECKING:
    from jobboard.backends.rows import JobRow
    from jobboard.board import JobBoard
    from jobboard.job import Job

_END = {Outcome.GONE: "cancelled", Outcome.DONE: "complete"}


@dataclass(frozen=True, slots=True)
class Family:
    """A job and all that wait for it, as far as an action is for them.

    :ivar targets: in the order in which they are to be changed.
    :ivar states: of each.
    :ivar left_out: how many are in states that the action is not for.
    :ivar is_whole: whether these are all.
    :ivar went_on: those that went on without a parent that is restored now, and don't wait for it again; their states.
    :ivar ended: the others that waited for what is restored now, over all levels, and have ended, with their names and
        how. They don't come back.
    """

    targets: list[Target]
    states: list[JobState]
    left_out: int
    is_whole: bool
    went_on: dict[Target, JobState]
    ended: dict[str, str]


def family_of(board: JobBoard, job: Job, action: Action, most: int = MAX_JOBS) -> Family:
    """Return a job and the jobs that wait for it, over all levels, for an action.

    What brings jobs back begins with the parents, anything else with the last children: so nothing of it can start, or
    be changed by the end of its parent, before its turn.

    :param most: how many jobs at most beside the one itself.
    :raises BoardUnavailable: the store can't be reached.
    """
    below = jobs_below(client_of(board), [job.uuid], most)
    rows = [row_of(job), *below.rows]
    fitting = [row for row in rows if row.state in action.states]
    is_restore = action.verb == "restore"
    ordered = fitting if is_restore else fitting[::-1]
    went_on = _went_on(rows, fitting, below.edges) if is_restore else {}
    ended = _ended(below, fitting, went_on) if is_restore else {}
    states, left_out = [row.state for row in ordered], len(rows) - len(fitting)
    return Family([target_of(row) for row in ordered], states, left_out, below.is_whole, went_on, ended)


def _went_on(
    rows: Iterable[JobRow], restored: Iterable[JobRow], edges: Iterable[tuple[str, str]]
) -> dict[Target, JobState]:
    """Return those of these jobs that have such a parent, and don't wait for it, with their states."""
    parents = {row.uuid for row in restored}
    children = {child for parent, child in edges if parent in parents}
    gone_on = (
        row for row in rows if row.uuid in children and not may_wait(row) and outcome_of(row) is not Outcome.GONE
    )
    return {target_of(row): row.state for row in gone_on}


def _ended(below: Below, restored: Iterable[JobRow], went_on: Iterable[Target]) -> dict[str, str]:
    """Return those of these jobs that wait for a restored one, over all levels, and have ended: what, and how."""
    met, children = {row.uuid for row in restored}, dict[str, list[str]]()
    for parent, child in below.edges:
        children.setdefault(parent, []).append(child)
    left = list(met)
    for uuid in left:
        new = [child for child in children.get(uuid, ()) if child not in met]
        met.update(new)
        left += new
    complete = [row for row in below.rows if row.state is JobState.COMPLETE]
    ends = {row.uuid: f"{label_of(row.name, row.key)}, {_END[outcome_of(row)]}" for row in complete}
    ends |= dict.fromkeys(below.lost, "cancelled, or forgotten")
    told = {target.uuid for target in went_on}
    return {uuid: end for uuid, end in ends.items() if uuid in met and uuid not in told}
