"""The health of a board: its store and what it can do, versions, and records that contradict each other."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata

from starlette.exceptions import HTTPException
from starlette.responses import Response

from jobboard.backends.findings import AuditFinding, Persistence
from jobboard.board import client_of
from jobboard.console.shared import answers_of, said_of, sampler_of
from jobboard.console.view import Page, View

#: How many findings of a check are shown.
_MAX_SHOWN = 200
#: The findings that are about the store, but for its room, which is asked for anew.
_KINDS = ("store", "held_back")


def show(view: View) -> Response:
    """Show the store, its limits, and the versions of what runs here."""
    return _page(view)


def act(view: View) -> Response:
    """Check the records of the board, or repair them."""
    if view.field("action") == "repair":
        view.require("repair")
        findings = view.board.audit(repair=True)
        answers_of(view).forget()
        view.acted("repair", [finding.uuid or finding.problem for finding in findings])
        return _page(view, findings=findings, is_repaired=True)
    if view.field("action") != "check":
        raise HTTPException(400, "this form can check the board, and repair it")
    # It reads every record, so of many who want it at once one does it.
    findings = answers_of(view).get("audit", view.board.audit, 60.0)
    return _page(view, findings=findings)


def _durable(persistence: Persistence) -> tuple[str, str, str]:
    """Return whether the store is durable in a word, how that looks, and in a few words more."""
    if persistence.kept is None:
        return "unknown", "attention", "not told"
    if not persistence.kept:
        return "no", "bad", "keeps nothing"
    return ("mostly", "attention", "but for some crashes") if persistence.text else ("yes", "well", "keeps all")


def _answer_seconds(view: View) -> float:
    """Return how long the store takes for its smallest answer; one request."""
    client, began = client_of(view.board), time.monotonic()
    client.call(client.backend.now)
    return time.monotonic() - began


def _page(view: View, findings: Sequence[AuditFinding] | None = None, is_repaired: bool = False) -> Response:
    client, board = client_of(view.board), view.board
    server = answers_of(view).get("server", lambda: client.call(client.backend.maintenance.server_version), 60.0)
    persistence = answers_of(view).get("persistence", lambda: client.call(client.backend.persistence), 10.0)
    shortages = answers_of(view).get("shortages", lambda: client.call(client.backend.shortages), 10.0)
    sampler = sampler_of(view)
    sampler.start()
    told = [said_of(each) for each in (sampler.newest or {}).get("findings", ()) if each["kind"] in _KINDS]
    return view.render(
        "health.html",
        board=board,
        server=server,
        persistence=persistence,
        durable=_durable(persistence),
        shortages=shortages,
        capabilities=asdict(board.capabilities),
        limits={"retention": client.retention, "expiry": client.expiry, "patience": client.patience},
        answer_seconds=answers_of(view).get("answer", lambda: _answer_seconds(view), 5.0),
        told=told,
        largest=client.largest_details,
        version=metadata.version("jobboard"),
        python=platform.python_version(),
        sampler=sampler,
        newest=sampler.newest,
        findings=None if findings is None else findings[:_MAX_SHOWN],
        more=max(0, len(findings or []) - _MAX_SHOWN),
        is_repaired=is_repaired,
    )


PAGES = (Page("health", show, act, title="Health", order=80),)
