"""The status of a board as plain data: the overview, and the verdict on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from types import MappingProxyType
from typing import Any

from jobboard.board import JobBoard
from jobboard.errors import BoardUnavailable
from jobboard.operate.failing import Attempts
from jobboard.operate.overview import Overview, overview
from jobboard.operate.verdict import Finding, Limits, findings, unreachable, worst
from jobboard.operate.views import paused_view, shards
from jobboard.participants import Entity, began_at, is_quiet, is_silent, number_of, runs_of
from jobboard.validation import moment


def status(
    board: JobBoard, limits: Limits | None = None, attempts: Mapping[str, Attempts] = MappingProxyType({})
) -> dict[str, Any]:
    """Look at a board, connected or not, and judge it; 61 requests at most.

    :param attempts: those of names that somebody has counted.

    :returns: ``verdict`` (``"WELL"``, ``"ATTENTION"``, ``"BAD"``), ``findings``, and what was seen; of a store that
        can't be reached only the finding that says so, and ``shards``, the numbers of those that answer, of a board
        that is spread over several. ``trash`` groups the first ``trash_read`` jobs of the trash.
    :raises NotFound: with ``create=False``: there is no such board.
    """
    try:
        board.connect()
    except BoardUnavailable as error:
        return status_without(board, error)
    try:
        look = overview(board)
    except BoardUnavailable as error:
        return status_without(board, error) | _seen_of_shards(board)
    return _view(board, findings(look, limits, attempts)) | _seen(look)


def status_without(board: JobBoard, error: Exception) -> dict[str, Any]:
    """Return the status of a board whose store can't be reached."""
    return _view(board, [unreachable(error)])


def _seen_of_shards(board: JobBoard) -> dict[str, Any]:
    """Return what the shards that answer say of a board that is spread over several; of any other one nothing."""
    try:
        counted = shards(board)
    except BoardUnavailable:
        return {}
    return {"shards": counted} if any(row["problem"] is None for row in counted) else {}


def _view(board: JobBoard, found: list[Finding]) -> dict[str, Any]:
    listed = [
        {"verdict": one.verdict.name, "kind": one.kind, "about": one.about, "text": one.text, "cure": one.cure}
        for one in found
    ]
    return {"board": board.name, "store": board.store, "verdict": worst(found).name, "findings": listed}


def _seen(look: Overview) -> dict[str, Any]:
    conductors = [entity for entity in look.entities if entity.kind == "conductor"]
    silent = sum(entity.alive and is_silent(entity, look.at) for entity in conductors)
    # What runs was claimed, unless its claim is over: who told of it was killed, or tells of it no more soon.
    longest = _longest(conductors) if look.stats.claimed else None
    schedulers = [entity for entity in look.entities if entity.kind == "scheduler"]
    slots = {what: _sum(conductors, what) for what in ("concurrency", "running", "stuck")}
    return {
        "at": moment(look.at),
        "oldest_unclaimed": look.stats.oldest_unclaimed,
        "names": {
            name.name: asdict(name.numbers)
            | {"next_waits": name.next_waits, "conductors": name.conductors, "paused": name.paused, "limit": name.limit}
            for name in look.names
        },
        "conductors": _alive(conductors)
        | {"replaced": sum(one.is_replaced for one in look.gone)}
        | {"silent": silent, "quiet": _quiet(conductors), "longest": longest}
        | slots
        | {"started": _started(conductors)},
        "schedulers": _alive(schedulers),
        "schedules": asdict(look.schedules),
        "trash": [asdict(group) | {"first": moment(group.first), "last": moment(group.last)} for group in look.trash],
        "trash_read": sum(group.jobs for group in look.trash),
        "paused": paused_view(look.pauses, look.limits),
    }


def _alive(entities: Sequence[Entity]) -> dict[str, int]:
    alive = sum(entity.alive for entity in entities)
    return {"alive": alive, "gone": len(entities) - alive}


def _longest(entities: Sequence[Entity]) -> dict[str, Any] | None:
    runs = [asdict(run) | {"conductor": entity.name} for entity in entities if entity.alive for run in runs_of(entity)]
    return max(runs, key=lambda run: float(run["seconds"]), default=None)


def _started(entities: Sequence[Entity]) -> list[datetime]:
    """Return when each of them began, as far as they told; also of those that are gone, the newest last."""
    return sorted(began for entity in entities if (began := began_at(entity)) is not None)


def _quiet(entities: Sequence[Entity]) -> int:
    return sum(entity.alive and is_quiet(entity) for entity in entities)


def _sum(entities: Sequence[Entity], what: str) -> int:
    return sum(number_of(entity, what) for entity in entities if entity.alive)
