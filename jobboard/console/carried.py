"""What a job carries, as users with the right ``details`` see it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jobboard.console.view import View, logger
from jobboard.job import row_of
from jobboard.operate.flow import decoder
from jobboard.operate.views import plain

if TYPE_CHECKING:
    from jobboard.job import Job

#: Of larger details, in bytes, a list tells the size only; and of others so many characters.
_MAX_BYTES, _MAX_BRIEF = 4096, 120
#: Of what is larger a page tells the size only: decoded and written out it may be a hundred times as large.
MAX_SHOWN = 256 * 1024


def details_of(view: View, job: Job) -> Any:
    """Return the details as ``format_details`` shows them; what can't be decoded as it is stored."""
    if view.settings.format_details is not None:
        return view.settings.format_details(job)
    return job.details if job.details is not None else {"can't be decoded": job.raw}


def carried_of(view: View, job: Job, largest: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Return what a job carries, and of what has more bytes than ``largest``, and is not decoded, the sizes.

    The user must have the right ``details``.
    """
    row = row_of(job)
    parts: dict[str, tuple[bytes | None, Callable[[], Any]]] = {
        "details": (row.body, lambda: details_of(view, job)),
        "checkpoint": (row.checkpoint, lambda: job.record.checkpoint),
        "progress": (row.progress, lambda: job.record.progress),
        "result": (row.result, lambda: job.record.result),
    }
    large = {name: len(stored) for name, (stored, _) in parts.items() if stored is not None and len(stored) > largest}
    return {name: read() for name, (_, read) in parts.items() if name not in large}, large


def as_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(plain(value), indent=2, ensure_ascii=False)


def brief_details(view: View, job: Job) -> str | None:
    """Return the details in a line, cut, for the row of a list; None if there are none, or the user may not look."""
    if not view.may("details"):
        return None
    if len(job.raw) > _MAX_BYTES:
        return f"{len(job.raw):,} bytes"
    try:
        details = details_of(view, job)
    except Exception:
        # One job must not take the list of all.
        logger.exception("format_details failed for job %s", job.uuid)
        return None
    return _in_a_line(details) if details else None


def brief_value(view: View, stored: bytes) -> str:
    """Return what a step has returned, or a signal has brought, in a line, cut."""
    if len(stored) > _MAX_BYTES:
        return f"{len(stored):,} bytes"
    return _in_a_line(decoder(view.board)(stored))


def _in_a_line(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
    return f"{text[:_MAX_BRIEF]}…" if len(text) > _MAX_BRIEF else text
