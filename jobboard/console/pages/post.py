"""The form that posts a job: once, however often it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import RedirectResponse, Response

from jobboard.console.carried import MAX_SHOWN
from jobboard.console.posting import post_checked
from jobboard.console.shared import Message, answers_of, checked
from jobboard.console.view import Page, View
from jobboard.errors import AlreadyPosted, NotFound
from jobboard.job import Posting
from jobboard.operate.durations import seconds_of
from jobboard.operate.json_values import parse_details
from jobboard.states import JobPriority
from jobboard.validation import check_uuid, new_uuid

_FIELDS = ("name", "details", "key", "lane", "priority", "delay")
#: What the form shows first.
_FIRST = {"details": "{}", "priority": "normal"}


def show(view: View) -> Response:
    """Show the form, which has the uuid of what it will post, for the name in the URL or another one."""
    view.require("post")
    return _form(view, dict.fromkeys(_FIELDS, "") | _FIRST | {"name": view.query("name")}, new_uuid())


def act(view: View) -> Response:
    """Post the job and show it; to send the form again leads to the same job."""
    view.require("post")
    typed, uuid = {field: view.field(field) for field in _FIELDS}, checked(check_uuid, view.field("uuid"))
    try:
        name, details = typed["name"], _details_of(typed)
        options = _options_of(typed)
        if _is_another(view, uuid, name, details, options):
            text = (
                "Nothing was posted: this form was sent before, with other values. Send it again to post this one, too."
            )
            return _form(view, typed, new_uuid(), Message("warn", text), 409, posted=uuid)
        [job] = post_checked(view, [Posting(name, details, uuid=uuid, **options, delay=_delay_of(typed))])
    except AlreadyPosted as error:
        return _form(view, typed, uuid, Message("bad", f"Nothing was posted: {error}."), 409, posted=error.uuid)
    except (TypeError, ValueError, RecursionError) as error:
        return _form(view, typed, uuid, Message("bad", f"Nothing was posted: {error}."), 400)
    answers_of(view).forget()
    return RedirectResponse(view.url(f"jobs/{job.uuid}"), 303)


def _details_of(typed: Mapping[str, str]) -> dict[str, Any]:
    try:
        return parse_details(typed["details"].strip() or "{}")
    except ValueError as error:
        raise ValueError(f"what the details say {error}") from None


def _options_of(typed: Mapping[str, str]) -> dict[str, Any]:
    return {
        "key": typed["key"] or None,
        "lane": typed["lane"] or None,
        "priority": JobPriority.convert(typed["priority"] or "normal"),
    }


def _delay_of(typed: Mapping[str, str]) -> float | None:
    return seconds_of(typed["delay"]) if typed["delay"].strip() else None


def _is_another(view: View, uuid: str, name: str, details: dict[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether the board has a job of this uuid that says something else; a request."""
    try:
        job = view.board.get(uuid)
    except NotFound:
        return False
    if len(job.raw) > MAX_SHOWN:
        return True
    there = {"key": job.key, "lane": job.lane, "priority": job.priority}
    return (job.name, job.details, there) != (name, details, options)


def _form(
    view: View,
    typed: Mapping[str, str],
    uuid: str,
    message: Message | None = None,
    status: int = 200,
    posted: str | None = None,
) -> Response:
    """Show the form; ``posted`` is a job that is in its way."""
    return view.render(
        "post.html",
        status,
        typed=typed,
        uuid=uuid,
        message=message,
        posted=posted,
        priorities=[priority.name.lower() for priority in reversed(JobPriority)],
    )


PAGES = (Page("names/post", show, act, rights=("post",)),)
