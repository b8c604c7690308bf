"""The events: what happens on the board now."""

from __future__ import annotations

from starlette.responses import Response

from jobboard.console.event_log import KINDS, MAX_EVENTS, EventLog
from jobboard.console.pages import Page
from jobboard.console.view import View

_MAX_SHOWN = 200


def show(view: View) -> Response:
    """Show the newest events of a kind and a name; no request, but for the first reader."""
    view.board  # noqa: B018, connects it
    log = view.part(EventLog)
    kind, name = view.query("kind").upper(), view.query("name")
    events = log.read()
    fitting = [event for event in events if kind in ("", event.kind) and name in (event.name or "")]
    return view.render(
        "events.html", events=fitting[:_MAX_SHOWN], total=log.total, kept=MAX_EVENTS, kinds=KINDS, kind=kind, name=name
    )


PAGES = (Page("events", show, title="Events", order=70),)
