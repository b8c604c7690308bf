"""Lists jobs a page at a time, where each page is a request of its own: the place between two pages is a text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobboard.board import client_of, handles_of
from jobboard.errors import JobBoardError
from jobboard.interrupts import is_of_signal_handler
from jobboard.operate.bulk import Target, targets_of

if TYPE_CHECKING:
    from jobboard.backends.rows import Page
    from jobboard.board import JobBoard
    from jobboard.job import Job
    from jobboard.operate.selecting import Selection

#: How many jobs are read for one page, if few of them fit.
MAX_READ = 5000
#: How many are read for what is gathered.
_MAX_GATHERED = 50_000
_LARGEST_REQUEST = 500
_NUMBERS = re.compile(r"-?\d{1,50}(?:\.\d{1,20})?(?:,-?\d{1,50}(?:\.\d{1,20})?){0,3}", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobsPage:
    """Some jobs in claim order.

    :ivar next: where the next page begins; None if no more jobs fit.
    :ivar read: how many jobs were read. Fewer jobs than asked for, and a ``next``: the bound was met.
    """

    jobs: list[Job]
    next: str | None
    read: int


def page_of(
    board: JobBoard, selection: Selection, after: str | None = None, size: int = 50, most: int = MAX_READ
) -> JobsPage:
    """Return the jobs of a selection behind a place; changes nothing, also not what can't be decoded.

    Who follows ``next`` sees each job that stays as it is exactly once. The selection's ``limit`` has no part in this.

    :param after: the ``next`` of another page; None for the first one.
    :param size: about how many jobs.
    :param most: how many are read at most.
    :raises ValueError: there is no such place in the listings of this store.
    :raises BoardUnavailable: the store can't be reached.
    """
    read, fitting = _reader(board, selection), _fitting(board, selection)
    cursor = None if after is None else _cursor_of(after)
    jobs: list[Job] = []
    number, ask = 0, size
    # A page may be shorter than asked for; each that is not the last one has moved on.
    for _ in range(most):
        page = read(cursor, min(ask, most - number))
        found, room = fitting(page), size - len(jobs)
        if len(found) > room:
            # Only the end of a page is a place.
            page = read(cursor, found[room - 1][0] + 1)
            found = fitting(page)
        jobs += [job for _, job in found]
        number += len(page.rows)
        cursor = page.cursor
        if cursor is None or len(jobs) >= size or number >= most:
            break
        ask = min(2 * ask, _LARGEST_REQUEST)
    return JobsPage(jobs, None if cursor is None else _text_of(cursor), number)


def _fitting(board: JobBoard, selection: Selection) -> Callable[[Page], list[tuple[int, Job]]]:
    fits, handles = selection.test(board), handles_of(board)

    def fitting(page: Page) -> list[tuple[int, Job]]:
        jobs = [handles.any(row) for row in page.rows]
        return [(index, job) for index, job in enumerate(jobs) if fits(job)]

    return fitting


def _reader(board: JobBoard, selection: Selection) -> Callable[[object | None, int], Page]:
    client = client_of(board)
    names = None if selection.names is None else frozenset(selection.names)

    def read(cursor: object | None, size: int) -> Page:
        try:
            return client.call(client.backend.jobs.page, frozenset(selection.states), names, cursor, size)
        except JobBoardError:
            raise
        except Exception as error:
            if cursor is None or is_of_signal_handler(error):
                raise
            # Places come from URLs; each store has a form of its own, and says in its own way that it is none.
            raise ValueError("there is no such place in this listing") from error

    return read


def _text_of(cursor: object) -> str:
    """Write a place: a number, several, or bytes."""
    if isinstance(cursor, bytes):
        return f"~{base64.urlsafe_b64encode(cursor).decode()}"
    return ",".join(map(str, cursor)) if isinstance(cursor, tuple) else str(cursor)


def _cursor_of(text: str) -> object:
    try:
        if text.startswith("~"):
            return base64.b64decode(text[1:].encode("ascii"), altchars=b"-_", validate=True)
        if not _NUMBERS.fullmatch(text):
            raise ValueError
        numbers = tuple(float(part) if "." in part else int(part) for part in text.split(","))
    except (ValueError, binascii.Error):
        raise ValueError("there is no such place in this listing") from None
    return numbers if len(numbers) > 1 else numbers[0]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The jobs of a selection, as far as they were looked for.

    :ivar complete: whether these are all.
    """

    targets: list[Target]
    complete: bool


def gather(board: JobBoard, selection: Selection, most: int) -> Gathered:
    """Return what fits a selection, for :mod:`jobboard.operate.bulk`; keeps little of each job.

    :param most: how many jobs at most.
    :raises BoardUnavailable: the store can't be reached.
    """
    targets: list[Target] = []
    after, read = None, 0
    for _ in range(_MAX_GATHERED):
        size = min(_LARGEST_REQUEST, most - len(targets))
        page = page_of(board, selection, after, size, min(MAX_READ, _MAX_GATHERED - read))
        targets += targets_of(page.jobs)
        after, read = page.next, read + page.read
        if after is None or len(targets) >= most or read >= _MAX_GATHERED:
            break
    return Gathered(targets, after is None)
