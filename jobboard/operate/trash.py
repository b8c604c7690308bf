"""What is in the trash, in groups of one name and one kind of reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from jobboard.board import handles_of
from jobboard.states import JobState

if TYPE_CHECKING:
    from jobboard.backends.rows import JobRow
    from jobboard.board import JobBoard


_ERROR_CLASS = re.compile(r"[A-Za-z_][\w.]*(?=: |$)")
#: What lifecycle writes before the reason of the last attempt.
_USED_UP = re.compile(r"all \d+ attempts are used up; the last: ")
_MAX_KIND = 100


def kind_of_reason(reason: str | None) -> str:
    """Return what a reason has in common with others: the class of its error, or its first line without numbers."""
    line = _USED_UP.sub("", (reason or "").strip().partition("\n")[0])
    if not line:
        return "no reason"
    match = _ERROR_CLASS.match(line)
    return match.group() if match else re.sub(r"\d+", "#", line)[:_MAX_KIND]


#: How many jobs are read: 20 requests.
MAX_READ = 10_000


@dataclass(frozen=True, slots=True)
class TrashGroup:
    """Trashed jobs of one name that have one kind of reason, with the reason of one of them.

    :ivar first: since when the first of them is in the trash, in seconds of the epoch; ``last``: the last.
    """

    name: str
    kind: str
    example: str
    jobs: int
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class TrashGroups:
    """The groups, the largest first. ``complete`` tells whether the whole trash was read, otherwise ``read`` jobs."""

    groups: tuple[TrashGroup, ...]
    read: int
    complete: bool


def trash_groups(board: JobBoard, name: str | None = None) -> TrashGroups:
    """Return what is in the trash in groups, from the first jobs in it in claim order; 500 a request.

    :param name: only jobs of this name.
    :raises BoardUnavailable: the store can't be reached.
    """
    rows = handles_of(board).rows(frozenset({JobState.TRASHED}), None if name is None else frozenset({name}))
    groups = tuple(grouped(islice(rows, MAX_READ)))
    return TrashGroups(groups, sum(group.jobs for group in groups), next(rows, None) is None)


def grouped(rows: Iterable[JobRow]) -> list[TrashGroup]:
    """Return the groups of some jobs of the trash, the largest first."""
    found: dict[tuple[str, str], TrashGroup] = {}
    for row in rows:
        which = (row.name, kind_of_reason(row.reason))
        one, at = found.get(which), row.last_modified
        if one is None:
            found[which] = TrashGroup(*which, row.reason or "", 1, at, at)
        else:
            found[which] = TrashGroup(*which, row.reason or "", one.jobs + 1, min(one.first, at), max(one.last, at))
    return sorted(found.values(), key=lambda group: -group.jobs)
