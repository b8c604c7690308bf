"""The names of jobs: how many wait and for how long, how long they run, and what is paused."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from jobboard.console.charting import courses_of, last_hour
from jobboard.console.shared import answers_of, checked, sampler_of
from jobboard.console.sorting import sorting_of
from jobboard.console.view import Page, View
from jobboard.stats import COUNTED
from jobboard.validation import check_text

#: The percentiles that are shown.
_SHARES = {"p50": 0.5, "p95": 0.95}
#: By what the names can be sorted, and what of a row that is; waits and runs by their p95.
_COLUMNS = {
    column: itemgetter(field)
    for column, field in {
        "name": "name",
        "waiting": "unclaimed",
        "next": "next_waits",
        "delayed": "delayed",
        "blocked": "blocked",
        "running": "claimed",
        "trash": "trashed",
        "conductors": "conductors",
        "wait": "wait_p95",
        "run": "run_p95",
        "finished": "finished",
        "failed": "failed",
    }.items()
}


def show(view: View) -> Response:
    """Show the names as the sampler saw them, and what is paused now."""
    sampler, answers = sampler_of(view), answers_of(view)
    seen = sampler.status()
    limits = {limit.name: limit.running for limit in answers.get("limits", lambda: list(view.board.limits))}
    pauses = {pause.name: pause for pause in answers.get("pauses", view.board.pauses)}
    hour = answers.get("last hour", lambda: last_hour(sampler), 5.0)
    wanted = view.typed("q")
    found = seen.get("names", {}) | {name: _NOTHING for name in pauses if name and name not in seen.get("names", {})}
    rows: list[dict[str, Any]] = []
    for name, numbers in found.items():
        if wanted.lower() in name.lower():
            figures = hour.names.get(name)
            durations = {
                f"{what}_{label}": figures and getattr(figures, what).percentile(share)
                for what in ("wait", "run")
                for label, share in _SHARES.items()
            }
            # A name of which nothing was heard is None; of one with jobs 0 is said only if somebody listened.
            counts = {
                what: getattr(figures, what, None) if hour.has_counts else None for what in ("finished", "failed")
            }
            rows.append(
                {**numbers, "name": name, "pause": pauses.get(name), "limit": limits.get(name), **durations, **counts}
            )
    sorting = sorting_of(view, _COLUMNS)
    left_out = seen.get("left_out", {}).get("names", 0)
    return view.render(
        "names.html",
        rows=sorting.sorted(rows),
        sorting=sorting,
        q=wanted,
        board_pause=pauses.get(None),
        left_out=left_out,
        at=seen.get("at"),
        heard=min(hour.heard, 3600.0),
        courses=answers.get("courses", lambda: courses_of(sampler), 5.0),
    )


_NOTHING = dict.fromkeys(COUNTED, 0) | {"next_waits": None, "conductors": None}


def act(view: View) -> Response:
    """Pause or resume a name, or the board; a pause of the board is asked for once more."""
    action, name = view.field("action"), view.field("name")
    if action not in ("pause", "resume"):
        raise HTTPException(400, "this form can pause and resume a name")
    view.require(action)
    if action == "pause" and not name and view.field("confirmed") != "yes":
        seen = sampler_of(view).newest or {}
        return view.render("pause_board.html", q=view.typed("q"), totals=seen.get("totals"))
    change = view.board.pause if action == "pause" else view.board.resume
    change(checked(check_text, "name", name) if name else None, by=view.who, reason=view.reason)
    answers_of(view).forget()
    view.acted(action, [name or "the whole board"])
    return RedirectResponse(view.url("names", q=view.typed("q")), 303)


PAGES = (Page("names", show, act, rights=("pause", "resume"), title="Names", order=40),)
