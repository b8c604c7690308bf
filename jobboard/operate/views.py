"""Jobs, participants and events as plain dicts, for tables and JSON. Details are included only on request."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from types import NoneType
from typing import TYPE_CHECKING, Any

from jobboard.graph.blocked import waits_for
from jobboard.operate.json_values import to_json
from jobboard.participants import number_of
from jobboard.states import JobState
from jobboard.stats import COUNTED
from jobboard.text import in_one_line, until_text, utc

if TYPE_CHECKING:
    from jobboard.backends.rows import Pause
    from jobboard.board import JobBoard
    from jobboard.events import HistoryEntry, JobEvent
    from jobboard.job import Job
    from jobboard.limit import Limit
    from jobboard.participants import Entity


_ENTITY_COLUMNS = (
    "host", "pid", "executor", "concurrency", "running", "stuck", "stuck_names", "refused", "fault", "healthy",
    "quiet", "longest", "unsent", "names",
)  # fmt: skip
_ONLY_ALIVE = ("running", "stuck", "stuck_names", "longest", "unsent")


def row_of(job: Job) -> dict[str, Any]:
    """Return what a list of jobs shows."""
    # The command line has no job to show when it prints its help.
    from jobboard.job import row_of as stored_row_of

    record = job.record
    return {
        "uuid": job.uuid,
        "name": job.name,
        "state": record.state.value,
        "priority": job.priority.name,
        "sequence": job.sequence,
        "key": job.key,
        "attempts": record.attempts,
        "owner": record.owner,
        "created_on": job.created_on,
        "waits_for": waits_for(stored_row_of(job)),
    }


#: How each field is read. What a job carries is decoded then.
_FIELDS: Mapping[str, Callable[[Job], Any]] = {
    "max_attempts": lambda job: job.max_attempts,
    "lane": lambda job: job.lane,
    "token": lambda job: job.record.token,
    "run_at": lambda job: job.record.run_at,
    "expires_at": lambda job: job.record.expires_at,
    "last_modified": lambda job: job.record.last_modified,
    "cancel_asked": lambda job: job.record.cancel_asked,
    "reason": lambda job: job.record.reason,
    "last_error": lambda job: job.record.last_error,
    "progress": lambda job: job.record.progress,
    "checkpoint": lambda job: job.record.checkpoint,
    "result": lambda job: job.record.result,
    "book_uuid": lambda job: job.book_uuid,
    "book_name": lambda job: job.book_name,
    "book_ref": lambda job: None if job.book_ref is None else asdict(job.book_ref),
    "schedule_id": lambda job: job.schedule_id,
    "fire_time": lambda job: job.fire_time,
    "history": lambda job: [line_of(line) for line in job.record.history],
}


def view_of(job: Job, *, with_details: bool = False) -> dict[str, Any]:
    """Return everything about a job as plain data; its details only on request."""
    return _view(job, _FIELDS.keys(), with_details)


def _view(job: Job, fields: Iterable[str], with_details: bool) -> dict[str, Any]:
    view = row_of(job) | {field: _FIELDS[field](job) for field in fields}
    if with_details:
        view |= {"details": job.details}
        if job.details is None:
            view |= {"raw": job.raw}
    return view


#: What an export has of a job beside its details only if it is asked for.
_CARRIED = ("checkpoint", "progress", "result")
_ERRORS = ("last_error",)


def export_of(job: Job, *, with_details: bool, with_errors: bool) -> dict[str, Any]:
    """Return a job for an export: no history, and what it carries and its last error only on request.

    The details are as ``jobboard import`` reads them.
    """
    left_out = {"history", *(() if with_details else _CARRIED), *(() if with_errors else _ERRORS)}
    view = _view(job, [field for field in _FIELDS if field not in left_out], with_details)
    if view.get("details"):
        view["details"] = to_json(view["details"])
    return view


def line_of(line: HistoryEntry) -> dict[str, Any]:
    return {"at": line.at, "kind": line.kind.value, "who": line.who, "token": line.token, "reason": line.reason}


def event_view(event: JobEvent) -> dict[str, Any]:
    return {"at": event.at, **asdict(event), "kind": event.kind.value}


def entity_view(entity: Entity) -> dict[str, Any]:
    """Return a participant as plain data; what it told of the jobs that it runs holds only while it is alive."""
    told = entity.metadata if entity.alive else {**entity.metadata, **dict.fromkeys(_ONLY_ALIVE)}
    return {
        "kind": entity.kind,
        "name": entity.name,
        "alive": entity.alive,
        "last_seen": entity.last_seen,
        **{name: told.get(name) for name in _ENTITY_COLUMNS},
    }


def stats(board: JobBoard) -> dict[str, Any]:
    """Return the numbers of jobs by state, the same by name, and what is paused."""
    return asdict(board.stats()) | {"paused": paused_view(board.pauses(), board.limits)}


def shards(board: JobBoard) -> list[dict[str, Any]]:
    """Return the numbers of jobs of each shard of a board; None, and a ``problem``, of one that does not answer."""
    from jobboard.board import client_of

    client = client_of(board)
    return [
        {"shard": shard.number, "state": shard.state, **{state: getattr(shard.stats, state, None) for state in COUNTED},
         "problem": shard.failure or None}
        for shard in client.call(client.backend.shards)
    ]  # fmt: skip


def owners(board: JobBoard) -> list[dict[str, Any]]:
    """Return who holds how many jobs, the one with most first; one request more for each owner.

    ``oldest`` is since when the first of them is claimed. ``stuck`` counts slots whose claims are over and whose
    handlers have not returned; ``alive`` and ``stuck`` are None for an owner that never registered.
    """
    from jobboard.operate.claimed_since import claimed_since, first_claims

    known = {entity.name: entity for entity in board.entities()}
    stuck = [name for name, entity in known.items() if entity.alive and number_of(entity, "stuck")]
    claimed = list(board.iterjobs(states={JobState.CLAIMED}))
    first = first_claims(claimed)
    since = claimed_since(board, [job.uuid for job in first.values()])
    oldest = {owner: since.get(job.uuid) for owner, job in first.items()}
    return [
        row | {"oldest": oldest.get(row["owner"])} | _liveness(known.get(row["owner"]))
        for row in holdings(claimed, stuck)
    ]


def holdings(claimed: Iterable[Job], owners: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return who holds how many of these jobs, the one with most first; ``owners`` are listed in any case.

    ``oldest`` is when the oldest of them was posted.
    """
    held: dict[str, list[Job]] = {owner: [] for owner in owners}
    for job in claimed:
        held.setdefault(job.record.owner or "", []).append(job)
    most_first = sorted(held.items(), key=lambda item: (-len(item[1]), item[0]))
    return [_holdings_of(owner, jobs) for owner, jobs in most_first]


