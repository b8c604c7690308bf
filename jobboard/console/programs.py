"""What programs in any language ask by JSON: how a job stands, to cancel it, to send it a signal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from jobboard.codec import MAX_DETAILS
from jobboard.console.carried import carried_of
from jobboard.operate.json_values import parse_json
from jobboard.operate.views import export_of, plain
from jobboard.validation import check_text

if TYPE_CHECKING:
    from jobboard.console.view import View
    from jobboard.job import Job

#: What a program may do to a job: each action is a right, and these are its fields.
CHANGES: Mapping[str, tuple[str, ...]] = {"cancel": ("reason",), "signal": ("name", "value")}


def refused(status: int, text: str, **more: Any) -> Response:
    return JSONResponse({"error": text, **more}, status)


def json_of(view: View) -> Any:
    """Return what the body of a request says.

    :raises HTTPException: it is no JSON.
    """
    try:
        return parse_json(view.body.decode())
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is no JSON that can be read: {error}") from None


def tell_job(view: View, job: Job) -> Response:
    """Answer how a job stands; what it carries is for users with the right ``details``."""
    told = export_of(job, with_details=False, with_errors=True)
    if view.may("details"):
        carried, large = carried_of(view, job, MAX_DETAILS)
        told |= carried | dict.fromkeys(large) | ({"too_large": large} if large else {})
    return JSONResponse(plain(told))


def change_job(view: View, job: Job) -> Response:
    """Cancel a job, or send it a signal, as a request says."""
    given = json_of(view)
    action = given.get("action") if isinstance(given, dict) else None
    if not isinstance(action, str) or action not in CHANGES:
        return refused(400, f'the body must be a JSON object with an "action", one of {", ".join(CHANGES)}')
    view.require(action)
    for field in given.keys() - {"action", *CHANGES[action]}:
        return refused(400, f"{action} has no {field!r}; it has {', '.join(CHANGES[action])}")
    try:
        answer = _cancel(view, job, given.get("reason")) if action == "cancel" else _signal(view, job, given)
    except (TypeError, ValueError, RecursionError) as error:
        return refused(400, str(error))
    view.acted(action, [job.uuid])
    return JSONResponse({"uuid": job.uuid, **answer})


def _cancel(view: View, job: Job, reason: str | None) -> dict[str, Any]:
    return {"cancelled": view.board.cancel(job, by=view.who, reason=reason)}


def _signal(view: View, job: Job, given: Mapping[str, Any]) -> dict[str, Any]:
    name = check_text("name", given.get("name"))
    return {"new": view.board.signal(job, name, given.get("value"), by=view.who)}
