"""The limit of a lane, a prefix or a name: the form, what would change, and the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from jobboard.console.shared import Message, answers_of, checked
from jobboard.console.view import Page, View
from jobboard.limit import ANY_LANE, Limit, check_limit, check_target, prefix_of
from jobboard.operate.limits import LimitChange, apply_changes, terms_text
from jobboard.operate.limits_file import rate_of, terms_of

#: What a form sends of a limit; a link may give the same.
_TERMS = ("running", "rate", "burst", "order")


def show(view: View) -> Response:
    """Show the limit of what the URL names, to be changed, or to be set."""
    view.require("limits")
    target = _target_of(view.query("name"), view.query("lane"))
    there = _there(view, target)
    advised = {term: text for term in _TERMS if (text := view.query(term))}
    return _form(view, target, {**(terms_of(there) if there else {}), **advised})


def act(view: View) -> Response:
    """Set or remove it, once the user has seen what that changes."""
    view.require("limits")
    action, target = view.field("action"), _target_of(view.field("name"), view.field("lane"))
    if action not in ("set", "remove"):
        raise HTTPException(400, "this form can set and remove a limit")
    typed = {term: view.field(term).strip() for term in _TERMS}
    try:
        after = _limit_of(target, typed) if action == "set" else None
    except (TypeError, ValueError) as error:
        return _form(view, target, typed, Message("bad", f"Nothing was changed: {error}."), 400)
    change = LimitChange(_there(view, target), after)
    before = _said(change.before)
    if before == _said(after):
        is_so = "it has this limit already" if after else "it has no limit of its own"
        return _form(view, target, typed, Message("warn", f"Nothing was changed: {is_so}."), 409)
    if view.field("confirmed") != "yes":
        return _confirm(view, target, change)
    if view.field("before") != before:
        message = Message("warn", "Nothing was changed: somebody else has changed it since. Look at it again.")
        return _confirm(view, target, change, message)
    apply_changes(view.board, [change], by=view.who, reason=view.reason)
    answers_of(view).forget()
    view.acted("limits", [f"name {target.name}" if target.lane is None else f"lane {target.lane}"])
    return RedirectResponse(f"{view.url('lanes')}#limits", 303)


def _target_of(name: str, lane: str) -> Limit:
    return checked(check_target, name or None, lane or None)


def _limit_of(target: Limit, typed: Mapping[str, str]) -> Limit:
    """Return what was typed.

    :raises ValueError: says what is wrong with it.
    """
    if typed["burst"] and not typed["rate"]:
        raise ValueError("a burst belongs to a rate")
    rate = rate_of(typed["rate"], _number(typed["burst"] or "1")) if typed["rate"] else None
    running = _number(typed["running"]) if typed["running"] else None
    return check_limit(target.name, target.lane, running, rate, typed["order"] or "free")


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ValueError(f"{text!r} is no whole number")
    return int(text)


def _there(view: View, target: Limit) -> Limit | None:
    """Return the limit of exactly this; a pause alone is none."""
    limit = view.board.limits.get(name=target.name, lane=target.lane)
    return limit if limit and terms_of(limit) else None


def _said(limit: Limit | None) -> str:
    """Return what a limit says in a text by which two can be compared."""
    return " ".join(f"{term}={value}" for term, value in terms_of(limit).items()) if limit else ""


def _form(
    view: View, target: Limit, terms: Mapping[str, Any], message: Message | None = None, status: int = 200
) -> Response:
    return view.render(
        "limit.html",
        status,
        target=target,
        there=_there(view, target),
        terms=dict.fromkeys(_TERMS, "") | dict(terms),
        message=message,
        **_around(view, target),
    )


def _confirm(view: View, target: Limit, change: LimitChange, message: Message | None = None) -> Response:
    return view.render(
        "limit_confirm.html",
        409 if message else 200,
        target=target,
        change=change,
        before=_said(change.before),
        terms=terms_of(change.after) if change.after else {},
        message=message,
        **_around(view, target),
    )


def _around(view: View, target: Limit) -> dict[str, Any]:
    """Return how many slots of a lane or a name are taken, and what the limit of a lane's prefix says."""
    taken, prefix, prefix_says = None, None, ""
    if target.lane is None:
        numbers = view.board.stats().names.get(target.name or "")
        taken = numbers.claimed if numbers else 0
    elif not target.lane.endswith(ANY_LANE):
        taken = view.board.limits.lane(target.lane).taken
        pattern = prefix_of(target.lane)
        if pattern and (limit := _there(view, Limit(lane=pattern))):
            prefix, prefix_says = pattern, terms_text(limit)
    return {"taken": taken, "prefix": prefix, "prefix_says": prefix_says}


PAGES = (Page("lanes/limit", show, act, rights=("limits",)),)
