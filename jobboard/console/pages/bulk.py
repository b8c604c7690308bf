"""One action on many jobs, ticked or by filters: first how many and of what, then done in bounded batches."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from jobboard.board import client_of, handles_of
from jobboard.console.filters import Filters, filters_of
from jobboard.console.shared import Message, answers_of, checked, message_of
from jobboard.console.view import Page, View
from jobboard.operate.bulk import ACTIONS, Action, BulkOutcome, Target, of_what, targets_of
from jobboard.operate.paging import Gathered, gather
from jobboard.operate.selecting import Selection

if TYPE_CHECKING:
    from jobboard.job import Job

#: How many jobs one request changes.
MOST = 10_000
#: How many jobs can be ticked.
_MOST_TICKED = 100
#: How many of them are shown first.
_SHOWN = 10
#: Of more jobs than that one types how many they are.
UNTYPED = 100
#: Seconds after which no further batch begins; the page says how many are left.
_BUDGET = 20.0
_BATCH = 200
#: Seconds for which a page that was shown can be acted on.
_MAX_AGE = 86_400.0


def show(view: View) -> Response:
    """Say how many jobs an action would change, and of what; change nothing. Of no job go back to the list."""
    right, action = _action_of(view)
    if view.query("ticked") and not _ticked(view):
        return RedirectResponse(view.url("jobs", ticked="none", **filters_of(view).query), 303)
    return _preview(view, right, filters_of(view), action)


def _preview(view: View, right: str, filters: Filters, action: Action, message: Message | None = None) -> Response:
    client = client_of(view.board)
    # The clock of the store: what comes later is not among what is shown.
    at = client.call(client.backend.now)
    found = _found(view, filters, _selection(filters, action), MOST)
    status = 400 if message else 200
    first = _read(view, [target.uuid for target in found.targets[:_SHOWN]])
    return _page(
        view, right, filters, status=status, found=found, first=first, at=at, what=_counted(found), message=message
    )


def act(view: View) -> Response:
    """Do it to those that fit now and fitted then; say what became of them."""
    right, action = _action_of(view)
    filters, number = filters_of(view), _shown_number(view)
    if number > UNTYPED and view.field("typed").replace(",", "").strip() != str(number):
        message = Message("bad", f"Nothing was changed: type the number of jobs, {number}, as it is asked for below.")
        return _preview(view, right, filters, action, message)
    found = _found(view, filters, _as_of(view, _selection(filters, action)), number)
    done, outcome = _run(view, action, found.targets)
    answers_of(view).forget()
    if outcome.changed:
        view.acted(right, outcome.changed)
    left = len(found.targets) - len(done)
    message = message_of(action, done, outcome)
    return _page(view, right, filters, message=message, left=left, status=200 if outcome.done or not done else 409)


def _page(view: View, right: str, filters: Filters, *, status: int = 200, **values: object) -> Response:
    given = {"found": None, "first": [], "at": None, "what": "", "message": None, "left": 0} | values
    query = {**filters.query, "job": _ticked(view)}
    return view.render(
        "bulk.html", status, right=right, action=ACTIONS[right], filters=filters, query=query, values=given,
        untyped=UNTYPED,
    )  # fmt: skip


def _ticked(view: View) -> list[str]:
    """Return the uuids of the jobs that were ticked; [] if it is about those that fit the filters."""
    uuids = {str(checked(UUID, text)): None for text in view.request.query_params.getlist("job")}
    if len(uuids) > _MOST_TICKED:
        raise HTTPException(400, f"at most {_MOST_TICKED} jobs can be ticked; set a filter for more")
    return list(uuids)


def _found(view: View, filters: Filters, selection: Selection, most: int) -> Gathered:
    """Return the ticked jobs that the action is for, or those that fit the filters, of which there must be one."""
    if uuids := _ticked(view):
        fits = selection.test(view.board)
        fitting = [job for job in _read(view, uuids) if job.record.state in selection.states and fits(job)]
        return Gathered(targets_of(fitting[:most]), True)
    if view.query("ticked") or not filters.are_chosen:
        raise HTTPException(400, "choose the jobs first: tick them in their list, or set a filter there")
    return gather(view.board, selection, most)


def _read(view: View, uuids: list[str]) -> list[Job]:
    """Return the jobs of these uuids that there still are; one request."""
    client = client_of(view.board)
    rows = client.call(client.backend.jobs.read, uuids) if uuids else []
    return [handles_of(view.board).any(row) for row in rows if row]


def _action_of(view: View) -> tuple[str, Action]:
    right = view.query("action")
    if right not in ACTIONS:
        raise HTTPException(400, "there is no such action")
    view.require(right)
    return right, ACTIONS[right]


def _selection(filters: Filters, action: Action) -> Selection:
    """Return the jobs that fit and that the action is for."""
    states = action.states & set(filters.selection.states)
    if not states:
        which = ", ".join(sorted(state.value.lower() for state in action.states))
        raise HTTPException(400, f"this action is for jobs that are {which}")
    return replace(filters.selection, states=states)


def _as_of(view: View, selection: Selection) -> Selection:
    """Leave out what was posted, or trashed, after the page was shown."""
    client = client_of(view.board)
    try:
        at = float(view.field("at"))
    except ValueError:
        raise HTTPException(400, "the form has lost its fields; look again at what it would change") from None
    if not 0 <= client.call(client.backend.now) - at < _MAX_AGE:
        raise HTTPException(409, "that page is more than a day old; look again at what it would change")
    return replace(selection, as_of=at)


def _shown_number(view: View) -> int:
    number = view.field("number")
    if not number.isdecimal() or not 0 < int(number) <= MOST:
        raise HTTPException(400, "the form has lost its fields; look again at what it would change")
    return int(number)


def _run(view: View, action: Action, targets: list[Target]) -> tuple[list[Target], BulkOutcome]:
    """Act on a batch after the other until all are done or the time is over; return those that had their turn."""
    deadline, total, number = time.monotonic() + _BUDGET, BulkOutcome(), 0
    for start in range(0, len(targets), _BATCH):
        if time.monotonic() > deadline:
            break
        part = targets[start : start + _BATCH]
        outcome = action.act(view.board, part, by=view.who, reason=view.reason)
        total.done += outcome.done
        total.asked += outcome.asked
        total.refused += outcome.refused
        total.gone += outcome.gone
        total.changed += outcome.changed
        number += len(part)
    return targets[:number], total


def _counted(found: Gathered) -> str:
    text = of_what(found.targets)
    return text if found.complete else f"{text}, and there may be more: at most {MOST:,} at a time"


PAGES = (Page("bulk", show, act, rights=tuple(ACTIONS)),)
