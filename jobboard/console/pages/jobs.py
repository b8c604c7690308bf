"""The lists of jobs: by filters, whose place is in the URL, and the trash in groups."""

from __future__ import annotations

import re
from dataclasses import replace
from operator import attrgetter
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from jobboard.console.carried import brief_details
from jobboard.console.filters import Filters, filters_of
from jobboard.console.shared import answers_of
from jobboard.console.sorting import Column, sorting_of
from jobboard.console.view import Page, View
from jobboard.errors import NotFound
from jobboard.operate.bulk import ACTIONS, Action
from jobboard.operate.finding import ended_with_key, how_it_ended
from jobboard.operate.paging import JobsPage, page_of
from jobboard.operate.selecting import Selection, place_of
from jobboard.operate.trash import trash_groups
from jobboard.states import LIVE, JobState
from jobboard.stats import COUNTED

#: Jobs on a page.
PAGE = 50
#: Seconds for which the numbers of jobs are shown as they were.
_STATS_AGE = 5.0
#: How the lists of one state are called, as the overview calls them; that of what is next comes first.
_TABS = {
    "unclaimed": "waiting",
    "claimed": "running",
    "delayed": "delayed",
    "blocked": "blocked",
    "trashed": "trash",
    "complete": "complete",
}
#: What is shown first: what is next. Delayed jobs would stand between it.
_NEXT = Filters({"state": ["unclaimed"]}, Selection(states={JobState.UNCLAIMED}))
#: By what the jobs of a page can be sorted.
_COLUMNS: dict[str, Column] = {
    "name": lambda job: job.name,
    "state": lambda job: job.record.state.value,
    "key": lambda job: job.key,
    "attempts": lambda job: job.record.attempts,
    "owner": lambda job: job.record.owner,
    "posted": lambda job: job.created_on,
    "changed": lambda job: job.record.last_modified,
}
_TRASH_COLUMNS = {column: attrgetter(column) for column in ("name", "kind", "jobs", "first", "last")}
_UUID_PART = re.compile(r"[0-9a-f]{4}[0-9a-f-]{0,31}", re.IGNORECASE)


def show(view: View) -> Response:
    """List the jobs that fit, or go to the one that was searched for."""
    if view.typed("q"):
        return _search(view, view.typed("q"))
    filters = filters_of(view) if set(view.request.query_params) - {"sort"} else _NEXT
    after = view.query("after") or None
    actions = [(right, action) for right, action in ACTIONS.items() if _is_for(view, filters, right, action)]
    is_newest = view.query("order") == "newest" and filters.states == ["trashed"]
    page = (_newest if is_newest else _page)(view, filters, after)
    sorting = sorting_of(view, _COLUMNS)
    # A column in which nothing stands takes its room from the others.
    filled = {column for column in ("key", "owner") if any(_COLUMNS[column](job) for job in page.jobs)}
    filled |= {"changed"} if any(job.record.last_modified != job.created_on for job in page.jobs) else set()
    brief = {job.uuid: text for job in page.jobs if (text := brief_details(view, job))}
    return view.render(
        "jobs.html", filters=filters, page=page, jobs=sorting.sorted(page.jobs), sorting=sorting, after=after,
        tabs=_tabs(view, filters), actions=actions, brief=brief, filled=filled,
        is_newest=is_newest, ended=_ended(view, filters, page),
    )  # fmt: skip


def _page(view: View, filters: Filters, after: str | None) -> JobsPage:
    try:
        return page_of(view.board, filters.selection, after, PAGE)
    except ValueError as error:
        raise HTTPException(400, str(error)) from None


def _newest(view: View, filters: Filters, after: str | None) -> JobsPage:
    """Return what came into the trash last, before this place; ``read`` is 0 if all that fits was looked at."""
    stops: list[int] = []
    try:
        since, _, uuid = (after or "").partition(",")
        place = None if after is None else (float(since), uuid)
    except ValueError:
        raise HTTPException(400, "there is no such place in this listing") from None
    jobs = replace(filters.selection, limit=PAGE + 1).newest(view.board, stops.append, place)
    shown = jobs[:PAGE]
    following = "{!r},{}".format(*place_of(shown[-1])) if len(jobs) > PAGE else None
    return JobsPage(shown, following, sum(stops))


def _ended(view: View, filters: Filters, page: JobsPage) -> list[tuple[str, str]]:
    """Return the uuids of jobs that ended with the key that no job on the board has, and what became of them."""
    selection = filters.selection
    if selection.key is None or page.jobs or not LIVE.issuperset(selection.states):
        return []
    return [(job.uuid, how_it_ended(job)) for job in ended_with_key(view.board, selection)]


def _is_for(view: View, filters: Filters, right: str, action: Action) -> bool:
    return view.may(right) and bool(action.states & set(filters.selection.states))


def _tabs(view: View, filters: Filters) -> list[tuple[str, str, int | None, bool]]:
    """Return the label, the link and the number of jobs of each set of states, and whether it is the present one."""
    board_stats = answers_of(view).get("stats", view.board.stats, _STATS_AGE)
    name = filters.get("name")
    stats = board_stats.names.get(name) if name else board_stats
    numbers = {state: getattr(stats, state, 0) for state in COUNTED}
    tabs: list[tuple[str, list[str], int | None]] = [
        (label, [state], numbers.get(state))
        for state, label in _TABS.items()
        if state != "blocked" or numbers["blocked"] or "blocked" in filters.states
    ]
    live = [state.value.lower() for state in LIVE]
    tabs.append(("all on the board", sorted(live), sum(numbers[state] for state in live)))
    shown = sorted(filters.states) or sorted(live)
    return [
        (label, view.url("jobs", **filters.but(state=states)), number, shown == states)
        for label, states, number in tabs
    ]


def _search(view: View, text: str) -> Response:
    """Take a text for a uuid or a part of it, NAME:KEY, a name, or the beginning of a key, whichever it can be."""
    board, states = view.board, [state.value.lower() for state in JobState]
    try:
        return _to(view, f"jobs/{UUID(text)}")
    except ValueError:
        pass
    for colon in [match.start() for match in re.finditer(":", text)][:5]:
        name, key = text[:colon], text[colon + 1 :]
        try:
            return _to(view, f"jobs/{board.find(name, key).uuid}")
        except (NotFound, ValueError):
            continue
    if text in board.stats().names:
        return _to(view, "jobs", state=view.request.query_params.getlist("state"), name=text)
    if _UUID_PART.fullmatch(text):
        return _to(view, "jobs", state=states, uuid=text)
    return _to(view, "jobs", state=states, key_prefix=text)


def _to(view: View, path: str, **query: object) -> Response:
    return RedirectResponse(view.url(path, **query), 303)


def show_trash(view: View) -> Response:
    """Show the groups; each leads to its jobs, and to what can be done to all of them."""
    trash, sorting = trash_groups(view.board, view.query("name") or None), sorting_of(view, _TRASH_COLUMNS)
    groups = sorting.sorted(trash.groups)
    return view.render("trash.html", trash=trash, groups=groups, sorting=sorting, name=view.query("name"))


PAGES = (Page("jobs", show, title="Jobs", order=20), Page("trash", show_trash, title="Trash", order=30))
