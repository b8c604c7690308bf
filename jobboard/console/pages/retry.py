"""A job of the trash, or a complete one, posted anew with other details: the form, and what is done with it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from jobboard.console.carried import MAX_SHOWN, details_of
from jobboard.console.pages.job import job_of
from jobboard.console.shared import Message, answers_of, checked
from jobboard.console.view import Page, View
from jobboard.errors import AlreadyPosted, InvalidPosting, NotFound
from jobboard.job import Job
from jobboard.operate.anew import find_anew, obstacle_of, post_anew, uuid_anew
from jobboard.operate.json_values import from_json, parse_json, to_json
from jobboard.operate.views import plain

#: Bytes of details in a form, as browsers send them: no page is larger than 60,000, nor a form than 65,536.
_MAX_SENT = 40_000
_TOO_LARGE = "its details are too large for a form"


def show(view: View) -> Response:
    """Show the details, to be changed."""
    _require(view)
    job = job_of(view)
    return _form(view, job, _text_of(view, job))


def act(view: View) -> Response:
    """Post the job anew and show it; to send the form again leads to the same job."""
    _require(view)
    try:
        job = job_of(view)
    except NotFound:
        # The form was sent before, and has purged it.
        posted = view.board.get(str(checked(UUID, view.field("anew"))))
        return RedirectResponse(view.url(f"jobs/{posted.uuid}"), 303)
    text = view.field("details")
    before = find_anew(view.board, job)
    if before is not None and (len(before.raw) > MAX_SHOWN or before.details != _parsed(text)):
        message = Message("warn", "Nothing was posted: somebody else has posted it anew, with other details.")
        return _form(view, job, text, message, 409)
    _text_of(view, job)
    if view.field("anew") != uuid_anew(job):
        # It may have been restored, and be complete by now: nobody has decided to run it again.
        message = Message(
            "warn", "Nothing was posted: the job has changed since this form was shown. Look at it again."
        )
        return _form(view, job, text, message, 409)
    try:
        posted = post_anew(view.board, job, _checked(view, job, text))
    except AlreadyPosted as error:
        return _form(view, job, text, Message("bad", f"Nothing was posted: {error}."), 409)
    except (InvalidPosting, TypeError, ValueError, RecursionError) as error:
        return _form(view, job, text, Message("bad", f"Nothing was posted: {error}."), 400)
    answers_of(view).forget()
    view.acted("retry", [job.uuid, posted.uuid])
    if view.field("purge") == "yes" and view.may("purge"):
        _purge(view, job)
    return RedirectResponse(view.url(f"jobs/{posted.uuid}"), 303)


def _require(view: View) -> None:
    view.require("retry")
    view.require("details")


def _form(view: View, job: Job, text: str, message: Message | None = None, status: int = 200) -> Response:
    anew = find_anew(view.board, job)
    return view.render("retry.html", status, job=job, text=text, message=message, anew=anew, uuid=uuid_anew(job))


def _text_of(view: View, job: Job) -> str:
    """Return the details as JSON that can be sent back whole.

    :raises HTTPException: 409 says why this job can't be posted anew here.
    """
    is_large = len(job.raw) > MAX_SHOWN
    obstacle = _TOO_LARGE if is_large else obstacle_of(view.board, job)
    text = ""
    if obstacle is None and plain(details_of(view, job)) != plain(job.details):
        obstacle = "this console does not show all of its details"
    if obstacle is None:
        try:
            text = json.dumps(to_json(job.details), indent=2, ensure_ascii=False)
        except TypeError:
            obstacle = "its details have values that JSON has no form for"
    if obstacle is None and len(quote_plus(text)) > _MAX_SENT:
        obstacle = _TOO_LARGE
    if obstacle is not None:
        raise HTTPException(409, f"this job can't be posted anew with changed details, as {obstacle}")
    return text


def _parsed(text: str) -> Any:
    try:
        return from_json(parse_json(text))
    except (ValueError, RecursionError):
        return None


def _checked(view: View, job: Job, text: str) -> dict[str, Any]:
    """Return what was typed, as details.

    :raises ValueError, TypeError, RecursionError: says what is wrong with it.
    """
    details = from_json(parse_json(text))
    if not isinstance(details, dict):
        raise TypeError(f"details are a JSON object, {{...}}, and no {type(details).__name__}")
    if view.settings.check_details is not None:
        view.settings.check_details(job.name, details)
    return details


def _purge(view: View, job: Job) -> None:
    """Delete the old one, which may be gone already."""
    try:
        view.board.purge(job, by=view.who, reason=f"posted anew as {uuid_anew(job)}")
    except NotFound:
        return
    view.acted("purge", [job.uuid])


PAGES = (Page("jobs/{uuid}/retry", show, act, rights=("retry",)),)
