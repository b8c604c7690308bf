"""The boards of a console, each with its verdict and its numbers; below no board, so the app itself routes to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from starlette.responses import RedirectResponse, Response

from jobboard.console.boards import ConsoleBoard
from jobboard.console.shared import counted
from jobboard.console.view import View
from jobboard.errors import BoardUnavailable
from jobboard.operate.verdict import Verdict

#: Seconds that the page waits for the first looks at all boards together; later ones wait for none.
_FIRST_LOOK = 3.0
#: How many findings of a board are told.
_MAX_FINDINGS = 3


def show(view: View) -> Response:
    """Show the boards as their samplers saw them, the worst first; no request. The only one is shown at once."""
    entries = list(view.settings.boards.values())
    if len(entries) == 1:
        return RedirectResponse(view.root_url(f"b/{entries[0].slug}/{view.settings.pages[0].path}"), 303)
    samplers = [entry.part(view.settings.make_sampler) for entry in entries]
    for sampler in samplers:
        sampler.start()
    deadline, rows = time.monotonic() + _FIRST_LOOK, list[dict[str, Any]]()
    for entry, sampler in zip(entries, samplers, strict=True):
        try:
            rows.append(_row(entry, sampler.status(max(0.0, deadline - time.monotonic()))))
        except BoardUnavailable as error:
            rows.append(_row(entry, {}) | {"findings": [str(error)]})
    rows.sort(key=lambda row: -row["verdict"])
    return view.render("boards.html", rows=rows, path=view.settings.pages[0].path)


def _row(entry: ConsoleBoard, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of a board; nothing but its name of one that has not answered yet."""
    findings = [finding["text"] for finding in status.get("findings", ())]
    return {
        "slug": entry.slug,
        "title": entry.title,
        "name": entry.name,
        "store": status.get("store"),
        "verdict": Verdict[status["verdict"]] if status else Verdict.BAD,
        "counted": counted(status) if status else "no answer yet",
        "findings": findings[:_MAX_FINDINGS],
        "totals": status.get("totals", {}),
        "oldest": status.get("oldest_unclaimed"),
        "conductors": status.get("conductors", {}).get("alive"),
        "at": status.get("at"),
    }
