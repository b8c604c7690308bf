"""Finds the job or the logbook that an operator names, and shows a logbook as plain data."""

from __future__ import annotations

import re
import shlex
import uuid as uuids
from collections.abc import Collection, Iterable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from jobboard.errors import NotFound
from jobboard.operate.selecting import MAX_SCANNED, Selection, begins_or_ends
from jobboard.states import LIVE, JobState
from jobboard.text import in_one_line, utc

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job
    from jobboard.logbook import BookInfo, LogBook


_ALL = frozenset(JobState)
_ENDED = _ALL - LIVE
#: How many uuids an error names.
_MAX_SHOWN = 5
#: The beginning or the end of a uuid that is enough to name one.
PART = re.compile(r"[0-9a-f-]{4,35}\Z", re.IGNORECASE)


def find_job(board: JobBoard, text: str, states: Collection[JobState] = _ALL) -> Job:
    """Return the job of a uuid, of ``NAME:KEY``, or of the beginning or the end of a uuid that only one job has.

    ``NAME:KEY`` is the only job with that key in ``states``, of which the live one goes first; if none is in these, the
    only other one, so that a command can say how that stands. A part of a uuid costs a pass over the whole listing, the
    key of a job that is not live one over those of its name that are in the trash or complete; the others 1 or 2
    requests.

    :param states: those that the command is for; one that is live stands for all of these, since they change by
        themselves.
    :raises NotFound: no job matches, or several do; the message says which.
    """
    try:
        return board.get(str(uuids.UUID(text)))
    except ValueError:
        pass
    if ":" in text:
        return _find_by_key(board, text, frozenset(states))
    if not PART.match(text):
        raise NotFound(
            f"no job {text!r}; give a uuid, the first or last 4 or more characters of one, or NAME:KEY; jobs of a name "
            f"are listed by: jobboard ls --job-name {shlex.quote(text)}"
        )
    return board.get(uuid_with_part(text, "job", (job.uuid for job in board.iterjobs(states=list(JobState))), board))


def uuid_with_part(text: str, what: str, uuids: Iterable[str], board: JobBoard) -> str:
    """Return the only one of these uuids that has this beginning or end.

    :param what: the kind of thing that they are of, for the error.
    :raises NotFound: none has it, or several have.
    """
    found = [uuid for uuid in uuids if begins_or_ends(uuid, text)]
    if len(found) != 1:
        which = f"no {what}'s uuid begins or ends" if not found else f"the uuids of {len(found)} {what}s begin or end"
        more = "; give more of it" if found else ""
        raise NotFound(f"{which} with {text!r} on board {board.name!r}{more}")
    return found[0]


def _find_by_key(board: JobBoard, text: str, states: frozenset[JobState]) -> Job:
    """Names and keys may contain colons, so each colon is tried as the separator."""
    colons = [number for number, character in enumerate(text) if character == ":"]
    pairs = [(text[:colon], text[colon + 1 :]) for colon in colons if text[:colon] and text[colon + 1 :]]
    wanted = states if states.isdisjoint(LIVE) else states | LIVE
    for among in (wanted, _ALL - wanted):
        found = _with_key(board, pairs, among) if pairs else []
        if len(found) == 1:
            return board.get(found[0])
        if found:
            shown = ", ".join(found[:_MAX_SHOWN]) + (", ..." if len(found) > _MAX_SHOWN else "")
            where = "live" if wanted >= LIVE else "in the trash"
            which = "name one by its uuid" if among is wanted else f"none of them is {where}"
            raise NotFound(f"{len(found)} jobs that ended had the key {text!r}; {which}: {shown}")
    raise NotFound(f"no job {text!r} (NAME:KEY) on board {board.name!r}, in its trash or remembered")


def _with_key(board: JobBoard, pairs: Collection[tuple[str, str]], among: frozenset[JobState]) -> list[str]:
    """Return the live job that has one of these names and keys, if ``among`` has such, or else those that ended."""
    for name, key in pairs if among >= LIVE else ():
        try:
            return [board.find(name, key).uuid]
        except NotFound:
            continue
    ended = Selection(states=among & _ENDED, names={name for name, _ in pairs})
    return [job.uuid for job in ended.jobs(board) if (job.name, job.key) in pairs] if ended.states else []


def ended_with_key(board: JobBoard, selection: Selection) -> list[Job]:
    """Return the jobs in the trash or complete that had the key of a selection, five at most, as ``newest`` does.

    Its other filters hold, but for states. Looks at the first 10,000 jobs that ended, 500 a request.

    :raises BoardUnavailable: the store can't be reached.
    """
    return replace(selection, states=_ENDED, limit=_MAX_SHOWN, scan=MAX_SCANNED).newest(board)


def check_not_ended(job: Job, ended: Collection[JobState] = _ENDED) -> None:
    """Refuse a job that has ended already.

    :param ended: the states that count as such.
    :raises NotFound: it has; says how, and when.
    """
    if job.record.state in ended:
        raise NotFound(f"job {job.uuid} is not on the board any more: {how_it_ended(job)}")


def how_it_ended(job: Job) -> str:
    """Say what became of a job that ended, without its uuid: ``resize, in the trash since ...: disk full``."""
    since = utc(job.record.last_modified)
    if job.record.state is JobState.COMPLETE:
        return f"{job.name}, complete since {since}"
    return f"{job.name}, in the trash since {since}: {in_one_line(job.record.reason or 'no reason was given')}"


def book_row(info: BookInfo) -> dict[str, Any]:
    """Return what a list of books shows."""
    return asdict(info)


def book_view(book: LogBook, *, with_details: bool = False) -> dict[str, Any]:
    """Return a book as plain data; what is in it only on request."""
    view: dict[str, Any] = {
        "uuid": book.uuid, "name": book.name, "owner": book.owner, "version": book.version,
        "journal_entries": len(book.entries), "named_entries": len(book.named),
    }  # fmt: skip
    return view | {"meta": book.meta, "entries": book.entries, "named": book.named} if with_details else view


def find_book(board: JobBoard, text: str) -> str:
    """Return the uuid of the book that an operator names by its uuid, or by a beginning or an end that no other has.

    A part of a uuid costs a pass over the list of books; a uuid no request.

    :raises NotFound: no book has that part, or several have; the message says which.
    """
    try:
        return str(uuids.UUID(text))
    except ValueError:
        pass
    if not PART.match(text):
        raise NotFound(f"no logbook {text!r}; give a uuid, or the first or last 4 or more characters of one")
    return uuid_with_part(text, "logbook", (info.uuid for info in board.books()), board)
