"""The lanes: how many of their jobs run, of how many that may, and how many wait; and the limits that say so."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from jobboard.console.shared import STATS_AGE, answers_of, checked
from jobboard.console.view import Page, View
from jobboard.limit import LaneStats, check_lane, check_pattern

#: How many limits are shown.
_MAX_LIMITS = 200


def show(view: View) -> Response:
    """Show the lanes with most blocked jobs, or the one that was searched for; and the limits."""
    answers, limits, wanted = answers_of(view), view.board.limits, view.typed("q")
    lanes: Sequence[LaneStats]
    if wanted:
        checked(check_lane, wanted)
        lanes = [answers.get(("lane", wanted), lambda: limits.lane(wanted))]
    else:
        lanes = answers.get("lanes", limits.lanes)
    rules = answers.get("limits", lambda: list(limits))
    has_names = any(rule.name is not None for rule in rules)
    numbers = answers.get("stats", view.board.stats, STATS_AGE).names if has_names else {}
    return view.render(
        "lanes.html",
        claimed={name: each.claimed for name, each in numbers.items()},
        lanes=lanes,
        paused={rule.lane for rule in rules if rule.paused},
        rules=rules[:_MAX_LIMITS],
        left_out=max(0, len(rules) - _MAX_LIMITS),
        q=wanted,
    )


def act(view: View) -> Response:
    """Pause or resume a lane, or each lane with a prefix."""
    action = view.field("action")
    if action not in ("pause", "resume"):
        raise HTTPException(400, "this form can pause and resume a lane")
    view.require(action)
    lane = checked(check_pattern, view.field("lane"))
    change = view.board.pause if action == "pause" else view.board.resume
    change(lane=lane, by=view.who, reason=view.reason)
    answers_of(view).forget()
    view.acted(action, [f"lane {lane}"])
    return RedirectResponse(view.url("lanes", q=view.typed("q")), 303)


PAGES = (Page("lanes", show, act, rights=("pause", "resume"), title="Lanes", order=45),)
