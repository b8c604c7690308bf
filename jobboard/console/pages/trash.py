"""The trash in groups: which kinds of jobs failed of what, and how many."""

from __future__ import annotations

from starlette.responses import Response

from jobboard.console.pages import Page
from jobboard.console.view import View
from jobboard.operate.trash import trash_groups


def show(view: View) -> Response:
    """Show the groups; each leads to its jobs, and to what can be done to all of them."""
    return view.render(
        "trash.html", trash=trash_groups(view.board, view.query("name") or None), name=view.query("name")
    )


PAGES = (Page("trash", show, title="Trash", order=30),)
