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
#: What stands before the reason of the last attempt.
_LAST = re.compile(r"(?:all \d+ attempts are used up|given up \d+ s after its post); the last: ")
#: What differs between reasons of one kind. No part of it goes back over what it has passed: reasons may be long.
_VARIABLE = re.compile(
    r"""
      \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b  # a uuid
    | (?<!\w)[bru]?'[^']*'(?!\w) | (?<!\w)[bru]?"[^"]*"(?!\w)           # a quoted text; no apostrophe in a word
    | \b0x[0-9a-f]+\b | \b(?=[a-f]*[0-9])[0-9a-f]{6,}\b               # hexadecimal, of some length or with 0x
    | \d+(?:[.,:]\d+)*                                                # a number, a version, an address, a time
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
#: A message that is nothing but a quoted text, as that of a KeyError is.
_QUOTED = re.compile(r"""(: [bru]?)('[^']*'|"[^"]*")""", re.IGNORECASE)
#: How much of a reason's first line is read, and how long a kind is.
_MAX_LINE, _MAX_KIND = 4_000, 200


def kind_of_reason(reason: str | None) -> str:
    """Return what a reason has in common with others: the class of its error, and its message without what varies.

    Of the first line, in which each number, uuid, hexadecimal number and quoted text is a ``#``; up to 200 characters.
    A quoted text that is the whole message stays, but for such parts: ``KeyError: 'vat_rate'``, ``KeyError: 'row #'``.
    Equal reasons are of one kind on every host and in every version of Python.
    """
    line = _LAST.sub("", (reason or "").strip()[:_MAX_LINE].partition("\n")[0])
    if not line:
        return "no reason"
    match = _ERROR_CLASS.match(line)
    begin = match.end() if match else 0
    kind = (line[:begin] + _common_in(line[begin:]))[:_MAX_KIND].strip()
    # Tables escape what does not print, and a kind is copied from there.
    return kind if kind.isprintable() else "".join(one if one.isprintable() else "#" for one in kind)


def _common_in(message: str) -> str:
    if quoted := _QUOTED.fullmatch(message):
        before, text = quoted.groups()
        return f"{before}{text[0]}{_VARIABLE.sub('#', text[1:-1])}{text[-1]}"
    return _VARIABLE.sub("#", message)


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
    """Return the groups of some jobs of the trash, the largest first, then by name and kind."""
    found: dict[tuple[str, str], TrashGroup] = {}
    for row in rows:
        which = (row.name, kind_of_reason(row.reason))
        one, at = found.get(which), row.last_modified
        if one is None:
            found[which] = TrashGroup(*which, row.reason or "", 1, at, at)
        else:
            found[which] = TrashGroup(*which, row.reason or "", one.jobs + 1, min(one.first, at), max(one.last, at))
    return sorted(found.values(), key=lambda group: (-group.jobs, group.name, group.kind))
