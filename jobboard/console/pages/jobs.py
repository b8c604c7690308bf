"""The lists of jobs: by filters, whose place is in the URL, and the trash in groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from jobboard.console.carried import brief_details
from jobboard.console.filters import Filters, filters_of
from jobboard.console.holding import hold_of
from jobboard.console.posting import post_json
from jobboard.console.runs import Runs, running_progress
from jobboard.console.shared import STATS_AGE, answers_of, sampler_of
from jobboard.console.sorting import Column, sorting_of
from jobboard.console.view import Page, View
from jobboard.errors import NotFound
from jobboard.graph.blocked import waits_for
from jobboard.job import row_of
from jobboard.operate.bulk import ACTIONS, Action
from jobboard.operate.finding import ended_with_key, how_it_ended
from jobboard.operate.paging import JobsPage, page_of
from jobboard.operate.selecting import Selection, place_of
from jobboard.operate.trash import trash_groups
from jobboard.states import LIVE, JobState
from jobboard.stats import COUNTED

if TYPE_CHECKING:
    from jobboard.job import Job

#: Jobs on a page.
PAGE = 50
#: The lists of one state; that of what is next comes first.
_TABS = ("unclaimed", "claimed", "delayed", "blocked", "trashed", "complete")
#: Of how many names a search looks whether a job of them has this key, and how many are offered in a field.
_MAX_TRIED, _MAX_OFFERED = 100, 200
#: Seconds for which what is offered, and a list of the newest, which reads many jobs, are kept.
_OFFERS_AGE, _NEWEST_AGE = 60.0, 15.0
#: What is shown first: what is next. Delayed jobs would stand between it.
_NEXT = Filters({"state": ["unclaimed"]}, Selection(states={JobState.UNCLAIMED}))
#: By what the jobs of a page can be sorted.
_COLUMNS: dict[str, Column] = {
    "name": lambda job: job.name,
    "state": lambda job: job.record.state.value,
    "key": lambda job: job.key,
    "lane": lambda job: job.lane,
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
    is_newest = _is_newest(filters, view.query("order"))
    page = (_newest if is_newest else _page)(view, filters, after)
    ran = view.part(Runs).seconds(page.jobs)
    sorting = sorting_of(view, {**_COLUMNS, "ran": lambda job: ran.get(job.uuid)})
    tabs, total = _tabs(view, filters)
    return view.render(
        "jobs.html", filters=filters, page=page, jobs=sorting.sorted(page.jobs), sorting=sorting, after=after,
        tabs=tabs, actions=actions, brief={job.uuid: text for job in page.jobs if (text := brief_details(view, job))},
        filled=_filled(filters, page.jobs), is_newest=is_newest, ended=_ended(view, filters, page), ran=ran,
        place=_place(filters, page, _before(view), total), before=_before(view), offers=_offers(view),
        progress_of=running_progress, why_of=_reasons(view), asks_for_ticks=view.query("ticked") == "none",
    )  # fmt: skip


def _reasons(view: View) -> Callable[[Job], str]:
    """Return what says why a job waits: what its record says, else what the sampler saw of its name; no request."""
    seen = sampler_of(view).newest or {}
    names = seen.get("names", {})

    def reason(job: Job) -> str:
        known = waits_for(row_of(job))
        if known or job.record.state is not JobState.UNCLAIMED or job.name not in names:
            return known or "why"
        hold = hold_of(names[job.name])
        return hold.value if hold else "its turn"

    return reason


def _is_newest(filters: Filters, order: str) -> bool:
    """Whether what ended last comes first: of complete jobs, and where the trash is asked for so."""
    return (filters.states == ["complete"] and order != "claims") or (
        filters.states == ["trashed"] and order == "newest"
    )


def _filled(filters: Filters, jobs: Sequence[Job]) -> set[str]:
    """Return the columns that say something; another one takes its room from the others."""
    filled = {column for column in ("key", "lane", "owner") if any(_COLUMNS[column](job) is not None for job in jobs)}
    # A claimed one changes with each sign of life.
    idle = [job for job in jobs if job.record.state is not JobState.CLAIMED]
    if any(job.record.last_modified != job.created_on for job in idle):
        filled.add("changed")
    if len(filters.states) != 1:
        filled.add("state")
    if any(running_progress(job) for job in jobs):
        filled.add("progress")
    return filled


def _place(filters: Filters, page: JobsPage, before: int, total: int | None) -> str:
    """Return which jobs of how many these are, such as 51-100 of 6,001."""
    last = before + len(page.jobs)
    is_known = total is not None and not set(filters.query) - {"state", "name"}
    return f"{before + 1:,}-{last:,}" + (f" of {max(total or 0, last):,}" if is_known else "")


def _before(view: View) -> int:
    """Return how many jobs the pages before this one had."""
    before = view.query("before")
    return int(before) if before.isdecimal() and len(before) < 10 else 0


def _offers(view: View) -> dict[str, list[str]]:
    """Return the names, lanes and schedules that can be picked, as they were a minute ago."""
    answers, board = answers_of(view), view.board
    names = answers.get("stats", board.stats, STATS_AGE).names
    lanes = answers.get("offered lanes", lambda: [lane.lane for lane in board.limits.lanes()], _OFFERS_AGE)
    ids = answers.get(
        "offered schedules", lambda: [each.id for each in islice(board.schedules, _MAX_OFFERED)], _OFFERS_AGE
    )
    return {"name": sorted(names)[:_MAX_OFFERED], "lane": sorted(lanes), "schedule": sorted(ids)}


def _page(view: View, filters: Filters, after: str | None) -> JobsPage:
    try:
        return page_of(view.board, filters.selection, after, PAGE)
    except ValueError as error:
        raise HTTPException(400, str(error)) from None


def _newest(view: View, filters: Filters, after: str | None) -> JobsPage:
    """Return what ended last, before this place; ``read`` is 0 if all that fits was looked at."""
    key = ("newest", str(sorted(filters.query.items())), after)
    return answers_of(view).get(key, lambda: _newest_now(view, filters, after), _NEWEST_AGE)


def _newest_now(view: View, filters: Filters, after: str | None) -> JobsPage:
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


def _tabs(view: View, filters: Filters) -> tuple[list[tuple[str, str, int | None, bool]], int | None]:
    """Return the label, the link and the number of jobs of each set of states, and whether it is the present one.

    And the number of the present one; None if it is not known.
    """
    board_stats = answers_of(view).get("stats", view.board.stats, STATS_AGE)
    name = filters.get("name")
    stats = board_stats.names.get(name) if name else board_stats
    numbers = {state: getattr(stats, state, 0) for state in COUNTED}
    tabs: list[tuple[str, list[str], int | None]] = [
        (state, [state], numbers.get(state))
        for state in _TABS
        if state != "blocked" or numbers["blocked"] or "blocked" in filters.states
    ]
    live = [state.value.lower() for state in LIVE]
    tabs.append(("all on the board", sorted(live), sum(numbers[state] for state in live)))
    shown = sorted(filters.states) or sorted(live)
    links = [
        (label, view.url("jobs", **filters.but(state=states)), number, shown == states)
        for label, states, number in tabs
    ]
    return links, next((number for _, states, number in tabs if states == shown), None)


def _search(view: View, text: str) -> Response:
    """Take a text for a uuid, NAME:KEY, a key, a name, a part of a uuid or the beginning of a key, whichever it is."""
    states = [state.value.lower() for state in JobState]
    try:
        return _to(view, f"jobs/{UUID(text)}", found=text)
    except ValueError:
        pass
    names = answers_of(view).get("stats", view.board.stats, STATS_AGE).names
    if text in names:
        return _to(view, "jobs", state=view.request.query_params.getlist("state"), name=text, found=text)
    found = _found_by_key(view, text, sorted(names)[:_MAX_TRIED])
    if len(found) == 1:
        return _to(view, f"jobs/{found[0]}", found=text)
    if found:
        return _to(view, "jobs", state=states, key=text, found=text)
    if _UUID_PART.fullmatch(text):
        return _to(view, "jobs", state=states, uuid=text, found=text)
    return _to(view, "jobs", state=states, key_prefix=text, found=text)


def _found_by_key(view: View, text: str, names: Sequence[str]) -> list[str]:
    """Return the uuids of the live jobs that NAME:KEY, or KEY with any of these names, stands for."""
    pairs = [(text[: match.start()], text[match.end() :]) for match in islice(re.finditer(":", text), 5)]
    found = list(filter(None, (_find(view, name, key) for name, key in pairs)))
    return found[:1] or list(filter(None, (_find(view, name, text) for name in names)))


def _find(view: View, name: str, key: str) -> str | None:
    try:
        return view.board.find(name, key).uuid
    except (NotFound, ValueError):
        return None


def _to(view: View, path: str, **query: object) -> Response:
    return RedirectResponse(view.url(path, **query), 303)


def show_trash(view: View) -> Response:
    """Show the groups; each leads to its jobs, and to what can be done to all of them."""
    trash, sorting = trash_groups(view.board, view.query("name") or None), sorting_of(view, _TRASH_COLUMNS)
    groups = sorting.sorted(trash.groups)
    return view.render("trash.html", trash=trash, groups=groups, sorting=sorting, name=view.query("name"))


PAGES = (
    Page("jobs", show, take=post_json, rights=("post",), title="Jobs", order=20),
    Page("trash", show_trash, title="Trash", order=30),
)
