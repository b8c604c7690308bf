"""The overview: is the board well, what is on it, and how was it before."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from jobboard.console.charting import SPANS, chart, span_named, starts_of, table
from jobboard.console.folding import folded
from jobboard.console.holding import Hold, hold_of
from jobboard.console.mending import mend_of
from jobboard.console.pace import PRESENT, Backlog, Tile, pace_of
from jobboard.console.shared import answers_of, counted, said_of, sampler_of
from jobboard.console.view import Page, View
from jobboard.operate.sampling import Figures, Sampler
from jobboard.operate.sampling.buckets import COUNTS, GAUGES, merged

#: Seconds that a page waits for the first look; later ones wait for none.
_FIRST_LOOK = 10.0
#: How many names and groups of trash the overview has; their own pages have more.
_MAX_ROWS = 10
#: How many findings are read, and how many lines of them are shown at once.
_MAX_FINDINGS, _FIRST_LINES = 100, 3
#: Seconds within which somebody who claims a name has ended a job of it.
_LATELY = 60.0


def show(view: View) -> Response:
    """Show the newest status, as the sampler saw it; no request."""
    sampler = sampler_of(view)
    status = sampler.status(_FIRST_LOOK)
    span, name = span_named(view.query("span")), view.query("name")
    rows, since = answers_of(view).get(("table", span, name), lambda: table(sampler, SPANS[span], name))
    worst = [_mended(view, finding) for finding in status["findings"][:_MAX_FINDINGS]]
    folds = folded(worst)
    more = len(status["findings"]) - len(worst) + status.get("left_out", {}).get("findings", 0)
    return view.render(
        "overview.html",
        seen=status,
        counted=counted(status),
        findings=folds,
        first=_FIRST_LINES,
        more=more,
        # Those of the lines that are hidden, so that the numbers of the heading are the sum of both.
        hidden=more + sum(len(fold.parts) for fold in folds[_FIRST_LINES:]),
        names=list(status.get("names", {}).items())[:_MAX_ROWS],
        trash=status.get("trash", [])[:_MAX_ROWS],
        trash_read=status.get("trash_read", sum(group["jobs"] for group in status.get("trash", []))),
        spans=SPANS,
        span=span,
        name=name,
        rows=rows,
        tiles=_tiles(view, sampler, status, span, name),
        was_paused=any(row["paused"] for row in rows),
        is_drawn=any(row[field] for row in rows for field in (*GAUGES, *COUNTS) if field != "paused"),
        has_starts=bool(starts_of(sampler, time.time() - SPANS[span].seconds)),
        since=since,
        now=time.time(),
        is_holder=sampler.is_holder,
    )


def _mended(view: View, finding: Mapping[str, Any]) -> dict[str, Any]:
    mend = mend_of(view, finding["kind"], finding["about"])
    said, cure = said_of(finding)
    # A button stands for the command.
    return {**finding, "said": said, "cure": "" if mend.button else cure, "mend": mend}


def history(view: View) -> Response:
    """Return the points of the charts as JSON; no request."""
    sampler: Sampler = sampler_of(view)
    sampler.start()
    span, name = span_named(view.query("span")), view.query("name")
    return JSONResponse(answers_of(view).get(("chart", span, name), lambda: chart(sampler, SPANS[span], name)))


def _tiles(view: View, sampler: Sampler, status: Mapping[str, Any], span: str, name: str) -> list[Tile]:
    """Return how fast it gets on; [] where the store has never answered."""
    if "names" not in status:
        return []
    numbers = status["names"].get(name, {}) if name else status["totals"]
    names = status["names"] if not name else {name: numbers} if numbers else {}
    is_paused = any(finding["kind"] == "board_paused" for finding in status["findings"])
    backlog = _backlog(sampler, numbers, names, is_paused)
    return answers_of(view).get(("pace", span, name), lambda: pace_of(sampler, SPANS[span], name, backlog))


def _backlog(sampler: Sampler, numbers: Mapping[str, Any], names: Mapping[str, Any], is_paused: bool) -> Backlog:
    """Return which of the waiting jobs of these names nobody claims."""
    waiting, blocked = numbers.get("unclaimed", 0), numbers.get("blocked", 0)
    if is_paused:
        return Backlog(waiting, waiting, blocked=blocked)
    now = time.time()
    # Who claims without a conductor has no entry, but ends jobs.
    lately, recently = (merged(0, sampler.minutes(now - seconds)).names for seconds in (_LATELY, PRESENT))
    waits, held = dict[str, int](), Counter[Hold | None]()
    for name, each in names.items():
        is_served, ends = (bool(known.get(name, Figures()).finished) for known in (lately, recently))
        hold = hold_of(each, is_served)
        # A limit is no hindrance to a name whose jobs take turns.
        hold = None if hold is Hold.LIMIT and ends else hold
        held[hold] += each["unclaimed"]
        if hold is None:
            waits[name] = each["unclaimed"]
    return Backlog(waiting, held[Hold.PAUSED], held[Hold.UNSERVED], held[Hold.LIMIT], blocked, waits)


PAGES = (Page("", show, title="Overview", order=10), Page("history.json", history))
