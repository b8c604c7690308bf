"""The page of conductors and schedulers: alive, stuck, quiet or gone; and of owners of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from jobboard.board import JobBoard, handles_of
from jobboard.console.shared import answers_of
from jobboard.console.sorting import sorting_of
from jobboard.console.view import Page, View
from jobboard.job import Job
from jobboard.operate.bulk import ACTIONS, Target, of_what, targets_of
from jobboard.operate.views import holdings
from jobboard.participants import (
    EVERY_NAME,
    Entity,
    handles_all,
    is_quiet,
    names_of,
    number_of,
    runs_of,
    unsent_of,
)
from jobboard.quiet import quiet_ones, set_quiet
from jobboard.states import JobState

#: How many participants are shown, claimed jobs are read for the list of owners, and jobs are released at once.
_MAX_SHOWN, _MAX_CLAIMED, _MAX_RELEASED = 200, 2000, 500
#: How many of its longest runs are shown of a conductor.
_MAX_RUNS = 5
#: By what they can be sorted, and what of a row that is.
_COLUMNS = {
    column: itemgetter(field)
    for column, field in {
        "name": "name", "kind": "kind", "up": "uptime", "seen": "last_seen", "memory": "memory", "running": "running",
    }.items()
}  # fmt: skip


def show(view: View) -> Response:
    """Show who is registered, and who holds how many of the first claimed jobs."""
    answers, board = answers_of(view), view.board
    entities = answers.get("entities", board.entities)
    quiet = answers.get("quiet", lambda: quiet_ones(board))
    owners = answers.get("owners", lambda: holdings(_claimed(board)), 5.0)
    wanted = view.typed("q").lower()
    found = [_row(entity, quiet) for entity in entities if wanted in entity.name.lower()]
    found.sort(key=lambda row: (not row["stuck"], not row["alive"], row["kind"], row["name"]))
    sorting = sorting_of(view, _COLUMNS)
    known = {entity.name: entity.alive for entity in entities}
    shown = [row | {"alive": known.get(row["owner"])} for row in owners if wanted in row["owner"].lower()]
    return view.render(
        "conductors.html",
        rows=sorting.sorted(found)[:_MAX_SHOWN],
        sorting=sorting,
        left_out=max(0, len(found) - _MAX_SHOWN),
        owners=shown[:_MAX_SHOWN],
        most=_MAX_CLAIMED,
        is_partial=sum(row["jobs"] for row in owners) == _MAX_CLAIMED,
        q=view.typed("q"),
    )


def act(view: View) -> Response:
    """Let a conductor claim no more, or again."""
    action, name = view.field("action"), view.field("name")
    view.require("quiet")
    if action not in ("quiet", "wake"):
        raise HTTPException(400, "this form can make a conductor quiet, or wake it")
    board = view.board
    if name not in {entity.name for entity in board.entities() if entity.kind == "conductor"}:
        raise HTTPException(404, f"no conductor {name!r} is registered on this board")
    set_quiet(board, [name], action == "quiet")
    answers_of(view).forget()
    view.acted("quiet", [name])
    return RedirectResponse(view.url("conductors", q=view.typed("q")), 303)


def show_release(view: View) -> Response:
    """Show which claims of an owner would end."""
    view.require("release")
    owner = view.query("owner")
    targets = _targets_of(view.board, owner)
    return view.render("release_owner.html", owner=owner, targets=targets, what=of_what(targets), most=_MAX_RELEASED)


def act_release(view: View) -> Response:
    """End the claims of an owner that were shown, and that it still holds."""
    view.require("release")
    owner, shown = view.query("owner"), set(view.form.get("claim", []))
    targets = [target for target in _targets_of(view.board, owner) if f"{target.uuid}/{target.token}" in shown]
    outcome = ACTIONS["release"].act(view.board, targets, by=view.who, reason=view.reason)
    answers_of(view).forget()
    view.acted("release", [target.uuid for target in targets])
    return view.render("release_owner.html", owner=owner, outcome=outcome, targets=[], what="", most=_MAX_RELEASED)


def _claimed(board: JobBoard) -> Iterator[Job]:
    """Iterate over the first claimed jobs."""
    handles = handles_of(board)
    return map(handles.any, islice(handles.rows(frozenset({JobState.CLAIMED}), None), _MAX_CLAIMED))


def _targets_of(board: JobBoard, owner: str) -> list[Target]:
    return targets_of(islice((job for job in _claimed(board) if job.record.owner == owner), _MAX_RELEASED))


def _row(entity: Entity, quiet: frozenset[str]) -> dict[str, Any]:
    metadata = entity.metadata
    return {
        "kind": entity.kind,
        "name": entity.name,
        "alive": entity.alive,
        "last_seen": entity.last_seen,
        "host": metadata.get("host"),
        "pid": metadata.get("pid"),
        "version": metadata.get("version"),
        "python": metadata.get("python"),
        "uptime": _told(entity, "uptime"),
        "memory": _told(entity, "memory"),
        "running": number_of(entity, "running") if entity.alive else 0,
        "concurrency": number_of(entity, "concurrency"),
        "longest": runs_of(entity)[:_MAX_RUNS] if entity.alive else [],
        "stuck": number_of(entity, "stuck") if entity.alive else 0,
        "stuck_names": sorted(names_of(entity, "stuck_names")),
        "unsent": unsent_of(entity)[:_MAX_RUNS],
        "refused": sorted(names_of(entity, "refused")),
        "fault": metadata.get("fault"),
        "healthy": metadata.get("healthy") is not False,
        "is_quiet": is_quiet(entity),
        "will_be_quiet": entity.name in quiet,
        # Of one that is gone nothing needs to be done, unless the store refuses what it has run.
        "is_folded": not entity.alive and not unsent_of(entity),
        "names": [EVERY_NAME] if handles_all(entity) else sorted(names_of(entity)),
    }


def _told(entity: Entity, what: str) -> int | None:
    """Return a number of one that is alive; None if it tells none."""
    number = entity.metadata.get(what) if entity.alive else None
    return number if isinstance(number, int) else None


PAGES = (
    Page("conductors", show, act, rights=("quiet",), title="Conductors", order=50),
    Page("conductors/release", show_release, act_release, rights=("release",)),
)
