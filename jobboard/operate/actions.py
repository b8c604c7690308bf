"""What operators do to jobs, by name: on which states, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobboard.operate.bulk import (
    Outcome,
    Step,
    Target,
    cancel_all,
    purge_all,
    release_all,
    restore_all,
    run_now_all,
    trash_all,
)
from jobboard.states import LIVE, JobState

if TYPE_CHECKING:
    from jobboard.board import JobBoard


@dataclass(frozen=True, slots=True)
class Action:
    """One of them.

    :ivar verb: such as ``restore``. :ivar done: what jobs then are, such as ``restored``.
    :ivar states: the states that it is for.
    :ivar act: does it to many; is given who does it, and why.
    :ivar takes_reason: whether the history has a place for why.
    """

    verb: str
    done: str
    states: frozenset[JobState]
    act: Callable[[JobBoard, Sequence[Target], Step, str, str | None], Outcome]
    takes_reason: bool = False


ACTIONS: Mapping[str, Action] = {
    "release": Action(
        "release",
        "released",
        frozenset({JobState.CLAIMED}),
        lambda board, targets, step, who, reason: release_all(board, targets, step, who=who, reason=reason),
        takes_reason=True,
    ),
    "run_now": Action(
        "run now",
        "made claimable",
        frozenset({JobState.DELAYED}),
        lambda board, targets, step, who, reason: run_now_all(board, targets, step, who=who),
    ),
    "cancel": Action(
        "cancel",
        "cancelled",
        LIVE,
        lambda board, targets, step, who, reason: cancel_all(board, targets, step, who=who),
    ),
    "trash": Action(
        "trash",
        "trashed",
        LIVE,
        lambda board, targets, step, who, reason: trash_all(board, targets, step, who=who, reason=reason),
        takes_reason=True,
    ),
    "restore": Action(
        "restore",
        "restored",
        frozenset({JobState.TRASHED}),
        lambda board, targets, step, who, reason: restore_all(board, targets, step, who=who),
    ),
    "purge": Action(
        "purge",
        "purged",
        frozenset({JobState.TRASHED}),
        lambda board, targets, step, who, reason: purge_all(board, targets, step),
    ),
}