def _holdings_of(owner: str, jobs: list[Job]) -> dict[str, Any]:
    return {
        "owner": owner,
        "jobs": len(jobs),
        "names": sorted({job.name for job in jobs}),
        "oldest": min((job.created_on for job in jobs), default=None),
        "next_expiry": min((at for job in jobs if (at := job.record.expires_at)), default=None),
    }


def _liveness(entity: Entity | None) -> dict[str, Any]:
    return {"alive": entity and entity.alive, "stuck": entity and number_of(entity, "stuck")}


def plain(value: Any) -> Any:
    """Return JSON data: datetimes as ISO 8601, bytes as base64, infinities and NaN as text."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (str, int, float, NoneType)):
        return value
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


def paused_view(pauses: Collection[Pause], limits: Iterable[Limit] = ()) -> dict[str, Any]:
    """Return what is paused, lanes as ``limits`` say; under ``pauses`` and ``lanes`` with all that is known of each."""
    lanes = [limit for limit in limits if limit.paused]
    return {
        "board": any(pause.name is None for pause in pauses),
        "names": sorted(pause.name for pause in pauses if pause.name is not None),
        "pauses": [asdict(pause) for pause in pauses],
        "lanes": [
            {"lane": lane.lane, "until": lane.paused_until, "by": lane.by, "reason": lane.reason, "at": lane.at}
            for lane in lanes
        ],
    }


def paused_texts(view: dict[str, Any]) -> list[str]:
    """Return what is paused of such a view, for lists: ``resize (by ada since 2026-11-27 23:49:57 UTC: disk full)``."""
    texts = [f"{pause['name'] or 'the whole board'}{in_brackets(pause)}" for pause in view["pauses"]]
    return texts + [f"lane {pause['lane']}{until_text(pause['until'])}{in_brackets(pause)}" for pause in view["lanes"]]


def paused_sentences(pauses: Iterable[Pause]) -> dict[str | None, str]:
    """Return for each paused name (None: the whole board) a sentence that says so."""
    return {
        pause.name: f"{'The whole board is' if pause.name is None else f'Jobs named {pause.name!r} are'} paused"
        f"{in_brackets(asdict(pause))}."
        for pause in pauses
    }


def in_brackets(pause: Mapping[str, Any]) -> str:
    """Return who paused it, when and why, in brackets; "" if nobody said."""
    by, reason, at = pause["by"], pause["reason"], pause["at"]
    said = [f"by {by}"] if by else []
    said += [f"since {utc(at)}"] if at else []
    text = ": ".join(part for part in (" ".join(said), in_one_line(reason) if reason else "") if part)
    return f" ({text})" if text else ""
