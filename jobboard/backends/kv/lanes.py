"""Lanes as they were read, for stores that write a step only if what it was decided on is still so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from jobboard.backends.lifecycle import BLOCKED
from jobboard.backends.rows import JobRow

Row = TypeVar("Row", bound=JobRow)


class Lane(Generic[Row]):
    """A lane as it was read, and as the changes of one atomic step leave it.

    ``holder`` is the uuid of the job that holds the slot; ``blocked`` are the first jobs that wait for it. ``looks``
    is how many times the step has looked for the next one; ``is_joined``: a job of the step waits for the slot.

    :param rank: by which the jobs that wait are sorted.
    """

    def __init__(self, holder: str | None, blocked: Iterable[Row], rank: Callable[[Row], Any]) -> None:
        self.holder, self.blocked, self._rank = holder, list(blocked), rank
        self.looks, self.is_joined = 0, False

    def is_moved_by(self, row: Row) -> bool:
        """Whether the slot is given away, or taken, when this job is what it has become."""
        return self.holder == row.uuid or (self.holder is None and row.state is BLOCKED)

    def follow(self, row: Row) -> Row | None:
        """Follow a job that does not hold the slot now; return the job that is admitted then, if any is."""
        is_moved = self.is_moved_by(row)
        self.blocked = [job for job in self.blocked if job.uuid != row.uuid]
        if row.state is BLOCKED:
            self.blocked.append(row)
            self.blocked.sort(key=self._rank)
            self.is_joined = True
        if not is_moved:
            return None
        self.looks += 1
        admitted = self.blocked.pop(0) if self.blocked else None
        self.holder = None if admitted is None else admitted.uuid
        return admitted


L = TypeVar("L", bound=Lane[Any])
Change = TypeVar("Change")


def follow_together(moves: Sequence[tuple[Change, L, Row]]) -> Iterator[tuple[Change, L, Row | None]]:
    """Follow those changes of jobs with ties that may be written at once; iterate over them, and what each admits.

    Of each lane, these are all that leave its slot where it is, or else the first one; the others are decided anew.

    :param moves: each change, the lane of its job, and the job as it is then.
    """
    are_moved = [lane.is_moved_by(row) for _, lane, row in moves]
    closed = {id(lane) for (_, lane, _), is_moved in zip(moves, are_moved, strict=True) if not is_moved}
    for (change, lane, row), is_moved in zip(moves, are_moved, strict=True):
        if not is_moved or id(lane) not in closed:
            closed.add(id(lane))
            yield change, lane, lane.follow(row)
