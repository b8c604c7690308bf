"""The list of jobs."""

from __future__ import annotations

from starlette.responses import Response

from jobboard.console.pages import Page
from jobboard.console.view import View
from jobboard.operate.paging import page_of
from jobboard.operate.selecting import Selection


def show(view: View) -> Response:
    """List the jobs on the board."""
    return view.render("jobs.html", page=page_of(view.board, Selection()))


PAGES = (Page("jobs", show, title="Jobs", order=20),)
