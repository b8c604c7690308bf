"""What operators do to jobs, by name: on which states, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

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


class Act(Protocol):
    """Does something to many jobs; is told by whom, and why."""

    def __call__(
        self,
        board: JobBoard,
        targets: Sequence[Target],
        step: Step,
        *,
        by: str | None = None,
        reason: str | None = None,
    ) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Action:
    """One of them.

    :ivar verb: such as ``restore``. :ivar done: what jobs then are, such as ``restored``.
    :ivar states: the states that it is for.
    :ivar act: does it to many.
    """

    verb: str
    done: str
    states: frozenset[JobState]
    act: Act


ACTIONS: Mapping[str, Action] = {
    "release": Action("release", "released", frozenset({JobState.CLAIMED}), release_all),
    "run_now": Action("run now", "made claimable", frozenset({JobState.DELAYED}), run_now_all),
    "cancel": Action("cancel", "cancelled", LIVE, cancel_all),
    "trash": Action("trash", "trashed", LIVE, trash_all),
    "restore": Action("restore", "restored", frozenset({JobState.TRASHED}), restore_all),
    "purge": Action("purge", "purged", frozenset({JobState.TRASHED}), purge_all),
}
